"""Which version of a row wins, and by which rules a table says so.

Rules: Hudi 1.x's file group reader (`KeyBasedFileGroupRecordBuffer`, `BufferedRecordMergerFactory`,
`PartialUpdateHandler`) and the known payload classes of tables before version 9. All versions of a key are taken in
their order: the base row, then log entries by file, block and row. Under commit-time ordering the later wins. Under
event-time ordering the later wins unless its ordering value is lower; null is the lowest, equal values let the later
win, and deletes compare alike. A delete without an ordering value (or with the delete operation's int 0) always wins
over what was before it, and whatever comes later wins over it.

The versions of all keys of a file group are merged at once: which entry wins a key is the last one in (ordering,
position), so one sort finds all winners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.config import TableConfig

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_LOWEST = np.iinfo(np.int64).min
_PAYLOADS = "org.apache.hudi.common.model."


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How versions of a row are merged. `ordering` is empty under commit-time ordering.

    `keep_defaults`: a value that equals its column's default (null) in a newer version keeps the older one.
    `marker_column`, `marker`: a row that holds this text there is a delete. `refused` names a payload class, merger or
    mode that lakebed does not know: such a table can only be read without merging.
    """

    ordering: tuple[str, ...] = ()
    keep_defaults: bool = False
    marker_column: str = ""
    marker: str = ""
    refused: str = ""


def rules_of(config: TableConfig) -> MergeRules:
    """The rules that the table's properties ask for."""
    mode = config.properties.get("hoodie.record.merge.mode", "").upper()
    payload = config.properties.get("hoodie.compaction.payload.class", "")
    if config.version >= 8 and mode in ("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"):
        rules = MergeRules(config.ordering if mode == "EVENT_TIME_ORDERING" else ())
        rules = _with_partial_updates(rules, config.properties)
    else:
        rules = _payload_rules(payload or _default_payload(config), config.ordering)
    prefix = "hoodie.record.merge.property."
    column = config.properties.get(f"{prefix}hoodie.payload.delete.field", "")
    if column and not rules.refused:
        marker = config.properties.get(f"{prefix}hoodie.payload.delete.marker", "")
        rules = MergeRules(rules.ordering, rules.keep_defaults, column, marker)
    return rules


def _default_payload(config: TableConfig) -> str:
    mode = config.properties.get("hoodie.record.merge.mode", "").upper()
    return (
        f"{_PAYLOADS}{'DefaultHoodieRecordPayload' if mode.startswith('EVENT') else 'OverwriteWithLatestAvroPayload'}"
    )


def _with_partial_updates(rules: MergeRules, properties: Mapping[str, str]) -> MergeRules:
    mode = properties.get("hoodie.table.partial.update.mode", "").upper()
    if mode in ("", "NONE", "KEEP_VALUES"):
        payload = properties.get("hoodie.compaction.payload.class", "").rpartition(".")[2]
        keeps = payload in ("PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload")
        return MergeRules(rules.ordering, keeps)
    if mode == "IGNORE_DEFAULTS":
        return MergeRules(rules.ordering, True)
    return MergeRules(refused=f"partial update mode {mode}")


def _payload_rules(payload: str, ordering: tuple[str, ...]) -> MergeRules:
    known = payload.startswith((_PAYLOADS, "com.uber.hoodie.common.model."))
    match payload.rpartition(".")[2] if known else "":
        case "DefaultHoodieRecordPayload" | "EventTimeAvroPayload":
            return MergeRules(ordering)
        case "OverwriteWithLatestAvroPayload":
            return MergeRules()
        case "PartialUpdateAvroPayload":
            return MergeRules(ordering, keep_defaults=True)
        case "OverwriteNonDefaultsWithLatestAvroPayload":
            return MergeRules(keep_defaults=True)
        case "AWSDmsAvroPayload":
            return MergeRules(marker_column="Op", marker="D")
    return MergeRules(refused=payload)


