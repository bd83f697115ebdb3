"""The task of a compaction of a table without a primary key: files of one bucket put one after the other, or sorted.

Rules: Paimon's AppendCompactTask and BaseAppendFileStoreWrite.compactRewrite. What to compact travels to the engine's
workers in Paimon's own form: of one table as AppendCompactTask, version 2; of many tables at once with the name of its
table as MultiTableAppendCompactTask, version 1, which a worker of another table refuses. Deletion vectors are applied,
and the index files that had them are replaced by one with the vectors of the files that stay. Where rows are tracked,
the files carry their ids and sequence numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon.codec.manifest import SOURCE_COMPACT, DataFileMeta, IndexManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.commit.leftovers import remove_files
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.serializers import (
    APPEND_TASK_VERSION,
    MULTI_TABLE_TASK_VERSION,
    AppendCompactTask,
    MultiTableCompactTask,
    deserialize_append_task,
    deserialize_multi_table_task,
    serialize_append_task,
    serialize_multi_table_task,
)
from lakebed.formats.paimon.layout import NameFactory, TableName
from lakebed.formats.paimon.read.row_tracking import TRACKING_COLUMNS, with_tracking
from lakebed.formats.paimon.read.split import DeletionFile, PaimonSplit
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.formats.paimon.rewrite.vectors import BucketVectors
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.bucket import BucketFiles
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.kernel.sorting import Keys, sorted_batches


@dataclass(frozen=True, slots=True)
class AppendTask:
    """What one task compacts. It travels as an AppendCompactTask of version 2 and what that leaves out. With the name
    of its `table` it is a task among those of many tables, and travels as a MultiTableCompactTask of version 1.

    `indexes` are the index files with deletion vectors of the files; `staying` are other files that have vectors there,
    and `deletions` has the vectors of all of them. `known` names the index files of the bucket at the time of the plan,
    None where the table has no vectors.
    """

    task: AppendCompactTask
    bucket: int
    total_buckets: int
    folder: str
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)
    indexes: tuple[IndexManifestEntry, ...] = ()
    staying: tuple[DataFileMeta, ...] = ()
    known: frozenset[str] | None = None
    table: TableName | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        rest = (getattr(self, item.name) for item in fields(self)[1:-1])
        if self.table is None:
            return _received, (serialize_append_task(self.task), *rest)
        named = MultiTableCompactTask(self.task, self.table.database, self.table.table)
        return _received_among_many, (serialize_multi_table_task(named), *rest)


def _received(data: bytes, *rest: Any) -> AppendTask:
    return AppendTask(deserialize_append_task(APPEND_TASK_VERSION, data), *rest)


def _received_among_many(data: bytes, *rest: Any) -> AppendTask:
    named = deserialize_multi_table_task(MULTI_TABLE_TASK_VERSION, data)
    values = *rest, TableName(named.database, named.table)
    return AppendTask(named.task, *values)


@dataclass(frozen=True, slots=True)
class AppendCompactor:
    """Compacts files of one branch of a table. With an `order` their rows are sorted. Picklable."""

    history: History
    schema: TableSchema
    options: WriteOptions
    order: Keys | None = None

    @property
    def table(self) -> TableName:
        """The table's name, and that of its branch, as tasks of many tables have it."""
        return self.history.name.on_branch(self.history.branch)

    def among_many(self, tasks: Iterable[AppendTask]) -> tuple[AppendTask, ...]:
        """These tasks with the table's name, for a map that has the tasks of other tables too."""
        return tuple(replace(task, table=self.table) for task in tasks)

    def __call__(self, task: AppendTask) -> PaimonMessage:
        """Compact the files of a task. What it wrote is removed when it fails. UsageError for another table's task."""
        store = self.history.store
        if task.table not in (None, self.table):
            raise UsageError(
                f"this task compacts the table {task.table.text}",
                table=store.location,
                why=f"this worker compacts {self.table.text}",
                todo="Give it to a worker of its own table",
            )
        given = task.task
        files = given.compact_before
        done = PaimonMessage(
            given.partition,
            task.bucket,
            task.total_buckets,
            task.folder,
            compact_before=files,
            compact_after=self._rewritten(task, given.partition, files),
            compact_known=task.known,
        )
        try:
            if not task.indexes:
                return done
            vectors = BucketVectors(store, task.staying, task.deletions)
            indexes = vectors.write(given.partition, task.bucket, self.options.table[compaction.VECTORS_64])
            return replace(done, compact_new_index_files=indexes, compact_deleted_index_files=task.indexes)
        except BaseException:
            remove_files(store, [done])
            raise

    def _rewritten(
        self, task: AppendTask, partition: bytes, files: tuple[DataFileMeta, ...]
    ) -> tuple[DataFileMeta, ...]:
        schema = with_tracking(self.schema, self.options.table)
        names = schema.names
        split = PaimonSplit(
            task.folder, 0, partition, task.bucket, task.folder, files, {**task.deletions}, unmerged=True
        )
        rows = BucketReader(self.history, schema, self.options.table, names, names, None)(split)
        if self.order is not None:
            rows = sorted_batches(rows, self.order, folder=self.options.spill.folder)
        target = BucketFiles(self.history.store, schema, self.options)
        first = min(file.min_sequence_number for file in files)
        writer = target.writer(task.folder, NameFactory(self.options.data_prefix), sequence=first, gathers=True)
        try:
            for batch in rows:
                writer.write(target.file_rows(pa.Table.from_batches([batch])))
            written = BucketFiles(self.history.store, self.schema, self.options).metas(writer.close())
        except BaseException:
            self.history.store.delete_many(writer.abort())
            raise
        if schema is not self.schema:
            last = max(file.max_sequence_number for file in files)
            written = tuple(_carrying_ids(file, schema, first, last) for file in written)
        return tuple(replace(file, file_source=SOURCE_COMPACT) for file in written)


def _carrying_ids(file: DataFileMeta, schema: TableSchema, first: int, last: int) -> DataFileMeta:
    """A file whose rows carry their ids and sequence numbers, which are in [first, last]. It has statistics of the
    table's own columns alone."""
    covered = tuple(name for name in schema.names if name not in TRACKING_COLUMNS)
    return replace(
        file,
        write_cols=schema.names,
        value_stats_cols=covered if file.value_stats_cols is None else file.value_stats_cols,
        min_sequence_number=first,
        max_sequence_number=last,
    )
