"""Which version of a row wins in a file group: the log's entries among themselves, then against the base file's rows.

Rules: Hudi 1.x's file group reader (`KeyBasedFileGroupRecordBuffer`, `BufferedRecordMergerFactory`,
`PartialUpdateHandler`). All versions of a key are taken in their order: the base row, then log entries by file, block
and row. Under commit-time ordering the later wins. Under event-time ordering the later wins unless its ordering value
is lower; null is the lowest, equal values let the later win, and deletes compare alike. A delete without an ordering
value (or with the delete operation's int 0) always wins over what was before it, and whatever comes later wins over it.
Hudi merges the log's versions among themselves first, and what wins there then meets the base row: so a late row after
such a delete takes the delete's place, loses to the base row by its ordering value, and the base row is back. Hudi's
readers and its compaction both do so; here it is the same, or the answer would change when a compaction runs.

Where values of older versions show through newer ones (partial updates, defaults, values that were not available), a
column comes from the last version in that order that brings it; a late row fills the gaps of a newer one too. A delete
ends what can show through. In Hudi, which meets the base row last, single values of a deleted row can come back there,
and a value older than the base row's can hide it; here the columns of one row follow one order.

The versions of all keys of a file group are merged at once: which entry wins a key is the last one in (ordering,
position), so one sort finds all winners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.merge.ordering import LOWEST, is_greater, ranks
from lakebed.formats.hudi.merge.rules import MergeRules
from lakebed.kernel.arrays import Bools, Int64s


@dataclass(frozen=True, slots=True)
class LogEntries:
    """All log entries of one file group that count: rows and deletes.

    `rows` holds the data rows of all blocks, in the order of the log; `row_at` and `delete_at` number rows and deletes
    in that one order. `keys` are the record keys of the rows, then of the deletes. `ordering` has one array a field,
    rows then deletes, of the columns' types. `deleted` tells rows that are deletes themselves, `natural` deletes (only)
    without an ordering value, `delete_instants` the instants of the deletes. `provides` names, for rows of partial
    updates, which columns each row brings: a mask over the rows by column; a column that is not in it is brought by
    every row.
    """

    rows: pa.Table
    row_at: Int64s
    delete_at: Int64s
    keys: pa.Array
    ordering: tuple[pa.Array, ...]
    deleted: Bools | None
    natural: Bools
    delete_instants: pa.Array
    provides: Mapping[str, Bools]


@dataclass(frozen=True, slots=True)
class MergedLog:
    """The winner of each key among the log entries of a file group, to be held against the base file.

    `keys` are distinct; all arrays run along them. `winner` is the winning entry (rows first, then deletes), `gone`
    whether it is a delete, `final` whether it wins over any base row whatever its ordering value. `cut` marks keys that
    the log deleted without one: no value of the base row shows through what came later. `sources` gives, for columns
    that not every entry brings, the entry that the value comes from, -1 for the base row's.
    """

    entries: LogEntries
    keys: pa.Array
    winner: Int64s
    gone: Bools
    final: Bools
    cut: Bools
    sources: Mapping[str, Int64s]

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self.keys)


def merge_log(entries: LogEntries, rules: MergeRules) -> MergedLog:
    """The winner of each key among log entries alone."""
    encoded = entries.keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    count = len(encoded.dictionary)
    n_rows = len(entries.row_at)
    at = np.concatenate([entries.row_at, entries.delete_at])
    is_delete = np.zeros(len(at), bool)
    is_delete[n_rows:] = True
    if entries.deleted is not None:
        is_delete[:n_rows] |= entries.deleted
    rank = ranks(rules.comparable(entries.ordering), len(at)) if rules.ordering else np.zeros(len(at), np.int64)
    cut = np.full(count, not rules.ordering)
    alive = np.arange(len(at))
    if rules.ordering and entries.natural.any():
        alive, rank = _after_natural(codes, at, rank, entries.natural, n_rows, cut, count)
    order = alive[_stable_order(rank[alive], at[alive])]
    winner = np.full(count, -1, np.int64)
    winner[codes[order]] = order
    final = np.full(count, not rules.ordering)
    natural = np.zeros(len(at), bool)
    natural[n_rows:] = entries.natural
    final |= natural[winner]
    sources = _column_sources(entries, rules, order, codes, is_delete, count, n_rows)
    return MergedLog(entries, encoded.dictionary, winner, is_delete[winner], final, cut, sources)


def _stable_order(rank: Int64s, at: Int64s) -> Int64s:
    """The order by (rank, position), skipping the sorts that the data do not need."""
    if len(at) and np.any(at[1:] < at[:-1]):
        by_place = np.argsort(at, kind="stable")
        rank = rank[by_place]
        if np.all(rank[1:] >= rank[:-1]):
            return by_place
        return by_place[np.argsort(rank, kind="stable")]
    if np.all(rank[1:] >= rank[:-1]):
        return np.arange(len(rank))
    return np.argsort(rank, kind="stable")


def _after_natural(
    codes: Int64s, at: Int64s, rank: Int64s, natural: Bools, n_rows: int, cut: Bools, count: int
) -> tuple[Int64s, Int64s]:
    """The entries from each key's last natural delete on; the delete itself ranks lowest."""
    natural_entries = n_rows + np.flatnonzero(natural)
    last = np.full(count, -1, np.int64)
    np.maximum.at(last, codes[natural_entries], at[natural_entries])
    cut[codes[natural_entries]] = True
    rank = rank.copy()
    rank[natural_entries] = LOWEST
    return np.flatnonzero(at >= last[codes]), rank


