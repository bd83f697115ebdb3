"""How many rows splits have by the manifests alone.

Rule: the specification's `record_count` of data files, and of deletion vectors, where it is the number of deleted rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakebed.formats.iceberg.data_files import FileTask
from lakebed.formats.iceberg.read.split import IcebergSplit
from lakebed.formats.iceberg.read.splits import FileSplits
from lakebed.verbs.many_splits import StreamedSplits


def counted(splits: Sequence[IcebergSplit]) -> tuple[int, Sequence[IcebergSplit]]:
    """The rows of the splits that are counted without a look at their files, and the other splits.

    For whole files of a plan: the parts of one file are counted together. For reads without a predicate.
    """
    if isinstance(splits, StreamedSplits) and not splits.is_whole:
        parts = [counted(piece) for piece in splits.pieces()]
        return sum(known for known, _ in parts), [split for _, unknown in parts for split in unknown]
    if isinstance(splits, StreamedSplits):
        splits = splits.whole
    if isinstance(splits, FileSplits):
        return _counted_columns(splits)
    files = {split.task.data.path: split.task for split in splits}
    known = {path: rows for path, task in files.items() if (rows := _rows(task)) is not None}
    return sum(known.values()), [split for split in splits if split.task.data.path not in known]


def _rows(task: FileTask) -> int | None:
    """The live rows of a data file, None where its delete files do not say how many they delete of it."""
    if not task.deletes:
        return task.data.record_count
    if len(task.deletes) == 1 and task.deletes[0].is_vector:
        return task.data.record_count - task.deletes[0].record_count
    return None


def _counted_columns(splits: FileSplits) -> tuple[int, Sequence[IcebergSplit]]:
    """Count splits without deletes as columns, and the others one by one."""
    touched = splits.deletes != 0
    total = 0
    for table, begin in zip(splits.files, splits.begins.tolist(), strict=True):
        rows = table["record_count"].to_numpy()
        total += int(rows[~touched[begin : begin + len(table)]].sum())
    others, unknown = counted(tuple(splits.made(np.flatnonzero(touched[splits.rows]))))
    return total + others, unknown
