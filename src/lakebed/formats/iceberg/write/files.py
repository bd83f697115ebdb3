"""Writing data files in the table's format, rolled at a size on disk, with the metrics for their manifest entries.

Rules: the reference engine's RollingDataWriter, OutputFileFactory (a file's name is `{write id}-{index}`) and
TableProperties. Sizes are bytes written, never what rows take in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.types import GeographyType, GeometryType, IcebergType, ListType, MapType, NestedField, StructType
from pyiceberg.types import UnknownType as Unknown

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.schema import LAST_UPDATED, ROW_ID, VariantType, arrow_schema
from lakebed.formats.iceberg.data_files import DataFile, Partition
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import data_location, partition_path
from lakebed.formats.iceberg.write.file_layout import Layout
from lakebed.formats.iceberg.write.formats import FileColumns, OpenData, open_data_file
from lakebed.formats.iceberg.write.statistics.leaves import leaves_of
from lakebed.formats.iceberg.write.statistics.modes import MetricsMode, metrics_modes

_LEAST_GROUP = 4 << 10
_FULL = 0.98
"""A file that has this share of its size is closed, since another row group would make it too large."""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """All that a task needs to write data files of a table. Picklable. `fields` are the columns, in order."""

    files: Files
    location: str
    properties: Mapping[str, str]
    fields: tuple[NestedField, ...]
    spec: PartitionSpec
    layout: Layout
    modes: Mapping[int, MetricsMode]
    sort_order_id: int | None = None

    @classmethod
    def of(
        cls, files: Files, metadata: TableMetadata, spec_id: int | None = None, lineage: bool = False,
        sort_order_id: int | None = None, properties: Mapping[str, str] = {},
    ) -> WriteTarget:  # fmt: skip
        """New files in a table's current schema, and in its default spec without `spec_id`. `lineage` adds the columns
        of row lineage; `properties` take precedence over the table's.

        UnsupportedError for a column that lakebed does not write, OptionError for a table property out of range.
        """
        merged = {**metadata.properties, **properties}
        layout = Layout.of(merged, metadata.schema)
        fields = tuple(column for column in metadata.schema.fields if not isinstance(column.field_type, Unknown))
        for column in fields:
            _refuse(column.field_type, column.name, metadata.location, layout.format)
        if lineage:
            fields += (ROW_ID, LAST_UPDATED)
        order = metadata.sort_orders.get(metadata.default_sort_order_id)
        sorted_ids = {key.source_id for key in order.fields} if order else set()
        modes = metrics_modes(leaves_of(fields), merged, sorted_ids)
        spec = metadata.specs[metadata.default_spec_id if spec_id is None else spec_id]
        return cls(files, metadata.location, merged, fields, spec, layout, modes, sort_order_id or None)

    @property
    def schema(self) -> pa.Schema:
        """The columns as they come to the writer and go into files, with their field ids."""
        return arrow_schema(self.fields, ids=True)

    @property
    def columns(self) -> FileColumns:
        """The columns of each file, and how their metrics are taken."""
        return FileColumns(self.schema, tuple(leaves_of(self.fields)), self.modes)

    def url(self, partition: Partition, name: str) -> str:
        """The location of a new file of a partition. `name` is given without its extension."""
        return data_location(
            self.location, self.properties, partition_path(self.spec, partition), f"{name}.{self.layout.ending}"
        )

    def refuse_partition(self) -> None:
        """UnsupportedError for a partition field with more than one source column."""
        for key in self.spec.fields:
            if not isinstance(key.source_id, int):
                raise UnsupportedError(f"partition field {key.name!r} has several source columns", table=self.location)


def _refuse(kind: IcebergType, name: str, location: str, format: str) -> None:
    """UnsupportedError for a type that lakebed does not write to files of the format."""
    inner: list[IcebergType] = []
    if isinstance(kind, StructType):
        inner = [child.field_type for child in kind.fields]
    elif isinstance(kind, ListType):
        inner = [kind.element_type]
    elif isinstance(kind, MapType):
        inner = [kind.key_type, kind.value_type]
    elif isinstance(kind, VariantType | GeometryType | GeographyType) and format != "PARQUET":
        raise UnsupportedError(
            f"lakebed writes columns of type {kind} to Parquet files only",
            table=location,
            why=f"column {name!r} is one, and the table's files are {format}",
            todo="Set write.format.default=parquet for this table",
        )
    for child_type in inner:
        if isinstance(child_type, Unknown):
            raise UnsupportedError(
                "lakebed does not write columns of type unknown inside other columns",
                table=location,
                why=f"column {name!r} has one",
                todo="Give it a type, or write to this table with its own engine",
            )
        _refuse(child_type, name, location, format)


@dataclass(slots=True)
class RollingWriter:
    """Writes batches into files that end near `roll_at` bytes, one partition after the other.

    `name` is the write id: files are named `{name}-{index}`. `roll_at` may be changed between batches. Call `finish`
    or `abort`; the latter removes every file of this writer.
    """

    target: WriteTarget
    name: str
    roll_at: int
    rows: int = 0
    closed: list[DataFile] = field(default_factory=list)
    closed_bytes: int = 0
    _urls: list[str] = field(default_factory=list)
    _partition: Partition = ()
    _open: OpenData | None = None
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _held_bytes: int = 0
    _encoded: int = 0
    _flushed: int = 0

    @property
    def open_bytes(self) -> int:
        """The bytes of the open file. Rows that wait in memory are estimated from the rows written before."""
        written = self._open.size if self._open is not None else 0
        return written + int(self._held_bytes * self.ratio)

    @property
    def ratio(self) -> float:
        """Bytes on disk per byte in memory, from the rows written so far; 1 before the first row group."""
        return self._encoded / self._flushed if self._flushed else 1.0

    @property
    def measured(self) -> bool:
        """Whether `ratio` is known, since a row group was written."""
        return self._flushed > 0

    def write(self, batch: pa.RecordBatch, partition: Partition = ()) -> None:
        """Write the rows of a batch with the target's columns. A change of partition closes the open file."""
        if not batch.num_rows:
            return
        if partition != self._partition:
            self.close_file()
            self._partition = partition
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        self.rows += batch.num_rows
        while self._held_bytes >= (limit := self._group_bytes()):
            self._flush(limit)
            if self._open is not None and self._open.size >= _FULL * self.roll_at:
                self.close_file(flush=False)

    def close_file(self, flush: bool = True) -> None:
        """Close the open file, if there is one. With `flush` it gets all rows that wait in memory."""
        if flush and self._held:
            self._flush(self._held_bytes)
        if self._open is None:
            return
        done = self._open.close()
        self.closed.append(
            DataFile(
                self._urls[-1], self.target.layout.format, self.target.spec.spec_id, self._partition, done.rows,
                done.size, sort_order_id=self.target.sort_order_id, split_offsets=done.split_offsets,
                metrics=done.metrics,
            )
        )  # fmt: skip
        self.closed_bytes += done.size
        self._open = None

    def finish(self) -> list[DataFile]:
        """Close the open file. Returns the files in the order in which they were written."""
        self.close_file()
        return self.closed

    def abort(self) -> None:
        """Remove all files of this writer."""
        if self._open is not None:
            self._open.abort()
            self._open = None
        self.target.files.delete_many(self._urls)

    def _group_bytes(self) -> int:
        """The bytes in memory of the next row group: the table's setting, or less where the file is nearly full."""
        most = self.target.layout.group_bytes
        if not self._flushed:
            return min(most, max(_LEAST_GROUP, self.roll_at // 4))
        room = self.roll_at - (self._open.size if self._open is not None else 0)
        return min(most, max(_LEAST_GROUP, int(room / max(self.ratio, 1e-3))))

    def _flush(self, limit: int) -> None:
        """Write rows of about `limit` bytes in memory as one row group."""
        batches, rest = _cut(self._held, self._held_bytes, limit)
        if self._open is None:
            url = self.target.url(self._partition, f"{self.name}-{len(self._urls)}")
            self._urls.append(url)
            self._open = open_data_file(self.target.files, url, self.target.columns, self.target.layout)
        size = sum(batch.nbytes for batch in batches)
        before = self._open.size
        self._open.write(pa.Table.from_batches(batches))
        self._encoded += self._open.size - before
        self._flushed += size
        self._held, self._held_bytes = rest, sum(batch.nbytes for batch in rest)


def _cut(batches: list[pa.RecordBatch], size: int, limit: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """The first batches of about `limit` bytes, and the rest. The last one may be cut in two."""
    if size <= limit:
        return batches, []
    taken = 0
    for place, batch in enumerate(batches):
        here = batch.nbytes
        if taken + here >= limit:
            rows = min(batch.num_rows, max(1, round(batch.num_rows * (limit - taken) / max(here, 1))))
            rest = [batch.slice(rows)] if rows < batch.num_rows else []
            return [*batches[:place], batch.slice(0, rows)], [*rest, *batches[place + 1 :]]
        taken += here
    return batches, []
