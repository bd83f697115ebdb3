"""Rules out files that cannot match a predicate, by their partition values, the statistics in manifests, and their
buckets (`bucket_facts`).

In a table with a primary key, only the statistics of key columns count. A file whose other columns do not match may
still have the newest version of a row, and without it the read would return an older version that does match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon.codec.binary_row import decode_field, without_arity
from lakebed.formats.paimon.codec.manifest import ManifestEntry, SimpleStats
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, arrow_type
from lakebed.formats.paimon.read.bucket_facts import bucket_facts
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.tree import Node

_EMPTY_ROW_BYTES = 8


def kept_entries(entries: Sequence[ManifestEntry], predicate: Node | None, schema: TableSchema) -> list[ManifestEntry]:
    """The entries whose files may have a row that the predicate keeps. `schema` is the schema that is read."""
    if predicate is None or not entries:
        return list(entries)
    kept = can_hold(predicate, _FileFacts(entries, schema), len(entries))
    return [entry for entry, is_kept in zip(entries, kept, strict=True) if is_kept]


@dataclass(frozen=True, slots=True)
class _FileFacts:
    """What the manifests say about a column in the file of each entry."""

    entries: Sequence[ManifestEntry]
    schema: TableSchema

    def __call__(self, path: tuple[str, ...]) -> list[Facts]:
        """The facts of a column: its partition values, or its statistics and what buckets say of it."""
        name = path[0]
        if len(path) > 1 or name not in self.schema.names:
            return []
        field = self.schema.field(name)
        if name in self.schema.partition_keys:
            return [self._partition_values(field)]
        facts = [*bucket_facts(self.entries, self.schema, name)]
        if not self.schema.primary_keys:
            facts.append(self._ranges(field, self._value_stats(name)))
        elif name in self.schema.trimmed_primary_keys:
            facts.append(self._ranges(field, self._key_stats(name)))
        return facts

    def _partition_values(self, field: DataField) -> Facts:
        keys = self.schema.partition_keys
        place, of_row = keys.index(field.name), dict[bytes, Any]()
        for entry in self.entries:
            if entry.partition not in of_row:
                row = without_arity(entry.partition)
                of_row[entry.partition] = decode_field(row, place, len(keys), field.type)
        values = [of_row[entry.partition] for entry in self.entries]
        return Facts.constant(_array(values, field), np.zeros(len(values), np.bool_))

    def _value_stats(self, name: str) -> Callable[[ManifestEntry], _Place | None]:
        """A function that gives the value statistics of a column in an entry.

        It gives None where the entry has none, and for files of another schema, whose columns are in other places.
        """
        place = self.schema.names.index(name)
        arity = len(self.schema.names)

        def stats_of(entry: ManifestEntry) -> _Place | None:
            named = entry.file.value_stats_cols
            if entry.file.schema_id != self.schema.id or named == ():
                return None
            if not named:
                return entry.file.value_stats, place, arity
            return (entry.file.value_stats, named.index(name), len(named)) if name in named else None

        return stats_of

    def _key_stats(self, name: str) -> Callable[[ManifestEntry], _Place | None]:
        keys = self.schema.trimmed_primary_keys
        return lambda entry: (entry.file.key_stats, keys.index(name), len(keys))

    def _ranges(self, field: DataField, stats_of: Callable[[ManifestEntry], _Place | None]) -> Facts:
        lows: list[Any] = []
        highs: list[Any] = []
        nulls = np.ones(len(self.entries), np.bool_)
        for number, entry in enumerate(self.entries):
            stats = stats_of(entry)
            low, high, null_count = (None, None, None) if stats is None else _bounds(*stats, field)
            lows.append(low)
            highs.append(high)
            nulls[number] = null_count != 0 or low is None
        anything = np.ones(len(self.entries), np.bool_)
        nans = np.full(len(self.entries), field.type.root in ("FLOAT", "DOUBLE"))
        return Facts(_array(lows, field), _array(highs, field), nulls, anything, nans)


_Place = tuple[SimpleStats, int, int]
"""Statistics, the position of a column in their rows, and the number of columns of these rows."""


def _bounds(stats: SimpleStats, place: int, arity: int, field: DataField) -> tuple[Any, Any, int | None]:
    """The least and the greatest value of a column, and its count of nulls. None means unknown."""
    if len(without_arity(stats.min_values)) <= _EMPTY_ROW_BYTES:
        return None, None, None
    low = decode_field(without_arity(stats.min_values), place, arity, field.type)
    high = decode_field(without_arity(stats.max_values), place, arity, field.type)
    if low is None or high is None or low != low or high != high:  # some formats give NaN as a bound
        return None, None, None
    return low, high, stats.null_counts[place] if stats.null_counts else None


def _array(values: Sequence[Any], field: DataField) -> pa.Array:
    kind = arrow_type(field.type)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.array(values, kind)
