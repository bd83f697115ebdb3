"""Rows of a base file held against the merged log of their file group, one batch at a time.

Rules: as `log.py` says. A base row stays unless the log has its key; where both have it, the ordering values decide,
and where values show through, the two become one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.layout import COMMIT_TIME
from lakebed.formats.hudi.merge.log import MergedLog
from lakebed.formats.hudi.merge.ordering import is_greater
from lakebed.formats.hudi.merge.rules import MergeRules
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, one_chunk, to_numpy


@dataclass(frozen=True, slots=True)
class BaseRows:
    """One batch of base rows: their record keys, and one array per ordering field, of the same type as the log's."""

    keys: pa.Array
    ordering: tuple[pa.Array, ...]


@dataclass(frozen=True, slots=True)
class BaseMerge:
    """What becomes of one batch of base rows.

    `keep` marks the rows that stay as they are. `combined` are the indices of the rows that are merged with the log
    column by column; `combined_keys` are their keys' indices in the merged log, and `newer` says where the base row is
    the newer version. `met_keys` are the indices of keys that a base row has, `used_keys` those that need no row of
    their own any more: they lost to a base row, or were merged into one.
    """

    keep: Bools
    combined: Int64s
    combined_keys: Int64s
    newer: Bools
    used_keys: Int64s
    met_keys: Int64s

    def part(self, start: int, count: int) -> BaseMerge:
        """What becomes of `count` of the rows, from row `start` on. The keys used and met stay those of the batch."""
        low, high = np.searchsorted(self.combined, (start, start + count))
        return replace(
            self,
            keep=self.keep[start : start + count],
            combined=self.combined[low:high] - start,
            combined_keys=self.combined_keys[low:high],
            newer=self.newer[low:high],
        )


def merge_base(merged: MergedLog, base: BaseRows, rules: MergeRules) -> BaseMerge:
    """Hold a batch of base rows against the merged log."""
    hit, rows, keys = _matches(merged, base)
    keep = ~hit
    newer = np.zeros(len(rows), bool)
    undecided = ~merged.beats_base[keys]
    if rules.ordering and undecided.any():
        newer = undecided & _is_newer(base.ordering, rows, merged, merged.winner[keys], rules)
    combining = newer & rules.fills
    if merged.sources or rules.fills:
        combining |= ~newer & ~merged.deleted[keys]
    keep[rows[newer & ~combining]] = True
    return BaseMerge(keep, rows[combining], keys[combining], newer[combining], keys[newer | combining], keys)


def combine(merged: MergedLog, rows: pa.Table, merge: BaseMerge, rules: MergeRules) -> pa.Table:
    """The base rows that `merge` combines, with the columns that the log brings.

    Row i of `rows` is base row `merge.combined[i]`. A column comes from the log where its source there is not older
    than the base row, by the ordering values, or where the base row's value is a gap.
    """
    entries, keys = merged.entries, merge.combined_keys
    ordering = [one_chunk(rows.column(name)) for name in rules.ordering]
    arrays = []
    for name in rows.column_names:
        column, source = rows.column(name), merged.source(name)[keys]
        from_log = (source >= 0) & ~merge.newer
        if rules.ordering and name in merged.sources and from_log.any():
            undecided = np.flatnonzero(from_log & ~merged.hides_base[keys])
            older = _is_newer(ordering, undecided, merged, source[undecided], rules)
            from_log[undecided[older]] = False
        gaps = rules.gaps(name, column)
        if gaps is not None:
            from_log |= gaps & entries.is_row(source)
        values = merged.values(name, source, keys)
        arrays.append(values if from_log.all() else pc.if_else(pa.array(from_log), values, column))
    return pa.table(arrays, schema=rows.schema)


def reappeared(merged: MergedLog, later: BaseRows, commit_times: pa.Array, rules: MergeRules) -> Bools:
    """Which rows of a later state have come back: the log as `merged` then hid them, and no commit since wrote them.

    They are base rows that the log's version of their key, or its delete, had hidden. `commit_times` are those of the
    rows in `later`.
    """
    _, rows, keys = _matches(merged, later)
    back = np.zeros(len(later.keys), bool)
    if not len(rows):
        return back
    winner = merged.winner[keys]
    hidden = merged.beats_base[keys] | ~_is_newer(later.ordering, rows, merged, winner, rules)
    written = merged.entries.values(COMMIT_TIME, winner)
    same = to_numpy(pc.fill_null(pc.equal(written, commit_times.take(from_numpy(rows))), False))
    back[rows] = hidden & ~(same & ~merged.deleted[keys])
    return back


def _matches(merged: MergedLog, base: BaseRows) -> tuple[Bools, Int64s, Int64s]:
    """Which base rows have a key of the log, as a mask and as indices, and the indices of those keys in the log."""
    matches = pc.index_in(base.keys, value_set=merged.keys)
    hit = to_numpy(matches.is_valid())
    return hit, np.flatnonzero(hit), to_numpy(matches.drop_null()).astype(np.int64)


def _is_newer(
    ordering: Sequence[pa.Array], rows: Int64s, merged: MergedLog, entries: Int64s, rules: MergeRules
) -> Bools:
    """Which of some base rows have greater ordering values than one log entry each."""
    taken = [column.take(from_numpy(rows)) for column in ordering]
    theirs = [column.take(from_numpy(entries)) for column in merged.entries.ordering]
    return is_greater(rules.comparable(taken), rules.comparable(theirs))
