"""Writes archive files of timeline layout 1: `.commits_.archive.<N>_1-0-1`, blocks of `HoodieArchivedMetaEntry`.

Rules: Hudi's `HoodieTimelineArchiver` and `HoodieLogFormatWriter`: records of one run go to the next free number, a
block is cut at `hoodie.commits.archival.batch` records. A store cannot append, so each run makes a file; and because a
file is put whole, a crash leaves it there or not, never torn. A run larger than what may be held in memory makes
several files.

A run that died after writing leaves instants both archived and active. The next one looks back from the end of the
newest files for as long as their blocks hold such instants, and writes only what is missing, so that no state is
archived twice.
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
from lakebed.formats.hudi.archive.lock import StillHeld
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.codec.archive_schema import entry_schema
from lakebed.formats.hudi.codec.archive_v1 import parse_archive
from lakebed.formats.hudi.codec.log import MAGIC, BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import block_parts, record_parts
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.scratch import Scratch

State = tuple[str, str, str]
"""(requested time, the action in the file's name, requested | inflight | completed)."""

_NAME = re.compile(r"\.commits_\.archive\.(\d+)(?:_.*)?")
_TOKEN = "1-0-1"
_POINTER = struct.Struct(">q")
_LOOKED_THROUGH = 64 << 20
"""The most bytes of a file without a whole last block that are read to look for instants."""


def archive_number(name: str) -> int | None:
    """The number of an archive file by its name; None for another file."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def archive_name(number: int) -> str:
    """The name of an archive file."""
    return f".commits_.archive.{number}_{_TOKEN}"


def archive_files(store: Store, folder: str) -> list[FileInfo]:
    """The archive files of a folder, oldest first."""
    found = [(n, info) for info in store.list(folder).files if (n := archive_number(info.name)) is not None]
    return [info for _, info in sorted(found, key=lambda pair: pair[0])]


@dataclass
class V1Writer:
    """Takes records in order, cuts blocks and files, and puts the files.

    Holds at most `file_bytes` and one record, twice while a file is put together.
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
        """One instant's records; those that the archive holds already are passed over."""
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
        """Puts what was added. Afterwards it is archived: nothing may be deleted before."""
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
        """CommitConflictError when a file that was put is not there any more: nothing may be deleted then."""
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
    """The next free number of a folder."""
    numbers = (archive_number(info.name) for info in archive_files(store, folder))
    return max((number for number in numbers if number is not None), default=0) + 1


def put_archive(store: Store, path: str, data: bytes) -> None:
    """Puts a whole archive file. CommitConflictError when another archiver was faster, CommitUnknownError when the
    store does not say."""
    if not claim_name(store, path, data, "the archive file"):
        raise overtaken(store, path, "it took the next number")


def archived_states(store: Store, folder: str, instants: Sequence[ActiveInstant], scratch: Scratch) -> set[State]:
    """States of these instants that the newest archive files hold already: what a run left that died before it
    deleted them. Costs one block's reading when there are none."""
    times = {instant.time for instant in instants}
    found: set[State] = set()
    unsure = False
    for info in reversed(archive_files(store, folder)):
        states = _states_of(store, info, times, scratch, whole=unsure)
        if not states:
            break
        found |= states
        unsure = True
    return found


def last_instant(store: Store, info: FileInfo, scratch: Scratch) -> str:
    """The greatest requested time in the last block of an archive file, "" where there is no whole block."""
    block = next(_blocks_backwards(store, info), b"")
    return max((entry.instant for entry in parse_archive([block], scratch).entries), default="")


def _states_of(store: Store, info: FileInfo, times: set[str], scratch: Scratch, whole: bool) -> set[State]:
    """States of instants of these times in one file. Its last block is that of the instant that is deleted last: when
    none is in there the rest is not looked at, unless `whole` says that a later file had some."""
    found: set[State] = set()
    for block in _blocks_backwards(store, info):
        entries = [entry for entry in parse_archive([block], scratch).entries if entry.instant in times]
        found |= {(entry.instant, entry.action, entry.state.lower()) for entry in entries}
        if not found and not whole:
            break
    return found


def _blocks_backwards(store: Store, info: FileInfo) -> Iterator[bytes]:
    """The blocks of a file from its end, by their reverse pointers; the whole file where there is no whole block at
    its end."""
    end = info.size
    while end > 0:
        tail = store.read(info.path, max(0, end - _POINTER.size), _POINTER.size)
        start = end - _POINTER.size - (_POINTER.unpack(tail)[0] if len(tail) == _POINTER.size else 0)
        block = store.read(info.path, start, end - start) if 0 <= start < end - _POINTER.size else b""
        if not block.startswith(MAGIC):
            if end <= _LOOKED_THROUGH:
                yield store.read(info.path, 0, end)
            return
        yield block
        end = start


def folder_of(archive_folders: Sequence[str]) -> str:
    """The folder that new archive files go to: the one that the table's properties name."""
    if not archive_folders:
        raise CorruptError("the table's settings name no archive folder")
    return archive_folders[0]
