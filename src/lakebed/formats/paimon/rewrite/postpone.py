"""The compaction of postponed buckets: one COMPACT commit moves their rows into real buckets, where they are visible.

Rules: Paimon's Flink CompactAction for bucket=-2 and RewritePostponeBucketCommittableOperator; PostponeUtils of the
newest release. A partition keeps the number of buckets that it has; of a new one an option, its rows or its bytes
decide. Files are replayed in the order of their
creation, so that the newest row of a key wins, whichever writer it came from. In tables whose batch reads leave level 0
out, buckets are compacted fully.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.errors import CommitConflictError, UsageError
from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD
from lakebed.formats.paimon.codec.manifest import DataFileMeta, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.callbacks import named_callbacks
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.commit.leftovers import removed_on_failure
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, bucket_folder
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.read.files import read_batches
from lakebed.formats.paimon.read.pruning import kept_entries
from lakebed.formats.paimon.rewrite.full_compaction import FullCompaction, compacts_fully
from lakebed.formats.paimon.rewrite.plan import first_groups
from lakebed.formats.paimon.rewrite.rivals import raise_if_replaced
from lakebed.formats.paimon.rewrite.unit import CompactionRules
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.formats.paimon.write.assigners import DirectAssigner
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.state import WriteState, greatest_sequences, real_buckets
from lakebed.formats.paimon.write.task import PaimonTaskWriter, TaskTarget
from lakebed.kernel.arrays import to_numpy
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.files import FileInfo
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where, columns_of, parse_where
from lakebed.kernel.rows.row_kinds import RowKindRule
from lakebed.kernel.sizing.finalize import writers_at_once
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.model.upkeep import RewriteResult, Skipped

_ARROW_BYTES = 4
"""An estimate: Arrow data has so many times the bytes of a postponed file."""


@dataclass(frozen=True, slots=True)
class PostponedPartition:
    """The input of one task: the postponed files of a partition, oldest first, and its number of real `buckets`.
    `folder` is the partition's folder, with a slash at its end."""

    partition: bytes
    folder: str
    buckets: int
    files: tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True)
class PostponeRewrite:
    """The plan of one compaction of postponed buckets, and its run."""

    history: History
    target: TaskTarget
    partitions: tuple[PostponedPartition, ...]
    waiting: tuple[Skipped, ...] = ()
    """The partitions that another call compacts."""

    @classmethod
    def plan(cls, history: History, schema: TableSchema, options: Options, where: Where) -> PostponeRewrite:
        """Plan what lies in postponed buckets now. `where` may name partition columns only.

        Raises UsageError for another column, UnsupportedError for a table that lakebed does not write.
        """
        table = history.store.location
        refuse_unserved(schema, options, Use.WRITE, table)
        latest = history.latest()
        live = live_files(history.store, latest)
        chosen = _chosen([entry for entry in live if entry.bucket == POSTPONE_BUCKET], where, schema, table)
        counts = real_buckets(live)
        counts |= first_buckets([entry for entry in chosen if entry.partition not in counts], options)
        buckets = opt.table_options(options.raw, {opt.BUCKET.key: str(options[opt.POSTPONE_DEFAULT_BUCKETS] or 1)})
        state = WriteState(greatest_sequences(e for e in live if e.bucket >= 0), counts, {}, latest.id if latest else 0)
        user = f"{options[opt.COMMIT_USER_PREFIX]}{uuid.uuid4()}"
        target = TaskTarget(history.store, schema, WriteOptions.of(schema, buckets), RowKindRule(), state, user)
        folders = PartitionFolders.of(history.store, schema, options)
        return cls(history, target, tuple(_partitions(chosen, counts, folders)))

    def up_to(self, most: int | None) -> PostponeRewrite:
        """The first partitions of the plan that have at most so many files together; None: all of them."""
        if most is None:
            return self
        named = ((bucket_folder(one.folder, POSTPONE_BUCKET), len(one.files)) for one in self.partitions)
        kept, waiting = first_groups(named, most)
        return replace(self, partitions=tuple(self.partitions[number] for number in kept), waiting=tuple(waiting))

    def run(self, dry_run: bool, engine: Engine | None) -> RewriteResult:
        """Write and commit; `engine` None: in threads. CommitConflictError when another compaction was faster; nothing
        is left behind then."""
        before = [file for partition in self.partitions for file in partition.files]
        size = sum(file.file_size for file in before)
        if dry_run or not before:
            after = sum(partition.buckets for partition in self.partitions)
            groups = len(self.partitions)
            return RewriteResult(len(before), after, size, size, groups, self.waiting, dry_run)
        engine = engine or LocalEngine()
        if isinstance(engine, LocalEngine):
            at_once = self.target.store.at_once
            arrow_size = size * _ARROW_BYTES
            engine = LocalEngine(writers_at_once(engine.parallelism, at_once, len(self.partitions), arrow_size))
        messages: list[PaimonMessage] = []
        try:
            with removed_on_failure(self.history.store, self.compact) as work:
                for partition, compacted in zip(self.partitions, engine.map(work, self.partitions), strict=True):
                    folder = bucket_folder(partition.folder, POSTPONE_BUCKET)
                    removed = PaimonMessage(
                        partition.partition, POSTPONE_BUCKET, POSTPONE_BUCKET, folder, compact_before=partition.files
                    )
                    messages += [*compacted, removed]
        except BaseException as error:
            raise_if_replaced(self.history, error)
            raise
        options = self.target.options.table
        commit_options = CommitOptions(self.target.commit_user, named=named_callbacks(options))
        committer = Committer(self.history, self.target.schema, options, commit_options)
        try:
            notes = committer.commit(BATCH_IDENTIFIER, messages).notes
        except CommitConflictError:
            committer.abort(messages)
            raise
        files = [file for message in messages for file in message.compact_after]
        return RewriteResult(
            len(before), len(files), size, sum(file.file_size for file in files), len(self.partitions), self.waiting,
            notes=notes,
        )  # fmt: skip

    def compact(self, partition: PostponedPartition) -> tuple[PaimonMessage, ...]:
        """The work of one task: replay the files of a partition into its real buckets."""
        target = self.target
        writer = PaimonTaskWriter(target, DirectAssigner(target.router))
        folder = bucket_folder(partition.folder, POSTPONE_BUCKET)
        whole = arrow_schema(target.schema.fields)
        files = {FileInfo(f"{folder}/{file.file_name}", file.file_size): file for file in partition.files}
        try:
            with target.store.fetching(files):
                for (path, _), file in files.items():
                    written = self.history.schema(file.schema_id)
                    fields = target.schema.fields
                    for batch in read_batches(target.store, path, written, fields, (KIND_FIELD,), file.stated):
                        kinds = to_numpy(batch.column(0))
                        rows = pa.Table.from_batches([batch.select(whole.names)])
                        writer.hold(rows.cast(whole), kinds if kinds.any() else None)
            messages = writer.finish()
        except BaseException:
            writer.abort()
            raise
        if not compacts_fully(CompactionRules.of(target.schema, target.options)):
            return tuple(map(_as_compacted, messages))
        return tuple(map(FullCompaction.of(self.history, target, partition.partition), messages))


