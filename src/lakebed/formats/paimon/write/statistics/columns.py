"""Statistics of a data file for the manifest: the least and greatest value and the nulls of each column, as the JVM
writer has them.

Rules: Paimon's TruncateSimpleColStatsCollector, StatsCollectorFactories, and what its Parquet footers give: nothing for
bytes and nanosecond timestamps, nothing for floats with a NaN, zeros signed outwards. A file may be written in many
parts, so statistics are taken of each part and joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.codec.binary_row import encode_row, plain, with_arity
from lakebed.formats.paimon.codec.manifest import SimpleStats
from lakebed.formats.paimon.codec.types import DataField, DataType
from lakebed.formats.paimon.write.statistics.modes import NO_STATS, StatsMode
from lakebed.kernel.arrays import to_numpy

_NOTHING = DataType("BIGINT")
"""The type of a field that is null whatever its type, except that it takes no room."""
_SURROGATES = range(0xD800, 0xE000)
_LONG_DIGITS = 18
_WIDE = Context(prec=60)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Bounds and nulls of a column in some rows. Bounds are None where there is no value. `known` is false where the
    format has no bounds for such rows."""

    low: Any = None
    high: Any = None
    nulls: int = 0
    known: bool = True

    @classmethod
    def of(cls, column: pa.Array, kind: DataType) -> ColumnFacts:
        """The bounds of a column, from its values."""
        nulls = column.null_count
        if nulls == len(column):
            return cls(nulls=nulls)
        match kind.root:
            case "BINARY" | "VARBINARY":
                return cls(nulls=nulls, known=False)
            case "TIMESTAMP" | "TIMESTAMP_LTZ" if kind.precision > 6:
                return cls(nulls=nulls, known=False)
            case "FLOAT" | "DOUBLE":
                return _float_facts(column, nulls)
            case "DECIMAL" if kind.precision <= _LONG_DIGITS and not nulls:
                return cls(*_short_decimal_bounds(column, kind.scale))
        bounds = pc.min_max(column)
        return cls(plain(bounds["min"]), plain(bounds["max"]), nulls)

    def joined(self, other: ColumnFacts) -> ColumnFacts:
        """The facts of both sets of rows together."""
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return ColumnFacts(
            min(lows, default=None), max(highs, default=None), self.nulls + other.nulls, self.known and other.known
        )

    def bounds(self, kind: DataType, characters: int) -> tuple[Any, Any]:
        """The bounds that the manifest gets, texts cut to so many characters; (None, None) for none, also with 0
        characters."""
        if not characters or not self.known or self.low is None:
            return None, None
        match kind.root:
            case "FLOAT" | "DOUBLE":
                return (-0.0 if self.low == 0 else self.low), (0.0 if self.high == 0 else self.high)
            case "CHAR" | "VARCHAR":
                cut = truncated_max(self.high, characters)
                return (None, None) if cut is None else (self.low[:characters], cut)
        return self.low, self.high


def joined_facts(parts: Iterable[Mapping[str, ColumnFacts]]) -> dict[str, ColumnFacts]:
    """The facts of each column over all parts."""
    columns: dict[str, ColumnFacts] = {}
    for part in parts:
        for name, facts in part.items():
            columns[name] = columns[name].joined(facts) if name in columns else facts
    return columns


def value_stats(
    facts: Mapping[str, ColumnFacts], fields: Sequence[DataField], modes: Mapping[str, StatsMode], dense: bool
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Statistics of value columns, and the names they cover (None: all)."""
    if not dense:
        return column_stats(facts, fields, modes), None
    kept = [field for field in fields if modes[field.name].counts and not field.type.is_nested]
    if not kept:
        return SimpleStats(), ()
    names = tuple(field.name for field in kept)
    return column_stats(facts, kept, modes), None if len(names) == len(fields) else names


def column_stats(
    facts: Mapping[str, ColumnFacts], fields: Sequence[DataField], modes: Mapping[str, StatsMode]
) -> SimpleStats:
    """Statistics of columns, all of them covered; nulls where a column has none."""
    known = [modes[field.name] if not field.type.is_nested else NO_STATS for field in fields]
    types = [field.type if mode.counts else _NOTHING for field, mode in zip(fields, known, strict=True)]
    bounds = [
        facts[field.name].bounds(field.type, mode.characters) if mode.counts else (None, None)
        for field, mode in zip(fields, known, strict=True)
    ]
    return SimpleStats(
        with_arity(encode_row([low for low, _ in bounds], types), len(types)),
        with_arity(encode_row([high for _, high in bounds], types), len(types)),
        tuple(facts[f.name].nulls if mode.counts else None for f, mode in zip(fields, known, strict=True)),
    )


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


def _float_facts(column: pa.Array, nulls: int) -> ColumnFacts:
    numbers = to_numpy(column.drop_null() if nulls else column)
    low, high = float(np.min(numbers)), float(np.max(numbers))  # a NaN makes both NaN
    return ColumnFacts(nulls=nulls, known=False) if low != low else ColumnFacts(low, high, nulls)


def _short_decimal_bounds(column: pa.Array, scale: int) -> tuple[Decimal, Decimal]:
    """The bounds of decimals that fit into eight bytes, the low halves of Arrow's sixteen."""
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column)) : 2]
    low, high = int(words.min()), int(words.max())
    return Decimal(low).scaleb(-scale, _WIDE), Decimal(high).scaleb(-scale, _WIDE)
