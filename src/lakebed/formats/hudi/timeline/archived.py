"""The archived timeline: instants that left the active one, from whichever folder and form they lie in.

Layout 1 has files in the log file format (`HoodieArchivedTimeline` of 0.x), in the folder that the properties name or
in one that an older or newer release used; layout 2 has Parquet files that the newest manifest lists. An archive folder
that is not there is an empty history. Files of layout 1 hold the state files of an instant as separate records, in no
order of time, and after a crash the same record twice.

An archive can be larger than memory: files are read one after another, what is kept of them is bounded, and a file is
searched for a word before it is decoded for the few instants that have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.scratch import Scratch
from lakebed.model.instant import Instant

DROPPED = f"{HOODIE}/.lakebed/archive.json"
"""The mark that a retention of the archive leaves: up to when history was dropped."""
_READ_THREADS = 8
_ARCHIVE_NAME = re.compile(r"\.commits_\.archive\.(\d+)_.*")
_REPLACING = ("replacecommit", "clustering")
_REPLACE_RECORD = b"\x1areplacecommit"
"""An action as Avro text: its length in zig-zag, then itself. Layout 1 has no other action that replaces."""
_WINDOW = 16 << 20
_REMEMBERED_BYTES = 64 << 20
_STATES = ("requested", "inflight", "completed")


class ArchivedCommit(NamedTuple):
    """An archived completed commit: `order` is what ranges count in."""

    time: str
    order: str
    action: str
    commit: CommitMetadata


StateKey = tuple[str, str, str]
"""(requested time, action, REQUESTED | INFLIGHT | COMPLETED)."""


@dataclass
class ArchiveMemory:
    """What one open table remembers of its archive files, which never change: which states each holds, entries of those
    read last (bounded by the files' bytes), whether a file has a replace commit, the instants of a Parquet file."""

    states: dict[FileInfo, tuple[StateKey, ...]] = field(default_factory=dict)
    entries: dict[FileInfo, tuple[ArchivedEntry, ...]] = field(default_factory=dict)
    replacing: dict[FileInfo, bool] = field(default_factory=dict)
    instants: dict[str, pa.Table] = field(default_factory=dict)

    def keep(self, info: FileInfo, entries: tuple[ArchivedEntry, ...]) -> None:
        """Remembers a file's states for good, and its entries until newer ones need the room."""
        self.states[info] = tuple((entry.instant, intern(entry.action), intern(entry.state)) for entry in entries)
        if info.size <= _REMEMBERED_BYTES:
            self.entries[info] = entries
            while sum(known.size for known in self.entries) > _REMEMBERED_BYTES:
                del self.entries[next(iter(self.entries))]


@dataclass
class ArchivedTimeline:
    """What was archived, read when first asked for."""

    store: Store
    config: TableConfig
    scratch: Scratch
    remembered: ArchiveMemory = field(default_factory=ArchiveMemory)

    def instants(self) -> list[Instant]:
        """Every archived instant in its newest state, oldest first."""
        if self.config.layout >= 2:
            return [
                Instant(time, completed or "", action, "completed", archived=True)
                for time, completed, action in self._lsm_instants
            ]
        newest: dict[tuple[str, str], StateKey] = {}
        for info in self._archives:
            for key in self._states(info):
                time, action, state = key
                comparable = (time, COMPLETES_AS.get(action, action))
                known = newest.get(comparable)
                if known is None or _rank(state) >= _rank(known[2]):
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
        """Raises NotInHistoryError for a position, in what ranges count in, before which history was dropped; "" is
        the start of what is known."""
        if not position:
            return
        try:
            dropped = json.loads(self.store.read(DROPPED))
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
        """Completion times of archived writing instants by requested time, None where the archive holds none or the
        table records none."""
        return self._completions or None

    def commits(self, low: str, high: str) -> list[ArchivedCommit]:
        """Archived completed writing instants in (low, high] of what ranges count in, oldest first; "" for no bound.

        Raises NotInHistoryError when history after `low` was dropped.
        """
        self.check_known(low)
        if self.config.layout >= 2:
            found = list(self._lsm_commits(low, high))
        else:
            found = [
                ArchivedCommit(entry.instant, entry.instant, entry.action, _commit_of(entry))
                for entry in self._completed(tuple(WRITES), low, high)
            ]
        return sorted(found, key=lambda commit: (commit.order, commit.time))

    def cleans(self) -> list[CleanMetadata]:
        """Archived completed cleans."""
        if self.config.layout < 2:
            return [
                clean_from(metadata)
                for entry in self._completed(("clean",), "", "")
                for metadata in [entry.metadata().get("hoodieCleanMetadata")]
                if metadata
            ]
        return [parse_clean(payload) for _, _, _, payload in self._payloads(("clean",), "", "")]

    def replaced(self, until: str = "") -> dict[str, set[str]]:
        """File ids by partition that archived replace commits took out of use, up to a time in what ranges count in.

        Hudi archives such a commit only after the replaced files were cleaned; where it did not keep to that, the files
        are still there and must not be read. Raises NotInHistoryError for a time whose history was dropped.
        """
        self.check_known(until)
        if self.config.layout < 2:
            commits = [_commit_of(entry) for entry in self._completed(_REPLACING, "", until)]
        else:
            commits = [parse_commit(payload) for _, _, _, payload in self._payloads(_REPLACING, "", until)]
        found: dict[str, set[str]] = {}
        for commit in commits:
            for partition, ids in commit.replaced.items():
                found.setdefault(partition, set()).update(ids)
        return found

    def newest_schema(self) -> str:
        """The schema of the newest archived commit that names one, as Avro JSON text, "" without one."""
        return next((commit.commit.schema for commit in reversed(self.commits("", "")) if commit.commit.schema), "")

    @cached_property
    def _archives(self) -> tuple[FileInfo, ...]:
        """Layout 1: the archive files, as they were written."""
        found = [
            (int(match[1]), info)
            for folder in self.config.archive_folders
            for info in self.store.list(folder).files
            if (match := _ARCHIVE_NAME.fullmatch(info.name))
        ]
        return tuple(info for _, info in sorted(found, key=lambda entry: entry[0]))

    def _completed(self, actions: tuple[str, ...], low: str, high: str) -> list[ArchivedEntry]:
        """Layout 1: completed instants of some actions in (low, high], each once, as it was written last.

        A file whose states are known is read again only when it holds such an instant and its entries were forgotten.
        """
        found: dict[tuple[str, str], ArchivedEntry] = {}
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
                        found[(entry.instant, entry.action)] = entry
        return [entry for _, entry in sorted(found.items())]

    def _states(self, info: FileInfo) -> tuple[StateKey, ...]:
        """Layout 1: which states an archive file holds. Its frame does not tell: it is read once."""
        if info not in self.remembered.states:
            self._entries(info)
        return self.remembered.states[info]

    def _entries(self, info: FileInfo) -> tuple[ArchivedEntry, ...]:
        """Layout 1: the state files in an archive file."""
        entries = self.remembered.entries.get(info)
        if entries is None:
            entries = parse_archive([self.store.read(info.path)], self.scratch).entries
            self.remembered.keep(info, entries)
        return entries

    def _has_replace_commits(self, info: FileInfo) -> bool:
        """Whether a record of a file has that action, told by its bytes window by window."""
        known = self.remembered.replacing.get(info)
        if known is None:
            known = any(
                _REPLACE_RECORD in self.store.read(info.path, start, min(_WINDOW, info.size - start))
                for start in range(0, info.size, _WINDOW - len(_REPLACE_RECORD))
            )
            self.remembered.replacing[info] = known
        return known

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """Layout 2: the data files that the newest manifest names."""
        (folder,) = self.config.archive_folders
        return tuple(f"{folder}/{file.name}" for file in load_history(self.store, folder).files)

    @cached_property
    def _lsm_tables(self) -> list[tuple[str, pa.Table]]:
        """Layout 2: the instants of each data file. Names do not tell them: an upgrade writes files with wrong ones."""

        def read(path: str) -> pa.Table:
            with self.store.open_input(path) as source:
                return read_instants(source)

        known = self.remembered.instants
        missing = [path for path in self._files if path not in known]
        if missing:
            with ThreadPoolExecutor(_READ_THREADS) as pool:
                known.update(zip(missing, pool.map(read, missing), strict=True))
        return [(path, known[path]) for path in self._files]

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
        """Metadata of archived instants of some actions in (low, high]; only files that hold such instants are opened
        for it."""
        times = [
            time
            for time, completed, action in self._lsm_instants
            if action in actions and _between(completed or time, low, high)
        ]
        if not times:
            return
        seen: set[tuple[str, str]] = set()
        for path, instants in self._lsm_tables:
            if not pc.any(pc.is_in(instants["instantTime"], value_set=pa.array(times))).as_py():
                continue
            with self.store.open_input(path) as source:
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
    """An archived commit's metadata; replace commits have a field of their own, very old releases wrote JSON text."""
    metadata = entry.metadata()
    found = metadata.get("hoodieReplaceCommitMetadata") or metadata.get("hoodieCommitMetadata") or {}
    return commit_from(json.loads(found) if isinstance(found, str) else found)
