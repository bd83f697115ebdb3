"""Sort more rows than fit into memory.

Rows that do not fit are spilled to disk, cut into ranges by a sample of their keys, and sorted range by range. So the
memory in use is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import from_numpy
from lakebed.kernel.scratch import SpillFile, Stretch
from lakebed.kernel.sort_keys import boundaries, range_codes, sort_order, thinned, with_ties

MEMORY = 96 << 20
"""How many bytes of rows one task sorts at a time."""
_SAMPLE = 2000
_BATCH_ROWS = 64 << 10


class Keys(Protocol):
    """Gives rows their sort keys. Picklable."""

    def keys(self, rows: pa.Table) -> pa.Table:
        """The keys in a form that is compared column by column (`sort_keys.comparable`)."""
        ...


def sorted_batches(
    batches: Iterator[pa.RecordBatch], order: Keys, memory: int = MEMORY, folder: str = ""
) -> Iterator[pa.RecordBatch]:
    """All rows in sorted order. About `memory` bytes of them are in memory, the rest in a spill file."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= memory:
            yield from _in_ranges(held, batches, order, memory, folder)
            return
    if held:
        yield from _in_order(pa.Table.from_batches(held), order)


def _in_order(rows: pa.Table, order: Keys) -> Iterator[pa.RecordBatch]:
    rows = rows.combine_chunks()
    places = sort_order(order.keys(rows))
    for start in range(0, len(places), _BATCH_ROWS):
        yield from rows.take(from_numpy(places[start : start + _BATCH_ROWS])).combine_chunks().to_batches()


def _in_ranges(
    held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch], order: Keys, memory: int, folder: str
) -> Iterator[pa.RecordBatch]:
    first, second = SpillFile(folder), SpillFile(folder)
    try:
        schema = held[0].schema
        spilled, sample, total = _spill(first, held, rest, order, schema, memory)
        bounds = boundaries(sample, max(2, 2 * total // memory))
        ranges: list[list[Stretch]] = [[] for _ in range(len(bounds) + 1)]
        seen = 0
        for stretch in spilled:
            for batch in first.read(stretch):
                rows = pa.Table.from_batches([batch])
                codes = range_codes(with_ties(order.keys(rows), seen), bounds)
                seen += len(rows)
                for code in np.unique(codes).tolist():
                    rows_in_range = rows.filter(from_numpy(codes == code)).combine_chunks()
                    ranges[code].append(second.write(rows_in_range.to_batches(), schema))
        first.close()
        for stretches in ranges:
            batches = [batch for stretch in stretches for batch in second.read(stretch)]
            if batches:
                yield from _in_order(pa.Table.from_batches(batches), order)
    finally:
        first.close()
        second.close()


def _spill(
    spill: SpillFile,
    held: list[pa.RecordBatch],
    rest: Iterator[pa.RecordBatch],
    order: Keys,
    schema: pa.Schema,
    memory: int,
) -> tuple[list[Stretch], pa.Table, int]:
    """Spill all rows. Returns where they are, a sample of their keys, and their bytes."""
    stretches: list[Stretch] = []
    samples: list[pa.Table] = []
    total = rows = 0
    while held:
        stretches.append(spill.write(held, schema))
        keys = with_ties(order.keys(pa.Table.from_batches(held)), rows)
        samples.append(thinned(keys, _SAMPLE))
        total += sum(batch.nbytes for batch in held)
        rows += sum(batch.num_rows for batch in held)
        held, size, count = [], 0, 0
        for batch in rest:
            held.append(batch)
            size, count = size + batch.nbytes, count + batch.num_rows
            if size >= memory // 2 or count >= 4 * _BATCH_ROWS:
                break
    return stretches, pa.concat_tables(samples), total
