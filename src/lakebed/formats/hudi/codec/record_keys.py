"""Record keys as text: what a key generator makes of key columns, and how to parse the columns from it again.

Tables without meta columns keep no key with a row, but their delete blocks hold keys as text. Which text depends on
the key generator, the type and the release (Hudi's `KeyGenUtils`, `BuiltinKeyGenerator`,
`HoodieAvroUtils.convertValueForAvroLogicalTypes`, Flink's `RowDataKeyGen`):

    one field            its text, by every generator but two: complex puts `name:` before it up to 0.14.0 and from 1.1
                         on, not in between; global delete always does
    several fields       name:text,name:text with `__null__` and `__empty__`
    string, boolean,     as they are
      int, long
    float, double        Java's: 1.0, 1.0E10
    decimal              Java's: 1.50, 1E-7
    date                 2024-01-01; Flink and old releases: days since 1970
    timestamp            the number in the unit of the Avro schema; Flink: milliseconds in any case; with
                         `consistent.logical.timestamp.enabled` a text in the writer's time zone

So we parse a key to the columns' values, and make one text of these (`row_keys`). A key that does not tell its values
for certain is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError, first_line
from lakebed.formats.hudi.keygen import GeneratorKind, KeyGenerator

_NULL, _EMPTY = "__null__", "__empty__"
_NUMBER = r"^-?\d+$"
_PREFIXING = (GeneratorKind.COMPLEX, GeneratorKind.GLOBAL_DELETE, GeneratorKind.UNNAMED)
"""Generators that may put the name of a lone field before its text."""


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The form of a table's keys: the generator, and whether a lone field's name is known to be left out."""

    generator: KeyGenerator
    value_only: bool = False

    def columns(self, keys: pa.Array, fields: Sequence[pa.Field], units: Sequence[str]) -> pa.RecordBatch:
        """The key columns, parsed from keys. `units` says what a bare number counts in each field: "us" or "ms".

        Raises UnsupportedError for a key that does not tell its values for certain.
        """
        texts = self.texts(keys, [field.name for field in fields])
        composite = len(fields) > 1
        arrays = []
        for field, unit, text in zip(fields, units, texts, strict=True):
            plain = _without_placeholders(text) if composite else text
            try:
                values = self._typed(plain, field.type, unit)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise _uncertain(field, first_line(error)) from error
            if values.null_count > (pc.sum(pc.equal(text, _NULL)).as_py() or 0 if composite else 0):
                key = keys[values.is_null().index(True).as_py()].as_py()
                raise _uncertain(field, f"{key!r} is a key of another form")
            arrays.append(values)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in fields]))

    def known_columns(self, keys: pa.Array, fields: Sequence[pa.Field], units: Sequence[str]) -> dict[str, pa.Array]:
        """The key columns, parsed from keys as far as these tell their values.

        A column is null where not all keys tell its value. There are no columns for a key generator that lakebed does
        not know.
        """
        if not len(keys) or not fields or self.generator.kind is GeneratorKind.OTHER:
            return {}
        columns = {}
        for field, unit, text in zip(fields, units, self.texts(keys, [field.name for field in fields]), strict=True):
            try:
                plain = _without_placeholders(text) if len(fields) > 1 else text
                columns[field.name] = self._typed(plain, field.type, unit)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                columns[field.name] = pa.nulls(len(keys), field.type)
        return columns

    def texts(self, keys: pa.Array, names: Sequence[str]) -> list[pa.Array]:
        """The text of each key field, null where a key does not have the generator's form."""
        if len(names) == 1:
            prefix = f"{names[0]}:"
            if self.value_only or self.generator.kind not in _PREFIXING:
                return [keys]
            cut = pc.utf8_slice_codeunits(keys, len(prefix))
            return [pc.if_else(pc.starts_with(keys, prefix), cut, keys)]
        pattern = ",".join(f"{_escaped(name)}:(?P<k{place}>.*)" for place, name in enumerate(names))
        groups = pc.extract_regex(keys, f"(?s)^{pattern}$")
        return [pc.struct_field(groups, place) for place in range(len(names))]

    def _typed(self, text: pa.Array, kind: pa.DataType, unit: str) -> pa.Array:
        types = pa.types
        if types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
            return text.cast(kind)
        if types.is_floating(kind):
            return text.cast(kind)
        if types.is_date32(kind):
            bare = pc.match_substring_regex(text, _NUMBER)
            days = pc.if_else(bare, text, None).cast(pa.int32()).cast(kind)
            return pc.coalesce(days, pc.if_else(bare, None, text).cast(kind))
        if types.is_timestamp(kind):
            if self.generator.avro and unit == "us":
                raise pa.ArrowInvalid("writers with Avro key generators count in micro- or in milliseconds")
            bare = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, None)
            return bare.cast(pa.int64()).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, kind.tz)).cast(kind)
        raise pa.ArrowNotImplementedError(f"keys of type {kind} have no text that tells the value")


def row_keys(rows: pa.Table | pa.RecordBatch, keys: tuple[str, ...]) -> pa.ChunkedArray:
    """The record key of each row as one text: the meta column, or the joined key columns of a table without one."""
    columns = [rows.column(name) for name in keys]
    if len(columns) == 1:
        column = columns[0] if pa.types.is_string(columns[0].type) else columns[0].cast(pa.string())
    else:
        parts = [
            pc.binary_join_element_wise(
                f"{name}:", pc.fill_null(pc.if_else(pc.equal(text, ""), _EMPTY, text), _NULL), ""
            )
            for name, text in zip(keys, (column.cast(pa.string()) for column in columns), strict=True)
        ]
        column = pc.binary_join_element_wise(*parts, ",")
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def has_key_text(kind: pa.DataType) -> bool:
    """Whether each value of a type has a text of its own, as record keys need."""
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_floating(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
    )


def is_spelled_alike(kind: pa.DataType) -> bool:
    """Whether all releases and key generators give the values of a type the same text in a key."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _without_placeholders(text: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(text, _NULL), None, pc.if_else(pc.equal(text, _EMPTY), "", text))


def _escaped(name: str) -> str:
    return "".join(character if character.isalnum() or character == "_" else f"\\{character}" for character in name)


def _uncertain(field: pa.Field, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the keys of a delete block do not tell the values of record key column {field.name!r} ({field.type})",
        why=f"{why}; the table keeps no meta columns (hoodie.populate.meta.fields is false)",
        todo="Compact the table with its own engine, then read it again",
    )
