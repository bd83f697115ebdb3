"""The health of a Paimon table: its figures, rows that readers do not see, what slows reads, and what blocks upkeep.

This reads only metadata and listings. The thresholds are Paimon's own: `num-sorted-run.compaction-trigger` sorted runs
in a bucket, and `compaction.min.file-num` files below seven tenths of the target size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lakebed.errors import CorruptError, DataCleanedError, counted
from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import DELETION_VECTORS, HASH_INDEX, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.definition import bucket_mode
from lakebed.formats.paimon.expire.plan import Ends, Readers, Retention, RetentionPlanner, readers
from lakebed.formats.paimon.instants import iso_time
from lakebed.formats.paimon.journal import JOURNALS
from lakebed.formats.paimon.layout import MAIN_BRANCH, POSTPONE_BUCKET, branch_prefix, bucket_folder, named, numbered
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.pictures import SnapshotPictures, pictures_of_files
from lakebed.formats.paimon.read.plan import shows_level_0
from lakebed.formats.paimon.read.splits import skips_level_0
from lakebed.formats.paimon.rewrite.append_plan import not_rewritten
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.snapshot_files import EARLIEST, LATEST, was_removed
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.files import Listing
from lakebed.kernel.options import Options
from lakebed.model.fixes import Fix
from lakebed.model.pictures import Picture
from lakebed.model.report import Figure, Finding, Health, TableReport
from lakebed.model.upkeep import Blocker

_NAMED = 5
"""The most names that a finding lists."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The live files of one bucket. `folder` is its path in the table, and `missing` names those that are not there."""

    folder: str
    number: int
    entries: tuple[ManifestEntry, ...]
    missing: tuple[str, ...]

    @property
    def sorted_runs(self) -> int:
        """How many sorted runs a read merges: each file of level 0, and each higher level that has files."""
        levels = [entry.file.level for entry in self.entries]
        return levels.count(0) + len({level for level in levels if level > 0})


