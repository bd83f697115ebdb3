"""Statistics of a data file for the manifest: least and greatest value and nulls of each column, as the JVM writer
makes them.

Rules: Paimon's TruncateSimpleColStatsCollector, StatsCollectorFactories, and what its Parquet footers give: nothing
for bytes and nanosecond timestamps, nothing for floats with a NaN, zeros signed outwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import OptionError
from lakebed.formats.paimon.codec.binary_row import encode_row, plain, with_arity
from lakebed.formats.paimon.codec.manifest import SimpleStats
from lakebed.formats.paimon.codec.types import DataField, DataType

KEY_TRUNCATION = 128
_FULL = 2**31 - 1
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class StatsMode:
    """`metadata.stats-mode`: whether to count nulls, and to how many characters bounds are cut (0: no bounds)."""

    counts: bool
    characters: int

    @classmethod
    def parse(cls, text: str) -> StatsMode:
        """none, counts, full or truncate(N)."""
        word = text.strip().lower()
        match = re.fullmatch(r"truncate\((\d+)\)", word)
        if match:
            return cls(True, int(match[1]))
        if word in ("none", "counts", "full"):
            return cls(word != "none", _FULL if word == "full" else 0)
        raise OptionError.ill_typed("metadata.stats-mode", text, "none, counts, full or truncate(N)")


def value_stats(
    columns: Sequence[pa.Array], fields: Sequence[DataField], mode: StatsMode
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Statistics of value columns, and the names they cover (None: all)."""
    if not mode.counts:
        return SimpleStats(), ()
    kept = [(column, field) for column, field in zip(columns, fields, strict=True) if not field.type.is_nested]
    stats = column_stats([column for column, _ in kept], [field.type for _, field in kept], mode)
    names = tuple(field.name for _, field in kept)
    return stats, None if len(names) == len(fields) else names


def column_stats(columns: Sequence[pa.Array], types: Sequence[DataType], mode: StatsMode) -> SimpleStats:
    """Statistics of columns, all of them covered."""
    bounds = [_bounds(column, kind, mode.characters) for column, kind in zip(columns, types, strict=True)]
    return SimpleStats(
        with_arity(encode_row([low for low, _ in bounds], types), len(types)),
        with_arity(encode_row([high for _, high in bounds], types), len(types)),
        tuple(column.null_count for column in columns),
    )


def _bounds(column: pa.Array, kind: DataType, characters: int) -> tuple[Any, Any]:
    if not characters or column.null_count == len(column):
        return None, None
    match kind.root:
        case "BINARY" | "VARBINARY":
            return None, None
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if kind.precision > 6:
            return None, None
        case "FLOAT" | "DOUBLE" if pc.any(pc.is_nan(column)).as_py():
            return None, None
    found = pc.min_max(column)
    low, high = plain(found["min"]), plain(found["max"])
    match kind.root:
        case "FLOAT" | "DOUBLE":
            return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
        case "CHAR" | "VARCHAR":
            cut = truncated_max(high, characters)
            return (None, None) if cut is None else (low[:characters], cut)
    return low, high


def truncated_max(text: str, characters: int) -> str | None:
    """The shortest upper bound of at most that many characters; None when there is none."""
    if len(text) <= characters:
        return text
    for end in range(characters - 1, -1, -1):
        following = ord(text[end]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= 0x10FFFF:
            return text[:end] + chr(following)
    return None
