"""The cast of each pair of types.

Rules: the pairs that Paimon's SchemaManager allows in ALTER TABLE, which are those of DataTypeCasts.supportsCast with
explicit casts that also have a rule in CastExecutors. Dates, times and timestamps become only STRING, not a text of
limited length.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError, first_line
from lakebed.formats.paimon.casts import decimals, numbers, parsing, printing, times
from lakebed.formats.paimon.casts.columns import longs
from lakebed.formats.paimon.codec.types import MAX_LENGTH, DataType

_FAMILY = {
    **dict.fromkeys(numbers.BITS, "whole"), **dict.fromkeys(numbers.FLOATS, "float"), "DECIMAL": "decimal",
    "BOOLEAN": "boolean", "CHAR": "text", "VARCHAR": "text", "BINARY": "bytes", "VARBINARY": "bytes", "DATE": "date",
    "TIME": "time", "TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamp", "ARRAY": "nested", "MAP": "nested",
    "ROW": "nested",
}  # fmt: skip
_SECONDS = ("INT", "BIGINT")


def cast_values(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Cast a column from the type `source` to the type `wanted`.

    The types must differ in more than NOT NULL. Raises UnsupportedError for a pair that Paimon has no cast for,
    SchemaError for a value that cannot be cast.
    """
    try:
        values = _cast(column, source, wanted)
    except pa.ArrowException as error:  # for example texts padded beyond the size of a column
        raise UnsupportedError(
            f"a column was changed from {source} to {wanted}, and lakebed cannot cast its values",
            why=first_line(error),
        ) from error
    if values is None:
        raise UnsupportedError(
            f"a column was changed from {source} to {wanted}",
            why="Paimon's ALTER TABLE refuses that change, so the values of older files have no new reading",
            todo="Change the column back, or read a snapshot from before the change with as_of",
        )
    return values


def _cast(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array | None:
    given = _FAMILY.get(source.root, "")
    match given, _FAMILY.get(wanted.root, ""):
        case (("whole" | "float" | "decimal" | "boolean"), ("whole" | "float" | "decimal")):
            return _number(column, source, wanted)
        case "whole", "boolean":
            return numbers.to_booleans(column)
        case "whole", "timestamp" if source.root in _SECONDS:
            return times.of_seconds(column, source, wanted)
        case (("whole" | "float" | "decimal" | "boolean"), "text"):
            return printing.sized_text(printing.text_of(column, source, wanted), wanted)
        case "text", to:
            return _of_text(column, source, wanted, to)
        case "bytes", "bytes":
            return printing.sized_bytes(column, wanted)
        case "bytes", "text":
            return printing.text_of(column, source, wanted)
        case "nested", "text":
            return _nested_text(column, source, wanted)
        case (("date" | "time" | "timestamp"), "text") if wanted.root == "VARCHAR" and wanted.length == MAX_LENGTH:
            return printing.text_of(column, source, wanted)
        case "date", "timestamp":
            return times.of_date(column, source, wanted)
        case "time", "timestamp":
            return times.of_time(column, wanted)
        case "timestamp", "timestamp":
            return times.retimed(column, source, wanted)
        case "timestamp", "date":
            return times.date_of(column)
        case "timestamp", "time":
            return times.time_of(column)
        case "timestamp", "whole" if wanted.root in _SECONDS:
            return numbers.narrowed(times.seconds_of(column), column, wanted.root)
    return None


def _number(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Casts between numbers. A boolean counts as 1 or 0."""
    to = _FAMILY[wanted.root]
    if source.root == "DECIMAL":
        if to == "decimal":
            return decimals.rescaled(column, source, wanted)
        if to == "whole":
            return numbers.narrowed(decimals.whole_numbers(column, source), column, wanted.root)
        return numbers.floats_of(decimals.doubles(column, source), column, wanted.root)
    if source.root in numbers.FLOATS:
        if to == "decimal":
            return decimals.of_floats(column, source, wanted)
        if to == "whole":
            return numbers.whole_of_floats(column, wanted.root)
        return numbers.floats_of(numbers.float_values(column), column, wanted.root)
    values = numbers.of_booleans(column) if source.root == "BOOLEAN" else longs(column)
    if to == "decimal":
        return decimals.of_whole(values, column, wanted)
    if to == "whole":
        return numbers.narrowed(values, column, wanted.root)
    return numbers.floats_of(values, column, wanted.root)


def _of_text(column: pa.Array, source: DataType, wanted: DataType, family: str) -> pa.Array | None:
    match family:
        case "text":
            return printing.sized_text(column, wanted)
        case "bytes":
            return printing.sized_bytes(column.cast(pa.binary()), wanted)
        case "boolean":
            return parsing.to_boolean(column, source, wanted)
        case "whole":
            return parsing.to_whole(column, source, wanted)
        case "float":
            return parsing.to_float(column, source, wanted)
        case "decimal":
            return decimals.of_texts(column, source, wanted)
        case "date":
            return parsing.to_date(column, source, wanted)
        case "time":
            return parsing.to_time(column, source, wanted)
        case "timestamp":
            return parsing.to_timestamp(column, source, wanted)
    return None


_STRING = DataType("VARCHAR", length=MAX_LENGTH)


def _nested_text(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Nested values as texts of any length: `[1, null]`, `{key -> value}` and `{1, x}`.

    Rules: Paimon's ArrayToStringCastRule, MapToStringCastRule, RowToStringCastRule.
    """
    if source.root == "ROW":
        parts = [_part_text(column.field(place), field.type) for place, field in enumerate(source.fields)]
        texts = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*parts, ", "), "}", "")
        return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))
    if source.root == "ARRAY" and source.element:
        texts, open_, close = _part_text(column.values, source.element), "[", "]"
    elif source.key and source.element:
        keys, values = _part_text(column.keys, source.key), _part_text(column.items, source.element)
        texts, open_, close = pc.binary_join_element_wise(keys, values, " -> "), "{", "}"
    lists = pa.Array.from_buffers(
        pa.list_(pa.string()), len(column), column.buffers()[:2], column.null_count, column.offset, [texts]
    )
    return pc.binary_join_element_wise(open_, pc.binary_join(lists, ", "), close, "")


def _part_text(column: pa.Array, kind: DataType) -> pa.Array:
    texts = column if _FAMILY.get(kind.root) == "text" else cast_values(column, kind, _STRING)
    return texts.fill_null("null")
