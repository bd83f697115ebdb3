"""Column figures of a data file for its manifest entry, as the reference engine makes them.

Rules: MetricsConfig, MetricsModes, ParquetMetrics and BinaryUtil. Which figures a column gets is said by the table
properties `write.metadata.metrics.*`; text and bytes are cut to 16, upper bounds rounded up. Columns inside lists and
maps have none.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UUIDType,
)

from lakebed.errors import OptionError
from lakebed.formats.iceberg.codec.schema import VariantType
from lakebed.formats.iceberg.entries import Metrics

_DEFAULT = "write.metadata.metrics.default"
_COLUMN = "write.metadata.metrics.column."
_MAX_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"
_INFERRED = "truncate(16)"
_WHOLE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """Whether values are counted, and to how many characters or bytes bounds are cut (0: no bounds)."""

    counts: bool
    length: int

    @classmethod
    def parse(cls, text: str, key: str) -> MetricsMode:
        """none, counts, truncate(N) or full; OptionError names the table property."""
        word = text.strip().lower()
        match = re.fullmatch(r"truncate\((\d+)\)", word)
        if match and int(match[1]):
            return cls(True, int(match[1]))
        if word not in ("none", "counts", "full"):
            raise OptionError.ill_typed(key, text, "none, counts, truncate(N) or full")
        return cls(word != "none", _WHOLE if word == "full" else 0)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column: its id, its dotted name, its type, whether it lies in a list or map, and the path of struct
    fields to it (positions)."""

    id: int
    name: str
    type: PrimitiveType
    repeated: bool
    path: tuple[int, ...]

    @property
    def width(self) -> int:
        """The columns that it takes in a Parquet file: a variant has two."""
        return 2 if isinstance(self.type, VariantType) else 1

    @property
    def has_bounds(self) -> bool:
        """Whether its values have an order that bounds can tell."""
        return not isinstance(self.type, VariantType | GeometryType | GeographyType)

    @property
    def is_float(self) -> bool:
        """Whether it can hold NaN."""
        return isinstance(self.type, FloatType | DoubleType)


def leaves_of(fields: Iterable[NestedField]) -> list[Leaf]:
    """The primitive columns in the order in which files store them."""
    found: list[Leaf] = []
    for place, one in enumerate(fields):
        _collect(one.field_type, one.field_id, one.name, False, (place,), found)
    return found


def _collect(kind: IcebergType, id: int, name: str, repeated: bool, path: tuple[int, ...], found: list[Leaf]) -> None:
    if isinstance(kind, StructType):
        for place, child in enumerate(kind.fields):
            _collect(child.field_type, child.field_id, f"{name}.{child.name}", repeated, (*path, place), found)
    elif isinstance(kind, ListType):
        _collect(kind.element_type, kind.element_id, f"{name}.element", True, path, found)
    elif isinstance(kind, MapType):
        _collect(kind.key_type, kind.key_id, f"{name}.key", True, path, found)
        _collect(kind.value_type, kind.value_id, f"{name}.value", True, path, found)
    elif isinstance(kind, PrimitiveType):
        found.append(Leaf(id, name, kind, repeated, path))


def metrics_modes(
    leaves: Sequence[Leaf], properties: Mapping[str, str], sorted_ids: Collection[int] = ()
) -> dict[int, MetricsMode]:
    """The mode of each column by id. Columns of the sort order have bounds unless they are named; in a wide table only
    the first hundred get figures that nobody asked for."""
    default = properties.get(_DEFAULT)
    mode = MetricsMode.parse(default or _INFERRED, _DEFAULT)
    inferred = int(properties.get(_MAX_COLUMNS, 100)) if default is None else len(leaves)
    none, of_sorted = MetricsMode(False, 0), mode if mode.length else MetricsMode(True, 16)
    found = {}
    for number, leaf in enumerate(leaves):
        given = properties.get(_COLUMN + leaf.name)
        if given is not None:
            found[leaf.id] = MetricsMode.parse(given, _COLUMN + leaf.name)
        elif leaf.id in sorted_ids:
            found[leaf.id] = of_sorted
        else:
            found[leaf.id] = mode if number < inferred else none
        if not leaf.has_bounds:
            found[leaf.id] = MetricsMode(found[leaf.id].counts, 0)
    return found


# ---- Parquet: what the footer says -----------------------------------------------------------------------------------


