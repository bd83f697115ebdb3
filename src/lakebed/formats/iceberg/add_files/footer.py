"""A data file from what a file says of itself: rows, split offsets, metrics, and its columns held against the table.

Rules: the specification's "Column Projection" (field ids, else the name mapping) and "Schema Evolution" (which types a
column may have been widened from), and the reference engine's footerMetrics. A footer counts no NaN. ORC and Avro files
get their number of rows and no metrics of columns.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from lakebed.errors import SchemaError
from lakebed.formats.iceberg.add_files.paths import Candidate
from lakebed.formats.iceberg.codec.name_mapping import NameMapping
from lakebed.formats.iceberg.codec.schema import arrow_type
from lakebed.formats.iceberg.data_files import Metrics
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.conform import FileField, is_list, with_mapping
from lakebed.formats.iceberg.read.formats import OpenFile, ParquetData, leaf_count, opened
from lakebed.formats.iceberg.write.statistics.leaves import Leaf, leaves_of
from lakebed.formats.iceberg.write.statistics.metrics import parquet_metrics, split_offsets
from lakebed.formats.iceberg.write.statistics.modes import MetricsMode
from lakebed.kernel.decoding import Stated
from lakebed.kernel.schemas import SchemaKey

_UNMAPPED = NameMapping()


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts in a file's footer. `has_ids` says whether it has its own field ids; `names` are its columns that the
    table has too."""

    rows: int
    size: int
    has_ids: bool
    names: tuple[str, ...]
    metrics: Metrics
    split_offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FooterReader:
    """Reads footers. Picklable. `mapping` is the table's name mapping, or the one that it will get."""

    files: Files
    schema: Schema
    spec: PartitionSpec
    mapping: NameMapping
    modes: Mapping[int, MetricsMode]

    def __call__(self, candidates: Sequence[Candidate]) -> list[FileFacts]:
        """The facts of each file, in order. SchemaError for a file that does not fit the table."""
        known: _Known = {}
        with self.files.fetching((each.path, each.size) for each in candidates):
            return [self._facts(each, known) for each in candidates]

    def _facts(self, candidate: Candidate, known: _Known) -> FileFacts:
        path = candidate.path
        stated = Stated(candidate.size)
        with opened(self.files, path, candidate.format, _UNMAPPED, stated=stated) as file:
            columns = self._columns(file, path, known)
            if not isinstance(file, ParquetData):
                return FileFacts(file.rows, candidate.size, columns.has_ids, columns.names, Metrics())
            metrics = columns.metrics(file.metadata)
            offsets = split_offsets(file.metadata)
            return FileFacts(file.rows, candidate.size, columns.has_ids, columns.names, metrics, offsets)

    def _columns(self, file: OpenFile, path: str, known: _Known) -> _Columns:
        """The columns of a file, checked against the table: SchemaError if they do not fit. Parquet files with the same
        schema are checked once."""
        if not isinstance(file, ParquetData):
            return self._checked(file, arrow_schema_of(file), path)[0]
        key = SchemaKey(file.arrow), _stored(file)
        if key not in known:
            arrow = arrow_schema_of(file)
            columns, fields = self._checked(file, arrow, path)
            known[key] = self._measured(columns, file.metadata.num_columns, fields, arrow)
        return known[key]

    def _checked(self, file: OpenFile, arrow: pa.Schema, path: str) -> tuple[_Columns, Sequence[FileField]]:
        has_ids = any(field.has_ids for field in file.fields)
        fields = file.fields if has_ids else with_mapping(file.fields, self.mapping)
        self._check(fields, arrow, has_ids, path, file)
        names = tuple(field.name for field in fields if field.id is not None)
        return _Columns(has_ids, names, (), (), {}), fields

    def _check(self, fields: Sequence[FileField], arrow: pa.Schema, has_ids: bool, path: str, file: OpenFile) -> None:
        by_id = {column.field_id: column for column in self.schema.fields}
        by_name = {column.name: column for column in self.schema.fields}
        plain = file.arrow if isinstance(file, ParquetData) else arrow
        for field, stored, as_stored in zip(fields, arrow, plain, strict=True):
            named = by_name.get(field.name)
            if named is not None and field.id != named.field_id:
                why = (
                    f"it has the field id {field.id} there, the table {named.field_id}" if has_ids
                    else "the table's name mapping does not have it"
                )  # fmt: skip
                raise SchemaError(
                    f"column {field.name!r} of a file would not be read", file=path, why=why,
                    todo="Write its rows with table.write" if has_ids else "Set a new schema.name-mapping.default",
                )  # fmt: skip
            if named is None:
                column = by_id.get(field.id) if field.id is not None else None
                raise SchemaError(
                    f"the table has no column {field.name!r}, and a file has", file=path,
                    why="" if column is None else f"its field id {field.id} is that of {column.name!r}",
                    todo="Add the column with table.alter first, or write the file's rows with table.write",
                )  # fmt: skip
            column = named
            wanted = arrow_type(column.field_type)
            if not fits(stored.type, wanted) and not fits(as_stored.type, wanted):
                raise SchemaError(
                    f"column {field.name!r} of a file is a {stored.type}", file=path,
                    why=f"the table has {column.field_type}", todo="Write its rows with table.write",
                )  # fmt: skip
            other = _other_ids(field, column.field_type)
            if other:
                raise SchemaError(
                    f"field {other!r} of a file would not be read", file=path,
                    why="it has another field id in the table", todo="Write its rows with table.write",
                )  # fmt: skip
        held = {field.id for field in fields}
        from_path = {key.source_id for key in self.spec.fields if isinstance(key.transform, IdentityTransform)}
        for column in self.schema.fields:
            if column.required and column.initial_default is None and column.field_id not in held | from_path:
                raise SchemaError(f"a file lacks the required column {column.name!r}", file=path)

    def _measured(self, columns: _Columns, count: int, fields: Sequence[FileField], arrow: pa.Schema) -> _Columns:
        """With the leaves that get metrics: those that the table has. Where a file stores a type in another way than
        the table, the numbers in its footer mean something else, and the column has no bounds."""
        leaves = {leaf.id: leaf for leaf in leaves_of(self.schema.fields)}
        chosen: list[Leaf] = []
        places: list[int] = []
        modes: dict[int, MetricsMode] = {}
        stored = [*_leaves(fields, [field.type for field in arrow])]
        if len(stored) != count:
            return columns
        for place, (id, kind) in enumerate(stored):
            leaf = leaves.get(id) if id is not None else None
            if leaf is None or leaf.width > 1:
                continue
            chosen.append(leaf)
            places.append(place)
            same = kind == _storage(arrow_type(leaf.type)) or (str(kind), str(leaf.type)) in _SAME_NUMBERS
            modes[leaf.id] = self.modes[leaf.id] if same else MetricsMode(self.modes[leaf.id].counts, 0)
        return replace(columns, leaves=tuple(chosen), places=tuple(places), modes=modes)


