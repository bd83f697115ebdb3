"""Writing data files: Parquet, ORC or Avro as the table says, rolled at a size on disk, with their manifest figures.

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
from lakebed.formats.iceberg.write.formats import FORMATS, Layout, OpenData
from lakebed.formats.iceberg.write.statistics.leaves import Leaf, leaves_of
from lakebed.formats.iceberg.write.statistics.modes import MetricsMode, metrics_modes

_LEAST_GROUP = 4 << 10
_FULL = 0.98
"""A file this near to its size is closed: a row group more would carry it over."""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """All that a task needs to write data files of a table; picklable. `fields` are the columns, in order."""

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
        """New files of a table's current schema; `lineage` adds the columns of row lineage, `properties` lie over the
        table's.

        UnsupportedError for a column that lakebed does not write, OptionError for a table property out of range.
        """
        held = {**metadata.properties, **properties}
        layout = Layout.of(held, metadata.schema)
        fields = tuple(one for one in metadata.schema.fields if not isinstance(one.field_type, Unknown))
        for one in fields:
            _refuse(one.field_type, one.name, metadata.location, layout.format)
        if lineage:
            fields += (ROW_ID, LAST_UPDATED)
        order = metadata.sort_orders.get(metadata.default_sort_order_id)
        ordered = {one.source_id for one in order.fields} if order else set()
        modes = metrics_modes(leaves_of(fields), held, ordered)
        spec = metadata.specs[metadata.default_spec_id if spec_id is None else spec_id]
        return cls(files, metadata.location, held, fields, spec, layout, modes, sort_order_id or None)

    @property
    def schema(self) -> pa.Schema:
        """The columns as they come to the writer and go into files, with their field ids."""
        return arrow_schema(self.fields, ids=True)

    @property
    def leaves(self) -> list[Leaf]:
        """Their primitive columns."""
        return leaves_of(self.fields)

    def url(self, partition: Partition, name: str) -> str:
        """Where a file of a partition goes; `name` comes without its ending."""
        return data_location(
            self.location, self.properties, partition_path(self.spec, partition), f"{name}.{self.layout.ending}"
        )

    def refuse_partition(self) -> None:
        """UnsupportedError for a partition field that needs more than one column."""
        for one in self.spec.fields:
            if not isinstance(one.source_id, int):
                raise UnsupportedError(f"partition field {one.name!r} has several source columns", table=self.location)


def _refuse(kind: IcebergType, name: str, location: str, format: str) -> None:
    """UnsupportedError for a type that files of that format cannot hold, as far as lakebed writes them."""
    inner: list[IcebergType] = []
    if isinstance(kind, StructType):
        inner = [child.field_type for child in kind.fields]
    elif isinstance(kind, ListType):
        inner = [kind.element_type]
    elif isinstance(kind, MapType):
        inner = [kind.key_type, kind.value_type]
    elif isinstance(kind, VariantType | GeometryType | GeographyType) and format != "PARQUET":
        raise UnsupportedError(
            f"lakebed writes columns of type {kind} to Parquet files only", table=location,
            why=f"column {name!r} is one, and the table's files are {format}",
            todo="Set write.format.default=parquet for this table",
        )  # fmt: skip
    for one in inner:
        if isinstance(one, Unknown):
            raise UnsupportedError(
                "lakebed does not write columns of type unknown inside others", table=location,
                why=f"column {name!r} has one", todo="Give it a type, or rewrite this table with its own engine",
            )  # fmt: skip
        _refuse(one, name, location, format)


@dataclass(slots=True)
class RollingWriter:
    """Writes batches of one partition after the other into files that end near `roll_at` bytes.

    `name` is the write id: files are `{name}-{index}`. `roll_at` may be changed between batches. What is not finished
    must be aborted, which removes every file of this writer.
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
        """The bytes of the open file, those of rows that wait estimated by the rows before them."""
        written = self._open.size if self._open is not None else 0
        return written + int(self._held_bytes * self.ratio)

    @property
    def ratio(self) -> float:
        """Bytes on disk by bytes in memory, as far as it is known; 1 before the first row group."""
        return self._encoded / self._flushed if self._flushed else 1.0

    @property
    def measured(self) -> bool:
        """Whether a row group was written, so that `ratio` is known."""
        return self._flushed > 0

    def write(self, batch: pa.RecordBatch, partition: Partition = ()) -> None:
        """Take the rows of a batch, whose columns are the target's; another partition closes the file."""
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
        """End the open file, if there is one; `flush` takes all rows that wait into it."""
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
        """Close what is open; the files in the order in which they were written."""
        self.close_file()
        return self.closed

    def abort(self) -> None:
        """Remove all files."""
        if self._open is not None:
            self._open.abort()
            self._open = None
        self.target.files.delete_many(self._urls)

    def _group_bytes(self) -> int:
        """Bytes in memory of the next row group: that of the table, or what the file still takes."""
        most = self.target.layout.group_bytes
        if not self._flushed:
            return min(most, max(_LEAST_GROUP, self.roll_at // 4))
        room = self.roll_at - (self._open.size if self._open is not None else 0)
        return min(most, max(_LEAST_GROUP, int(room / max(self.ratio, 1e-3))))

    def _flush(self, limit: int) -> None:
        """Write rows of about so many bytes as one row group."""
        some, rest = _cut(self._held, self._held_bytes, limit)
        if self._open is None:
            url = self.target.url(self._partition, f"{self.name}-{len(self._urls)}")
            self._urls.append(url)
            self._open = FORMATS[self.target.layout.format](
                self.target.files, url, self.target.schema, self.target.leaves, self.target.modes, self.target.layout
            )
        size = sum(batch.nbytes for batch in some)
        before = self._open.size
        self._open.write(pa.Table.from_batches(some))
        self._encoded += self._open.size - before
        self._flushed += size
        self._held, self._held_bytes = rest, sum(batch.nbytes for batch in rest)


def _cut(batches: list[pa.RecordBatch], size: int, limit: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Batches of about `limit` bytes, and the rest; the last one may be cut in two."""
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
