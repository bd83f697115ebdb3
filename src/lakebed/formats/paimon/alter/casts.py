"""Whether a column may get another type.

Rules: Paimon's DataTypeCasts.supportsCast and CastExecutors.resolve, as SchemaManager asks for both. Without explicit
casts (`disable-explicit-type-casting`) only those are left that lose nothing.
"""

from __future__ import annotations

import pyarrow as pa

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.formats.paimon.casts import cast_values
from lakebed.formats.paimon.codec.types import DataType, arrow_type

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_SAFE_FROM: dict[str, tuple[str, ...]] = {
    "VARCHAR": ("CHAR",), "VARBINARY": ("BINARY",), "SMALLINT": ("TINYINT",), "INT": ("TINYINT", "SMALLINT"),
    "BIGINT": ("TINYINT", "SMALLINT", "INT"), "FLOAT": ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL"),
    "DOUBLE": _NUMBERS, "DECIMAL": _NUMBERS, "DATE": ("TIMESTAMP",), "TIME": ("TIMESTAMP",),
    "TIMESTAMP": ("TIMESTAMP_LTZ",), "TIMESTAMP_LTZ": ("TIMESTAMP",),
}  # fmt: skip
"""The types that become a type by an implicit cast. A type also takes itself, of any length and precision."""


def check_cast(source: DataType, wanted: DataType, explicit: bool, column: str) -> None:
    """Raise SchemaError for a change of type that Paimon refuses."""
    if source.required() == wanted.required():
        return
    refused = SchemaError(
        f"column {column!r} cannot change from {source} to {wanted}",
        why="Paimon has no cast for it" if explicit else "the cast could lose something",
        todo="Add another column, and fill it" if explicit else "Set disable-explicit-type-casting to false first",
    )
    if not explicit and source.root != wanted.root and source.root not in _SAFE_FROM.get(wanted.root, ()):
        raise refused
    try:
        cast_values(pa.nulls(0, arrow_type(source)), source, wanted)
    except UnsupportedError:
        raise refused from None