@dataclass(frozen=True, slots=True)
class _Columns:
    """What files with the same schema have in common. `leaves` get metrics by their `modes`, and `places` are their
    numbers among the columns of the file."""

    has_ids: bool
    names: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    places: tuple[int, ...]
    modes: Mapping[int, MetricsMode]

    def metrics(self, footer: pq.FileMetaData) -> Metrics:
        """The metrics of a Parquet file."""
        if not self.leaves:
            return Metrics()
        metrics = parquet_metrics(footer, self.leaves, self.modes, {}, self.places)
        floats = {leaf.id for leaf in self.leaves if leaf.is_float}
        if not floats:
            return metrics
        return replace(
            metrics,
            lower_bounds=_without_nan(metrics.lower_bounds, floats),
            upper_bounds=_without_nan(metrics.upper_bounds, floats),
        )


_Known = dict[tuple[SchemaKey, tuple[str, ...]], _Columns]
"""The columns of the files so far, by their schema and how their leaves are stored."""

_SAME_NUMBERS = {("int32", "long"), ("float", "double"), ("int8", "int"), ("int16", "int"), ("large_string", "string")}
"""Types of a file, and of the table, whose values have the same numbers in a footer."""
_WIDENED = {
    "int8": ("int32", "int64"), "int16": ("int32", "int64"), "int32": ("int64",), "uint8": ("int32", "int64"),
    "uint16": ("int32", "int64"), "uint32": ("int64",), "float": ("double",), "large_string": ("string",),
    "large_binary": ("binary",), "binary": ("string",),
}  # fmt: skip


