"""Arrow data for hypothesis: schemas, tables, row kinds, and ways to cut tables into batches.

The types are those that Hudi, Paimon and Iceberg share, in the form in which lakebed reads them. Every example shrinks
towards few columns, few rows and plain values.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakebed.model.rowkind import ROW_KIND_FIELD, SHORT_NAMES

FLAT_TYPES: tuple[pa.DataType, ...] = (
    pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.float32(), pa.float64(), pa.date32(),
    pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.binary(),
    pa.decimal128(1, 0), pa.decimal128(10, 2), pa.decimal128(38, 18),
)  # fmt: skip
"""Types without children. Hudi and Iceberg have no 8-bit and 16-bit integers, so these are left out."""
KEY_TYPES: tuple[pa.DataType, ...] = (
    pa.int32(), pa.int64(), pa.string(), pa.date32(), pa.timestamp("us"), pa.decimal128(10, 2),
)  # fmt: skip
"""Types that every format accepts for a key."""

_DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
_TIMES = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999))


def types(depth: int = 2) -> st.SearchStrategy[pa.DataType]:
    """A type. Lists, maps and structs are nested at most `depth` deep; 0 gives types without children only."""
    flat = st.sampled_from(FLAT_TYPES)
    if depth <= 0:
        return flat
    child = st.deferred(lambda: types(depth - 1))
    fields = st.lists(child, min_size=1, max_size=3).map(
        lambda kinds: pa.struct([pa.field(f"f{n}", kind) for n, kind in enumerate(kinds)])
    )
    maps = child.map(lambda kind: pa.map_(pa.string(), kind))
    return st.one_of(flat, child.map(pa.list_), maps, fields)


def values(kind: pa.DataType, nullable: bool = True) -> st.SearchStrategy[Any]:
    """A Python value of a type. It may be None where `nullable`. Floats are never NaN."""
    value = _values(kind)
    return st.one_of(st.none(), value) if nullable else value


@st.composite
def schemas(draw: st.DrawFn, min_columns: int = 1, max_columns: int = 6, depth: int = 2, keys: int = 0) -> pa.Schema:
    """A schema of columns `c0`, `c1`, ... Before them come `keys` columns `k0`, ... of key types, which may not be
    null."""
    key_fields = [pa.field(f"k{n}", draw(st.sampled_from(KEY_TYPES)), nullable=False) for n in range(keys)]
    kinds = draw(st.lists(types(depth), min_size=min_columns, max_size=max_columns))
    return pa.schema([*key_fields, *(pa.field(f"c{n}", kind) for n, kind in enumerate(kinds))])


@st.composite
def tables(
    draw: st.DrawFn,
    schema: pa.Schema | st.SearchStrategy[pa.Schema] | None = None,
    min_rows: int = 0,
    max_rows: int = 20,
) -> pa.Table:
    """A table of a schema; None stands for any schema. Rows may repeat."""
    chosen = draw(schemas()) if schema is None else schema if isinstance(schema, pa.Schema) else draw(schema)
    rows = draw(st.integers(min_rows, max_rows))
    columns = [
        pa.array(draw(st.lists(values(f.type, f.nullable), min_size=rows, max_size=rows)), f.type) for f in chosen
    ]
    return pa.Table.from_arrays(columns, schema=chosen)


@st.composite
def row_kind_tables(
    draw: st.DrawFn, schema: pa.Schema, min_rows: int = 0, max_rows: int = 20, kinds: tuple[str, ...] = SHORT_NAMES
) -> pa.Table:
    """A table of a schema, with the column `_row_kind` added at the end."""
    table = draw(tables(schema, min_rows, max_rows))
    names = draw(st.lists(st.sampled_from(kinds), min_size=table.num_rows, max_size=table.num_rows))
    return table.append_column(ROW_KIND_FIELD, pa.array(names, pa.string()))


@st.composite
def chunkings(draw: st.DrawFn, table: pa.Table, max_batches: int = 5) -> list[pa.RecordBatch]:
    """The rows of a table in order, cut anywhere. Batches may be empty, and may be slices of larger arrays."""
    cuts = sorted(draw(st.lists(st.integers(0, table.num_rows), max_size=max_batches - 1)))
    whole = table.combine_chunks()
    batches: list[pa.RecordBatch] = []
    for start, stop in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        pieces = whole.slice(start, stop - start).to_batches()
        batches += pieces or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    return batches


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    if pa.types.is_map(kind):
        pairs = st.dictionaries(values(kind.key_type, False), values(kind.item_type), max_size=3)
        return pairs.map(lambda entries: list(entries.items()))
    if pa.types.is_list(kind):
        return st.lists(values(kind.value_type), max_size=3)
    if pa.types.is_integer(kind):
        return st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False, width=kind.bit_width)
    if pa.types.is_decimal(kind):
        largest = 10**kind.precision - 1
        return st.integers(-largest, largest).map(lambda digits: Decimal(f"{digits}e-{kind.scale}"))
    if pa.types.is_string(kind):
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    if pa.types.is_binary(kind):
        return st.binary(max_size=12)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_date(kind):
        return _DAYS
    if pa.types.is_timestamp(kind):
        return _TIMES if kind.tz is None else _TIMES.map(lambda moment: moment.replace(tzinfo=datetime.UTC))
    raise ValueError(f"no strategy for {kind}")
