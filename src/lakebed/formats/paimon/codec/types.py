"""Paimon's types: their texts in schema files, their Arrow types, and the field ids in Parquet files.

Rules: Paimon's DataTypeJsonParser (texts), SchemaUtil and SpecialFields (field ids). Times keep the unit that Paimon
stores: TIMESTAMP(0..3) is milliseconds, (4..6) microseconds and (7..9) nanoseconds, with local time zone in UTC. TIME
is milliseconds of the day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError

MAX_LENGTH = 2**31 - 1
KEY_PREFIX = "_KEY_"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
ROW_ID = "_ROW_ID"
KEY_FIELD_ID_START = 1073741823
SEQUENCE_NUMBER_ID = 2147483646
VALUE_KIND_ID = 2147483645
ROW_ID_ID = 2147483642
_NESTED_ID_START, _NESTED_ID_STEP = 536870911, 1024
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class DataType:
    """One type. `root` is its SQL name without parameters.

    STRING is a VARCHAR and BYTES a VARBINARY of the greatest length. CHAR, VARCHAR, BINARY, VARBINARY and VECTOR have
    `length`. DECIMAL, TIME and the timestamps have `precision`, and DECIMAL also has `scale`. ARRAY, MULTISET and
    VECTOR have `element`, MAP has `key` and `element`, and ROW has `fields`. `text` is the schema file's text of a type
    that lakebed knows by name only.
    """

    root: str
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    key: DataType | None = None
    element: DataType | None = None
    fields: tuple[DataField, ...] = ()
    text: str = ""

    def __str__(self) -> str:
        return f"{_plain_text(self)}{'' if self.nullable else ' NOT NULL'}"

    def required(self) -> DataType:
        """The same type as NOT NULL."""
        return replace(self, nullable=False)

    @property
    def is_nested(self) -> bool:
        """Whether values of the type contain values of other types."""
        return self.root in ("ARRAY", "MULTISET", "MAP", "ROW", "VECTOR")


@dataclass(frozen=True, slots=True)
class DataField:
    """A column, or a field of a ROW. `id` is unique in the table and never used again."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None


_PLAIN_ROOTS = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
}
_BY_NAME_ONLY = ("VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY")
_SIZED = {"CHAR": 1, "VARCHAR": 1, "BINARY": 1, "VARBINARY": 1}
_MOST_DIGITS = {"DECIMAL": 38, "NUMERIC": 38, "DEC": 38, "TIME": 9, "TIMESTAMP": 9, "TIMESTAMP_LTZ": 9}
_TEXT = re.compile(r"([A-Z_]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*(WITH LOCAL TIME ZONE|WITHOUT TIME ZONE)?")

_LIKE_A_TYPE = re.compile(r"[A-Z][A-Z_]+[A-Z](\s*[(<].*[)>])?( NOT NULL)?")


