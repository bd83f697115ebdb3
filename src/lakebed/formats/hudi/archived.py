"""The archived timeline: instants that left the active one, from whichever folder and form they lie in.

Layout 1 has files in the log file format (`HoodieArchivedTimeline` of 0.x), in the folder that the properties name or
in one that an older or newer release used; layout 2 has Parquet files that the newest manifest lists. An archive folder
that is not there is an empty history. Each file is read once; those of layout 1 hold the state files of an instant as
separate records, in no order of time, and after a crash the same record twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from lakebed.errors import NotInHistoryError
from lakebed.formats.hudi.codec.archive_v1 import ArchivedEntry, parse_archive
from lakebed.formats.hudi.codec.lsm import (
    VERSION_FILE,
    manifest_version,
    parse_manifest,
    parse_version,
    read_instants,
    read_payloads,
)
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
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.scratch import Scratch
from lakebed.model.instant import Instant

DROPPED = f"{HOODIE}/.lakebed/archive.json"
"""The mark that a retention of the archive leaves: up to when history was dropped."""
_READ_THREADS = 8
_ARCHIVE_PREFIX = ".commits_.archive"
_REPLACING = ("replacecommit", "clustering")
_STATES = ("requested", "inflight", "completed")


class ArchivedCommit(NamedTuple):
    """An archived completed commit: `order` is what ranges count in."""

    time: str
    order: str
    action: str
    commit: CommitMetadata


@dataclass
class ArchivedTimeline:
    """What was archived, read when first asked for and each file once."""

    store: Store
    config: TableConfig
    scratch: Scratch
    remembered: dict[tuple[FileInfo, ...], tuple[ArchivedEntry, ...]] = field(default_factory=dict)

    def instants(self) -> list[Instant]:
        """Every archived instant in its newest state, oldest first."""
        if self.config.layout >= 2:
            return [
                Instant(time, completed or "", action, "completed", archived=True)
                for table in self._lsm_instants
                for time, completed, action in zip(*(column.to_pylist() for column in table.columns), strict=True)
            ]
        newest: dict[tuple[str, str], ArchivedEntry] = {}
        for entry in self._entries:
            key = (entry.instant, COMPLETES_AS.get(entry.action, entry.action))
            known = newest.get(key)
            if known is None or _rank(entry) >= _rank(known):
                newest[key] = entry
        return [
            Instant(entry.instant, "", entry.action, entry.state.lower(), archived=True) for entry in newest.values()
        ]

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
                for entry in self._entries
                if entry.state == "COMPLETED" and entry.action in WRITES and _between(entry.instant, low, high)
            ]
        return sorted(found, key=lambda commit: (commit.order, commit.time))

    def cleans(self) -> list[CleanMetadata]:
        """Archived completed cleans."""
        if self.config.layout < 2:
            return [
                clean_from(metadata)
                for entry in self._entries
                if entry.state == "COMPLETED" and entry.action == "clean"
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
            done = [
                entry for entry in self._entries if entry.state == "COMPLETED" and _between(entry.instant, "", until)
            ]
            commits = [_commit_of(entry) for entry in done if entry.action in _REPLACING]
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
    def _entries(self) -> tuple[ArchivedEntry, ...]:
        """Layout 1: every archived state file."""
        files = tuple(
            info
            for folder in self.config.archive_folders
            for info in self.store.list(folder).files
            if info.name.startswith(_ARCHIVE_PREFIX)
        )
        if files not in self.remembered:
            self.remembered.clear()
            self.remembered[files] = parse_archive((self.store.read(f.path) for f in files), self.scratch).entries
        return self.remembered[files]

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """Layout 2: the data files that the newest manifest names."""
        (folder,) = self.config.archive_folders
        names = {info.name for info in self.store.list(folder).files}
        if VERSION_FILE in names:
            version: int | None = parse_version(self.store.read(f"{folder}/{VERSION_FILE}"))
        else:
            version = max((n for name in names if (n := manifest_version(name)) is not None), default=None)
        if version is None:
            return ()
        manifest = parse_manifest(self.store.read(f"{folder}/manifest_{version}"))
        return tuple(f"{folder}/{file.name}" for file in manifest)

    @cached_property
    def _lsm_instants(self) -> list[pa.Table]:
        def read(path: str) -> pa.Table:
            with self.store.open_input(path) as source:
                return read_instants(source)

        with ThreadPoolExecutor(_READ_THREADS) as pool:
            tables = list(pool.map(read, self._files))
        return [pa.concat_tables(tables).sort_by([("instantTime", "ascending")])] if tables else []

    @cached_property
    def _completions(self) -> dict[str, str]:
        if self.config.layout < 2:
            return {}
        return {
            time: completed or time
            for table in self._lsm_instants
            for time, completed, action in zip(*(column.to_pylist() for column in table.columns), strict=True)
            if action in WRITES
        }

    def _lsm_commits(self, low: str, high: str) -> Iterator[ArchivedCommit]:
        for time, completed, action, payload in self._payloads(tuple(WRITES), low, high):
            yield ArchivedCommit(time, completed, action, parse_commit(payload))

    def _payloads(self, actions: tuple[str, ...], low: str, high: str) -> Iterator[tuple[str, str, str, bytes]]:
        """Metadata of archived instants of some actions in (low, high]; only files that hold such instants are opened
        for it."""
        wanted = [
            (time, completed or time)
            for table in self._lsm_instants
            for time, completed, action in zip(*(column.to_pylist() for column in table.columns), strict=True)
            if action in actions and _between(completed or time, low, high)
        ]
        if not wanted:
            return
        times = [time for time, _ in wanted]
        seen: set[tuple[str, str]] = set()
        for path in self._files:
            with self.store.open_input(path) as source:
                table = read_payloads(source, times)
            for time, completed, action, metadata, _ in zip(*(c.to_pylist() for c in table.columns), strict=True):
                if action in actions and metadata and (time, action) not in seen:
                    seen.add((time, action))
                    yield time, completed or time, action, metadata


def _between(order: str, low: str, high: str) -> bool:
    return order > low and (not high or order <= high)


def _rank(entry: ArchivedEntry) -> int:
    return _STATES.index(entry.state.lower()) if entry.state.lower() in _STATES else -1


def _commit_of(entry: ArchivedEntry) -> CommitMetadata:
    """An archived commit's metadata; replace commits have a field of their own, very old releases wrote JSON text."""
    metadata = entry.metadata()
    found = metadata.get("hoodieReplaceCommitMetadata") or metadata.get("hoodieCommitMetadata") or {}
    return commit_from(json.loads(found) if isinstance(found, str) else found)
