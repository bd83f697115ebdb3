"""One row per key of what one write brings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.formats.hudi.layout import PARTITION_PATH, RECORD_KEY
from lakebed.formats.hudi.merge.ordering import order_codes
from lakebed.formats.hudi.merge.rules import MergeRules
from lakebed.formats.hudi.write.staged_rows import DELETE_ALWAYS, KIND
from lakebed.kernel.arrays import from_numpy, one_chunk, to_numpy


@dataclass(frozen=True, slots=True)
class Combiner:
    """Keeps the row of each key that wins by the table's rules: the greatest ordering value, of equal ones the last.

    Keys are those of a partition, with `everywhere` those of the table.
    """

    rules: MergeRules
    everywhere: bool = False

    def __call__(self, rows: pa.Table) -> pa.Table:
        """One row per key, in the order in which the winners came."""
        keys = one_chunk(rows.column(RECORD_KEY))
        codes = to_numpy(keys.dictionary_encode().indices).astype(np.int64)
        if not self.everywhere:
            parts = one_chunk(rows.column(PARTITION_PATH)).dictionary_encode()
            codes = codes * max(1, len(parts.dictionary)) + to_numpy(parts.indices)
        ordering = [one_chunk(rows.column(name)) for name in self.rules.ordering]
        order = order_codes(self.rules.comparable(ordering), len(rows))
        if self.rules.ordering:
            always = to_numpy(one_chunk(rows.column(KIND))) == DELETE_ALWAYS
            order = np.where(always, np.iinfo(np.int64).max, order)
        ranked = np.lexsort((np.arange(len(rows)), order, codes))
        last = np.append(codes[ranked][1:] != codes[ranked][:-1], True) if len(ranked) else np.zeros(0, bool)
        winners = np.sort(ranked[last])
        return rows if len(winners) == len(rows) else rows.take(from_numpy(winners))
