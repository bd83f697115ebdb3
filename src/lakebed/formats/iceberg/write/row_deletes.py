"""Row-level deletes: where the rows to remove lie in a snapshot, and the files that say so.

Int64s are written, never equality deletes: these are cheap to write and dear to read, not every reader applies them
(pyiceberg refuses such tables), and they would remove rows of older files for ever. So the key columns of the files
that may hold a key are read, pruned by the keys' bounds. Format version 2 gets position delete files, version 3
deletion vectors, each merged with what removed rows of its file before; version 1 has neither.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.codec.puffin import DELETION_VECTOR, Blob, encode_vector, write_puffin
from lakebed.formats.iceberg.codec.schema import POS, arrow_schema
from lakebed.formats.iceberg.commit.message import RowDeletes
from lakebed.formats.iceberg.data_files import (
    DELETE_FILE_PATH,
    DELETE_FILE_POS,
    Content,
    DataFile,
    DeleteFile,
    FileTask,
    partition_key,
)
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import data_location, partition_path
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.deletes import deleted_positions
from lakebed.formats.iceberg.read.key_sets import KeySet
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.read.task import Selection, predicate_schema, read_task
from lakebed.formats.iceberg.write.formats import FORMATS, Layout, Written
from lakebed.formats.iceberg.write.statistics.leaves import leaves_of
from lakebed.formats.iceberg.write.statistics.modes import MetricsMode
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.engine import Engine
from lakebed.kernel.predicates.tree import Call, Column, Literal, Node, all_of
from lakebed.kernel.sizing.file_counts import share_out
from lakebed.kernel.sizing.staging import Run, StagedBuckets

HELD_KEYS = 4_000_000
"""How many keys are held at once; with more, the files are read once for each part of them."""
POSITION_DELETE_FIELDS = (
    NestedField(DELETE_FILE_PATH, "file_path", StringType(), required=True),
    NestedField(DELETE_FILE_POS, "pos", LongType(), required=True),
)
_FULL = MetricsMode.parse("full", "write.delete.metrics")


@dataclass(frozen=True, slots=True)
class ByKey:
    """Rows whose key is among staged ones. `runs` are parts of the keys that are held one at a time."""

    names: tuple[str, ...]
    runs: tuple[tuple[Run, ...], ...]
    predicate: Node | None

    @classmethod
    def of(cls, keys: StagedBuckets, names: tuple[str, ...], bounds: pa.Table | None, context: ReadContext) -> ByKey:
        """The finder of all staged keys; `bounds` are the least and greatest values of each column."""
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
        """The rows of the file with one of the keys."""
        found: list[Int64s] = []
        for part in self.runs:
            known = self._known(files, part)
            selection = Selection([*self.names, POS.name], self.predicate)
            for batch in read_task(files, context, task, selection):
                hit = known.contains([batch.column(name) for name in self.names])
                found.append(batch.column(POS.name).to_numpy()[hit])
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def _known(self, files: Files, part: Sequence[Run]) -> KeySet:
        batches = [batch for run in part for batch in run.batches(files)]
        columns = pa.Table.from_batches(batches).combine_chunks()
        return KeySet.of([columns.column(name).combine_chunks() for name in self.names])


@dataclass(frozen=True, slots=True)
class ByPredicate:
    """Rows that a predicate keeps."""

    predicate: Node

    def positions(self, files: Files, context: ReadContext, task: FileTask) -> Int64s:
        """The rows of the file that the predicate keeps."""
        batches = read_task(files, context, task, Selection([POS.name], self.predicate))
        return np.concatenate([np.empty(0, np.int64), *(batch.column(POS.name).to_numpy() for batch in batches)])


@dataclass(frozen=True, slots=True)
class RowFinder:
    """Finds rows in data files of a table, on an engine, and writes their deletes."""

    files: Files
    metadata: TableMetadata
    granularity: str
    engine: Engine

    def in_snapshot(self, rows: ByKey | ByPredicate, snapshot: Snapshot | None) -> RowDeletes:
        """The deletes of rows of a snapshot. UnsupportedError where format version 1 would have to delete some."""
        return self._find(rows, self._tasks(rows, snapshot), False)[0]

    def in_files(self, rows: ByKey | ByPredicate, tasks: Sequence[FileTask]) -> RowDeletes:
        """The deletes of rows of some data files."""
        return self._find(rows, tasks, False)[0]

    def whole_files(
        self, rows: ByKey | ByPredicate, snapshot: Snapshot | None
    ) -> tuple[RowDeletes, tuple[DataFile, ...]]:
        """The same for rows of a snapshot, but data files that lose every row are to be removed instead."""
        return self._find(rows, self._tasks(rows, snapshot), True)

    def _tasks(self, rows: ByKey | ByPredicate, snapshot: Snapshot | None) -> list[FileTask]:
        pruning = Pruning(rows.predicate, self.metadata.schema)
        return list(scan_tasks(self.files, self.metadata, snapshot, pruning))

    def _find(
        self, rows: ByKey | ByPredicate, tasks: Sequence[FileTask], whole_files: bool
    ) -> tuple[RowDeletes, tuple[DataFile, ...]]:
        writer = DeleteWriter.of(self.files, self.metadata, self.granularity)
        together: dict[object, list[FileTask]] = {}
        for task in tasks:
            together.setdefault(writer.place(task), []).append(task)
        parts = list(together.values())
        shares = share_out([sum(task.data.size for task in part) for part in parts], self.engine.parallelism)
        groups = [[task for at in share for task in parts[at]] for share in shares]
        work = _Find(self.files, ReadContext.of(self.metadata), rows, writer, whole_files)
        deletes = RowDeletes()
        gone: tuple[DataFile, ...] = ()
        for found, lost in self.engine.map(work, groups):
            deletes, gone = deletes + found, (*gone, *lost)
        return deletes, gone


@dataclass(frozen=True, slots=True)
class _Find:
    """Looks into some data files and writes the deletes of their rows."""

    files: Files
    context: ReadContext
    finder: ByKey | ByPredicate
    writer: DeleteWriter
    whole_files: bool

    def __call__(self, tasks: Sequence[FileTask]) -> tuple[RowDeletes, list[DataFile]]:
        found: list[tuple[FileTask, Int64s]] = []
        gone: list[DataFile] = []
        for task in tasks:
            positions = self.finder.positions(self.files, self.context, task)
            if not len(positions):
                continue
            before = deleted_positions(self.files, task)
            every = positions if before is None else np.union1d(before, positions)
            if self.whole_files and len(every) == task.data.record_count:
                gone.append(task.data)
            else:
                found.append((task, every if self.writer.vectors else positions))
        return self.writer.write(found), gone


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
        """What data files whose deletes lie in one file have in common."""
        if self.by_partition and not self.vectors:
            return task.data.spec_id, partition_key(task.data.partition)
        return task.data.path

    def write(self, found: Sequence[tuple[FileTask, Int64s]]) -> RowDeletes:
        """The deletes of positions in data files; for vectors these include what was deleted before."""
        if not found:
            return RowDeletes()
        if self.metadata.format_version < 2:
            raise UnsupportedError(
                "a table of format version 1 has no row-level deletes", table=self.metadata.location,
                why=f"rows of {len(found)} data files would have to be removed",
                todo="Let the table's engine set format-version=2, or overwrite whole partitions",
            )  # fmt: skip
        paths = tuple(task.data.path for task, _ in found)
        if self.vectors:
            added = self._vectors(found)
            replaced = tuple(delete for task, _ in found for delete in task.deletes if delete.is_vector)
            return RowDeletes(added, replaced, paths)
        return RowDeletes(tuple(self._position_files(found)), (), paths)

    def _vectors(self, found: Sequence[tuple[FileTask, Int64s]]) -> tuple[DeleteFile, ...]:
        """One Puffin file with a vector for each data file."""
        blobs = [
            (
                Blob(
                    DELETION_VECTOR, 0, 0, (POS.field_id,),
                    properties={"referenced-data-file": task.data.path, "cardinality": str(len(positions))},
                ),
                encode_vector(positions),
            )
            for task, positions in found
        ]  # fmt: skip
        data, placed = write_puffin(blobs, {"created-by": "lakebed"})
        url = data_location(self.metadata.location, self.metadata.properties, "", f"{uuid.uuid4()}-deletes.puffin")
        self.files.write(url, data)
        return tuple(
            DeleteFile(
                url, "PUFFIN", Content.POSITION_DELETES, task.data.spec_id, task.data.partition, len(positions),
                len(data), referenced_data_file=task.data.path, content_offset=blob.offset, content_size=blob.length,
            )
            for (task, positions), blob in zip(found, placed, strict=True)
        )  # fmt: skip

    def _position_files(self, found: Sequence[tuple[FileTask, Int64s]]) -> Iterator[DeleteFile]:
        """Position delete files, of one data file or of one partition each, sorted by path and position."""
        groups: dict[object, list[tuple[FileTask, Int64s]]] = {}
        for task, positions in found:
            groups.setdefault(self.place(task), []).append((task, positions))
        for group in groups.values():
            yield self.position_file(sorted(group, key=lambda one: one[0].data.path))

    def position_file(self, group: Sequence[tuple[FileTask, Int64s]]) -> DeleteFile:
        """One position delete file for data files of one partition, which come in the order of their paths."""
        data = group[0][0].data
        spec = self.metadata.specs[data.spec_id]
        name = f"{uuid.uuid4()}-deletes.parquet"
        url = data_location(
            self.metadata.location, self.metadata.properties, partition_path(spec, data.partition), name
        )
        done = write_positions(self.files, url, [(task.data.path, found) for task, found in group], self.layout)
        only = data.path if len(group) == 1 else None
        return DeleteFile(
            url, "PARQUET", Content.POSITION_DELETES, data.spec_id, data.partition, done.rows, done.size,
            referenced_data_file=only, split_offsets=done.split_offsets, metrics=done.metrics,
        )  # fmt: skip


def write_positions(files: Files, url: str, found: Sequence[tuple[str, Int64s]], layout: Layout) -> Written:
    """A position delete file: the positions of data files, which come in the order of their paths."""
    codes = np.repeat(np.arange(len(found)), [len(positions) for _, positions in found])
    names = pa.array([path for path, _ in found], pa.string())
    positions = np.concatenate([positions for _, positions in found]) if found else np.empty(0, np.int64)
    rows = pa.table(
        {"file_path": names.take(pa.array(codes)), "pos": positions},
        schema=arrow_schema(POSITION_DELETE_FIELDS, ids=True),
    )
    modes = {field.field_id: _FULL for field in POSITION_DELETE_FIELDS}
    sink = FORMATS["PARQUET"](files, url, rows.schema, leaves_of(POSITION_DELETE_FIELDS), modes, layout)
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
