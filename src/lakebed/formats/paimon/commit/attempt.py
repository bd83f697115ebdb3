"""One snapshot on its way: manifests written, the name claimed, and again when the race is lost.

Rules: Paimon's FileStoreCommitImpl.tryCommitOnce.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lakebed.errors import (
    CommitConflictError,
    CommitUnknownError,
    DataCleanedError,
    NotInHistoryError,
    NotWrittenError,
    StorageError,
)
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import (
    ADD,
    DELETE,
    HASH_INDEX,
    IndexManifestEntry,
    ManifestEntry,
)
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.commit.claim import claim_snapshot, write_hints
from lakebed.formats.paimon.commit.conflicts import check_conflicts, check_rows, check_vectors
from lakebed.formats.paimon.commit.manifests import ManifestWriter, MergeSettings
from lakebed.formats.paimon.commit.overwrite import Replaced
from lakebed.formats.paimon.layout import POSTPONE_BUCKET
from lakebed.formats.paimon.manifests import data_manifests, entries_of, index_files, live_files, manifest_metas
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel import clock
from lakebed.kernel.commit.retry import Lost, RetryPolicy, Won, with_retries
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.options import Options


@dataclass(frozen=True, slots=True)
class Changes:
    """What one snapshot changes: data files, changelog files, and index files added and removed."""

    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    new_indexes: tuple[IndexManifestEntry, ...] = ()
    removed_indexes: tuple[IndexManifestEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """What dynamic buckets were assigned on: a snapshot id, and the partitions that matter (None: all)."""

    snapshot: int
    partitions: frozenset[bytes] | None


@dataclass(slots=True)
class SnapshotAttempt:
    """Commits `changes` as one snapshot of `user`, `identifier` and `kind`; `replaced` says what an overwrite
    removes."""

    store: Store
    history: History
    schema: TableSchema
    options: Options
    user: str
    identifier: int
    kind: CommitKind
    changes: Changes
    replaced: Replaced | None = None
    planned: Planned | None = None
    check_appends: bool = False
    rows_since: int | None = None
    last_safe: int | None = None
    _first_seen: int | None = None

    def run(self) -> Snapshot:
        """The snapshot, once it is there. CommitConflictError and CommitUnknownError as their names say."""
        seconds = self.options[opt.COMMIT_TIMEOUT]
        policy = RetryPolicy(
            self.options[opt.COMMIT_MAX_RETRIES],
            self.options[opt.COMMIT_MIN_WAIT] / 1000,
            self.options[opt.COMMIT_MAX_WAIT] / 1000,
            None if seconds is None else seconds / 1000,
        )
        return with_retries(self._try, policy, self.store.location)

    def _try(self, number: int) -> Won[Snapshot] | Lost:
        latest = self.history.latest()
        if number == 0:
            self._first_seen = latest.id if latest else 0
        else:
            landed = self._landed()
            if landed is not None:
                return Won(landed)
        try:
            return self._try_after(latest)
        except DataCleanedError:
            if latest is None or (self.history.latest_id() or 0) <= latest.id:
                raise
            return Lost(f"snapshot {latest.id}, on which it was based, expired meanwhile")

    def _try_after(self, latest: Snapshot | None) -> Won[Snapshot] | Lost:
        entries, next_row = self._with_row_ids(self._entries(latest), latest)
        types = [item.type for item in self.schema.project(self.schema.partition_keys)]
        writer = ManifestWriter(self.store, types, self.schema.id, self._settings())
        try:
            snapshot = self._write_metadata(latest, entries, next_row, writer)
            writer.flush()
        except Exception:
            self._remove(writer.written)
            raise
        return self._claim(snapshot, latest, writer)

    def _landed(self) -> Snapshot | None:
        """Our own snapshot among those since the first try: an earlier put landed although it seemed not to."""
        for snapshot in self.history.backwards(self._first_seen or 0):
            if (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == (
                self.user,
                self.identifier,
                self.kind,
            ):
                return snapshot
        return None

    def _entries(self, latest: Snapshot | None) -> tuple[ManifestEntry, ...]:
        """The entries of the new delta, after the check that they may follow the latest snapshot."""
        ours = self.changes.entries
        self._check_assignment()
        self._check_rows(latest)
        self._check_strictly()
        checked = self.kind is not CommitKind.APPEND or self.check_appends
        if latest is None or not (checked or self.replaced):
            return ours
        touched = {entry.partition for entry in ours}
        live = live_files(
            self.store,
            latest,
            keep=lambda e: e.partition in touched or (self.replaced is not None and self.replaced.covers(e.partition)),
        )
        if self.replaced is not None:
            return (*self._dropped(live), *ours)
        check_conflicts(live, ours, self.kind, self.schema, self.store.location)
        if self.options[opt.DELETION_VECTORS] and self.kind is CommitKind.COMPACT:
            indexes = index_files(self.store, latest)
            check_vectors(indexes, self.changes.removed_indexes, ours, self.store.location)
        return ours

    def _with_row_ids(
        self, entries: tuple[ManifestEntry, ...], latest: Snapshot | None
    ) -> tuple[tuple[ManifestEntry, ...], int]:
        """With `row-tracking.enabled`: new files numbered on from the latest snapshot, and the next free row id."""
        next_row = (latest.next_row_id or 0) if latest else 0
        if not self.options[opt.ROW_TRACKING]:
            return entries, next_row
        number = (latest.id if latest else 0) + 1
        made: list[ManifestEntry] = []
        for entry in entries:
            if entry.kind == ADD and entry.file.first_row_id is None:
                file = replace(
                    entry.file, first_row_id=next_row, min_sequence_number=number, max_sequence_number=number
                )
                entry = replace(entry, file=file)
                next_row += file.row_count
            made.append(entry)
        return tuple(made), next_row

    def _check_assignment(self) -> None:
        """Dynamic buckets stand only while no other writer has added rows since they were assigned: its keys may be
        ours."""
        if self.planned is None:
            return
        for snapshot in self._since(self.planned.snapshot, "the dynamic buckets were assigned"):
            if snapshot.commit_user == self.user or snapshot.commit_kind is CommitKind.COMPACT:
                continue
            metas = manifest_metas(self.store, snapshot.delta_manifest_list)
            partitions = {entry.partition for entry in entries_of(self.store, metas)}
            if self.planned.partitions is None or partitions & self.planned.partitions:
                raise CommitConflictError(
                    "another job wrote to the same dynamic buckets",
                    table=self.store.location,
                    instant=str(snapshot.id),
                    why="both may have put one key into different buckets",
                    todo="Nothing of this commit is visible. Write the rows again; let one job at a time write "
                    "this table",
                )

    def _check_rows(self, latest: Snapshot | None) -> None:
        """The row ids that this commit changes were changed by nobody else since `rows_since`."""
        if self.rows_since is None or latest is None:
            return
        for snapshot in self._since(self.rows_since, "the rows with these ids were read"):
            theirs = entries_of(self.store, manifest_metas(self.store, snapshot.delta_manifest_list))
            check_rows(theirs, self.changes.entries, snapshot.id, self.store.location)

    def _check_strictly(self) -> None:
        """`commit.strict-mode.last-safe-snapshot`: since then no other user compacted, overwrote, or wrote to real
        buckets."""
        if self.last_safe is None or self.last_safe < 0:
            return
        for snapshot in self._since(self.last_safe, f"the last safe one of {opt.LAST_SAFE_SNAPSHOT.key}"):
            if snapshot.commit_user == self.user:
                continue
            metas = manifest_metas(self.store, snapshot.delta_manifest_list)
            appends = snapshot.commit_kind is CommitKind.APPEND
            if not appends or any(entry.bucket >= 0 for entry in entries_of(self.store, metas)):
                raise CommitConflictError(
                    "another job has changed the table", table=self.store.location, instant=str(snapshot.id),
                    why=f"it made a snapshot of kind {snapshot.commit_kind} after snapshot {self.last_safe}, the last "
                    f"safe one of {opt.LAST_SAFE_SNAPSHOT.key}",
                    todo="Nothing of this commit is visible. See what the other job did, then write anew",
                )  # fmt: skip

    def _since(self, snapshot: int, what: str) -> Iterator[Snapshot]:
        """The snapshots after one, newest first. CommitConflictError when one of them cannot be looked at any more:
        what it changed may be what this commit changes."""
        try:
            yield from self.history.since(snapshot)
        except NotInHistoryError as error:
            raise CommitConflictError(
                "what other jobs committed meanwhile cannot be checked", table=self.store.location,
                instant=error.instant, why=f"{error.what}, and it came after snapshot {snapshot} ({what}): {error.why}",
                todo="Nothing of this commit is visible. Write the rows again, and keep snapshots longer than a write "
                f"takes ({opt.SNAPSHOT_TIME.key})",
            ) from error  # fmt: skip

    def _dropped(self, live: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        postponed = self.options[opt.BUCKET] == POSTPONE_BUCKET
        return [
            ManifestEntry(DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file)
            for entry in live
            if self.replaced is not None
            and self.replaced.covers(entry.partition)
            and (entry.bucket != POSTPONE_BUCKET or postponed)
        ]

    def _write_metadata(
        self, latest: Snapshot | None, entries: tuple[ManifestEntry, ...], next_row: int, writer: ManifestWriter
    ) -> Snapshot:
        previous = data_manifests(self.store, latest) if latest else []
        base, base_size = writer.manifest_list(writer.merged(previous))
        delta, delta_size = writer.manifest_list(writer.manifests(entries))
        changelog = self.changes.changelog
        changes, changes_size = writer.manifest_list(writer.manifests(changelog)) if changelog else (None, None)
        rows = _row_count(entries)
        return Snapshot(
            id=(latest.id if latest else 0) + 1,
            schema_id=self.schema.id,
            base_manifest_list=base,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changes,
            changelog_manifest_list_size=changes_size,
            index_manifest=self._index_manifest(latest, writer),
            commit_user=self.user,
            commit_identifier=self.identifier,
            commit_kind=self.kind,
            time_millis=max(clock.now_ms(), latest.time_millis if latest else 0),
            total_record_count=(latest.total_record_count if latest else 0) + rows,
            delta_record_count=rows,
            changelog_record_count=sum(entry.file.row_count for entry in changelog),
            watermark=latest.watermark if latest else None,
            statistics=latest.statistics if latest else None,
            next_row_id=next_row,
        )

    def _index_manifest(self, latest: Snapshot | None, writer: ManifestWriter) -> str | None:
        """The index manifest of the new snapshot: the old one as it is, or a new full set."""
        new, removed, replaced = self.changes.new_indexes, self.changes.removed_indexes, self.replaced
        if latest is not None and not new and not removed and replaced is None:
            return latest.index_manifest
        gone = {entry.file_name for entry in removed}
        anew = {(entry.partition, entry.bucket) for entry in new if entry.index_type == HASH_INDEX}
        kept = [
            entry
            for entry in index_files(self.store, latest)
            if entry.file_name not in gone
            and not (entry.index_type == HASH_INDEX and (entry.partition, entry.bucket) in anew)
            and not (replaced is not None and replaced.covers(entry.partition))
        ]
        return writer.index_manifest([*kept, *new])

    def _claim(self, snapshot: Snapshot, latest: Snapshot | None, writer: ManifestWriter) -> Won[Snapshot] | Lost:
        try:
            outcome = claim_snapshot(self.store, self.history.branch, snapshot)
        except NotWrittenError:
            self._remove(writer.written)
            raise
        if outcome is PutOutcome.UNKNOWN:
            outcome = self._see(snapshot)
        if outcome is PutOutcome.CREATED:
            write_hints(self.store, self.history.branch, snapshot.id, first=latest is None)
            return Won(snapshot)
        self._remove(writer.written)
        return Lost(f"snapshot {snapshot.id} was taken by another writer")

    def _see(self, snapshot: Snapshot) -> PutOutcome:
        """What became of a put that the store does not vouch for: look for the name; when nothing can be seen,
        CommitUnknownError."""
        with suppress(StorageError):
            found = self.history.find(snapshot.id)
            if found is not None:
                return (
                    PutOutcome.CREATED
                    if found.delta_manifest_list == snapshot.delta_manifest_list
                    else PutOutcome.EXISTS
                )
        raise CommitUnknownError(
            f"the store does not say whether snapshot {snapshot.id} was written",
            table=self.store.location,
            instant=str(snapshot.id),
            why="its put failed, and the file cannot be seen; all files of the commit are kept",
            todo=f"Commit the same messages again as user {self.user} and identifier {self.identifier} "
            f"(filter_and_commit): "
            "they are committed once, whatever has become of this try",
        )

    def _remove(self, paths: Sequence[str]) -> None:
        """Metadata files of a try that certainly did not land; what cannot be removed is left for orphan cleaning."""
        with suppress(StorageError):
            self.store.delete_many(paths)

    def _settings(self) -> MergeSettings:
        options = self.options
        return MergeSettings(
            options[opt.MANIFEST_TARGET_SIZE], options[opt.MANIFEST_MERGE_COUNT], options[opt.MANIFEST_FULL_SIZE]
        )


def _row_count(entries: Sequence[ManifestEntry]) -> int:
    return sum(entry.file.row_count if entry.kind == ADD else -entry.file.row_count for entry in entries)
