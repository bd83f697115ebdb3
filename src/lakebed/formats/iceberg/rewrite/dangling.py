"""Dangling delete files: those that no data file needs once some data files are removed.

Rule: which deletes apply to which data (`iceberg/delete_index.py`). A delete file is dangling when no data
file is left that it could apply to. The new files of a rewrite need none of the existing deletes: deleted rows were
left out of them, and no position delete names a new file. Files that other writers add meanwhile are newer than all of
these deletes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.data_files import Content, DeleteFile, Partition, distinct_partitions, partition_key
from lakebed.kernel.arrays import filled, from_values, to_numpy

DATA_COLUMNS = ("file_path", "spec_id", "partition", "sequence_number")
"""The columns of data files that `dangling` needs."""
_NEVER = 2**63 - 1
"""A sequence number after all others."""


def dangling(
    deletes: Sequence[DeleteFile], entries: Iterable[pa.Table], removed: Collection[str], unpartitioned: Collection[int]
) -> list[DeleteFile]:
    """The delete files that no data file needs.

    `entries` are all live data files of the snapshot, in pieces of one spec each; one piece is in memory at a time. The
    data files at the paths `removed` do not count. `unpartitioned` are the ids of specs whose equality deletes apply to
    the whole table.
    """
    removed_paths = from_values(list(removed), pa.string())
    referenced = from_values([d.referenced_data_file for d in deletes if d.referenced_data_file], pa.string())
    oldest: dict[tuple[int, Partition], int] = {}
    live_referenced: set[str] = set()
    for piece in entries:
        live = piece.filter(pc.invert(pc.is_in(piece["file_path"], value_set=removed_paths)))
        for place, number in _oldest(live).items():
            oldest[place] = min(number, oldest.get(place, _NEVER))
        live_referenced.update(live["file_path"].filter(pc.is_in(live["file_path"], value_set=referenced)).to_pylist())
    oldest_of_all = min(oldest.values(), default=_NEVER)
    unneeded = []
    for delete in deletes:
        sequence = delete.sequence_number or 0
        oldest_of_partition = oldest.get((delete.spec_id, partition_key(delete.partition)), _NEVER)
        if delete.referenced_data_file is not None:
            is_needed = delete.referenced_data_file in live_referenced
        elif delete.content is Content.EQUALITY_DELETES:
            is_needed = (oldest_of_all if delete.spec_id in unpartitioned else oldest_of_partition) < sequence
        else:
            is_needed = oldest_of_partition <= sequence
        if not is_needed:
            unneeded.append(delete)
    return unneeded


def _oldest(entries: pa.Table) -> dict[tuple[int, Partition], int]:
    """The lowest data sequence number per partition, of entries of one spec."""
    if not len(entries):
        return {}
    spec_id = entries["spec_id"][0].as_py()
    codes, values = distinct_partitions(entries["partition"])
    least = np.full(len(values), _NEVER, np.int64)
    np.minimum.at(least, codes, to_numpy(filled(entries["sequence_number"], 0)))
    return {(spec_id, partition_key(value)): number for value, number in zip(values, least.tolist(), strict=True)}
