"""Row-level deletes: find the rows to remove in a snapshot, and write the files that delete them.

lakebed writes positions and never equality deletes. Those are cheap to write and expensive to read, not every reader
applies them (pyiceberg refuses such tables), and they would remove rows of older files for ever. So the key columns of
the files that may hold a key are read, pruned by the bounds of the keys.

Format version 2 gets position delete files. Version 3 gets deletion vectors, each merged with earlier deletes of its
data file. Version 1 has neither.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from lakebed.errors import UnsupportedError, counted
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.puffin import DELETION_VECTOR, Blob, encode_vector, write_puffin
from lakebed.formats.iceberg.codec.schema import POS, arrow_schema
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.commit.message import RowDeletes
from lakebed.formats.iceberg.data_files import (
    DELETE_FILE_PATH,
    DELETE_FILE_POS,
    Content,
    DataFile,
    DeleteFile,
    FileTask,
    partition_key,
    stored_files,
)
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import data_location, partition_path
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.deletes import deleted_positions
from lakebed.formats.iceberg.read.key_sets import KeySet
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.read.task import Selection, predicate_schema, read_task
from lakebed.formats.iceberg.write.file_layout import Layout
from lakebed.formats.iceberg.write.formats import FileColumns, Written, open_data_file
from lakebed.formats.iceberg.write.statistics.leaves import leaves_of
from lakebed.formats.iceberg.write.statistics.modes import MetricsMode
from lakebed.kernel.arrays import Int64s, from_numpy, from_values, to_numpy
from lakebed.kernel.engine import Engine
from lakebed.kernel.predicates.tree import Call, Column, Literal, Node, all_of
from lakebed.kernel.sizing.file_counts import share_out
from lakebed.kernel.sizing.staging import Run, StagedBuckets

HELD_KEYS = 4_000_000
"""How many keys are held at once. More keys are processed in parts, and the files are read once per part."""
POSITION_DELETE_FIELDS = (
    NestedField(DELETE_FILE_PATH, "file_path", StringType(), required=True),
    NestedField(DELETE_FILE_POS, "pos", LongType(), required=True),
)
_FULL = MetricsMode.parse("full", "write.delete.metrics")


@dataclass(frozen=True, slots=True)
class ByKey:
    """Finds rows whose key is among staged keys. `runs` has the parts of the keys, of which one is held at a time."""

    names: tuple[str, ...]
    runs: tuple[tuple[Run, ...], ...]
    predicate: Node | None

    @classmethod
    def of(cls, keys: StagedBuckets, names: tuple[str, ...], bounds: pa.Table | None, context: ReadContext) -> ByKey:
        """The search for all staged keys. `bounds` has the least and the greatest value of each key column."""
        runs: list[list[Run]] = [[]]
        held = 0
        for at, rows in enumerate(keys.rows.tolist()):
            if held and held + rows > HELD_KEYS:
                runs.append([])
                held = 0
            runs[-1].append(keys.run(at, 0, rows))
            held += rows
        return cls(names, tuple(map(tuple, runs)), _between(bounds, predicate_schema(context)))

    def positions(self, files: Files, context: ReadContext, task: FileTask) -> Int64s:
        """The positions of the rows of a data file with one of the keys, ascending."""
        positions: list[Int64s] = []
        for part in self.runs:
            keys = self._keys(files, part)
            selection = Selection([*self.names, POS.name], self.predicate, filters=False)
            for batch in read_task(files, context, task, selection):
                mask = keys.contains([batch.column(name) for name in self.names])
                positions.append(to_numpy(batch.column(POS.name))[mask])
        return np.unique(np.concatenate([np.empty(0, np.int64), *positions]))

    def _keys(self, files: Files, part: Sequence[Run]) -> KeySet:
        batches = [batch for run in part for batch in run.batches(files)]
        columns = pa.Table.from_batches(batches).combine_chunks()
        return KeySet.of([columns.column(name).combine_chunks() for name in self.names])


@dataclass(frozen=True, slots=True)
class ByPredicate:
    """Finds rows that match a predicate."""

    predicate: Node

    def positions(self, files: Files, context: ReadContext, task: FileTask) -> Int64s:
        """The positions of the rows of a data file that match, ascending."""
        batches = read_task(files, context, task, Selection([POS.name], self.predicate))
        return np.concatenate([np.empty(0, np.int64), *(to_numpy(batch.column(POS.name)) for batch in batches)])


@dataclass(frozen=True, slots=True)
class RowFinder:
    """Finds rows in data files of a table, on an engine, and writes their deletes.

    `granularity` is `file` or `partition`: what one position delete file is for.
    """

    files: Files
    metadata: TableMetadata
    granularity: str
    engine: Engine

    def in_snapshot(self, rows: ByKey | ByPredicate, snapshot: Snapshot | None) -> RowDeletes:
        """The deletes of rows in a snapshot. UnsupportedError when rows must go and the format version is 1."""
        return self._find(rows, self._tasks(rows, snapshot), False)[0]

    def in_files(self, rows: ByKey | ByPredicate, tasks: Sequence[FileTask]) -> RowDeletes:
        """The deletes of rows in these data files. UnsupportedError when rows must go and the format version is 1."""
        return self._find(rows, tasks, False)[0]

    def whole_files(
        self, rows: ByKey | ByPredicate, snapshot: Snapshot | None
    ) -> tuple[RowDeletes, tuple[DataFile, ...]]:
        """The deletes of rows in a snapshot, and the data files that lose all rows and are to be removed instead."""
        return self._find(rows, self._tasks(rows, snapshot), True)

    def _tasks(self, rows: ByKey | ByPredicate, snapshot: Snapshot | None) -> list[FileTask]:
        pruning = Pruning(rows.predicate, self.metadata.schema)
        return list(scan_tasks(self.files, self.metadata, snapshot, pruning))

    def _find(
        self, rows: ByKey | ByPredicate, tasks: Sequence[FileTask], whole_files: bool
    ) -> tuple[RowDeletes, tuple[DataFile, ...]]:
        writer = DeleteWriter.of(self.files, self.metadata, self.granularity)
        by_place: dict[object, list[FileTask]] = {}
        for task in tasks:
            by_place.setdefault(writer.place(task), []).append(task)
        groups = list(by_place.values())
        shares = share_out([sum(task.data.size for task in group) for group in groups], self.engine.parallelism)
        work = _Find(self.files, ReadContext.of(self.metadata), rows, writer, whole_files)
        deletes = RowDeletes()
        removed: tuple[DataFile, ...] = ()
        for of_share, files in self.engine.map(work, [[t for at in share for t in groups[at]] for share in shares]):
            deletes, removed = deletes + of_share, (*removed, *files)
        return deletes, removed


@dataclass(frozen=True, slots=True)
class _Find:
    """A task: searches data files and writes the deletes of their rows."""

    files: Files
    context: ReadContext
    finder: ByKey | ByPredicate
    writer: DeleteWriter
    whole_files: bool

    def __call__(self, tasks: Sequence[FileTask]) -> tuple[RowDeletes, list[DataFile]]:
        with self.files.fetching(stored_files(tasks)):
            deleted, removed = self._found(tasks)
        return self.writer.write(deleted), removed

    def _found(self, tasks: Sequence[FileTask]) -> tuple[list[tuple[FileTask, Int64s]], list[DataFile]]:
        """The positions to delete in each data file, and the data files that lose all rows."""
        deleted: list[tuple[FileTask, Int64s]] = []
        removed: list[DataFile] = []
        for task in tasks:
            positions = self.finder.positions(self.files, self.context, task)
            if not len(positions):
                continue
            before = deleted_positions(self.files, task)
            merged = positions if before is None else np.union1d(before, positions)
            if self.whole_files and len(merged) == task.data.record_count:
                removed.append(task.data)
            else:
                deleted.append((task, merged if self.writer.vectors else positions))
        return deleted, removed


@dataclass(frozen=True, slots=True)
class DeleteWriter:
    """Writes row-level deletes of a table. Picklable."""

    files: Files
    metadata: TableMetadata
    layout: Layout
    by_partition: bool

    @classmethod
    def of(cls, files: Files, metadata: TableMetadata, granularity: str) -> DeleteWriter:
        """The writer that the table's format version asks for."""
        properties = {**metadata.properties, "write.format.default": "parquet"}
        schema = Schema(*POSITION_DELETE_FIELDS)
        return cls(files, metadata, Layout.of(properties, schema), granularity == "partition")

    @property
    def vectors(self) -> bool:
        """Whether deletes are deletion vectors."""
        return self.metadata.format_version >= 3

    def place(self, task: FileTask) -> object:
        """A value that is equal for data files whose deletes go into one delete file."""
        if self.by_partition and not self.vectors:
            return task.data.spec_id, partition_key(task.data.partition)
        return task.data.path

    def write(self, deleted: Sequence[tuple[FileTask, Int64s]]) -> RowDeletes:
        """Write the deletes of positions in data files. For vectors the positions include earlier deletes.

        UnsupportedError for format version 1.
        """
        if not deleted:
            return RowDeletes()
        if self.metadata.format_version < 2:
            raise UnsupportedError(
                "a table of format version 1 has no row-level deletes",
                table=self.metadata.location,
                why=f"rows of {counted(len(deleted), 'data file')} would have to be removed",
                todo="Let the table's engine set format-version=2, or overwrite whole partitions",
            )
        paths = tuple(task.data.path for task, _ in deleted)
        if self.vectors:
            added = self._vectors(deleted)
            replaced = tuple(delete for task, _ in deleted for delete in task.deletes if delete.is_vector)
            return RowDeletes(added, replaced, paths)
        return RowDeletes(self._position_files(deleted), (), paths)

    def _vectors(self, deleted: Sequence[tuple[FileTask, Int64s]]) -> tuple[DeleteFile, ...]:
        """Write one Puffin file with a vector per data file."""
        blobs = [
            (
                Blob(
                    DELETION_VECTOR,
                    0,
                    0,
                    (POS.field_id,),
                    properties={"referenced-data-file": task.data.path, "cardinality": str(len(positions))},
                ),
                encode_vector(positions),
            )
            for task, positions in deleted
        ]
        data, placed = write_puffin(blobs, {"created-by": "lakebed"})
        url = data_location(self.metadata.location, self.metadata.properties, "", f"{uuid.uuid4()}-deletes.puffin")
        self.files.write(url, data)
        return tuple(
            DeleteFile(
                url, "PUFFIN", Content.POSITION_DELETES, task.data.spec_id, task.data.partition, len(positions),
                len(data), referenced_data_file=task.data.path, content_offset=blob.offset, content_size=blob.length,
            )
            for (task, positions), blob in zip(deleted, placed, strict=True)
        )  # fmt: skip

    def _position_files(self, deleted: Sequence[tuple[FileTask, Int64s]]) -> tuple[DeleteFile, ...]:
        """Write position delete files, one per data file or per partition, sorted by path and position."""
        groups: dict[object, list[tuple[FileTask, Int64s]]] = {}
        for task, positions in deleted:
            groups.setdefault(self.place(task), []).append((task, positions))
        by_path = [sorted(group, key=lambda pair: pair[0].data.path) for group in groups.values()]
        return tuple(self.files.together(self.position_file, by_path))

    def position_file(self, group: Sequence[tuple[FileTask, Int64s]]) -> DeleteFile:
        """Write one position delete file for data files of one partition. They come in the order of their paths."""
        data = group[0][0].data
        spec = self.metadata.specs[data.spec_id]
        name = f"{uuid.uuid4()}-deletes.parquet"
        url = data_location(
            self.metadata.location, self.metadata.properties, partition_path(spec, data.partition), name
        )
        by_path = [(task.data.path, positions) for task, positions in group]
        done = write_positions(self.files, url, by_path, self.layout)
        only = data.path if len(group) == 1 else None
        return DeleteFile(
            url, "PARQUET", Content.POSITION_DELETES, data.spec_id, data.partition, done.rows, done.size,
            referenced_data_file=only, split_offsets=done.split_offsets, metrics=done.metrics,
        )  # fmt: skip