def fits(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of a file can be read as the table's: it is the same, or was widened by the specification's
    rules."""
    stored, wanted = _storage(stored), _storage(wanted)
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    if stored == wanted or str(wanted) in _WIDENED.get(str(stored), ()):
        return True
    if pa.types.is_decimal(stored) and pa.types.is_decimal(wanted):
        return bool(stored.scale == wanted.scale and stored.precision <= wanted.precision)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(wanted):
        return (stored.tz is None) == (wanted.tz is None)
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        names = {wanted.field(n).name: wanted.field(n).type for n in range(wanted.num_fields)}
        inner = [stored.field(n) for n in range(stored.num_fields)]
        return all(field.name not in names or fits(field.type, names[field.name]) for field in inner)
    if pa.types.is_map(stored) and pa.types.is_map(wanted):
        return fits(stored.key_type, wanted.key_type) and fits(stored.item_type, wanted.item_type)
    if pa.types.is_list(stored) and pa.types.is_list(wanted):
        return fits(stored.value_type, wanted.value_type)
    return False


def _without_nan(bounds: Mapping[int, bytes], floats: Collection[int]) -> dict[int, bytes]:
    """The bounds without those that are NaN, as old writers have them."""
    widths = {4: "<f", 8: "<d"}
    return {
        id: bound for id, bound in bounds.items()
        if id not in floats or not math.isnan(struct.unpack(widths[len(bound)], bound)[0])
    }  # fmt: skip


def _other_ids(field: FileField, kind: IcebergType) -> str:
    """The dotted name of the first field inside a column that has another id than in the table; "" where none has."""
    if isinstance(kind, StructType):
        names = {child.name: (child.field_id, child.field_type) for child in kind.fields}
        pairs = [(child, *names[child.name]) for child in field.children if child.name in names]
    elif isinstance(kind, ListType) and len(field.children) == 1:
        pairs = [(field.children[0], kind.element_id, kind.element_type)]
    elif isinstance(kind, MapType) and len(field.children) == 2:
        key, value = field.children
        pairs = [(key, kind.key_id, kind.key_type), (value, kind.value_id, kind.value_type)]
    else:
        return ""
    for child, id, inner in pairs:
        other = child.name if child.id != id else _other_ids(child, inner)
        if other:
            return f"{field.name}.{other}"
    return ""


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def arrow_schema_of(file: OpenFile) -> pa.Schema:
    """The Arrow types of a file's columns. Those of an Avro file are known from its first rows.

    Timestamps that Parquet stores as INT96 are moments in time, as in the reference engine's MessageTypeToType.
    """
    if isinstance(file, ParquetData):
        stored = iter(_stored(file))
        return pa.schema([pa.field(field.name, _moments(field.type, stored)) for field in file.arrow])
    if file.arrow is not None:
        return file.arrow
    piece = next(iter(file.pieces(range(len(file.fields)))), None)
    columns = piece.columns if piece is not None else [pa.nulls(0) for _ in file.fields]
    return pa.schema([pa.field(field.name, column.type) for field, column in zip(file.fields, columns, strict=True)])


def _stored(file: ParquetData) -> tuple[str, ...]:
    """How Parquet stores each leaf."""
    footer = file.metadata.schema
    return tuple(footer.column(n).physical_type for n in range(len(footer)))


def _moments(kind: pa.DataType, stored: Iterator[str]) -> pa.DataType:
    """A type whose leaves that are stored as INT96 have the time zone UTC. `stored` has how leaves are stored, in
    order."""
    if pa.types.is_struct(kind):
        return pa.struct(
            [kind.field(n).with_type(_moments(kind.field(n).type, stored)) for n in range(kind.num_fields)]
        )
    if pa.types.is_map(kind):
        key, item = _moments(kind.key_type, stored), _moments(kind.item_type, stored)
        return kind if (key, item) == (kind.key_type, kind.item_type) else pa.map_(key, item)
    if isinstance(kind, pa.BaseExtensionType):
        for _ in range(leaf_count(kind.storage_type)):
            next(stored)
        return kind
    if is_list(kind):
        value = _moments(kind.value_type, stored)
        return kind if value == kind.value_type else pa.list_(kind.value_field.with_type(value))
    return pa.timestamp(kind.unit, "UTC") if next(stored) == "INT96" else kind


def _leaves(fields: Sequence[FileField], kinds: Sequence[pa.DataType]) -> Iterator[tuple[int | None, pa.DataType]]:
    """The field id and the type of each leaf of a Parquet file, in order."""
    for field, stored in zip(fields, kinds, strict=True):
        kind = _storage(stored)
        if pa.types.is_struct(kind):
            yield from _leaves(field.children, [kind.field(n).type for n in range(kind.num_fields)])
        elif pa.types.is_map(kind):
            yield from _leaves(field.children, [kind.key_type, kind.item_type])
        elif field.children:
            yield from _leaves(field.children, [kind.value_type])
        else:
            yield field.id, kind
