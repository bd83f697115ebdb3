"""Rows moved into another number of buckets: one COMPACT commit replaces the files of whole partitions.

Rules: Paimon's RescaleProcedure. Paimon overwrites the partitions. Here the commit is a compaction: streams take no row
for new, and a writer that appended meanwhile is a conflict, since all files of a partition have one number of buckets.
Postponed rows stay postponed. Buckets of a table with a primary key are compacted whole. Where compactions write the
changelog, the old buckets are compacted first, in a commit of its own, so that streams hear of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.errors import CommitConflictError, UnsupportedError, UsageError, counted
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import SOURCE_COMPACT, DataFileMeta, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.leftovers import remove_files
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.read.keys import check_keys
from lakebed.formats.paimon.read.plan import ReadRequest, deletion_files, plan_files
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.formats.paimon.rewrite.full_compaction import FullCompaction
from lakebed.formats.paimon.rewrite.levels import number_of_levels
from lakebed.formats.paimon.rewrite.plan import CompactionPlan, LiveBucket, buckets_of, in_partitions, plan_compaction
from lakebed.formats.paimon.rewrite.task import BucketCompactor, BucketTask
from lakebed.formats.paimon.rewrite.unit import CompactionRules
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.assigners import DirectAssigner
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.state import WriteState
from lakebed.formats.paimon.write.task import PaimonTaskWriter, TaskTarget
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where
from lakebed.kernel.rows.row_kinds import RowKindRule
from lakebed.model.upkeep import RewriteGroup, Skipped


@dataclass(frozen=True, slots=True)
class RescaleTask:
    """What one task moves: the buckets of one partition, and its rows as splits."""

    folder: str
    buckets: tuple[LiveBucket, ...]
    splits: tuple[PaimonSplit, ...]


@dataclass(frozen=True, slots=True)
class Rescaler:
    """Writes partitions anew with another number of buckets. Picklable."""

    history: History
    target: TaskTarget
    reader: BucketReader

    @classmethod
    def of(cls, history: History, schema: TableSchema, options: Options, user: str) -> Rescaler:
        """By the options of the table, of which `bucket` is the new number. No change is written anywhere."""
        silent = opt.table_options(options.raw, {opt.CHANGELOG_PRODUCER.key: "none"})
        target = TaskTarget(history.store, schema, WriteOptions.of(schema, silent), RowKindRule(), WriteState(), user)
        return cls(history, target, ReadRequest(history, schema, options, tuple(schema.names)).reader)

    def __call__(self, task: RescaleTask) -> tuple[PaimonMessage, ...]:
        """Move the rows of a partition. What it wrote is removed when it fails."""
        target = self.target
        writer = PaimonTaskWriter(target, DirectAssigner(target.router))
        whole = arrow_schema(target.schema.fields)
        try:
            for split in task.splits:
                for batch in self.reader(split):
                    writer.hold(pa.Table.from_batches([batch]).cast(whole), None)
            written = writer.finish()
        except BaseException:
            writer.abort()
            raise
        try:
            return (*map(self._replaced, task.buckets), *map(self._compacted, written))
        except BaseException:
            remove_files(target.store, written)
            raise

    def _compacted(self, message: PaimonMessage) -> PaimonMessage:
        """What a writer wrote of a bucket, as the result of a compaction."""
        if not self.target.schema.primary_keys:
            files = tuple(replace(file, file_source=SOURCE_COMPACT) for file in message.new_files)
            return replace(message, new_files=(), compact_after=files)
        compactor = BucketCompactor.of(self.history, CompactionRules.of(self.target.schema, self.target.options))
        done = FullCompaction(compactor, (), ())(message)
        return replace(done, new_files=(), compact_after=(*done.compact_after, *done.new_files), compact_known=None)

    @staticmethod
    def _replaced(bucket: LiveBucket) -> PaimonMessage:
        """A bucket that goes."""
        first = bucket.entries[0]
        return PaimonMessage(
            first.partition,
            first.bucket,
            first.total_buckets,
            bucket.folder,
            compact_before=tuple(entry.file for entry in bucket.entries),
            compact_deleted_index_files=bucket.indexes,
        )


def plan_rescale(
    history: History, schema: TableSchema, options: Options, snapshot: Snapshot | None, where: Where, dry_run: bool
) -> CompactionPlan[RescaleTask]:
    """Plan what has another number of buckets than the option `bucket`. `where` may name partition columns only.

    Raises UnsupportedError where the table has no fixed buckets, UsageError where no writer would go on with the new
    number, and unless it is a dry run CommitConflictError where rows came that no changelog tells of yet.
    """
    table, number = history.store.location, options[opt.BUCKET]
    live, indexes = live_and_index_files(history.store, snapshot)
    real = [entry for entry in live if entry.bucket >= 0]
    chosen = in_partitions(real, where, schema, table)
    check_keys(history, schema, chosen)
    _check(schema, number, real, chosen, table)
    plan = plan_files(
        ReadRequest(history, schema, options, tuple(schema.names)),
        [entry for entry in chosen if entry.total_buckets != number],
        deletion_files(indexes),
    )
    partitions: dict[bytes, _Partition] = {}
    for bucket in buckets_of(history.store, schema, options, chosen, indexes):
        partitions.setdefault(bucket.entries[0].partition, _Partition()).buckets.append(bucket)
    for split in plan.splits:
        partitions[split.partition].splits.append(split)
    tasks: list[RescaleTask] = []
    groups: list[RewriteGroup] = []
    skipped: list[Skipped] = []
    folders = PartitionFolders.of(history.store, schema, options)
    folders.look(partitions)
    for key, partition in partitions.items():
        folder = folders.of_row(key).rstrip("/") or "the table"
        files = [entry.file for bucket in partition.buckets for entry in bucket.entries]
        old = partition.buckets[0].entries[0].total_buckets
        if old == number:
            skipped.append(Skipped(folder, f"it has {counted(number, 'bucket')}"))
            continue
        size = sum(file.file_size for file in files)
        reason = f"its rows move from {counted(old, 'bucket')} to {number}"
        untold = _untold(options, files) if schema.primary_keys else 0
        if untold and not dry_run:
            raise CommitConflictError(
                f"other writers added {counted(untold, 'file')} to {folder}",
                table=table,
                why="no changelog tells of their rows yet",
                todo="Rewrite again",
            )
        reason += ", after a full compaction that writes their changelog" if untold else ""
        groups.append(RewriteGroup(folder, len(files), size, number, size, reason))
        tasks.append(RescaleTask(folder, tuple(partition.buckets), tuple(partition.splits)))
    return CompactionPlan(tuple(tasks), tuple(groups), tuple(skipped))


def plan_telling(compactor: BucketCompactor, snapshot: Snapshot | None, where: Where) -> CompactionPlan[BucketTask]:
    """Plan the full compaction of the buckets that will move and have rows of which no changelog tells yet."""
    options = compactor.rules.options.table
    plan = plan_compaction(compactor, snapshot, where, minor=False)
    chosen = [
        (task, group)
        for task, group in zip(plan.tasks, plan.groups, strict=True)
        if task.total_buckets != options[opt.BUCKET] and _untold(options, task.unit.files)
    ]
    return CompactionPlan(tuple(task for task, _ in chosen), tuple(group for _, group in chosen), ())


def _untold(options: Options, files: Sequence[DataFileMeta]) -> int:
    """How many files wait for a compaction to write their changelog."""
    producer = options[opt.CHANGELOG_PRODUCER]
    if producer == "lookup":
        return sum(file.level == 0 for file in files)
    top = number_of_levels(options, files) - 1
    return sum(file.level < top for file in files) if producer == "full-compaction" else 0


@dataclass(slots=True)
class _Partition:
    buckets: list[LiveBucket] = field(default_factory=list)
    splits: list[PaimonSplit] = field(default_factory=list)


def _check(
    schema: TableSchema, number: int, real: Sequence[ManifestEntry], chosen: Sequence[ManifestEntry], table: str
) -> None:
    stored = opt.table_options(schema.options)[opt.BUCKET]
    if number < 1 or stored == -1 or any(entry.total_buckets < 1 for entry in chosen):
        raise UnsupportedError(
            f"rows cannot move into {counted(number, 'bucket')}",
            table=table,
            why=f"the table's option {opt.BUCKET.key} is {stored}, and only fixed and postponed buckets have a number",
            todo=f"Leave the option {opt.BUCKET.key} out",
        )
    moved = {entry.partition for entry in chosen}
    stays = any(entry.total_buckets == stored for entry in real if entry.partition not in moved)
    if stored > 0 and number != stored and not stays and moved:
        would = f"all partitions would have {counted(number, 'bucket')}"
        raise UsageError(
            f"{would}, but the table's option {opt.BUCKET.key} is {stored}",
            table=table,
            why="every write would be refused then",
            todo=f"Set the option {opt.BUCKET.key} of the table to {number} first",
        )
