"""The archived timeline: instants that left the active timeline, in whichever folder and form.

Layout 1 has files in the log file format (`HoodieArchivedTimeline` of 0.x), in the folder that the properties name or
in one that an older or newer release used. They hold the state files of an instant as separate records, in no order of
time, and after a crash a record can stand there twice. Layout 2 has Parquet files that the newest manifest lists. A
missing archive folder is an empty history.

An archive can be larger than memory. Files are decoded one after another, while those that follow are fetched, and what
is remembered of them is bounded. For the rare replace commits, a file is searched for the word before it is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from sys import intern
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import NotInHistoryError
from lakebed.formats.hudi.codec.archive_v1 import ArchivedEntry, parse_archive
from lakebed.formats.hudi.codec.lsm import read_instants, read_payloads
from lakebed.formats.hudi.codec.metadata import (
    CleanMetadata,
    CommitMetadata,
    clean_from,
    commit_from,
    parse_clean,
    parse_commit,
)
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import COMPLETES_AS, HOODIE, WRITES
from lakebed.formats.hudi.timeline.archive_manifest import load_history
from lakebed.kernel.decoding import decoding, parsed_json
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.scratch import Scratch
from lakebed.model.instant import Instant

DROPPED = f"{HOODIE}/.lakebed/archive.json"
"""The mark of the archive's retention: up to which time history was dropped."""
_READ_THREADS = 8
_ARCHIVE_NAME = re.compile(r"\.commits_\.archive\.(\d+)_.*")
_REPLACING = ("replacecommit", "clustering")
_REPLACE_RECORD = b"\x1areplacecommit"
"""The action as Avro text: its length in zig-zag order, then the word. Layout 1 has no other action that replaces."""
_WINDOW = 16 << 20
_SMALL = 1 << 20
"""Files of at most so many bytes are searched all together."""
_REMEMBERED_BYTES = 64 << 20
_STATES = ("requested", "inflight", "completed")


class ArchivedCommit(NamedTuple):
    """An archived completed commit; `order` is its position in ranges: the completion time from table version 8 on,
    before that the requested time."""

    time: str
    order: str
    action: str
    commit: CommitMetadata


StateKey = tuple[str, str, str]
"""(requested time, action, REQUESTED | INFLIGHT | COMPLETED)."""


@dataclass
class ArchiveMemory:
    """What an open table remembers of its archive files, which never change.

    `states` has the states in each file, `entries` the entries of those read last (bounded by the files' bytes),
    `replacing` whether a file has a replace commit, `instants` the instants of each Parquet file.
    """

    states: dict[FileInfo, tuple[StateKey, ...]] = field(default_factory=dict)
    entries: dict[FileInfo, tuple[ArchivedEntry, ...]] = field(default_factory=dict)
    replacing: dict[FileInfo, bool] = field(default_factory=dict)
    instants: dict[str, pa.Table] = field(default_factory=dict)

    def keep(self, info: FileInfo, entries: tuple[ArchivedEntry, ...]) -> None:
        """Remember a file's states for good, and its entries until newer ones need the room."""
        self.states[info] = tuple((entry.instant, intern(entry.action), intern(entry.state)) for entry in entries)
        if info.size <= _REMEMBERED_BYTES:
            self.entries[info] = entries
            while sum(file.size for file in self.entries) > _REMEMBERED_BYTES:
                del self.entries[next(iter(self.entries))]


