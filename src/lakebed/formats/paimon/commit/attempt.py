"""One attempt at a snapshot: checked against the latest one, its manifests written, its name not yet claimed.

Rules: Paimon's FileStoreCommitImpl.tryCommitOnce.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import ADD, DELETE, HASH_INDEX, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.commit.conflicts import (
    buckets_of_others,
    check_age,
    check_conflicts,
    check_known,
    check_meanwhile,
    check_new_partitions,
    check_routes,
    check_vectors,
)
from lakebed.formats.paimon.commit.delta import Delta
from lakebed.formats.paimon.commit.kinds import ORIGIN, WRITES, NewSnapshot
from lakebed.formats.paimon.commit.manifest_merge import MergeSettings, NothingToMergeError
from lakebed.formats.paimon.commit.manifests import ManifestWriter
from lakebed.formats.paimon.commit.row_ids import with_row_ids
from lakebed.formats.paimon.layout import POSTPONE_BUCKET
from lakebed.formats.paimon.manifests import data_manifests, index_files, live_files
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel import clock
from lakebed.kernel.arrays import Bools, Int64s
from lakebed.kernel.options import Options


class Attempt:
    """The snapshot after `latest` (None: the table's first one). `delta` has the manifests of its changes, where they
    are the same in every attempt."""

    def __init__(
        self,
        history: History,
        schema: TableSchema,
        options: Options,
        new: NewSnapshot,
        latest: Snapshot | None,
        delta: Delta | None,
    ) -> None:
        self.latest, self._delta = latest, delta
        self.entries: tuple[ManifestEntry, ...] = ()
        self._history, self._schema, self._options, self._new = history, schema, options, new
        self._store = history.store
        types = [item.type for item in schema.project(schema.partition_keys)]
        settings = MergeSettings.of(options)
        if new.merges_manifests:
            settings = settings.of_a_rewrite
        self._writer = ManifestWriter(self._store, types, schema.id, settings)

    @property
    def written(self) -> Sequence[str]:
        """The metadata files of the attempt, without those of the delta."""
        return self._writer.written

    def write_metadata(self) -> Snapshot:
        """Write the manifests of the new snapshot: all but its own file. CommitConflictError when it may not follow the
        latest one, NothingToMergeError when it should merge manifests and there are none to merge."""
        self.entries, next_row = self._with_row_ids(self._entries())
        snapshot = self._snapshot(self.entries, next_row)
        self._writer.flush(self._delta.unwritten() if self._delta is not None else {})
        return snapshot

    def _entries(self) -> tuple[ManifestEntry, ...]:
        """The entries of the new delta, after the check that they may follow the latest snapshot."""
        new, latest = self._new, self.latest
        ours, replaced = new.changes.entries, new.replaced
        check_meanwhile(self._history, new, latest)
        unseen = not check_routes(self._history, new, self._schema, latest)
        now = buckets_of_others(self._history, new, self._schema, latest)
        checked = new.kind is not CommitKind.APPEND or new.check_appends or unseen or now is not None
        if latest is None or new.merges_manifests or not (checked or replaced):
            return ours
        touched = {entry.partition for entry in ours}

        def keep(partitions: Sequence[bytes], numbers: Int64s) -> Bools:
            wanted = [part in touched or (replaced is not None and replaced.covers(part)) for part in partitions]
            return np.array(wanted, np.bool_)

        live = live_files(self._store, latest, keep)
        if replaced is not None:
            dropped = self._dropped(live)
            check_age(dropped, replaced, self._store.location)
            return (*dropped, *ours)
        check_conflicts(live, ours, new.kind, self._schema, self._store.location)
        if now is not None:
            check_new_partitions(live, ours, now, self._store.location)
        check_known(live, new.changes.known, self._store.location)
        if self._options[opt.DELETION_VECTORS] and new.kind is CommitKind.COMPACT:
            indexes = index_files(self._store, latest)
            check_vectors(indexes, new.changes, self._store.location)
        return ours

    def _dropped(self, live: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """The deletes of an overwrite. Postponed rows stay where the table's own buckets are not postponed."""
        postponed, replaced = self._options[opt.BUCKET] == POSTPONE_BUCKET, self._new.replaced
        return [
            ManifestEntry(DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file)
            for entry in live
            if replaced is not None
            and replaced.covers(entry.partition)
            and (entry.bucket != POSTPONE_BUCKET or postponed)
        ]

    def _with_row_ids(self, entries: tuple[ManifestEntry, ...]) -> tuple[tuple[ManifestEntry, ...], int]:
        """With `row-tracking.enabled`: new files numbered on from the latest snapshot, and the next free row id."""
        latest = self.latest
        next_row = (latest.next_row_id or 0) if latest else 0
        if not self._options[opt.ROW_TRACKING]:
            return entries, next_row
        return with_row_ids(entries, (latest.id if latest else 0) + 1, next_row)

    def _snapshot(self, entries: tuple[ManifestEntry, ...], next_row: int) -> Snapshot:
        new, latest, writer = self._new, self.latest, self._writer
        previous = data_manifests(self._store, latest) if latest else []
        merged = writer.merged(previous)
        if new.merges_manifests and {meta.file_name for meta in merged} == {meta.file_name for meta in previous}:
            raise NothingToMergeError
        base, base_size = writer.manifest_list(merged)
        changelog = new.changes.changelog
        if self._delta is not None:
            (delta, delta_size), (changes, changes_size) = self._delta.files, self._delta.changelog
        else:
            delta, delta_size = writer.manifest_list(writer.manifests(entries))
            changes, changes_size = writer.manifest_list(writer.manifests(changelog)) if changelog else (None, None)
        rows = _row_count(entries)
        return Snapshot(
            id=(latest.id if latest else 0) + 1,
            schema_id=max(self._schema.id, latest.schema_id if latest else 0),  # the writer may be older
            base_manifest_list=base,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changes,
            changelog_manifest_list_size=changes_size,
            index_manifest=self._index_manifest(),
            commit_user=new.user,
            commit_identifier=new.identifier,
            commit_kind=new.kind,
            time_millis=max(clock.now_ms(), latest.time_millis if latest else 0),
            total_record_count=(latest.total_record_count if latest else 0) + rows,
            delta_record_count=rows,
            changelog_record_count=sum(entry.file.row_count for entry in changelog),
            watermark=_greatest(new.watermark, latest.watermark if latest else None),
            statistics=latest.statistics if latest else None,
            next_row_id=next_row,
            properties=_properties(new),
        )

    def _index_manifest(self) -> str | None:
        """The name of the new snapshot's index manifest: the latest one where no index changes, else a new full set."""
        added, removed = self._new.changes.new_indexes, self._new.changes.removed_indexes
        latest, replaced = self.latest, self._new.replaced
        if latest is not None and not added and not removed and replaced is None:
            return latest.index_manifest
        removed_names = {entry.file_name for entry in removed}
        rewritten = {(entry.partition, entry.bucket) for entry in added if entry.index_type == HASH_INDEX}
        kept = [
            entry
            for entry in index_files(self._store, latest)
            if entry.file_name not in removed_names
            and not (entry.index_type == HASH_INDEX and (entry.partition, entry.bucket) in rewritten)
            and not (replaced is not None and replaced.covers(entry.partition))
        ]
        return self._writer.index_manifest([*kept, *added])


def _properties(new: NewSnapshot) -> tuple[tuple[str, str], ...]:
    writes = ",".join(sorted(new.assigned_on.writes)) if new.assigned_on is not None else ""
    return tuple((key, text) for key, text in ((ORIGIN, new.origin), (WRITES, writes)) if text)


def _row_count(entries: Sequence[ManifestEntry]) -> int:
    return sum(entry.file.row_count if entry.kind == ADD else -entry.file.row_count for entry in entries)


def _greatest(*watermarks: int | None) -> int | None:
    return max((watermark for watermark in watermarks if watermark is not None), default=None)
