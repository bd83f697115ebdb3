"""Heartbeats: a file per pending write, written again and again while its writer is at work.

`.hoodie/.heartbeat/<instant>` is written before the instant is requested, and removed when it is completed or taken
back. Other writers judge by the file's age whether the writer lives. Hudi's heartbeats are empty; lakebed's say whose
they are, so that on one machine a writer that was killed is known to be dead at once.

No write is safe because of its heartbeat: a writer that was taken for dead finds its instant gone when it commits.

Rules: Hudi's `HoodieHeartbeatClient`, `HoodieHeartbeatUtils`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from lakebed.errors import LakebedError, counted
from lakebed.formats.hudi.layout import HEARTBEATS, HOODIE
from lakebed.kernel import clock
from lakebed.kernel.files import Store
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.machine import Holder, is_gone

_AGAIN = 1.0
"""After how many seconds a heartbeat that could not be written is tried again."""


def heartbeat_file(instant: str) -> str:
    """The path of a heartbeat."""
    return f"{HEARTBEATS}/{instant}"


class Heartbeat:
    """Says that the writer of an instant is alive, every `seconds`, from `start` to `stop`."""

    def __init__(self, store: Store, seconds: float) -> None:
        self._store, self._path, self._seconds = store, "", seconds
        self._holder, self._held = Holder(), ExitStack()
        self._stopped = threading.Event()
        self._writing = threading.Lock()

    def start(self, instant: str) -> None:
        """Write the file, and go on doing so in a thread that does not keep the process alive. Who starts it stops it,
        also where this raises."""
        self._path = heartbeat_file(instant)
        self._held.enter_context(self._holder)
        self._beat()
        self._go_on()

    def _go_on(self) -> None:
        threading.Thread(target=self._run, name=f"lakebed {self._path}", daemon=True).start()

    @contextmanager
    def stopped_by_failure(self) -> Iterator[Heartbeat]:
        """A block that may start it, and at whose failure it stops."""
        try:
            yield self
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop, and remove the file. Where that fails the file only takes room: it says whose it was."""
        self._stopped.set()
        if not self._path:
            return
        try:
            with self._writing, suppress(LakebedError, OSError):
                self._store.delete(self._path)
        finally:
            self._held.close()

    def _run(self) -> None:
        wait = self._seconds
        while not self._stopped.wait(wait):
            with self._writing:
                if self._stopped.is_set():
                    return
                try:
                    self._beat()
                    wait = self._seconds
                except (LakebedError, OSError):
                    wait = min(_AGAIN, self._seconds)

    def _beat(self) -> None:
        self._store.write_briefly(self._path, self._holder.mark())


def stopped(store: Store, instant: str, patience: float, now: float | None = None) -> str:
    """Why the writer of an instant is dead by its heartbeat, "" while it may live.

    It is dead where there is no heartbeat, where its process is known to be gone, or where the file is older than
    `patience` seconds, by the store's clock or by `now`.
    """
    path = heartbeat_file(instant)
    try:
        if is_gone(store.read(path)):
            return "its process has ended"
        beat = store.modified(path)
        age = (clock.now() if now is None else now) - beat
        if now is None and age > patience:  # our own clock may be ahead
            age = certain_now(store, f"{HOODIE}/.lakebed") - beat
    except FileNotFoundError:
        return "it has no heartbeat"
    return f"its last heartbeat was {counted(round(age), 'second')} ago" if age > patience else ""


def has_heartbeat(store: Store, instant: str) -> bool:
    """Whether the writer of an instant has begun a heartbeat, and not ended it."""
    return store.exists(heartbeat_file(instant))


def has_ended(store: Store, instant: str) -> bool:
    """Whether the heartbeat of an instant names a process of this machine that has ended."""
    try:
        return is_gone(store.read(heartbeat_file(instant)))
    except FileNotFoundError:
        return False
