"""How many different values columns have, as a statistics file of a snapshot: the procedure `compute_table_stats`.

Rules: the reference engine's ComputeTableStatsSparkAction and NDVSketchUtil (which columns, blobs compressed with
Zstandard, the property `ndv`, the file's name), and the specification's "Table Statistics". Tasks read the rows of
splits, deletes applied, and give a sketch per column; the driver merges these, writes the Puffin file and has the
metadata name it. An expiry of the snapshot removes the file.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import StructType

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError, SchemaError, known_columns
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations, refuse_writing
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.puffin import Blob, compressed, write_puffin
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.codec.theta import NDV, THETA, Sketch, sketch_of
from lakebed.formats.iceberg.codec.updates import MetadataChange
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.layout import metadata_folder
from lakebed.kernel.again import is_gone
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.predicates.where import find_column
from lakebed.model.upkeep import ColumnStats, TableStatsResult
from lakebed.verbs.read import ReadPlan
from lakebed.version import VERSION


@dataclass(frozen=True, slots=True)
class StatsColumn:
    """A column of statistics: its field id, and the names of the structs that it is in and its own."""

    id: int
    path: tuple[str, ...]

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """The column's values of a batch of its root columns."""
        array = batch.column(batch.schema.names.index(self.path[0]))
        for name in self.path[1:]:
            array = pc.struct_field(array, name)
        return array


def columns_named(columns: object) -> Sequence[str] | None:
    """The names that a caller gave. SchemaError for what is no list of texts."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not all(isinstance(c, str) for c in columns):
        raise SchemaError(f"columns is {columns!r}", todo="Give a list of column names")
    return columns


def chosen(schema: Schema, names: Sequence[str] | None, table: str) -> tuple[StatsColumn, ...]:
    """The columns of the given names, by default all primitive columns that are in no struct.

    SchemaError for an unknown column, and for one that is not primitive or is inside a list or map.
    """
    if names is None:
        return tuple(StatsColumn(f.field_id, (f.name,)) for f in schema.fields if f.field_type.is_primitive)
    return tuple(_named(schema, name, table) for name in dict.fromkeys(names))


def _named(schema: Schema, name: str, table: str) -> StatsColumn:
    fields, path, id = schema.fields, [], -1
    kind: Any = None
    for part in name.split(".") if find_column(name, [f.name for f in schema.fields]) is None else [name]:
        spelled = find_column(part, [field.name for field in fields])
        if spelled is None:
            known = known_columns(name, (field.name for field in schema.fields))
            raise SchemaError(f"unknown column {name!r}", table=table, todo=known)
        field = next(field for field in fields if field.name == spelled)
        path.append(spelled)
        id, kind = field.field_id, field.field_type
        fields = kind.fields if isinstance(kind, StructType) else ()
    if not kind.is_primitive:
        raise SchemaError(
            f"column {name!r} is a {kind}", table=table, why="only primitive columns have this statistic",
            todo="Name columns inside it, where it is a struct",
        )  # fmt: skip
    return StatsColumn(id, tuple(path))


@dataclass(frozen=True, slots=True)
class SketchReader:
    """Reads splits and gives a sketch per column. Picklable."""

    plan: ReadPlan[Any]
    columns: tuple[StatsColumn, ...]

    def __call__(self, split: Any) -> tuple[Sketch, ...]:
        """The sketches of a split's rows, in order of the columns."""
        sketches = [Sketch() for _ in self.columns]
        for batch in self.plan.read(split):
            for place, column in enumerate(self.columns):
                sketches[place] = sketch_of(column.values(batch), sketches[place])
        return tuple(sketches)


def compute_table_stats(
    operations: TableOperations, loaded: Loaded, snapshot: Snapshot, columns: tuple[StatsColumn, ...],
    plan: ReadPlan[Any], dry_run: bool, engine: Engine | None,
) -> TableStatsResult:  # fmt: skip
    """Compute the statistics of a snapshot, whose rows `plan` reads, and commit them.

    Raises CommitConflictError when the snapshot expires meanwhile, CommitUnknownError. No file stays after an error but
    the last.
    """
    refuse_writing(operations, loaded)
    id = snapshot.snapshot_id
    if dry_run:
        names = tuple(ColumnStats(column.name, -1) for column in columns)
        return TableStatsResult(str(id), "", names, True)
    total = tuple(Sketch() for _ in columns)
    work = engine or LocalEngine()
    try:
        for sketches in work.map(SketchReader(replace(plan, splits=(), warnings=()), columns), plan.splits):
            total = tuple(ours.merged(new) for ours, new in zip(total, sketches, strict=True))
    except (FileNotFoundError, LakebedError) as error:
        if is_gone(error) and id not in operations.load().metadata.snapshots:
            raise _expired(id, operations.name) from error
        raise
    blobs = [
        compressed(Blob(THETA, 0, 0, (column.id,), id, snapshot.sequence_number, {NDV: str(sketch.estimate)}),
                   sketch.encoded())
        for column, sketch in zip(columns, total, strict=True)
    ]  # fmt: skip
    data, placed = write_puffin(blobs, {"created-by": f"lakebed {VERSION}"})
    metadata = loaded.metadata
    path = f"{metadata_folder(metadata.location, metadata.properties)}/{id}-{uuid.uuid4()}.stats"
    end = placed[-1].offset + placed[-1].length if placed else 4
    document = {
        "snapshot-id": id, "statistics-path": path, "file-size-in-bytes": len(data),
        "file-footer-size-in-bytes": len(data) - end,
        "blob-metadata": [
            {"type": blob.type, "snapshot-id": id, "sequence-number": blob.sequence_number,
             "fields": list(blob.fields), "properties": dict(blob.properties)}
            for blob in placed
        ],
    }  # fmt: skip
    publish(operations, id, path, data, {"action": "set-statistics", "snapshot-id": id, "statistics": document})
    names = tuple(ColumnStats(column.name, sketch.estimate) for column, sketch in zip(columns, total, strict=True))
    return TableStatsResult(str(id), path, names)


def _expired(snapshot_id: int, table: str) -> CommitConflictError:
    return CommitConflictError(
        f"snapshot {snapshot_id} expired while its statistics were computed",
        table=table,
        todo="Compute them again, for the current snapshot",
    )


def publish(operations: TableOperations, snapshot_id: int, path: str, data: bytes, update: dict[str, Any]) -> None:
    """Write a statistics file of a snapshot, and have the metadata name it. Raises what `compute_table_stats`
    raises."""

    def decide(metadata: TableMetadata) -> MetadataChange:
        if snapshot_id not in metadata.snapshots:
            raise _expired(snapshot_id, operations.name)
        return [], [update]

    try:
        operations.files.write(path, data)
        change_metadata(operations, decide)
    except CommitUnknownError:
        raise
    except Exception:
        with suppress(LakebedError):
            operations.files.delete_many([path])
        raise
