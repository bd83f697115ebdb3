"""What a rewrite of a table with a primary key compacts: which files of which buckets, and why the rest is left.

Rules: Paimon's CompactAction and CompactProcedure. The plan is the dry run: sizes afterwards are predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from lakebed.errors import UsageError, counted
from lakebed.formats.paimon.codec.manifest import DELETION_VECTORS, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, bucket_folder
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.read.keys import check_keys
from lakebed.formats.paimon.read.plan import deletion_files
from lakebed.formats.paimon.read.pruning import kept_entries
from lakebed.formats.paimon.read.split import DeletionFile
from lakebed.formats.paimon.rewrite.options import MAX_FILES
from lakebed.formats.paimon.rewrite.task import BucketCompactor, BucketTask
from lakebed.formats.paimon.rewrite.unit import Action, CompactionUnit
from lakebed.kernel import clock
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where, columns_of, parse_where
from lakebed.model.upkeep import RewriteGroup, Skipped

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompactionPlan(Generic[T]):
    """The tasks of a compaction (none for a dry run), what is said of each, and what is left."""

    tasks: tuple[T, ...]
    groups: tuple[RewriteGroup, ...]
    skipped: tuple[Skipped, ...]

    def up_to(self, most: int | None) -> CompactionPlan[T]:
        """The first groups of the plan that have at most so many files together; None: all of them. What is planned
        does not depend on it, so repeated calls do the same work. A group is never cut: its files are compacted as a
        whole or not at all."""
        if most is None:
            return self
        kept, waiting = first_groups([(group.what, group.files) for group in self.groups], most)
        return CompactionPlan(
            tuple(self.tasks[number] for number in kept if self.tasks),  # a dry run has none
            tuple(self.groups[number] for number in kept),
            (*waiting, *self.skipped),
        )


def plan_compaction(
    compactor: BucketCompactor, snapshot: Snapshot | None, where: Where, minor: bool, dry_run: bool = False
) -> CompactionPlan[BucketTask]:
    """Plan the compaction of the buckets of a snapshot: whole, or (`minor`) by the rules of a writer. With `dry_run`
    the plan has no tasks, and the files of one bucket are in memory at a time.

    `where` may name partition columns only, else UsageError.
    """
    schema, history = compactor.rules.schema, compactor.history
    stats = not dry_run or compactor.expiry is not None
    live, indexes = live_and_index_files(history.store, snapshot, stats=stats)
    chosen = in_partitions(_in_real_buckets(live), where, schema, history.store.location)
    check_keys(history, schema, chosen)
    tasks: list[BucketTask] = []
    groups: list[RewriteGroup] = []
    skipped: list[Skipped] = []
    for bucket in buckets_of(history.store, schema, compactor.rules.options.table, chosen, indexes):
        unit = bucket.unit(compactor, minor)
        if unit is None:
            skipped.append(Skipped(bucket.folder, _why_left(bucket, minor)))
            continue
        actions = compactor.rules.actions(unit, compactor.expired)
        if not actions:
            skipped.append(Skipped(bucket.folder, "its files are in their level already"))
            continue
        if not dry_run:
            tasks.append(bucket.task(unit))
        groups.append(
            _group(bucket, unit, actions, compactor.rules.options.at_level(unit.output_level).format.target_size)
        )
    return CompactionPlan(tuple(tasks), tuple(groups), tuple(skipped))


@dataclass(frozen=True, slots=True)
class LiveBucket:
    """The files of one bucket, with its deletion vectors as index files."""

    folder: str
    entries: tuple[ManifestEntry, ...]
    indexes: tuple[IndexManifestEntry, ...]

    def unit(self, compactor: BucketCompactor, minor: bool) -> CompactionUnit | None:
        """The compaction of this bucket; None if nothing is due."""
        files = [entry.file for entry in self.entries]
        if minor:
            return compactor.rules.picked(files, clock.now_ms())
        return compactor.rules.full(files, {*self.deletions()}, compactor.expired)

    def task(self, unit: CompactionUnit) -> BucketTask:
        """The task that compacts a unit of it."""
        first = self.entries[0]
        return BucketTask(
            first.partition, first.bucket, first.total_buckets, self.folder, unit, self.deletions(), self.indexes
        )

    def deletions(self) -> Mapping[str, DeletionFile]:
        """The deletion vectors of its files, by their names."""
        first = self.entries[0]
        return deletion_files(self.indexes).get((first.partition, first.bucket), {})


def buckets_of(
    store: Store,
    schema: TableSchema,
    options: Options,
    entries: Sequence[ManifestEntry],
    indexes: Sequence[IndexManifestEntry],
) -> Iterator[LiveBucket]:
    """Live files by bucket, in the order of their first files. Of `Entries` the values of one bucket are made at a
    time."""
    vectors: dict[tuple[bytes, int], list[IndexManifestEntry]] = {}
    for index in indexes:
        if index.index_type == DELETION_VECTORS:
            vectors.setdefault((index.partition, index.bucket), []).append(index)
    folders = PartitionFolders.of(store, schema, options)
    for place, of_bucket in _by_bucket(entries, folders):
        folder = bucket_folder(folders.of_row(place[0]), place[1])
        yield LiveBucket(folder, of_bucket, tuple(vectors.get(place, ())))


def _by_bucket(
    entries: Sequence[ManifestEntry], folders: PartitionFolders
) -> Iterator[tuple[tuple[bytes, int], tuple[ManifestEntry, ...]]]:
    """The entries of each bucket, given by its partition and number. The folders of all of them are looked up."""
    if isinstance(entries, Entries):
        if not len(entries):
            return
        buckets = entries.buckets
        folders.look(buckets.partitions)
        ordered = iter(entries.at(np.argsort(buckets.codes, kind="stable")))
        counts = np.bincount(buckets.codes).tolist()
        for partition, number, count in zip(buckets.partitions, buckets.numbers.tolist(), counts, strict=True):
            yield (partition, number), tuple(islice(ordered, count))
        return
    by_place: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        by_place.setdefault((entry.partition, entry.bucket), []).append(entry)
    folders.look(partition for partition, _ in by_place)
    yield from ((place, tuple(of_bucket)) for place, of_bucket in by_place.items())


def _in_real_buckets(entries: Sequence[ManifestEntry]) -> Sequence[ManifestEntry]:
    """The entries whose rows are not postponed."""
    if isinstance(entries, Entries):
        return entries.kept(entries.numbers("bucket") != POSTPONE_BUCKET)
    return [entry for entry in entries if entry.bucket != POSTPONE_BUCKET]


def in_partitions(
    entries: Sequence[ManifestEntry], where: Where, schema: TableSchema, table: str
) -> Sequence[ManifestEntry]:
    """The entries of the partitions that `where` picks. UsageError where it names another column."""
    predicate = parse_where(where, arrow_schema(schema.fields))
    outside = [name for name in columns_of(predicate) if name not in schema.partition_keys]
    if outside:
        raise UsageError(
            f"a rewrite takes whole partitions, but `where` names {', '.join(sorted(outside))}",
            table=table,
            todo=f"Partition columns: {', '.join(schema.partition_keys) or 'none'}",
        )
    return kept_entries(entries, predicate, schema)


def _group(bucket: LiveBucket, unit: CompactionUnit, actions: Sequence[Action], target: int) -> RewriteGroup:
    files = [file for action in actions for file in action.files]
    size = sum(file.file_size for file in files)
    after = 0
    for action in actions:
        bytes_ = sum(file.file_size for file in action.files)
        after += -(-bytes_ // target) if action.rewrites else len(action.files)
    levels = sorted({file.level for file in files})
    moved = sum(len(action.files) for action in actions if not action.rewrites)
    if len(files) == 1:
        what = f"1 file of level {levels[0]} goes to level {unit.output_level}"
        kept = ", and only changes its level" if moved else ""
    else:
        what = f"{len(files)} files of level {_spoken(levels)} go to level {unit.output_level}"
        kept = f", {moved} of them only change their level" if moved else ""
    reason = f"{unit.reason}: {what}{kept}"
    return RewriteGroup(bucket.folder, len(files), size, after, size, reason)


def first_groups(groups: Iterable[tuple[str, int]], most: int) -> tuple[list[int], list[Skipped]]:
    """The numbers of the first groups, each given by its name and how many files it has, with at most so many files
    together; and the others, which wait for another call."""
    left, kept, waiting = most, list[int](), list[Skipped]()
    for number, (what, files) in enumerate(groups):
        if files > left:
            waiting.append(Skipped(what, why_waiting(files, left, most)))
        else:
            left -= files
            kept.append(number)
    return kept, waiting


def why_waiting(files: int, left: int, most: int, cut: bool = False) -> str:
    """Why a group of so many files waits for another call: of `most` files in a call so many are left. `cut`: these
    are compacted now."""
    if files > most and not cut:
        return f"its {counted(files, 'file is', 'files are')} compacted together, and {MAX_FILES.key} is {most}"
    return f"{MAX_FILES.key}={most} leaves room for {left} of its {counted(files, 'file')}: run again"


def _why_left(bucket: LiveBucket, minor: bool) -> str:
    count = len(bucket.entries)
    if minor:
        return f"no rule of universal compaction takes {f'any of its {count} files' if count > 1 else 'its only file'}"
    files = f"its {count} files are all" if count > 1 else "its only file is"
    return f"{files} in the highest level, without deleted or expired rows"


def _spoken(levels: Sequence[int]) -> str:
    return f"{levels[0]}" if len(levels) == 1 else f"{levels[0]} to {levels[-1]}"
