"""What the statistics in manifests say of a column in each file.

Rules: Paimon's SimpleStatsEvolution. Statistics have the columns of the schema that the file was written with, in its
types, or only those that the entry names. A column that the file's schema does not have is null in all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.codec.row_fields import row_fields
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, DataType, arrow_type, timestamp_unit
from lakebed.formats.paimon.entries import Entries
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, from_values, one_chunk, to_numpy
from lakebed.kernel.predicates.facts import Facts

SchemaOf = Callable[[int], TableSchema]
"""Gives a version of the schema by its id."""

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_SIZED = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_UNKNOWN = -1
_SEPARATOR = from_values(["\0"], pa.string())[0]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the statistics of some entries have a column: its place among `arity` fields, and its type there."""

    entries: Bools
    place: int
    arity: int
    type: DataType


def value_facts(entries: Entries, field: DataField, schema: TableSchema, schema_of: SchemaOf) -> Facts:
    """The facts of a value column. `schema_of` gives the schemas of files that were written with another one."""
    named = entries.table.column("value_stats_cols")
    if named.null_count:
        named = pc.coalesce(named, entries.table.column("write_cols"))
    texts = one_chunk(pc.binary_join(named, _SEPARATOR)).dictionary_encode("encode")
    lists, codes, ids = texts.dictionary.to_pylist(), to_numpy(texts.indices), entries.numbers("schema_id")
    layouts, absent = list[_Layout](), np.zeros(len(entries), np.bool_)
    for number in np.unique(ids).tolist():
        of_schema = ids == number
        written = schema if number == schema.id else schema_of(number)
        source = source_field(field, written)
        if source is None:
            absent |= of_schema
        elif not source.type.is_nested and keeps_order(source.type, field.type):
            for code in np.unique(codes[of_schema]).tolist():
                text = lists[code]
                names = written.names if text is None else text.split("\0") if text else ()
                if source.name in names:
                    chosen = of_schema & (codes == code)
                    layouts.append(_Layout(chosen, names.index(source.name), len(names), source.type))
    return _facts(entries, "value_stats", field, layouts, absent)


def key_facts(entries: Entries, field: DataField, schema: TableSchema) -> Facts:
    """The facts of a column of the primary key."""
    keys, every = schema.trimmed_primary_keys, np.ones(len(entries), np.bool_)
    layout = _Layout(every, keys.index(field.name), len(keys), field.type)
    return _facts(entries, "key_stats", field, [layout], ~every)


def source_field(field: DataField, written: TableSchema) -> DataField | None:
    """The column of the schema `written` that a column was before; None where there was none."""
    return next((source for source in written.fields if source.id == field.id), None)


def keeps_order(source: DataType, target: DataType) -> bool:
    """Whether a cast from a type to another keeps each value, and so the order and the equality of all."""
    if source.root in _INTEGERS and target.root in _INTEGERS:
        return _INTEGERS.index(source.root) <= _INTEGERS.index(target.root)
    if source.root == target.root or (source.root, target.root) in (("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")):
        match source.root:
            case root if root in _SIZED:
                return source.length <= target.length and (source.root != "BINARY" or source.length == target.length)
            case "DECIMAL":
                return source.scale == target.scale and source.precision <= target.precision
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                return timestamp_unit(source) == timestamp_unit(target) and source.precision <= target.precision
            case "TIME":
                return source.precision <= target.precision
        return source.required() == target.required()
    return False


def range_facts(low: pa.Array, high: pa.Array, nulls: Bools, field: DataField) -> Facts:
    """Facts by bounds. Where one is unknown, so is the other, and whether there are nulls; some formats give NaN as a
    bound."""
    known = pc.and_(low.is_valid(), high.is_valid())
    if pa.types.is_floating(low.type):
        known = pc.and_(known, pc.invert(pc.fill_null(pc.or_(pc.is_nan(low), pc.is_nan(high)), False)))
    none = pa.nulls(1, low.type)[0]
    anything = np.ones(len(low), np.bool_)
    nans = np.full(len(low), field.type.root in ("FLOAT", "DOUBLE"))
    unknown: Bools = ~to_numpy(known)
    return Facts(pc.if_else(known, low, none), pc.if_else(known, high, none), nulls | unknown, anything, nans)


def _facts(entries: Entries, which: str, field: DataField, layouts: Sequence[_Layout], absent: Bools) -> Facts:
    """The facts by the statistics of layouts. In the files `absent` all rows are null."""
    table, kind = entries.table, arrow_type(field.type)
    counts, places = np.full(len(table), _UNKNOWN), np.full(len(table), _UNKNOWN)
    lows, highs, before = list[pa.Array](), list[pa.Array](), 0
    for layout in layouts:
        columns = table.select([f"{which}_min", f"{which}_max", f"{which}_nulls"]).filter(from_numpy(layout.entries))
        for batch in columns.to_batches():
            for rows, bounds in zip(batch.columns[:2], (lows, highs), strict=True):
                bounds.append(row_fields(rows, layout.place, layout.arity, layout.type).cast(kind))
        counts[layout.entries] = _null_counts(columns.column(2), layout.place)
        places[layout.entries] = np.arange(before, before + len(columns))
        before += len(columns)
    taken = from_numpy(places, places < 0)
    low, high = (one_chunk(pa.chunked_array(parts, kind).take(taken).combine_chunks()) for parts in (lows, highs))
    facts = range_facts(low, high, counts != 0, field)
    all_null = absent | (~to_numpy(facts.lower.is_valid()) & (counts == entries.numbers("row_count")))
    return replace(facts, values=~all_null, nans=facts.nans & ~all_null)


def _null_counts(lists: pa.ChunkedArray, place: int) -> Int64s:
    """The counts of nulls at a place, -1 where they are unknown."""
    numbers = from_numpy(np.array([0, place, _UNKNOWN]))
    lengths = to_numpy(pc.fill_null(pc.list_value_length(lists), numbers[0]))
    has = lengths > place
    counts = np.full(len(lengths), _UNKNOWN)
    if has.any():
        counts[has] = to_numpy(pc.fill_null(pc.list_element(lists.filter(from_numpy(has)), numbers[1]), numbers[2]))
    return counts
