"""Write archive files of timeline layout 1: `.commits_.archive.<N>_1-0-1`, blocks of `HoodieArchivedMetaEntry`.

Rules: Hudi's `HoodieTimelineArchiver` and `HoodieLogFormatWriter`. The records of a run go into the file with the next
free number, and a block ends at `hoodie.commits.archival.batch` records. A store cannot append, so each run makes a new
file. Files are put whole, so a crash never leaves a torn one. A run that is larger than the memory allowed for it makes
several files.

A run that died after writing leaves instants both archived and active. The next run looks back from the end of the
newest files as long as their blocks hold such instants, and writes only what is missing. So no state is archived twice.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.conflicts import claim_name, overtaken
from lakebed.formats.hudi.archive.encode import Record
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.codec.archive_schema import entry_schema
from lakebed.formats.hudi.codec.archive_v1 import parse_archive
from lakebed.formats.hudi.codec.log import MAGIC, BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import block_parts, record_parts
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.kernel.files import FileInfo, Listing, Store
from lakebed.kernel.scratch import Scratch

State = tuple[str, str, str]
"""(requested time, the action in the file's name, requested | inflight | completed)."""

_NAME = re.compile(r"\.commits_\.archive\.(\d+)(?:_.*)?")
_TOKEN = "1-0-1"
_POINTER = struct.Struct(">q")
_TAIL = 64 << 10
"""How many bytes at a file's end are read at once: they hold the last block of most files."""
_LOOKED_THROUGH = 64 << 20
"""The largest file without a whole last block that is read to look for instants, in bytes."""


def archive_number(name: str) -> int | None:
    """The number of an archive file by its name; None for another file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def archive_name(number: int) -> str:
    """The name of an archive file."""
    return f".commits_.archive.{number}_{_TOKEN}"


def archive_files(store: Store, folder: str) -> list[FileInfo]:
    """The archive files of a folder, oldest first."""
    return archive_files_of(store.list(folder))


def archive_files_of(listing: Listing) -> list[FileInfo]:
    """The archive files in the listing of a folder, oldest first."""
    numbered = [(n, info) for info in listing.files if (n := archive_number(info.name)) is not None]
    return [info for _, info in sorted(numbered, key=lambda pair: pair[0])]


@dataclass
class V1Writer:
    """Takes records in order, cuts them into blocks and files, and puts the files.

    It holds at most `file_bytes` and one record, and twice that while a file is put together. `known` are states that
    the archive holds already.
    """

    store: Store
    folder: str
    batch: int
    file_bytes: int
    held: StillHeld
    known: frozenset[State] = frozenset()
    number: int = 0
    written: list[FileInfo] = field(default_factory=list)
    """The files put so far."""
    _records: list[bytes] = field(default_factory=list)
    _blocks: list[bytes | memoryview] = field(default_factory=list)
    _bytes: int = 0

    def add(self, records: Iterable[Record]) -> None:
        """Add one instant's records. Those that the archive holds already are skipped."""
        for record in records:
            time, action, state, datum = record
            if self.known and (time, action, state) in self.known:
                continue
            if self._bytes and self._bytes + len(datum) > self.file_bytes:
                self.flush()
            self._records.append(datum)
            self._bytes += len(datum)
            if len(self._records) >= self.batch:
                self._cut()

    def flush(self) -> None:
        """Put what was added. Only then is it archived and may be deleted from the active timeline."""
        self._cut()
        if not self._blocks:
            return
        data = b"".join(self._blocks)
        self._blocks, self._bytes = [], 0
        self.held()
        if not self.number:
            self.number = next_number(self.store, self.folder)
        path = f"{self.folder}/{archive_name(self.number)}"
        put_archive(self.store, path, data)
        self.written.append(FileInfo(path, len(data)))
        self.number += 1

    def check_stands(self) -> None:
        """CommitConflictError when a file that was put is gone; nothing may be deleted then."""
        for info in self.written:
            size = None
            with suppress(FileNotFoundError):
                size = self.store.size(info.path)
            if size != info.size:
                raise overtaken(self.store, info.path, "what was archived here is not there any more")

    def _cut(self) -> None:
        if self._records:
            content = record_parts(self._records)
            self._records = []
            self._blocks += block_parts(BlockKind.AVRO_DATA, {HeaderKey.SCHEMA: entry_schema()}, content)


def next_number(store: Store, folder: str) -> int:
    """The next free number in a folder."""
    return number_after(archive_files(store, folder))


def number_after(files: Iterable[FileInfo]) -> int:
    """The number of a new archive file beside others."""
    numbers = (archive_number(info.name) for info in files)
    return max((number for number in numbers if number is not None), default=0) + 1


def put_archive(store: Store, path: str, data: bytes) -> None:
    """Put a whole archive file. CommitConflictError when another archiver was faster, CommitUnknownError when the store
    does not answer."""
    if not claim_name(store, path, data, "the archive file"):
        raise overtaken(store, path, "it took the next number")


def archived_states(
    store: Store, files: Sequence[FileInfo], instants: Sequence[ActiveInstant], scratch: Scratch
) -> set[State]:
    """States of these instants that the newest of the archive's files hold already: a run wrote them and died before it
    deleted them from the active timeline. Where there are none, only one block is read."""
    times = {instant.time for instant in instants}
    archived: set[State] = set()
    for info in reversed(files):
        states = _states_of(store, info, times, scratch, whole=bool(archived))
        if not states:
            break
        archived |= states
    return archived


def last_instant(store: Store, info: FileInfo, scratch: Scratch) -> str:
    """The greatest requested time in the last block of an archive file, "" if it has no whole block."""
    block = next(_blocks_backwards(store, info), b"")
    return max((entry.instant for entry in parse_archive([block], scratch).entries), default="")


def _states_of(store: Store, info: FileInfo, times: set[str], scratch: Scratch, whole: bool) -> set[State]:
    """States of instants of these times in one file. Its last block holds the instant that is deleted last. If none of
    the instants is in there, the rest is not read, unless `whole` says that a later file had some."""
    states: set[State] = set()
    for block in _blocks_backwards(store, info):
        entries = [entry for entry in parse_archive([block], scratch).entries if entry.instant in times]
        states |= {(entry.instant, entry.action, entry.state.lower()) for entry in entries}
        if not states and not whole:
            break
    return states


def _blocks_backwards(store: Store, info: FileInfo) -> Iterator[bytes]:
    """The blocks of a file from its end, by their reverse pointers. Where no whole block ends the file, all the rest
    counts as one block."""
    end = info.size
    known_from = max(0, end - _TAIL)
    known = store.read(info.path, known_from, end - known_from) if end else b""

    def part(start: int, stop: int) -> bytes:
        if start >= known_from:
            return known[start - known_from : stop - known_from]
        return store.read(info.path, start, stop - start)

    while end > 0:
        tail = part(max(0, end - _POINTER.size), end)
        start = end - _POINTER.size - (_POINTER.unpack(tail)[0] if len(tail) == _POINTER.size else 0)
        block = part(start, end) if 0 <= start < end - _POINTER.size else b""
        if not block.startswith(MAGIC):
            if end <= _LOOKED_THROUGH:
                yield part(0, end)
            return
        yield block
        end = start


def folder_of(archive_folders: Sequence[str]) -> str:
    """The folder for new archive files: the one that the table's properties name."""
    if not archive_folders:
        raise CorruptError(
            "the table's settings name no archive folder", todo="Set hoodie.archivelog.folder in hoodie.properties"
        )
    return archive_folders[0]