def type_from_json(value: Any) -> DataType:
    """Decode the `type` of a schema file: a text, or an object for a nested type.

    Raises CorruptError for any other value, UnsupportedError for a type that lakebed does not know.
    """
    if isinstance(value, str):
        return _type_from_text(value)
    try:
        word, nullable = _split_null(value["type"])
        match word:
            case "ARRAY" | "MULTISET":
                return DataType(word, nullable, element=type_from_json(value["element"]))
            case "MAP":
                return DataType(
                    word, nullable, key=type_from_json(value["key"]), element=type_from_json(value["value"])
                )
            case "ROW":
                return DataType(word, nullable, fields=tuple(field_from_json(item) for item in value["fields"]))
            case "VECTOR":
                return DataType(word, nullable, value["length"], element=type_from_json(value["element"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"not a type: {value!r}", why=f"{type(error).__name__} {error}") from error
    raise _unknown(value["type"])


def field_from_json(value: Any) -> DataField:
    """Decode a column, or a field of a ROW, of a schema file. Raises what `type_from_json` raises, and CorruptError for
    an id that is no number, and a name, description or default that is no text."""
    id, texts = value["id"], (value["name"], value.get("description"), value.get("defaultValue"))
    name, description, default = texts
    if not isinstance(id, int) or name is None or not all(text is None or isinstance(text, str) for text in texts):
        raise CorruptError(f"not a column: {value!r}", why="its id, name, description or default has the wrong type")
    return DataField(id, name, type_from_json(value["type"]), description, default)


def type_to_json(kind: DataType) -> Any:
    """Encode a type for a schema file; `type_from_json` decodes it."""
    word = kind.root if kind.nullable else f"{kind.root} NOT NULL"
    match kind.root:
        case "ARRAY" | "MULTISET":
            return {"type": word, "element": type_to_json(_given(kind.element))}
        case "VECTOR":
            return {"type": word, "element": type_to_json(_given(kind.element)), "length": kind.length}
        case "MAP":
            return {"type": word, "key": type_to_json(_given(kind.key)), "value": type_to_json(_given(kind.element))}
        case "ROW":
            return {"type": word, "fields": [field_to_json(field) for field in kind.fields]}
    return str(kind)


def field_to_json(field: DataField) -> dict[str, Any]:
    """Encode a field for a schema file; `field_from_json` decodes it."""
    value: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.description is not None:
        value["description"] = field.description
    if field.default is not None:
        value["defaultValue"] = field.default
    return value


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type in which columns of this type are read and written.

    Raises UnsupportedError for MULTISET, VARIANT, VECTOR, GEOMETRY and GEOGRAPHY.
    """
    match kind.root:
        case "DECIMAL":
            return pa.decimal128(kind.precision, kind.scale)
        case "TIMESTAMP":
            return pa.timestamp(timestamp_unit(kind))
        case "TIMESTAMP_LTZ":
            return pa.timestamp(timestamp_unit(kind), "UTC")
        case "ARRAY":
            element = _given(kind.element)
            return pa.list_(pa.field("element", arrow_type(element), element.nullable))
        case "MAP":
            return pa.map_(
                pa.field("key", arrow_type(_given(kind.key)), False),
                pa.field("value", arrow_type(_given(kind.element)), _given(kind.element).nullable),
            )
        case "ROW":
            return pa.struct([arrow_field(field) for field in kind.fields])
    if kind.root not in _ARROW:
        raise UnsupportedError(
            f"lakebed does not read or write the type {kind}", todo="Read the table with Paimon's own engines"
        )
    return _ARROW[kind.root]


def arrow_field(field: DataField) -> pa.Field:
    """The Arrow field of a column."""
    return pa.field(field.name, arrow_type(field.type), field.type.nullable)


def arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """The Arrow schema of columns."""
    return pa.schema([arrow_field(field) for field in fields])


def timestamp_unit(kind: DataType) -> str:
    """The Arrow unit for the precision of a timestamp type."""
    return "ms" if kind.precision <= 3 else "us" if kind.precision <= 6 else "ns"


def file_field(field: DataField) -> pa.Field:
    """The Arrow field of a column with the field ids of Paimon's Parquet files, nested ones too."""
    return pa.field(
        field.name, _file_type(field.type, field.id, 0), field.type.nullable, metadata={_FIELD_ID: str(field.id)}
    )


_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "CHAR": pa.string(), "VARCHAR": pa.string(),
    "BINARY": pa.binary(), "VARBINARY": pa.binary(), "BLOB": pa.binary(), "DATE": pa.date32(), "TIME": pa.time32("ms"),
}  # fmt: skip


def _file_type(kind: DataType, field_id: int, depth: int) -> pa.DataType:
    ids = _NESTED_ID_STEP * field_id + depth + 1
    if kind.root == "ARRAY":
        element = _given(kind.element)
        return pa.list_(
            pa.field(
                "element",
                _file_type(element, field_id, depth + 1),
                element.nullable,
                metadata={_FIELD_ID: str(_NESTED_ID_START + ids)},
            )
        )
    if kind.root == "MAP":
        key, value = _given(kind.key), _given(kind.element)
        return pa.map_(
            pa.field(
                "key",
                _file_type(key, field_id, depth + 1),
                False,
                metadata={_FIELD_ID: str(_NESTED_ID_START - ids)},
            ),
            pa.field(
                "value",
                _file_type(value, field_id, depth + 1),
                value.nullable,
                metadata={_FIELD_ID: str(_NESTED_ID_START + ids)},
            ),
        )
    if kind.root == "ROW":
        return pa.struct([file_field(field) for field in kind.fields])
    return arrow_type(kind)


def _type_from_text(text: str) -> DataType:
    plain, nullable = _split_null(text)
    if plain.partition("(")[0].strip().upper() in _BY_NAME_ONLY:
        return DataType(plain.partition("(")[0].strip().upper(), nullable, text=plain)
    match = _TEXT.fullmatch(plain.upper())
    if match is None:
        raise _unknown(text)
    word, first, second, zone = match.groups()
    if int(first or 0) > (_MOST_DIGITS.get(word, MAX_LENGTH)) or int(second or 0) > int(first or 0):
        raise CorruptError(f"not a type: {text!r}", why="no type of Paimon has so many digits or such a length")
    if word in _PLAIN_ROOTS and first is None:
        return DataType(_PLAIN_ROOTS[word], nullable)
    if word in ("STRING", "BYTES"):
        return DataType("VARCHAR" if word == "STRING" else "VARBINARY", nullable, length=MAX_LENGTH)
    if word in _SIZED:
        return DataType(word, nullable, length=int(first) if first else _SIZED[word])
    if word in ("DECIMAL", "NUMERIC", "DEC"):
        return DataType("DECIMAL", nullable, precision=int(first or 10), scale=int(second or 0))
    if word == "TIME":
        return DataType("TIME", nullable, precision=int(first or 0))
    if word in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        local = word == "TIMESTAMP_LTZ" or zone == "WITH LOCAL TIME ZONE"
        return DataType("TIMESTAMP_LTZ" if local else "TIMESTAMP", nullable, precision=int(first or 6))
    raise _unknown(text)


def _plain_text(kind: DataType) -> str:
    match kind.root:
        case "VARCHAR" | "VARBINARY" if kind.length == MAX_LENGTH:
            return "STRING" if kind.root == "VARCHAR" else "BYTES"
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            return f"{kind.root}({kind.length})"
        case "DECIMAL":
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case "TIME" | "TIMESTAMP":
            return f"{kind.root}({kind.precision})"
        case "TIMESTAMP_LTZ":
            return f"TIMESTAMP({kind.precision}) WITH LOCAL TIME ZONE"
        case "ARRAY" | "MULTISET":
            return f"{kind.root}<{kind.element}>"
        case "VECTOR":
            return f"VECTOR<{kind.element}, {kind.length}>"
        case "MAP":
            return f"MAP<{kind.key}, {kind.element}>"
        case "ROW":
            return f"ROW<{', '.join(f'{field.name} {field.type}' for field in kind.fields)}>"
    return kind.text or kind.root


def _split_null(text: str) -> tuple[str, bool]:
    plain = text.strip().removesuffix(" NOT NULL")
    return (plain, False) if plain != text.strip() else (text.strip().removesuffix(" NULL"), True)


def _unknown(text: Any) -> UnsupportedError | CorruptError:
    """The error for an unknown type. A text that looks like a type may come from a newer release."""
    if isinstance(text, str) and _LIKE_A_TYPE.fullmatch(text.upper()):
        return UnsupportedError(
            f"unknown type {text!r}", why="it may come from a newer release of Paimon than lakebed knows"
        )
    return CorruptError(f"not a type: {text!r}")


def _given(kind: DataType | None) -> DataType:
    if kind is None:
        raise CorruptError("a nested type has no element type")
    return kind
