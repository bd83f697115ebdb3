"""Sorted runs that are merged at once, as few as memory allows: of many, some are joined on disk before.

Rules: Paimon's MergeSorter, which spills where more than `sort-spill-threshold` runs overlap. Nothing is merged on the
way: the merge that follows still gets each row of a key, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.kernel.scratch import SpillFile

_MOST_RUNS = 128
"""The default of Paimon's `local-sort.max-num-file-handles`."""
_MOST_BYTES = 192 << 20
"""About how many bytes the first batches of all runs may have."""
_BATCH_BYTES, _BATCH_ROWS = 1 << 20, 64 << 10
_EXPANSION = 4
"""An estimate: Arrow data has so many times the bytes of a file."""
_ROW_BYTES = 32
"""What a row has beside its columns: where it comes from, its sequence number and kind."""

Run = tuple[int, Iterator[pa.RecordBatch]]
"""About how many bytes a run holds in memory while it is merged, and its batches."""
Join = Callable[[Sequence[Iterator[pa.RecordBatch]]], Iterator[pa.Table]]
"""Sorted runs as one, nothing merged."""


def held_bytes(files: Sequence[DataFileMeta]) -> int:
    """About how many bytes of a run of these files are in memory while it is merged."""
    return max(
        min(file.row_count, _BATCH_ROWS) * (file.file_size * _EXPANSION // max(1, file.row_count) + _ROW_BYTES)
        + (file.file_size if file.file_name.endswith(".avro") else 0)  # which is read whole
        for file in files
    )


def few_runs(runs: Sequence[Run], join: Join, schema: pa.Schema, folder: str) -> list[Iterator[pa.RecordBatch]]:
    """The same rows in fewer runs, where there are more than can be merged at once. Runs keep their order.

    `folder` is where rows wait on disk, "" for the system's.
    """
    left = list(runs)
    while len(left) > 1 and (len(left) > _MOST_RUNS or sum(size for size, _ in left) > _MOST_BYTES):
        left = [_joined(group, join, schema, folder) for group in _groups(left)]
    return [batches for _, batches in left]


def _groups(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Neighbouring runs that are joined together, two at least where there are two."""
    group: list[Run] = []
    held = 0
    for run in runs:
        if len(group) > 1 and (len(group) >= _MOST_RUNS or held + run[0] > _MOST_BYTES):
            yield group
            group, held = [], 0
        group.append(run)
        held += run[0]
    yield group


def _joined(group: Sequence[Run], join: Join, schema: pa.Schema, folder: str) -> Run:
    if len(group) == 1:
        return group[0]
    file = SpillFile(folder, None)

    def batches() -> Iterator[pa.RecordBatch]:
        for table in join([run for _, run in group]):
            rows = max(1, min(_BATCH_ROWS, len(table) * _BATCH_BYTES // max(1, table.nbytes)))
            yield from table.cast(schema).to_batches(max_chunksize=rows)

    stretch = file.write(batches(), schema)
    return _BATCH_BYTES, file.read(stretch)  # the iterator keeps the file
