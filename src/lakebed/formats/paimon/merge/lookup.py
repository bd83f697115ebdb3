"""Tables whose compactions look up the older rows of a key: what they look up for, and what follows for every merge.

Rules: Paimon's LookupStrategy and LookupMergeFunction. Such a compaction writes rows that have everything older in
them. So of the rows of a key above level 0 only the one of the lowest level counts, in reads as in compactions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.merge.ordering import Runs
from lakebed.kernel.arrays import Bools, Int8s, Int64s
from lakebed.kernel.options import Options

_NONE = np.int8(127)
"""Above every level."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What older rows are looked up for: whether a key is new (`first_row`), `changelog` files, deletion `vectors`, or
    because the table forces it."""

    first_row: bool
    changelog: bool
    vectors: bool
    forced: bool

    @classmethod
    def of(cls, options: Options) -> Lookup:
        """The rules that the options of a table with a primary key give."""
        return cls(
            options[opt.MERGE_ENGINE] == "first-row",
            options[opt.CHANGELOG_PRODUCER] == "lookup",
            options[opt.DELETION_VECTORS],
            options[compaction.FORCE_LOOKUP],
        )

    @property
    def needed(self) -> bool:
        """Whether compactions look older rows up."""
        return self.first_row or self.changelog or self.vectors or self.forced

    @property
    def merges_once(self) -> bool:
        """Whether only the lowest row of a key above level 0 counts in a merge."""
        return self.needed and not self.first_row


def lowest_above_0(levels: Int8s, runs: Runs) -> Int64s:
    """The position of each run's row of the lowest level above 0, -1 where a run has none.

    `levels` has the level of each row. The last of several rows of one level counts.
    """
    above = np.where(levels > 0, levels, _NONE)
    lowest = np.minimum.reduceat(above, runs.starts)
    is_lowest = (above == np.repeat(lowest, runs.ends - runs.starts)) & (above < _NONE)
    return np.maximum.reduceat(np.where(is_lowest, np.arange(len(levels)), -1), runs.starts)


def counting(levels: Int8s, runs: Runs, lowest: Int64s | None = None) -> Bools:
    """Which rows count in a merge of such a table: those of level 0, and of each key the lowest one above it, at the
    position that `lowest_above_0` gives."""
    counts: Bools = levels == 0
    if lowest is None:
        lowest = lowest_above_0(levels, runs)
    counts[lowest[lowest >= 0]] = True
    return counts


def kept_runs(kept: Bools, runs: Runs) -> tuple[Bools, Runs]:
    """Which runs still have a row when only the rows `kept` stay, and the bounds of those runs among these rows."""
    counts = np.add.reduceat(kept.astype(np.int64), runs.starts)
    alive: Bools = counts > 0
    ends = np.cumsum(counts[alive])
    return alive, Runs(ends - counts[alive], ends)
