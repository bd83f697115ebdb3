"""Which entry of a file group's log wins each key, before the log meets the base file (`base_rows.py`).

Rules: Hudi 1.x's file group reader (`KeyBasedFileGroupRecordBuffer`, `BufferedRecordMergerFactory`,
`PartialUpdateHandler`). All versions of a key are taken in their order: the base row, then log entries by file, block
and row. Under commit-time ordering the later version wins. Under event-time ordering the later version wins unless its
ordering value is lower: null is the lowest, of equal values the later wins, and deletes compare as rows do. A delete
without an ordering value (or with the int 0 of the delete operation) always wins over what came before it, and loses to
whatever comes later.

Hudi merges the log's versions among themselves first, and the winner then meets the base row. So a late row after such
a delete takes the delete's place, loses to the base row by its ordering value, and the base row is back. Hudi's readers
and its compaction both do this. We do the same, or the answer would change when a compaction runs.

Partial updates, defaults and values that were not available let values of older versions show through newer ones. There
each column comes from the last version, in that order, that brings it; a late row fills the gaps of a newer one too. A
delete ends what can show through. Hudi meets the base row last, so single values of a deleted row can come back there,
and a value older than the base row's can hide it. Here all columns of a row follow one order.

All keys of a file group are merged at once: the winner of a key is its last entry by (ordering value, position), so one
sort finds all winners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.formats.hudi.merge.log_entries import LogEntries
from lakebed.formats.hudi.merge.ordering import LOWEST, order_codes
from lakebed.formats.hudi.merge.rules import MergeRules
from lakebed.kernel.arrays import Bools, Int64s, to_numpy


@dataclass(frozen=True, slots=True)
class MergedLog:
    """The winner of each key among a file group's log entries, ready to meet the base file.

    `keys` are distinct; every other array has one element per key. `winner` is the number of the winning entry,
    `deleted` whether that entry is a delete, and `beats_base` whether it wins over any base row, whatever the ordering
    values are. `hides_base` marks keys that the log deleted without an ordering value: no value of the base row shows
    through what came later. `sources` names columns that not every entry brings, each with the entry that its value
    comes from, -1 where only the base row can have one.
    """

    entries: LogEntries
    keys: pa.Array
    winner: Int64s
    deleted: Bools
    beats_base: Bools
    hides_base: Bools
    sources: Mapping[str, Int64s]

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self.keys)

    def source(self, column: str) -> Int64s:
        """For each key the entry that a column's value comes from, -1 where only the base row can have one."""
        return self.sources.get(column, self.winner)

    def values(self, column: str, sources: Int64s, keys: Int64s) -> pa.ChunkedArray:
        """A column's values in the entries `sources`, one for each of some key indices.

        Where the source is a delete or -1 the value is the winner's own: a default, a value that was not available, or
        null where a partial update lacks the column.
        """
        return self.entries.values(column, np.where(self.entries.is_row(sources), sources, self.winner[keys]))

    def rows(self, keys: Int64s, columns: Sequence[str]) -> pa.Table:
        """The merged rows of some key indices from the log alone.

        A column that no entry of the key brings has the value of the winner.
        """
        schema = self.entries.rows.table.schema
        arrays = [self.values(name, self.source(name)[keys], keys) for name in columns]
        return pa.table(arrays, schema=pa.schema([schema.field(name) for name in columns]))


def merge_log(entries: LogEntries, rules: MergeRules) -> MergedLog:
    """The winner of each key among the log's entries."""
    encoded = entries.keys.dictionary_encode()
    key_of = to_numpy(encoded.indices).astype(np.int64, copy=False)
    count = len(encoded.dictionary)
    codes = order_codes(rules.comparable(entries.ordering) if rules.ordering else (), entries.count)
    hides_base = np.full(count, not rules.ordering)
    live = np.arange(entries.count)
    if rules.ordering and entries.natural.any():
        hides_base[key_of[entries.natural]] = True
        codes = np.where(entries.natural, LOWEST, codes)
        live = _from_last_natural_delete(entries, key_of, count)
    order = live[_stable_order(codes[live], entries.positions[live])]
    winner = np.full(count, -1, np.int64)
    winner[key_of[order]] = order
    return MergedLog(
        entries=entries,
        keys=encoded.dictionary,
        winner=winner,
        deleted=entries.is_delete[winner],
        beats_base=entries.natural[winner] if rules.ordering else np.full(count, True),
        hides_base=hides_base,
        sources=_column_sources(entries, rules, order, key_of, count),
    )


def _from_last_natural_delete(entries: LogEntries, key_of: Int64s, count: int) -> Int64s:
    """The entries that no later delete without an ordering value removed, that delete included."""
    natural = np.flatnonzero(entries.natural)
    last = np.full(count, -1, np.int64)
    np.maximum.at(last, key_of[natural], entries.positions[natural])
    return np.flatnonzero(entries.positions >= last[key_of])


def _stable_order(codes: Int64s, positions: Int64s) -> Int64s:
    """The order by (order code, position). Sorts that the data do not need are skipped."""
    if len(positions) and np.any(positions[1:] < positions[:-1]):
        by_position = np.argsort(positions, kind="stable")
        codes = codes[by_position]
        if np.all(codes[1:] >= codes[:-1]):
            return by_position
        return by_position[np.argsort(codes, kind="stable")]
    if np.all(codes[1:] >= codes[:-1]):
        return np.arange(len(codes))
    return np.argsort(codes, kind="stable")


def _column_sources(
    entries: LogEntries, rules: MergeRules, order: Int64s, key_of: Int64s, count: int
) -> dict[str, Int64s]:
    """For each column that not every row brings, the last entry of each key that does, -1 where none does.

    Deletes bring every column, empty.
    """
    provides = dict(entries.rows.provides)
    for name in entries.rows.table.column_names if rules.fills else ():
        gaps = rules.gaps(name, entries.rows.table.column(name))
        if gaps is not None:
            provides[name] = ~gaps & provides[name] if name in provides else ~gaps
    sources = {}
    for name, mask in provides.items():
        brings = entries.is_delete | entries.over_rows(mask)
        bringing = order[brings[order]]
        source = np.full(count, -1, np.int64)
        source[key_of[bringing]] = bringing
        sources[name] = source
    return sources