def check_known(rules: MergeRules, table: str) -> None:
    """Raise UnsupportedError, naming it, when the table merges by something that lakebed does not know."""
    if rules.refused:
        raise UnsupportedError(
            f"the table merges rows by {rules.refused}",
            table=table,
            why="lakebed does not know its rules, and guessing could give wrong rows",
            todo="Read without merging (hoodie.datasource.merge.type = skip_merge), or compact it first",
        )


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
    row_at: Ints
    delete_at: Ints
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
    whether it is a delete, `final` whether it wins over any base row whatever its ordering value. `sources` gives, for
    columns of partial updates, the row that the value comes from, -1 for the base row's.
    """

    entries: LogEntries
    keys: pa.Array
    winner: Ints
    gone: Bools
    final: Bools
    sources: Mapping[str, Ints]

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
    rank = _ranks(entries.ordering, len(at)) if rules.ordering else np.zeros(len(at), np.int64)
    final = np.zeros(count, bool)
    alive = np.arange(len(at))
    if rules.ordering and entries.natural.any():
        alive, rank = _after_natural(codes, at, rank, entries.natural, n_rows, final, count)
    if not rules.ordering:
        final[:] = True
    if rules.ordering and rules.keep_defaults:
        alive = _not_late(alive, codes, at, rank)
    order = alive[_stable_order(rank[alive], at[alive])]
    winner = np.full(count, -1, np.int64)
    winner[codes[order]] = order
    sources = _column_sources(entries, rules, order, codes, is_delete, count, n_rows)
    return MergedLog(entries, encoded.dictionary, winner, is_delete[winner], final, sources)


def _stable_order(rank: Ints, at: Ints) -> Ints:
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
    codes: Ints, at: Ints, rank: Ints, natural: Bools, n_rows: int, final: Bools, count: int
) -> tuple[Ints, Ints]:
    """The entries from each key's last natural delete on; the delete itself ranks lowest."""
    natural_entries = n_rows + np.flatnonzero(natural)
    last = np.full(count, -1, np.int64)
    np.maximum.at(last, codes[natural_entries], at[natural_entries])
    final[codes[natural_entries]] = True
    rank = rank.copy()
    rank[natural_entries] = _LOWEST
    return np.flatnonzero(at >= last[codes]), rank


def _not_late(alive: Ints, codes: Ints, at: Ints, rank: Ints) -> Ints:
    """Entries whose ordering value is not below any earlier one of their key: late rows fill no gaps of newer ones."""
    by_key = alive[np.lexsort((at[alive], codes[alive]))]
    dense = np.unique(rank[by_key], return_inverse=True)[1].astype(np.int64)
    lifted = codes[by_key] * (dense.max(initial=0) + 1) + dense
    return np.sort(by_key[lifted >= np.maximum.accumulate(lifted)])


def _column_sources(
    entries: LogEntries, rules: MergeRules, order: Ints, codes: Ints, is_delete: Bools, count: int, n_rows: int
) -> dict[str, Ints]:
    """For each column that not every row brings: the last entry of the key that does, -1 where none does; deletes bring
    every column, empty."""
    provides = dict(entries.provides)
    if rules.keep_defaults:
        meta = {name for name in entries.rows.column_names if name.startswith("_hoodie_")}
        for name in entries.rows.column_names:
            if name not in meta and name not in rules.ordering:
                column = entries.rows.column(name)
                if column.null_count:
                    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
                    provides[name] = valid & provides[name] if name in provides else valid
    sources = {}
    for name, mask in provides.items():
        brings = is_delete.copy()
        brings[:n_rows] |= mask
        bringing = order[brings[order]]
        source = np.full(count, -1, np.int64)
        source[codes[bringing]] = bringing
        sources[name] = source
    return sources


def _ranks(columns: Sequence[pa.Array], count: int) -> Ints:
    """Numbers that order entries as their ordering values do, field by field; equal values have equal numbers."""
    rank: Ints | None = None
    for column in columns:
        mine = _rank(column)
        if rank is None:
            rank = mine
            continue
        first = np.unique(rank, return_inverse=True)[1].astype(np.int64)
        second = np.unique(mine, return_inverse=True)[1].astype(np.int64)
        rank = first * (second.max(initial=0) + 1) + second
    return rank if rank is not None else np.zeros(count, np.int64)


def _rank(column: pa.Array) -> Ints:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        width = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
        numbers = column.cast(width).cast(pa.int64())
        found: Ints = pc.fill_null(numbers, _LOWEST).to_numpy(zero_copy_only=False)
        return found
    if pa.types.is_floating(kind):
        bits = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        plain = np.where(np.isnan(bits), np.nan, bits).view(np.int64)
        ordered = np.where(plain < 0, plain ^ np.iinfo(np.int64).max, plain)
        ordered = np.where(np.isnan(bits), np.iinfo(np.int64).max, ordered)
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), ordered, _LOWEST)
    ranks = pc.rank(column, sort_keys="ascending", null_placement="at_start", tiebreaker="dense")
    dense: Ints = ranks.cast(pa.int64()).to_numpy()
    return dense


