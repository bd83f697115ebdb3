"""Completed state files that are empty, as a crash leaves them, or whose bytes are no metadata.

Files are read newest first and only within a budget of bytes, so that an old table costs no more than a young one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.codec.archive_entry import check_readable
from lakebed.kernel.files import Store

_READ_BYTES = 256 << 20
"""The most bytes of completed files that are read."""
_READ_AT_ONCE = 100
"""How many files are held in memory at once."""


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A completed state file that is not whole. `why` says what is wrong with its bytes, "" for an empty file."""

    path: str
    why: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the file has no bytes."""
        return not self.why


def unreadable_files(store: Store, instants: Iterable[ActiveInstant]) -> tuple[int, list[UnreadableFile]]:
    """How many completed files were read, and those that are empty or cannot be read: the empty ones first, then both
    kinds from the newest instant to the oldest."""
    done = [instant for instant in instants if instant.done][::-1]
    unreadable = [UnreadableFile(instant.last.path) for instant in done if instant.empty]
    paths: list[str] = []
    left = _READ_BYTES
    for instant in done:
        left -= instant.last.size
        if left >= 0 and not instant.empty and instant.action != "indexing":
            paths.append(instant.last.path)
    for at in range(0, len(paths), _READ_AT_ONCE):
        batch = paths[at : at + _READ_AT_ONCE]
        for path, data in zip(batch, _contents(store, batch), strict=True):
            try:
                if data:
                    check_readable(data)
            except CorruptError as error:
                unreadable.append(UnreadableFile(path, error.why or error.what))
    return len(paths), unreadable


def _contents(store: Store, paths: Sequence[str]) -> Sequence[bytes]:
    """The bytes of files; b"" for one that an archival took away meanwhile."""
    try:
        return store.read_many(paths)
    except FileNotFoundError:
        return [_content(store, path) for path in paths]


def _content(store: Store, path: str) -> bytes:
    try:
        return store.read(path)
    except FileNotFoundError:
        return b""
