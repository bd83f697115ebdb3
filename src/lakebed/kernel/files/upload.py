"""A data file on its way to an object store: one request where it is small, else parts that are sent as they fill."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from lakebed.kernel.files.waiting import waiting

PART = 8 << 20
"""Bytes of one part. A file that does not fill one is a single request."""
_PARTS_WAITING = 2
_POLL_SECONDS = 0.1


class Upload:
    """The file that Arrow writes to. Only `finish` makes it visible.

    `send` puts a whole file of these bytes. `send_parts` puts one from an iterator of parts; when the iterator raises,
    the parts that were sent are removed.
    """

    closed = False

    def __init__(self, send: Callable[[bytes], object], send_parts: Callable[[Iterator[bytes]], object]) -> None:
        self._send, self._send_parts = send, send_parts
        self._buffered: list[bytes] = []
        self._size = 0
        self._parts: queue.Queue[bytes | None] = queue.Queue(_PARTS_WAITING)
        self._thread: threading.Thread | None = None
        self._given_up = threading.Event()
        self.error: BaseException | None = None

    def write(self, data: Any) -> int:
        """Add bytes. Raises what the store answered to the parts before."""
        piece = data if isinstance(data, bytes) else bytes(data)
        self._buffered.append(piece)
        self._size += len(piece)
        if self._size >= PART:
            self._hand_over(self._taken())
        return len(piece)

    def finish(self) -> None:
        """Make the file visible, with all bytes. Raises what the store answered."""
        if self._thread is None:
            self._send(self._taken())
            return
        if self._size:
            self._hand_over(self._taken())
        self._hand_over(None)
        with waiting():
            self._thread.join()
        if self.error is not None:
            raise self.error

    def give_up(self) -> None:
        """Leave nothing behind. The parts that were sent are removed if the store can be reached."""
        self._given_up.set()
        if self._thread is not None:
            with waiting():
                self._thread.join()

    def flush(self) -> None:
        """Do nothing: parts are sent as they fill up."""

    def close(self) -> None:
        """Arrow is done. It does not end the upload."""
        self.closed = True

    def _taken(self) -> bytes:
        data = b"".join(self._buffered)
        self._buffered, self._size = [], 0
        return data

    def _hand_over(self, part: bytes | None) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lakebed-upload", daemon=True)
            self._thread.start()
        with waiting():
            while self._thread.is_alive():
                try:
                    self._parts.put(part, timeout=_POLL_SECONDS)
                except queue.Full:
                    continue
                return
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._send_parts(self._arriving())
        except BaseException as error:  # noqa: BLE001  # the writer raises it
            self.error = error

    def _arriving(self) -> Iterator[bytes]:
        while not self._given_up.is_set():
            try:
                part = self._parts.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if part is None:
                return
            yield part
        raise InterruptedError("the writer gave up")
