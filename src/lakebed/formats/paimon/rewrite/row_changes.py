"""What a compaction says of the rows of each key: the merged row, and how it differs from what the key had before.

Rules: Paimon's FullChangelogMergeFunctionWrapper, LookupChangelogMergeFunctionWrapper and FirstRowMergeFunctionWrapper.
A key that is new gives +I, one that changed -U and +U, one that was deleted -D.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon.codec.types import VALUE_KIND
from lakebed.formats.paimon.merge.function import Deduplicate, MergeFunction, Reduced
from lakebed.formats.paimon.merge.lookup import counting, kept_runs, lowest_above_0
from lakebed.formats.paimon.merge.ordering import Runs
from lakebed.formats.paimon.options import split_names
from lakebed.formats.paimon.rewrite.unit import CompactionRules
from lakebed.kernel.arrays import Bools, Int8s, Int64s, from_numpy, to_numpy
from lakebed.kernel.rows.matching import rows_equal
from lakebed.model.rowkind import RowKind


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of some keys, in merge order: `rows` with sequence numbers and kinds, and the run of each key.

    `levels` has the level of each row's file. Rows above `output` are those of older files, which stay as they are.
    """

    rows: pa.Table
    runs: Runs
    levels: Int8s
    output: int

    def only(self, kept: Bools) -> Versions:
        """Without some rows, and without the keys that then have none."""
        if kept.all():
            return self
        rows = self.rows.filter(from_numpy(kept)).combine_chunks()
        return Versions(rows, kept_runs(kept, self.runs)[1], self.levels[kept], self.output)

    def any_of(self, rows: Bools) -> Bools:
        """A mask of the runs that have one of these rows."""
        has_row: Bools = np.logical_or.reduceat(rows, self.runs.starts)
        return has_row


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged rows, one per key, the rows of the changelog (None: the table has none), and where the older rows are
    that newer ones replace: positions in the rows of the versions."""

    rows: pa.Table
    changelog: pa.Table | None = None
    replaced: Int64s | None = None


@dataclass(frozen=True, slots=True)
class Folding:
    """How rows of a table become one per key in a compaction. Picklable."""

    rules: CompactionRules
    function: MergeFunction
    compared: tuple[str, ...] | None
    """The columns of which one must differ for a change; None: any two rows are a change."""

    @classmethod
    def of(cls, rules: CompactionRules, function: MergeFunction) -> Folding:
        """The settings that the table's options give."""
        options, compared = rules.options.table, None
        if options[compaction.ROW_DEDUPLICATE]:
            ignored = split_names(options[compaction.ROW_DEDUPLICATE_IGNORED])
            compared = tuple(name for name in rules.schema.names if name not in ignored)
        return cls(rules, function, compared)

    @property
    def keeps_last(self) -> bool:
        """Whether the last row of each key is the merged one."""
        return isinstance(self.function, Deduplicate) and not self.rules.lookup.merges_once

    def plain(self, versions: Versions) -> Merged:
        """The merged rows alone."""
        if self.rules.lookup.merges_once:
            versions = versions.only(counting(versions.levels, versions.runs))
        return Merged(self._merge(self.function, versions))

    def with_full_changelog(self, versions: Versions, top: int) -> Merged:
        """Merge for a compaction into the highest level, whose files show each key's row before."""
        runs = versions.runs
        before = np.maximum.reduceat(np.where(versions.levels == top, np.arange(len(versions.levels)), -1), runs.starts)
        unchanged = (before >= 0) & (runs.ends - runs.starts == 1)
        merged = self.plain(versions).rows
        return Merged(merged, self._changes(versions.rows, before, merged, ~unchanged))

    def with_older(self, versions: Versions) -> Merged:
        """For a compaction that takes level 0 up: each key's row of the lowest level above 0 is what it had before."""
        in_unit = versions.levels <= versions.output
        if not in_unit.all():
            wanted = np.repeat(versions.any_of(in_unit), versions.runs.ends - versions.runs.starts)
        else:
            wanted = in_unit
        places = np.flatnonzero(wanted)
        kept = versions.only(wanted)
        if not len(kept.runs):
            return Merged(kept.rows, kept.rows, None)
        return self._first_rows(kept) if self.rules.lookup.first_row else self._looked_up(kept, places)

    def _first_rows(self, versions: Versions) -> Merged:
        in_unit = versions.levels <= versions.output
        known_here = versions.any_of(in_unit & (versions.levels > 0))
        known = known_here | versions.any_of(~in_unit)
        first = self._merge(self.function, versions.only(in_unit))
        rows = first.filter(from_numpy(known_here | ~known))
        changes = first.filter(from_numpy(~known)) if self.rules.lookup.changelog else None
        return Merged(rows, changes)

    def _looked_up(self, versions: Versions, places: Int64s) -> Merged:
        levels, runs = versions.levels, versions.runs
        before = lowest_above_0(levels, runs)
        function = self.function.engine if isinstance(self.function, Reduced) else self.function
        counted, last = counting(levels, runs, before), None
        if not self.rules.needs_older_values:  # they have only their keys
            counted &= levels <= versions.output
        if isinstance(function, Deduplicate):  # the winner is known before any value is fetched
            last = np.maximum.reduceat(np.where(counted, np.arange(len(levels)), -1), runs.starts)
            last = last[last >= 0]
            merged = versions.rows.take(from_numpy(last))
        else:
            merged = self._merge(function, versions.only(counted))
        changes = None
        if self.rules.lookup.changelog:
            changes = self._changes(versions.rows, before, merged, versions.any_of(levels == 0), last)
        known = before[before >= 0]
        return Merged(merged, changes, places[known[levels[known] > versions.output]])

    @staticmethod
    def _merge(function: MergeFunction, versions: Versions) -> pa.Table:
        runs = versions.runs
        if isinstance(function, Deduplicate) and len(runs) < len(versions.rows):
            return versions.rows.take(from_numpy(runs.last))
        return function.merge(versions.rows, runs).combine_chunks()

    def _changes(
        self, rows: pa.Table, before: Int64s, merged: pa.Table, considered: Bools, merged_at: Int64s | None = None
    ) -> pa.Table:
        """The changelog: from the row at the position `before` of each key (-1: none) to its merged row, which is at
        `merged_at` of the same rows where it is one of them."""
        adds = _adds(to_numpy(rows.column(VALUE_KIND)))
        had = (before >= 0) & adds[np.maximum(before, 0)]
        has = _adds(to_numpy(merged.column(VALUE_KIND)))
        changed = considered & (had | has)
        at = np.flatnonzero(changed & had)
        if self.compared is not None and len(at):
            names, pairs = list(self.compared), at[has[at]]
            older = rows.select(names).take(from_numpy(before[pairs]))
            same = rows_equal(older, merged.select(names).take(from_numpy(pairs)))
            changed[pairs[same]] = False
        inserts, deletes, updates = changed & has & ~had, changed & had & ~has, changed & had & has
        counts = inserts.astype(np.int64) + deletes + 2 * updates
        first = np.cumsum(counts) - counts
        if merged_at is None:
            rows = pa.concat_tables([rows.take(from_numpy(before[at])), merged])
            before, merged_at = np.zeros(len(before), np.int64), len(at) + np.arange(len(merged))
            before[at] = np.arange(len(at))
        source, kinds = np.zeros(int(counts.sum()), np.int64), np.zeros(int(counts.sum()), np.int8)
        for which, kind, shift, from_older in (
            (inserts, RowKind.INSERT, 0, False), (deletes, RowKind.DELETE, 0, True),
            (updates, RowKind.UPDATE_BEFORE, 0, True), (updates, RowKind.UPDATE_AFTER, 1, False),
        ):  # fmt: skip
            keys = np.flatnonzero(which)
            source[first[keys] + shift] = before[keys] if from_older else merged_at[keys]
            kinds[first[keys] + shift] = int(kind)
        changes = rows.take(from_numpy(source))
        place = changes.schema.get_field_index(VALUE_KIND)
        return changes.set_column(place, changes.schema.field(place), pa.array(kinds))


def _adds(kinds: Int8s) -> Bools:
    adds: Bools = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
    return adds


def without_deletes(rows: pa.Table) -> pa.Table:
    """The rows that are not deleted."""
    adds = _adds(to_numpy(rows.column(VALUE_KIND)))
    return rows if adds.all() else rows.filter(from_numpy(adds))
