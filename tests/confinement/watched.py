"""What a process touches below a folder, and what it touches of some files there, by whatever way.

An audit hook sees each path that Python hands to the operating system. The system itself (inotify, on Linux) tells of
each file of the watched folders that was opened, made, changed or removed, in C++ too.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_OPENED_OR_CHANGED = 0x20 | 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200
"""IN_OPEN, IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE."""
_listening: list[tuple[str, set[str]]] = []
_hooked: list[bool] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook of the interpreter, which cannot be removed."""
    if _listening and (event == "open" or event.startswith(("os.", "shutil."))):
        folder, found = _listening[-1]
        for path in arguments:
            text = os.fsdecode(path) if isinstance(path, str | bytes) else ""
            if text.startswith(folder) and "\0" not in text:
                found.add(os.path.realpath(text))


class Watched:
    """The places below `folder` that this process touches, and the files in `victims` that anybody touches."""

    def __init__(self, folder: Path, victims: Sequence[Path]) -> None:
        self._touched: set[str] = set()
        self._folder = str(folder)
        self._library = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._names: dict[int, Path] = {}
        self._notes = -1
        self.watch(victims)

    def watch(self, victims: Sequence[Path]) -> None:
        """Watch these folders, which may have been made anew."""
        self.close()
        if self._library is not None:
            self._notes = self._library.inotify_init1(os.O_NONBLOCK)
            numbers = [
                self._library.inotify_add_watch(self._notes, str(victim).encode(), _OPENED_OR_CHANGED)
                for victim in victims
            ]
            self._names = dict(zip(numbers, victims, strict=True))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A block whose doings are noted."""
        if not _hooked:
            sys.addaudithook(_audit)
            _hooked.append(True)
        self.touched()
        _listening.append((self._folder, self._touched))
        try:
            yield
        finally:
            _listening.pop()

    def touched(self) -> set[str]:
        """What was touched since the last call, links followed."""
        found = {*self._touched}
        self._touched.clear()
        if self._library is not None:
            try:
                data = os.read(self._notes, 1 << 20)
            except BlockingIOError:
                data = b""
            at = 0
            while at < len(data):
                number, _, _, length = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
                if number in self._names:
                    found.add(str(self._names[number] / name))
                at += 16 + length
        return found

    def close(self) -> None:
        """Give the system's watch back."""
        if self._notes >= 0:
            os.close(self._notes)
            self._notes = -1
