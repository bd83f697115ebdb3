"""How many rows splits have by the manifests alone.

Rule: Paimon's DataSplit.mergedRowCount: the rows of files that need no merging, less those that vectors delete.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.read.splits import BucketSplits


def counted(splits: Sequence[PaimonSplit]) -> tuple[int, Sequence[PaimonSplit]]:
    """The rows of the splits that are counted without a look at their files, and the other splits.

    For tables without primary keys, whose reads have no predicate.
    """
    if isinstance(splits, BucketSplits):
        return _counted_columns(splits)
    total, unknown = 0, []
    for split in splits:
        rows = _rows(split)
        if rows is None:
            unknown.append(split)
        else:
            total += rows
    return total, unknown


def _rows(split: PaimonSplit) -> int | None:
    """The rows of a split, None where a deletion vector does not say how many it deletes."""
    total = sum(file.row_count for file in split.files)
    for file in split.files:
        vector = split.deletions.get(file.file_name)
        if vector is not None:
            if vector.cardinality is None:
                return None
            total -= vector.cardinality
    return total


def _counted_columns(splits: BucketSplits) -> tuple[int, Sequence[PaimonSplit]]:
    """Count splits without deletion vectors as columns, and the others one by one."""
    with_vectors = np.array(
        [(partition, bucket) in splits.deletions for partition, bucket, _ in splits.places], np.bool_
    )
    touched = with_vectors[splits.buckets]
    rows = np.add.reduceat(splits.files.numbers("row_count"), splits.begins[:-1])
    others, unknown = counted(tuple(splits.made(np.flatnonzero(touched))))
    return int(rows[~touched].sum()) + others, unknown
