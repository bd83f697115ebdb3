"""The texts of Hive's types for Paimon's types, as a metastore shows a table's columns.

Rules: Paimon's HiveTypeUtils, with Hive 3's time zones.
"""

from __future__ import annotations

from lakebed.formats.paimon.codec.types import DataType

_PLAIN = {
    "BOOLEAN": "boolean", "TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint",
    "FLOAT": "float", "DOUBLE": "double", "BINARY": "binary", "VARBINARY": "binary", "BLOB": "binary",
    "DATE": "date", "TIME": "string", "TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamp with local time zone",
    "VARIANT": "struct<value:binary,metadata:binary>",
}  # fmt: skip
_LONGEST = {"CHAR": 255, "VARCHAR": 65535}


def hive_type(kind: DataType | None) -> str:
    """The text of a type. Types that Hive has no name for are shown as binary."""
    if kind is None:
        return "binary"
    match kind.root:
        case "CHAR" | "VARCHAR":
            fits = kind.length <= _LONGEST[kind.root]
            return f"{kind.root.lower()}({kind.length})" if fits else "string"
        case "DECIMAL":
            return f"decimal({kind.precision},{kind.scale})"
        case "ARRAY" | "VECTOR":
            return f"array<{hive_type(kind.element)}>"
        case "MULTISET":
            return f"map<{hive_type(kind.element)},int>"
        case "MAP":
            return f"map<{hive_type(kind.key)},{hive_type(kind.element)}>"
        case "ROW":
            return f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in kind.fields)}>"
    return _PLAIN.get(kind.root, "binary")