def is_greater(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Bools:
    """Whether the ordering values of the left rows are greater, field by field; null is lowest, NaN highest."""
    greater: Bools | None = None
    equal: Bools | None = None
    for one, other in zip(left, right, strict=True):
        more, same = _compare(one, other)
        greater = more if greater is None or equal is None else greater | (equal & more)
        equal = same if equal is None else equal & same
    return greater if greater is not None else np.zeros(0, bool)


def _compare(one: pa.Array, other: pa.Array) -> tuple[Bools, Bools]:
    valid, other_valid = one.is_valid(), other.is_valid()
    more, same = pc.greater(one, other), pc.equal(one, other)
    if pa.types.is_floating(one.type):
        nan, other_nan = pc.is_nan(one), pc.is_nan(other)
        more = pc.or_(more, pc.and_(nan, pc.invert(other_nan)))
        same = pc.or_(same, pc.and_(nan, other_nan))
    more = pc.if_else(pc.and_(valid, other_valid), more, pc.and_(valid, pc.invert(other_valid)))
    same = pc.if_else(pc.and_(valid, other_valid), same, pc.and_(pc.invert(valid), pc.invert(other_valid)))
    return _bools(more), _bools(same)


def _bools(values: Any) -> Bools:
    found: Bools = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, slots=True)
class BaseMerge:
    """What became of the rows of one batch of the base file.

    `keep` marks base rows that stay as they are; `updated` the rows that get some columns from the log, `updating`
    their keys' places in the merged log. `taken` are the keys (places in the merged log) that need no row of their own
    any more: those that lost to a base row, and those merged into one.
    """

    keep: Bools
    updated: Ints
    updating: Ints
    taken: Ints


def merge_base(merged: MergedLog, keys: pa.Array, ordering: Sequence[pa.Array], rules: MergeRules) -> BaseMerge:
    """Hold the rows of a base batch against the merged log. `ordering` are the batch's ordering columns, of the same
    types as the log's."""
    found = pc.index_in(keys, value_set=merged.keys)
    hit = found.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(hit)
    places = found.drop_null().to_numpy().astype(np.int64)
    none = np.zeros(0, np.int64)
    if not len(rows):
        return BaseMerge(~hit, none, none, none)
    keep = ~hit
    winner_loses = np.zeros(len(rows), bool)
    if rules.ordering:
        open_places = ~merged.final[places]
        if open_places.any():
            taken_rows = pa.array(rows)
            mine = [column.take(taken_rows) for column in ordering]
            theirs = [column.take(pa.array(merged.winner[places])) for column in merged.entries.ordering]
            winner_loses = open_places & is_greater(mine, theirs)
    if not merged.sources:
        keep[rows[winner_loses]] = True
        return BaseMerge(keep, none, none, places[winner_loses])
    keep[rows[winner_loses]] = True
    wins = ~winner_loses & ~merged.gone[places]
    return BaseMerge(keep, rows[wins], places[wins], places[winner_loses | wins])


def log_rows(merged: MergedLog, places: Ints, columns: Sequence[str]) -> pa.Table:
    """The merged rows of some keys from the log alone; columns that no entry of the key brings are null."""
    entries, n_rows = merged.entries, len(merged.entries.row_at)
    whole = pa.array(merged.winner[places])
    arrays = []
    for name in columns:
        column = entries.rows.column(name)
        source = merged.sources.get(name)
        if source is None:
            arrays.append(column.take(whole))
            continue
        mine = source[places]
        arrays.append(column.take(pa.array(mine, mask=(mine < 0) | (mine >= n_rows))))
    return pa.table(arrays, schema=pa.schema([entries.rows.schema.field(name) for name in columns]))


def overlaid(
    merged: MergedLog, base: pa.Table, updating: Ints, ordering: Sequence[pa.Array], rules: MergeRules
) -> pa.Table:
    """Base rows with the columns that newer partial updates bring; row i of `base` is merged with key `updating[i]`.

    A column comes from the log when its source there is not older than the base row, by the ordering values.
    """
    entries, n_rows = merged.entries, len(merged.entries.row_at)
    arrays = []
    for name in base.column_names:
        source = merged.sources.get(name)
        from_log = entries.rows.column(name)
        if source is None:
            arrays.append(from_log.take(pa.array(merged.winner[updating])))
            continue
        mine = source[updating]
        newer = mine >= 0
        if rules.ordering and newer.any():
            some = np.flatnonzero(newer & ~merged.final[updating])
            theirs = [column.take(pa.array(mine[some])) for column in entries.ordering]
            older = is_greater([column.take(pa.array(some)) for column in ordering], theirs)
            newer[some[older]] = False
        values = from_log.take(pa.array(mine, mask=(mine < 0) | (mine >= n_rows)))
        arrays.append(pc.if_else(pa.array(newer), values, base.column(name)) if not newer.all() else values)
    return pa.table(arrays, schema=base.schema)