def write_positions(files: Files, url: str, by_path: Sequence[tuple[str, Int64s]], layout: Layout) -> Written:
    """Write a position delete file with positions per data file. The files come in the order of their paths."""
    codes = np.repeat(np.arange(len(by_path)), [len(positions) for _, positions in by_path])
    names = from_values([path for path, _ in by_path], pa.string())
    positions = np.concatenate([positions for _, positions in by_path]) if by_path else np.empty(0, np.int64)
    rows = pa.table(
        {"file_path": names.take(from_numpy(codes)), "pos": positions},
        schema=arrow_schema(POSITION_DELETE_FIELDS, ids=True),
    )
    modes = {field.field_id: _FULL for field in POSITION_DELETE_FIELDS}
    columns = FileColumns(rows.schema, tuple(leaves_of(POSITION_DELETE_FIELDS)), modes)
    sink = open_data_file(files, url, columns, layout)
    try:
        sink.write(rows)
        return sink.close()
    except BaseException:
        sink.abort()
        raise


def _between(bounds: pa.Table | None, schema: pa.Schema) -> Node | None:
    """Each key column between its bounds, where these are known."""
    if bounds is None:
        return None
    parts: list[Node] = []
    for field, column in zip(bounds.schema, bounds.columns, strict=True):
        if isinstance(field.type, pa.BaseExtensionType) or column.null_count or pa.types.is_floating(field.type):
            continue
        least, most = column.cast(schema.field(field.name).type).combine_chunks()
        key = Column((field.name,))
        parts += [Call("greater_equal", (key, Literal(least))), Call("less_equal", (key, Literal(most)))]
    return all_of(*parts) if parts else None