def _as_compacted(message: PaimonMessage) -> PaimonMessage:
    """What a writer wrote, as the result of a compaction."""
    files, changes = message.new_files, message.changelog_files
    return replace(message, new_files=(), changelog_files=(), compact_after=files, compact_changelog=changes)


def _chosen(entries: Sequence[ManifestEntry], where: Where, schema: TableSchema, table: str) -> Sequence[ManifestEntry]:
    whole = arrow_schema(schema.fields)
    predicate = parse_where(where, whole)
    outside = [name for name in columns_of(predicate) if name not in schema.partition_keys]
    if outside:
        raise UsageError(
            f"a rewrite of postponed buckets takes whole partitions, but `where` names {', '.join(sorted(outside))}",
            table=table,
            todo=f"Partition columns: {', '.join(schema.partition_keys) or 'none'}",
        )
    return kept_entries(entries, predicate, schema)


def first_buckets(postponed: Sequence[ManifestEntry], options: Options) -> dict[bytes, int]:
    """The number of buckets of partitions that have no real ones, by their postponed files: the number that an option
    names, else by their rows where there is a target for these, else by their bytes."""
    default, rows = options[opt.POSTPONE_DEFAULT_BUCKETS], options[compaction.POSTPONE_TARGET_ROWS]
    target = rows or max(1, options[compaction.POSTPONE_TARGET_SIZE])
    amounts: dict[bytes, int] = {}
    for entry in postponed:
        amount = entry.file.row_count if rows else entry.file.file_size
        amounts[entry.partition] = amounts.get(entry.partition, 0) + amount
    return {partition: default or max(1, -(-amount // target)) for partition, amount in amounts.items()}


def _partitions(
    entries: Sequence[ManifestEntry], counts: Mapping[bytes, int], folders: PartitionFolders
) -> Iterator[PostponedPartition]:
    grouped: dict[bytes, list[DataFileMeta]] = {}
    for entry in entries:
        grouped.setdefault(entry.partition, []).append(entry.file)
    for partition, files in grouped.items():
        folder = folders.of_row(partition)
        ordered = tuple(sorted(files, key=lambda file: file.creation_time or 0))
        yield PostponedPartition(partition, folder, counts[partition], ordered)