def parquet_metrics(
    footer: pq.FileMetaData, leaves: Sequence[Leaf], modes: Mapping[int, MetricsMode], nans: Mapping[int, int]
) -> Metrics:
    """The figures of a file from its footer; `nans` are counts of NaN, which a footer does not have."""
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    bounds = _Bounds(leaves, modes)
    places = list(accumulate([leaf.width for leaf in leaves], initial=0))[:-1]
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place, leaf in zip(places, leaves, strict=True):
            chunk = group.column(place)
            taken = sum(group.column(n).total_compressed_size for n in range(place, place + leaf.width))
            sizes[leaf.id] = sizes.get(leaf.id, 0) + taken
            if leaf.repeated or not modes[leaf.id].counts:
                continue
            stats = chunk.statistics
            values[leaf.id] = values.get(leaf.id, 0) + chunk.num_values
            if stats is None:
                bounds.drop(leaf.id)
                continue
            nulls[leaf.id] = nulls.get(leaf.id, 0) + stats.null_count
            if stats.has_min_max:
                bounds.add(leaf, _encoded(stats.min_raw, leaf.type), _encoded(stats.max_raw, leaf.type))
            elif stats.null_count < chunk.num_values and not leaf.is_float:
                bounds.drop(leaf.id)  # values too long for the footer
    lower, upper = bounds.cut()
    counted = {leaf.id for leaf in leaves if modes[leaf.id].counts}
    return Metrics(sizes, values, nulls, {id: count for id, count in nans.items() if id in counted}, lower, upper)


def split_offsets(footer: pq.FileMetaData) -> tuple[int, ...]:
    """Where each row group starts."""
    found = []
    for number in range(footer.num_row_groups):
        first = footer.row_group(number).column(0)
        dictionary, data = first.dictionary_page_offset, first.data_page_offset
        found.append(data if not dictionary or dictionary > data else dictionary)
    return tuple(found)


def nan_counts(batch: pa.RecordBatch | pa.Table, leaves: Sequence[Leaf], counts: dict[int, int]) -> None:
    """Add the NaN of a batch to the counts of its columns of floats outside lists and maps."""
    for leaf in leaves:
        if leaf.is_float and not leaf.repeated:
            column = leaf_column(batch, leaf)
            counts[leaf.id] = counts.get(leaf.id, 0) + (pc.sum(pc.is_nan(column)).as_py() or 0)


def leaf_column(batch: pa.RecordBatch | pa.Table, leaf: Leaf) -> Any:
    """A primitive column outside lists and maps."""
    column = batch.column(leaf.path[0])
    return column if len(leaf.path) == 1 else pc.struct_field(column, list(leaf.path[1:]))


# ---- other formats: what the columns say -----------------------------------------------------------------------------


@dataclass(slots=True)
class ColumnMetrics:
    """Figures gathered from the batches themselves, for files whose footer cannot be asked."""

    leaves: Sequence[Leaf]
    modes: Mapping[int, MetricsMode]
    _values: dict[int, int] = field(default_factory=dict)
    _nulls: dict[int, int] = field(default_factory=dict)
    _nans: dict[int, int] = field(default_factory=dict)
    _bounds: _Bounds | None = None

    def add(self, batch: pa.Table) -> None:
        """Count a batch in."""
        bounds = self._bounds = self._bounds or _Bounds(self.leaves, self.modes)
        for leaf in self.leaves:
            if leaf.repeated or not self.modes[leaf.id].counts:
                continue
            column = leaf_column(batch, leaf)
            self._values[leaf.id] = self._values.get(leaf.id, 0) + len(column)
            self._nulls[leaf.id] = self._nulls.get(leaf.id, 0) + column.null_count
            if leaf.is_float:
                column = column.filter(pc.invert(pc.is_nan(column)))
            if self.modes[leaf.id].length and column.null_count < len(column):
                low, high = _extremes(column)
                bounds.add(leaf, _encoded(low, leaf.type), _encoded(high, leaf.type))
        nan_counts(batch, [leaf for leaf in self.leaves if self.modes[leaf.id].counts], self._nans)

    def finish(self) -> Metrics:
        """The figures of all batches."""
        lower, upper = self._bounds.cut() if self._bounds else ({}, {})
        return Metrics({}, self._values, self._nulls, self._nans, lower, upper)


def _extremes(column: pa.ChunkedArray | pa.Array) -> tuple[Any, Any]:
    """The least and greatest value in the raw form of a Parquet footer."""
    if isinstance(column.type, pa.BaseExtensionType):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        column = pa.chunked_array([chunk.storage for chunk in chunks])
    found = pc.min_max(column)
    low, high = found["min"], found["max"]
    if pa.types.is_decimal(column.type):
        scale = column.type.scale
        return tuple(int(one.as_py().scaleb(scale)) for one in (low, high))  # type: ignore[return-value]  # two of them
    if pa.types.is_date(column.type):
        return low.cast(pa.int32()).as_py(), high.cast(pa.int32()).as_py()
    if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        return low.value, high.value
    if pa.types.is_string(column.type):
        return low.as_py().encode(), high.as_py().encode()
    return low.as_py(), high.as_py()


# ---- files that are joined -------------------------------------------------------------------------------------------