@dataclass
class ArchivedTimeline:
    """The archived timeline of one table. Files are read when their content is first needed."""

    store: Store
    config: TableConfig
    scratch: Scratch
    remembered: ArchiveMemory = field(default_factory=ArchiveMemory)

    def instants(self) -> list[Instant]:
        """Every archived instant in its newest archived state, oldest first."""
        if self.config.layout >= 2:
            return [
                Instant(time, completed or "", action, "completed", archived=True)
                for time, completed, action in self._lsm_instants
            ]
        newest: dict[tuple[str, str], StateKey] = {}
        with self._fetched():
            states = [key for info in self._archives for key in self._states(info)]
        for key in states:
            time, action, state = key
            comparable = (time, COMPLETES_AS.get(action, action))
            before = newest.get(comparable)
            if before is None or _rank(state) >= _rank(before[2]):
                newest[comparable] = key
        return [
            Instant(time, "", action, state.lower(), archived=True)
            for _, (time, action, state) in sorted(newest.items())
        ]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was archived."""
        return not (self._files if self.config.layout >= 2 else self._archives)

    def check_known(self, position: str) -> None:
        """Raise NotInHistoryError for a position in ranges before which history was dropped; "" is the start of the
        history that is left."""
        if not position:
            return
        try:
            dropped = parsed_json(self.store.read(DROPPED))
        except FileNotFoundError:
            return
        if position < dropped["order"]:
            raise NotInHistoryError(
                f"{position} is out of the table's history",
                table=self.store.location,
                why=f"archived instants up to {dropped['time']} were dropped by the retention of the archive",
                todo=f"Read from {dropped['order']} on, or read a snapshot",
            )

    def completions(self) -> Mapping[str, str] | None:
        """Completion times of archived writing instants by requested time. None where the archive has no such instant,
        or the table records no completion times."""
        return self._completions or None

    def commits(self, low: str, high: str) -> list[ArchivedCommit]:
        """Archived completed writing instants in the range (low, high], oldest first; "" for no bound.

        Raises NotInHistoryError when history after `low` was dropped.
        """
        self.check_known(low)
        if self.config.layout >= 2:
            commits = list(self._lsm_commits(low, high))
        else:
            commits = [
                ArchivedCommit(entry.instant, entry.instant, entry.action, _commit_of(entry))
                for entry in self._completed(tuple(WRITES), low, high)
            ]
        return sorted(commits, key=lambda commit: (commit.order, commit.time))

    def cleans(self) -> list[CleanMetadata]:
        """The archived completed cleans."""
        if self.config.layout < 2:
            return [
                clean_from(metadata)
                for entry in self._completed(("clean",), "", "")
                for metadata in [entry.metadata().get("hoodieCleanMetadata")]
                if metadata
            ]
        return [parse_clean(payload) for _, _, _, payload in self._payloads(("clean",), "", "")]

    def replaced(self, until: str = "") -> dict[str, set[str]]:
        """File ids by partition that archived replace commits took out of use, up to a position in ranges.

        Hudi archives such a commit only after the replaced files were cleaned. Where it did not keep to that, the files
        are still there and must not be read. Raises NotInHistoryError for a position whose history was dropped.
        """
        self.check_known(until)
        if self.config.layout < 2:
            commits = [_commit_of(entry) for entry in self._completed(_REPLACING, "", until)]
        else:
            commits = [parse_commit(payload) for _, _, _, payload in self._payloads(_REPLACING, "", until)]
        replaced: dict[str, set[str]] = {}
        for commit in commits:
            for partition, ids in commit.replaced.items():
                replaced.setdefault(partition, set()).update(ids)
        return replaced

    def newest_schema(self) -> str:
        """The schema of the newest archived commit that names a schema, as Avro JSON text; "" without one."""
        return next((commit.commit.schema for commit in reversed(self.commits("", "")) if commit.commit.schema), "")

    @cached_property
    def _archives(self) -> tuple[FileInfo, ...]:
        """Layout 1: the archive files, in the order of writing."""
        numbered = [
            (int(match[1]), info)
            for listing in self.store.list_many(self.config.archive_folders)
            for info in listing.files
            if (match := _ARCHIVE_NAME.fullmatch(info.name))
        ]
        return tuple(info for _, info in sorted(numbered, key=lambda entry: entry[0]))

    def _completed(self, actions: tuple[str, ...], low: str, high: str) -> list[ArchivedEntry]:
        """Layout 1: completed instants of some actions in (low, high], each once, as it was written last.

        A file whose states are known is read again only if it holds such an instant and its entries were forgotten.
        """
        completed: dict[tuple[str, str], ArchivedEntry] = {}
        if actions == _REPLACING:
            self._look_for_replace_commits()
        with nullcontext() if actions == _REPLACING else self._fetched():
            for info in self._archives:
                entries = None
                if info not in self.remembered.states:
                    if actions == _REPLACING and not self._has_replace_commits(info):
                        continue
                    entries = self._entries(info)
                wanted = {
                    (time, action)
                    for time, action, state in self._states(info)
                    if state == "COMPLETED" and action in actions and _between(time, low, high)
                }
                if wanted:
                    for entry in entries or self._entries(info):
                        if entry.state == "COMPLETED" and (entry.instant, entry.action) in wanted:
                            completed[(entry.instant, entry.action)] = entry
        return [entry for _, entry in sorted(completed.items())]

    def _states(self, info: FileInfo) -> tuple[StateKey, ...]:
        """Layout 1: the states in an archive file. Its frame does not say, so the file is read once."""
        if info not in self.remembered.states:
            self._entries(info)
        return self.remembered.states[info]

    def _fetched(self) -> AbstractContextManager[None]:
        """Layout 1: a block that reads the files whose states are not known."""
        return self.store.fetching(info for info in self._archives if info not in self.remembered.states)

    def _look_for_replace_commits(self) -> None:
        """Layout 1: find out for all small files together whether they have replace commits."""
        known = self.remembered
        unknown = (info for info in self._archives if info not in known.states and info not in known.replacing)
        self.store.together(self._has_replace_commits, [info for info in unknown if info.size <= _SMALL])

    def _entries(self, info: FileInfo) -> tuple[ArchivedEntry, ...]:
        """Layout 1: the entries of an archive file."""
        entries = self.remembered.entries.get(info)
        if entries is None:
            entries = parse_archive([self.store.read(info.path)], self.scratch).entries
            self.remembered.keep(info, entries)
        return entries

    def _has_replace_commits(self, info: FileInfo) -> bool:
        """Layout 1: whether a file has a replace commit. Its bytes are searched window by window."""
        has_replace = self.remembered.replacing.get(info)
        if has_replace is None:
            has_replace = any(
                _REPLACE_RECORD in self.store.read(info.path, start, min(_WINDOW, info.size - start))
                for start in range(0, info.size, _WINDOW - len(_REPLACE_RECORD))
            )
            self.remembered.replacing[info] = has_replace
        return has_replace

    @cached_property
    def _files(self) -> tuple[FileInfo, ...]:
        """Layout 2: the data files that the newest manifest names; -1 for a size that it does not tell."""
        (folder,) = self.config.archive_folders
        return tuple(FileInfo(f"{folder}/{file.name}", file.length) for file in load_history(self.store, folder).files)

    @cached_property
    def _lsm_tables(self) -> list[tuple[FileInfo, pa.Table]]:
        """Layout 2: the instants of each data file. The names of files do not say: an upgrade writes wrong ones."""

        def read(info: FileInfo) -> pa.Table:
            with self._opened(info) as source:
                return read_instants(source)

        tables = self.remembered.instants
        missing = [info for info in self._files if info.path not in tables]
        if missing:
            with ThreadPoolExecutor(max(_READ_THREADS, self.store.at_once)) as pool:
                tables.update(zip((info.path for info in missing), pool.map(read, missing), strict=True))
        return [(info, tables[info.path]) for info in self._files]

    def _opened(self, info: FileInfo) -> pa.NativeFile:
        return self.store.open_input(info.path, info.size if info.size > 0 else None)

    @cached_property
    def _lsm_instants(self) -> list[tuple[str, str | None, str]]:
        """Layout 2: requested time, completion time and action of each instant, oldest first."""
        tables = [table for _, table in self._lsm_tables]
        if not tables:
            return []
        ordered = pa.concat_tables(tables).sort_by([("instantTime", "ascending")])
        return list(zip(*(column.to_pylist() for column in ordered.columns), strict=True))

    @cached_property
    def _completions(self) -> dict[str, str]:
        if self.config.layout < 2:
            return {}
        return {time: completed or time for time, completed, action in self._lsm_instants if action in WRITES}

    def _lsm_commits(self, low: str, high: str) -> Iterator[ArchivedCommit]:
        for time, completed, action, payload in self._payloads(tuple(WRITES), low, high):
            yield ArchivedCommit(time, completed, action, parse_commit(payload))

    def _payloads(self, actions: tuple[str, ...], low: str, high: str) -> Iterator[tuple[str, str, str, bytes]]:
        """Layout 2: (time, position, action, metadata) of archived instants of some actions in (low, high]. Only files
        with such instants are opened for it."""
        times = [
            time
            for time, completed, action in self._lsm_instants
            if action in actions and _between(completed or time, low, high)
        ]
        if not times:
            return
        seen: set[tuple[str, str]] = set()
        wanted = pa.array(times)
        files = [info for info, of in self._lsm_tables if pc.any(pc.is_in(of["instantTime"], value_set=wanted)).as_py()]
        with self.store.fetching(info for info in files if info.size > 0):
            for info in files:
                with self._opened(info) as source:
                    table = read_payloads(source, times)
                for time, completed, action, metadata, _ in zip(*(c.to_pylist() for c in table.columns), strict=True):
                    if action in actions and metadata and (time, action) not in seen:
                        seen.add((time, action))
                        yield time, completed or time, action, metadata


def _between(order: str, low: str, high: str) -> bool:
    return order > low and (not high or order <= high)


def _rank(state: str) -> int:
    return _STATES.index(state.lower()) if state.lower() in _STATES else -1


@decoding("the metadata of an archived commit cannot be read")
def _commit_of(entry: ArchivedEntry) -> CommitMetadata:
    """An archived commit's metadata. Replace commits have a field of their own; very old releases wrote JSON text."""
    fields = entry.metadata()
    metadata = fields.get("hoodieReplaceCommitMetadata") or fields.get("hoodieCommitMetadata") or {}
    return commit_from(parsed_json(metadata) if isinstance(metadata, str) else metadata)