def _column_sources(
    entries: LogEntries, rules: MergeRules, order: Int64s, codes: Int64s, is_delete: Bools, count: int, n_rows: int
) -> dict[str, Int64s]:
    """For each column that not every row brings: the last entry of the key that does, -1 where none does; deletes bring
    every column, empty."""
    provides = dict(entries.provides)
    for name in entries.rows.column_names if rules.fills else ():
        gaps = rules.gaps(name, entries.rows.column(name))
        if gaps is not None:
            provides[name] = ~gaps & provides[name] if name in provides else ~gaps
    sources = {}
    for name, mask in provides.items():
        brings = is_delete.copy()
        brings[:n_rows] |= mask
        bringing = order[brings[order]]
        source = np.full(count, -1, np.int64)
        source[codes[bringing]] = bringing
        sources[name] = source
    return sources


@dataclass(frozen=True, slots=True)
class BaseMerge:
    """What became of the rows of one batch of the base file.

    `keep` marks base rows that stay as they are; `updated` the rows that are merged with the log column by column,
    `updating` their keys' places in the merged log, `newer` whether the base row is the newer one. `taken` are the keys
    (places in the merged log) that need no row of their own any more: those that lost to a base row, and those merged
    into one.
    """

    keep: Bools
    updated: Int64s
    updating: Int64s
    newer: Bools
    taken: Int64s


def merge_base(merged: MergedLog, keys: pa.Array, ordering: Sequence[pa.Array], rules: MergeRules) -> BaseMerge:
    """Hold the rows of a base batch against the merged log. `ordering` are the batch's ordering columns, of the same
    types as the log's."""
    found = pc.index_in(keys, value_set=merged.keys)
    hit = found.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(hit)
    places = found.drop_null().to_numpy().astype(np.int64)
    keep = ~hit
    newer = np.zeros(len(rows), bool)
    open_places = ~merged.final[places]
    if rules.ordering and open_places.any():
        mine = [column.take(pa.array(rows)) for column in ordering]
        newer = open_places & _is_newer(mine, merged, merged.winner[places], rules)
    merging = newer & rules.fills
    if merged.sources or rules.fills:
        merging |= ~newer & ~merged.gone[places]
    keep[rows[newer & ~merging]] = True
    return BaseMerge(keep, rows[merging], places[merging], newer[merging], places[newer | merging])


def _is_newer(ordering: Sequence[pa.Array], merged: MergedLog, entries: Int64s, rules: MergeRules) -> Bools:
    """Whether base rows have greater ordering values than entries of the log, one each."""
    theirs = [column.take(pa.array(entries)) for column in merged.entries.ordering]
    return is_greater(rules.comparable(ordering), rules.comparable(theirs))


def came_back(
    merged: MergedLog, keys: pa.Array, commits: pa.Array, ordering: Sequence[pa.Array], rules: MergeRules
) -> Bools:
    """Which rows of a later state are not the ones that stood when the log was `merged`, though no commit since wrote
    them: base rows that the log's version of their key, or its delete, had hidden then. `commits` are their commit
    times, `ordering` their ordering columns."""
    found = pc.index_in(keys, value_set=merged.keys)
    hit = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    back = np.zeros(len(keys), bool)
    if not len(hit):
        return back
    places = found.drop_null().to_numpy().astype(np.int64)
    winner = merged.winner[places]
    mine = pa.array(hit)
    hidden = merged.final[places] | ~_is_newer([column.take(mine) for column in ordering], merged, winner, rules)
    times = merged.entries.rows.column("_hoodie_commit_time")
    written = times.take(pa.array(winner, mask=winner >= len(merged.entries.row_at)))
    same = pc.fill_null(pc.equal(written, commits.take(mine)), False).to_numpy()
    back[hit] = hidden & ~(same & ~merged.gone[places])
    return back


def log_rows(merged: MergedLog, places: Int64s, columns: Sequence[str]) -> pa.Table:
    """The merged rows of some keys from the log alone; a column that no entry of the key brings is the newest's."""
    arrays = []
    for name in columns:
        arrays.append(_taken(merged, name, merged.sources.get(name, merged.winner)[places], places))
    return pa.table(arrays, schema=pa.schema([merged.entries.rows.schema.field(name) for name in columns]))


def overlaid(
    merged: MergedLog, base: pa.Table, found: BaseMerge, ordering: Sequence[pa.Array], rules: MergeRules
) -> pa.Table:
    """The updated base rows with the columns that the log brings; row i of `base` is merged with key
    `found.updating[i]`.

    A column of a newer version comes from the log where its source there is not older than the base row, by the
    ordering values, or where the base row's value is a gap.
    """
    n_rows = len(merged.entries.row_at)
    arrays = []
    for name in base.column_names:
        column = base.column(name)
        source = merged.sources.get(name, merged.winner)[found.updating]
        from_log = (source >= 0) & ~found.newer
        if rules.ordering and name in merged.sources and from_log.any():
            some = np.flatnonzero(from_log & ~merged.cut[found.updating])
            mine = [values.take(pa.array(some)) for values in ordering]
            from_log[some[_is_newer(mine, merged, source[some], rules)]] = False
        gaps = rules.gaps(name, column)
        if gaps is not None:
            from_log |= gaps & (source >= 0) & (source < n_rows)
        values = _taken(merged, name, source, found.updating)
        arrays.append(values if from_log.all() else pc.if_else(pa.array(from_log), values, column))
    return pa.table(arrays, schema=base.schema)


def _taken(merged: MergedLog, name: str, sources: Int64s, places: Int64s) -> pa.ChunkedArray:
    """A column's values in some entries of the log. Where that is a delete or none, the newest entry's own: a default,
    a value that was not available, null where a partial update lacks the column."""
    n_rows = len(merged.entries.row_at)
    found = np.where((sources < 0) | (sources >= n_rows), merged.winner[places], sources)
    return merged.entries.rows.column(name).take(pa.array(found, mask=found >= n_rows))