def merged(metrics: Sequence[Metrics], types: Mapping[int, PrimitiveType]) -> Metrics:
    """The figures of files put together: exact, and left out for a column where one file lacks them.

    `types` are the table's columns by id; bounds of others are left out.
    """
    return Metrics(
        _summed([m.column_sizes for m in metrics]), _summed([m.value_counts for m in metrics]),
        _summed([m.null_value_counts for m in metrics]), _summed([m.nan_value_counts for m in metrics]),
        _outer(metrics, types, upper=False), _outer(metrics, types, upper=True),
    )  # fmt: skip


def _summed(counts: Sequence[Mapping[int, int]]) -> dict[int, int]:
    return {id: sum(one[id] for one in counts) for id in counts[0] if all(id in one for one in counts)}


def _outer(metrics: Sequence[Metrics], types: Mapping[int, PrimitiveType], upper: bool) -> dict[int, bytes]:
    """The least lower or greatest upper bounds; a file without a single value of a column does not count."""
    found: dict[int, bytes] = {}
    for id, kind in types.items():
        bounds = []
        for one in metrics:
            bound = (one.upper_bounds if upper else one.lower_bounds).get(id)
            if bound is not None:
                bounds.append(bound)
            elif not _is_void(one, id):
                break
        else:
            if bounds:
                pick = max if upper else min
                found[id] = pick(bounds, key=lambda bound: _comparable(kind, bound))
    return found


def _is_void(metrics: Metrics, id: int) -> bool:
    values = metrics.value_counts.get(id)
    empty = metrics.null_value_counts.get(id, 0) + metrics.nan_value_counts.get(id, 0)
    return values is not None and values == empty


def _comparable(kind: PrimitiveType, bound: bytes) -> Any:
    if isinstance(kind, StringType | BinaryType | FixedType | UUIDType):
        return bytes(bound)  # UTF-8 sorts as its code points do
    if len(bound) == 4 and isinstance(kind, LongType | DoubleType):  # written when the column was narrower
        kind = IntegerType() if isinstance(kind, LongType) else FloatType()
    value: Any = from_bytes(kind, bytes(bound))
    return (value, struct.pack(">d", value) < b"\x80") if value == 0 and isinstance(value, float) else (value, True)


# ---- bounds ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Bounds:
    """Least and greatest values so far, by column, in single-value form, not cut yet."""

    leaves: Sequence[Leaf]
    modes: Mapping[int, MetricsMode]
    _found: dict[int, tuple[bytes, bytes] | None] = field(default_factory=dict)

    def add(self, leaf: Leaf, low: bytes, high: bytes) -> None:
        if not self.modes[leaf.id].length:
            return
        known = self._found.get(leaf.id, (low, high))
        if known is not None:
            pick = _Pick(leaf.type)
            self._found[leaf.id] = min(known[0], low, key=pick), max(known[1], high, key=pick)

    def drop(self, id: int) -> None:
        self._found[id] = None

    def cut(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        for leaf in self.leaves:
            found = self._found.get(leaf.id)
            if found is not None:
                length = self.modes[leaf.id].length
                lower[leaf.id] = _lower(leaf.type, found[0], length)
                high = _upper(leaf.type, found[1], length)
                if high is not None:
                    upper[leaf.id] = high
        return lower, upper


@dataclass(frozen=True, slots=True)
class _Pick:
    kind: PrimitiveType

    def __call__(self, bound: bytes) -> Any:
        return _comparable(self.kind, bound)


def _encoded(raw: Any, kind: PrimitiveType) -> bytes:
    """A value as a Parquet footer gives it, in the specification's single-value form."""
    if isinstance(kind, DecimalType):
        value = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return int(value).to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)
    if isinstance(raw, bool):
        return b"\x01" if raw else b"\x00"
    if isinstance(raw, float):
        return struct.pack("<f" if isinstance(kind, FloatType) else "<d", raw)
    if isinstance(raw, int):
        return struct.pack("<i" if str(kind) in ("int", "date") else "<q", raw)
    return bytes(raw)


def _lower(kind: PrimitiveType, bound: bytes, length: int) -> bytes:
    if isinstance(kind, StringType):
        return bound if len(bound) <= length else bound.decode()[:length].encode()
    return bound[:length] if isinstance(kind, BinaryType | FixedType) else bound


def _upper(kind: PrimitiveType, bound: bytes, length: int) -> bytes | None:
    """The shortest upper bound of that length; None when there is none."""
    if isinstance(kind, StringType):
        text = bound.decode()
        return bound if len(text) <= length else _next_text(text[:length])
    if isinstance(kind, BinaryType | FixedType) and len(bound) > length:
        head = bound[:length].rstrip(b"\xff")
        return head[:-1] + bytes([head[-1] + 1]) if head else None
    return bound


def _next_text(text: str) -> bytes | None:
    for end in range(len(text) - 1, -1, -1):
        following = ord(text[end]) + 1
        if 0xD800 <= following < 0xE000:
            following = 0xE000
        if following <= 0x10FFFF:
            return (text[:end] + chr(following)).encode()
    return None
