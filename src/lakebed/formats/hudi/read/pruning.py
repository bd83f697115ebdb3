"""Rules out partitions and file slices that cannot match a predicate, by the statistics of the metadata table.

No footer is read for it. What a slice can hold is what its files can hold together: each value of a merged row is that
of some version of the row. A slice stays where one of its files, log files included, has no statistics of a column. A
partition stays as long as its statistics may be of other files than those that are read: only the newest state is ruled
out by them.

Rules: Hudi's `ColumnStatsIndexSupport` and `PartitionStatsIndexSupport`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.metadata_keys import file_hash, hash_of, partition_hash
from lakebed.formats.hudi.codec.wrapped_values import has_bounds
from lakebed.formats.hudi.metadata_table.opened import UNUSABLE, MetadataTable, maintains
from lakebed.formats.hudi.metadata_table.statistics import (
    COLUMN_STATS,
    PARTITION_STATS,
    Statistics,
    read_statistics,
)
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.timeline.active import View
from lakebed.kernel.arrays import Bools, Int64s, one_chunk, to_numpy
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.tree import Node

_FEW = 4
"""So many slices are read without a look at statistics: their footers say the same, and are read in any case."""


@dataclass(frozen=True)
class Pruning:
    """The statistics in the metadata table, applied to a predicate in one view of a table."""

    state: TableState
    view: View
    predicate: Node | None
    schema: pa.Schema
    few: int = _FEW
    _usable: dict[str, bool] = field(default_factory=dict)

    def partitions(self, paths: Sequence[str]) -> list[str]:
        """The partitions that can hold rows for which the predicate is true."""
        table = self._table(PARTITION_STATS, len(paths))
        if table is None or self.view.bound:
            return list(paths)

        def known(column: pa.Field) -> Facts | None:
            statistics = self._read(table, PARTITION_STATS, column, paths)
            keys = [hash_of(column.name) + partition_hash(path) for path in paths]
            facts = _facts(statistics, keys, np.arange(len(paths)), len(paths)) if statistics is not None else None
            # Files that were written before the column was added are not counted, and have nulls in it.
            return None if facts is None else _with_nulls(facts, pa.types.is_string(column.type))

        kept = can_hold(self.predicate, self._known(known), len(paths))
        return [path for path, wanted in zip(paths, kept, strict=True) if wanted]

    def slices(self, slices: Sequence[FileSlice]) -> list[FileSlice]:
        """The slices that can hold such rows."""
        table = self._table(COLUMN_STATS, len(slices))
        if table is None:
            return list(slices)
        files = [
            (number, partition_hash(each.partition) + file_hash(name))
            for number, each in enumerate(slices)
            for name in _names(each)
        ]
        paths = list(dict.fromkeys(each.partition for each in slices))
        of_slice = np.array([number for number, _ in files])

        def known(column: pa.Field) -> Facts | None:
            statistics = self._read(table, COLUMN_STATS, column, paths)
            prefix = hash_of(column.name)
            return _facts(statistics, [prefix + key for _, key in files], of_slice, len(slices)) if statistics else None

        kept = can_hold(self.predicate, self._known(known), len(slices))
        return [each for each, wanted in zip(slices, kept, strict=True) if wanted]

    def _table(self, part: str, count: int) -> MetadataTable | None:
        """The metadata table, where a part of it can say something. None under a history of schemas with column ids: a
        file's column may have had another name."""
        if self.predicate is None or count <= self.few or not maintains(self.state.config, part):
            return None
        names = self.predicate.columns()
        if not any(name in self.schema.names and self._has_bounds(self.schema.field(name)) for name in names):
            return None
        if self.state.schema_history(self.view).wanted is not None:
            return None
        return self.state.metadata_table

    def _has_bounds(self, column: pa.Field) -> bool:
        if pa.types.is_timestamp(column.type) and self.state.schema_history(self.view).units:
            return False
        return has_bounds(column.type)

    def _read(self, table: MetadataTable, part: str, column: pa.Field, partitions: Sequence[str]) -> Statistics | None:
        try:
            return read_statistics(table, part, column, partitions)
        except (*UNUSABLE, pa.ArrowInvalid):
            return None

    def _known(self, facts: Callable[[pa.Field], Facts | None]) -> Callable[[tuple[str, ...]], list[Facts]]:
        """The facts of columns by path, each read once."""
        seen: dict[str, list[Facts]] = {}

        def known(path: tuple[str, ...]) -> list[Facts]:
            name = path[0]
            if len(path) > 1 or name not in self.schema.names or not self._has_bounds(self.schema.field(name)):
                return []
            if name not in seen:
                column_facts = facts(self.schema.field(name))
                seen[name] = [] if column_facts is None else [column_facts]
            return seen[name]

        return known


def _names(file_slice: FileSlice) -> list[str]:
    base = [file_slice.base.name] if file_slice.base is not None else []
    return base + [log.name for log in file_slice.logs]


def _facts(found: Statistics, keys: Sequence[bytes], of_thing: Int64s, count: int) -> Facts:
    """What is known of each of `count` things, which have the statistics of these keys together: `of_thing` says whose
    each key is. Nothing is known of a thing that lacks one of them."""
    places = pc.index_in(pa.array(keys, pa.binary()), value_set=found.keys)
    missing: Bools = to_numpy(places.is_null())
    at: Int64s = to_numpy(places.fill_null(0)).astype(np.int64)
    values = found.values[at] & ~missing
    taken = pa.array(at)
    unbounded = to_numpy(pc.or_(pc.is_null(found.lower), pc.is_null(found.upper)))[at]
    unknown = np.zeros(count, np.bool_)
    np.logical_or.at(unknown, of_thing, missing | (values & unbounded))
    anything, nulls = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    np.logical_or.at(anything, of_thing, values | missing)
    np.logical_or.at(nulls, of_thing, found.nulls[at] | missing)
    counted = pa.array(~values)
    kind = found.lower.type
    rows = pa.table(
        {
            "thing": of_thing,
            "lower": pc.if_else(counted, pa.scalar(None, kind), found.lower.take(taken)),
            "upper": pc.if_else(counted, pa.scalar(None, kind), found.upper.take(taken)),
        }
    )
    ends = rows.group_by("thing").aggregate([("lower", "min"), ("upper", "max")])
    order = np.full(count, -1)
    order[to_numpy(one_chunk(ends["thing"]))] = np.arange(len(ends))
    take = pa.array(order, mask=(order < 0) | unknown)
    lower, upper = one_chunk(ends["lower_min"]).take(take), one_chunk(ends["upper_max"]).take(take)
    return Facts(lower, upper, nulls, anything, np.zeros(count, np.bool_))


def _with_nulls(facts: Facts, is_text: bool) -> Facts:
    """Facts of partitions: there may always be nulls. Bounds of texts count only where the writer counted no null: it
    counts the rows of a file without statistics as nulls, and its long texts are outside of the bounds."""
    every = np.ones(len(facts.nulls), np.bool_)
    if not is_text:
        return Facts(facts.lower, facts.upper, every, every, facts.nans)
    hidden, nothing = pa.array(facts.nulls), pa.scalar(None, facts.lower.type)
    lower, upper = pc.if_else(hidden, nothing, facts.lower), pc.if_else(hidden, nothing, facts.upper)
    return Facts(lower, upper, every, every, facts.nans)