@dataclass(frozen=True, slots=True)
class Inspection:
    """The state of a table at one moment, as `inspect` read it."""

    history: History
    schema: TableSchema
    options: Options
    latest: Snapshot | None
    buckets: tuple[Bucket, ...]
    indexes: tuple[IndexManifestEntry, ...]
    retention: Retention | None
    readers: Readers
    listed: _Listed
    removed: int | None
    now: int

    def report(self) -> TableReport:
        """The report on this state."""
        findings = (
            *self._missing(),
            *self._taken_away(),
            *self._invisible(),
            *self._small(),
            *self._runs(),
            *self._upkeep(),
        )
        holds = self.retention.holds if self.retention else ()
        blockers = tuple(Blocker(str(hold.first), hold.reason, hold.remedy) for hold in holds if hold.remedy)
        return TableReport(
            self.history.store.location,
            "paimon",
            self._figures(),
            findings,
            blockers,
            self._drawn(),
            self.now,
            SnapshotPictures(
                self.history, tuple(self.listed.ids), {hold.first: hold.reason for hold in holds if hold.remedy}
            ),
        )

    def _drawn(self) -> tuple[Picture, ...]:
        buckets = {bucket.folder: bucket.entries for bucket in self.buckets}
        target, has_key = self._target, bool(self.schema.primary_keys)
        pictures = pictures_of_files(buckets, target, target // 10 * 7, has_key, self.now)
        return tuple(picture for picture in pictures if picture is not None)

    @property
    def _expirable(self) -> int:
        """How many snapshots may expire."""
        return self.retention.end - self.retention.earliest if self.retention else 0

    # ---- figures ----

    def _figures(self) -> dict[str, dict[str, Figure]]:
        return {"table": self._table(), "snapshots": self._snapshots(), "files": self._files()}

    def _table(self) -> dict[str, Figure]:
        schema, options = self.schema, self.options
        return {
            "bucket mode": str(bucket_mode(schema, options)),
            "bucket": options[opt.BUCKET],
            "primary key": ", ".join(schema.primary_keys),
            "partition by": ", ".join(schema.partition_keys),
            "merge engine": options[opt.MERGE_ENGINE] if schema.primary_keys else None,
            "schema": schema.id,
            "branch": self.history.branch,
            "branches": ", ".join(named(self.listed.branches.folders, "branch")),
        }

    def _snapshots(self) -> dict[str, Figure]:
        ids, latest = self.listed.ids, self.latest
        stale = named((path.rpartition("/")[2] for path in self.readers.stale), "consumer")
        return {
            "snapshots": len(ids),
            "earliest": ids[0] if ids else None,
            "latest": latest.id if latest else None,
            "latest time": iso_time(latest.time_millis) if latest else None,
            "latest kind": str(latest.commit_kind).lower() if latest else None,
            "may expire": self._expirable,
            "tags": ", ".join(named(self.listed.tags.names, "tag")),
            "consumers": ", ".join(sorted([*self.readers.consumers, *stale])),
            "rows in files": latest.total_record_count if latest else 0,
        }

    def _files(self) -> dict[str, Figure]:
        counts = [len(bucket.entries) for bucket in self.buckets]
        entries = [entry for bucket in self.buckets for entry in bucket.entries]
        kinds = Counter(entry.index_type for entry in self.indexes)
        return {
            "files": len(entries),
            "bytes": sum(entry.file.file_size for entry in entries),
            "partitions": len({entry.partition for entry in entries}),
            "buckets": len(self.buckets),
            "most files of a bucket": max(counts, default=0),
            "level 0 files": sum(entry.file.level == 0 for entry in entries) if self.schema.primary_keys else None,
            "small files": sum(map(self._is_small, entries)),
            "postponed files": sum(entry.bucket == POSTPONE_BUCKET for entry in entries),
            "postponed rows": sum(entry.file.row_count for entry in entries if entry.bucket == POSTPONE_BUCKET),
            "hash index files": kinds[HASH_INDEX],
            "deletion vector files": kinds[DELETION_VECTORS],
        }

    @property
    def _target(self) -> int:
        """The size that files should have."""
        return self.options[opt.TARGET_FILE_SIZE] or (128 << 20 if self.schema.primary_keys else 256 << 20)

    def _is_small(self, entry: ManifestEntry) -> bool:
        return entry.file.file_size < self._target // 10 * 7

    # ---- findings ----

    def _fix(self, verb: str) -> Fix:
        branch = self.history.branch
        return Fix(verb, opening=(("branch", branch),) if branch != MAIN_BRANCH else ())

    def _missing(self) -> Iterator[Finding]:
        missing = [f"{bucket.folder}/{name}" for bucket in self.buckets for name in bucket.missing]
        if missing:
            of = "of the newest snapshot"
            gone = counted(len(missing), f"data file {of} is", f"data files {of} are")
            yield Finding(
                Health.BROKEN,
                f"{gone} missing: {_name_first(missing)}",
                "reads of their buckets fail",
                "Restore them, or roll the table back to a snapshot whose files are all there",
            )
        strays = [*self.listed.strays()]
        if strays:
            files = counted(len(strays), "foreign file is", "foreign files are")
            yield Finding(
                Health.ATTENTION,
                f"{files} among the metadata: {_name_first(strays)}",
                "a writer that was killed left them, and Paimon's own engine fails on some of them",
                "Remove them while no writer is running",
            )

    def _taken_away(self) -> Iterator[Finding]:
        """Snapshots that somebody removed by hand: an expiry takes the oldest ones, and a rollback moves LATEST."""
        ids, removed = self.listed.ids, self.removed
        if removed is not None:
            yield Finding(
                Health.BROKEN,
                was_removed(removed, ids[-1] if ids else None),
                "reads do not see what it committed, and the next commit takes its number",
                f"Restore snapshot/snapshot-{removed}. Where that is meant, table.rollback(to) makes it so",
            )
        gaps = [(before + 1, after - 1) for before, after in pairwise(ids) if after > before + 1]
        if gaps:
            missing = counted(sum(last - first + 1 for first, last in gaps), "snapshot is", "snapshots are")
            names = [f"{first} to {last}" if last > first else str(first) for first, last in gaps]
            yield Finding(
                Health.ATTENTION,
                f"{missing} missing between others: {', '.join(names[:_NAMED])}",
                "changes of that range cannot be read; an expiry takes the oldest ones only",
                "Restore their files, or expire the snapshots before them",
            )

    def _invisible(self) -> Iterator[Finding]:
        waiting = [bucket for bucket in self.buckets if bucket.number == POSTPONE_BUCKET]
        if waiting:
            rows = sum(entry.file.row_count for bucket in waiting for entry in bucket.entries)
            where = counted(len(waiting), "partition")
            yield Finding(
                Health.ATTENTION,
                counted(rows, f"row in {where} is", f"rows in {where} are") + " in postponed buckets",
                "batch reads do not see them until a compaction",
                "table.rewrite()",
                self._fix("rewrite"),
            )
        if skips_level_0(self.schema, self.options) and not shows_level_0(self.options):
            entries = [e for bucket in self.buckets for e in bucket.entries if e.file.level == 0 and e.bucket >= 0]
            if entries:
                hidden = counted(sum(e.file.row_count for e in entries), "row is", "rows are")
                yield Finding(
                    Health.ATTENTION,
                    f"{hidden} in {counted(len(entries), 'file')} of level 0",
                    "batch reads of tables with deletion vectors or merge-engine first-row do not see them",
                    "table.rewrite()",
                    self._fix("rewrite"),
                )

    def _runs(self) -> Iterator[Finding]:
        if not self.schema.primary_keys:
            return
        trigger = self.options[compaction.COMPACTION_TRIGGER]
        to_compact = [b for b in self.buckets if b.number != POSTPONE_BUCKET and b.sorted_runs >= trigger]
        if to_compact:
            worst = max(to_compact, key=lambda bucket: bucket.sorted_runs)
            has = counted(len(to_compact), "bucket has", "buckets have")
            yield Finding(
                Health.ATTENTION,
                f"{has} {trigger} sorted runs or more; {worst.folder} has {worst.sorted_runs}",
                f"each read merges them ({compaction.COMPACTION_TRIGGER.key})",
                "table.rewrite()",
                self._fix("rewrite"),
            )

    def _small(self) -> Iterator[Finding]:
        if self.schema.primary_keys:
            return
        least = self.options[opt.COMPACTION_MIN_FILES]
        with_small_files = [bucket for bucket in self.buckets if sum(map(self._is_small, bucket.entries)) >= least]
        if with_small_files:
            files = sum(self._is_small(entry) for bucket in with_small_files for entry in bucket.entries)
            yield Finding(
                Health.ATTENTION,
                f"{counted(files, 'small file')} in {counted(len(with_small_files), 'bucket')}",
                f"each read opens them; {least} in a bucket justify a compaction ({opt.COMPACTION_MIN_FILES.key})",
                "Compact it with Paimon's own engine" if not_rewritten(self.options) else "table.rewrite()",
                None if not_rewritten(self.options) else self._fix("rewrite"),
            )

    def _upkeep(self) -> Iterator[Finding]:
        if self._expirable:
            yield Finding(
                Health.ATTENTION,
                f"{counted(self._expirable, 'snapshot')} may expire",
                "they and files that only they need stay until the next commit that is not write-only",
                "table.expire()",
                self._fix("expire"),
            )
        newest = self.latest.id if self.latest else 0
        for name, seen in self.readers.ledgers.items():
            if seen < newest:
                yield Finding(
                    Health.ATTENTION,
                    f"callback {name} was not called for the snapshots after {seen}",
                    "its calls failed, or the writer died before them; other writers' commits do not call it",
                    f"Commit with the callback, or remove .lakebed/callbacks/{name} if you no longer use it",
                )
        if self.listed.journals.files:
            yield Finding(
                Health.ATTENTION,
                f"{len(self.listed.journals.files)} expiries did not finish",
                "they left files that nothing needs",
                "table.expire()",
                self._fix("expire"),
            )


def inspect(history: History, options_of: Callable[[TableSchema], Options]) -> TableReport:
    """Report on one branch of a table, by the options that hold for a schema.

    For a table whose metadata cannot be read, the one finding says so. Raises TableNotFoundError for a branch that is
    not there.
    """
    try:
        return _inspection(history, options_of).report()
    except (CorruptError, DataCleanedError) as error:
        what, why = f"the newest snapshot cannot be read: {error.what} {error.file}".strip(), error.why
        return TableReport(
            history.store.location,
            "paimon",
            {},
            (Finding(Health.BROKEN, what, why, error.todo or "Roll the table back to an older snapshot"),),
        )


@looks_again
def _inspection(history: History, options_of: Callable[[TableSchema], Options]) -> Inspection:
    """The state of a table. What does not depend on each other is read together."""
    store, now = history.store, clock.now_ms()
    prefix = branch_prefix(history.branch)
    folders = (f"{prefix}snapshot", f"{prefix}schema", f"{prefix}tag", "branch", JOURNALS)
    listed = _Listed(*store.list_many(folders))
    schema = history.latest_schema(listed.schemas)
    options = options_of(schema)
    looks: tuple[Callable[[], Any], ...] = (
        lambda: _ends(history, listed.ids),
        lambda: readers(history, options, now),
        lambda: history.removed_after(max(listed.ids, default=0)),
    )
    ends, seen, removed = store.together(lambda look: look(), looks)
    looks = (
        lambda: live_and_index_files(store, ends[1] if ends else None),
        lambda: RetentionPlanner(history, options).plan(now, ends, lambda: seen),
    )
    (live, indexes), retention = store.together(lambda look: look(), looks)
    buckets = tuple(_buckets(live, PartitionFolders.of(store, schema, options)))
    latest = ends[1] if ends else None
    return Inspection(history, schema, options, latest, buckets, tuple(indexes), retention, seen, listed, removed, now)


def _ends(history: History, ids: Sequence[int]) -> Ends | None:
    """The oldest and the newest snapshot. DataCleanedError when one of them is gone."""
    if not ids:
        return None
    earliest, latest = history.find_many((ids[0], ids[-1]))
    if earliest is None or latest is None:
        raise DataCleanedError(
            "a snapshot is gone", table=history.store.location, why="it has expired or was rolled back since"
        )
    return earliest, latest


def _buckets(live: Sequence[ManifestEntry], folders: PartitionFolders) -> Iterator[Bucket]:
    grouped: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in live:
        grouped.setdefault((entry.partition, entry.bucket), []).append(entry)
    folders.look(partition for partition, _ in grouped)
    paths = [bucket_folder(folders.of_row(partition), number) for partition, number in grouped]
    listings = folders.store.list_many(paths)
    for (_, number), entries, path, listing in zip(grouped, grouped.values(), paths, listings, strict=True):
        names = set(listing.names)
        missing = tuple(entry.file.file_name for entry in entries if entry.file.file_name not in names)
        yield Bucket(path, number, tuple(entries), missing)


@dataclass(frozen=True, slots=True)
class _Listed:
    """The listings of a branch's folders of metadata, of the branches, and of unfinished expiries."""

    snapshots: Listing
    schemas: Listing
    tags: Listing
    branches: Listing
    journals: Listing

    @property
    def ids(self) -> list[int]:
        """The ids of all snapshots, ascending."""
        return numbered(self.snapshots.names, "snapshot")

    def strays(self) -> Iterator[str]:
        """The paths of foreign files in the folders of snapshots, schemas and tags."""
        for kind, listing in (("snapshot", self.snapshots), ("schema", self.schemas), ("tag", self.tags)):
            for info in listing.files:
                prefix, _, rest = info.name.partition("-")
                is_ours = prefix == kind and (rest.isdigit() if kind != "tag" else "#" not in rest)
                if not is_ours and info.name not in (LATEST, EARLIEST):
                    yield info.path


def _name_first(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(sorted(names)[:_NAMED]) + more
