"""Delete files that nothing needs any more once some data files are gone.

Rule: which deletes apply to which data (`delete_index.py`): a delete file is dead when no data file is left that it
could apply to. What a rewrite adds needs none of the deletes that are there: rows they remove were left out, and no
position delete names a new file. Files of other writers that come meanwhile are newer than all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.data_files import Content, DeleteFile, Partition, distinct_partitions, partition_key

DATA_COLUMNS = ("file_path", "spec_id", "partition", "sequence_number")
"""What is read of data files."""
_NONE = 2**63 - 1


def dangling(
    deletes: Sequence[DeleteFile], entries: Iterable[pa.Table], removed: Collection[str], unpartitioned: Collection[int]
) -> list[DeleteFile]:
    """Those of the delete files that no data file needs. `entries` are all live data files of the snapshot, of which
    those at the paths `removed` go: in pieces of one spec, of which one is in memory at a time."""
    gone = pa.array(list(removed), pa.string())
    named = pa.array([one.referenced_data_file for one in deletes if one.referenced_data_file], pa.string())
    oldest: dict[tuple[int, Partition], int] = {}
    alive: set[str] = set()
    for piece in entries:
        left = piece.filter(pc.invert(pc.is_in(piece["file_path"], value_set=gone)))
        for place, number in _oldest(left).items():
            oldest[place] = min(number, oldest.get(place, _NONE))
        alive.update(left["file_path"].filter(pc.is_in(left["file_path"], value_set=named)).to_pylist())
    of_all = min(oldest.values(), default=_NONE)
    found = []
    for one in deletes:
        sequence = one.sequence_number or 0
        of_partition = oldest.get((one.spec_id, partition_key(one.partition)), _NONE)
        if one.referenced_data_file is not None:
            needed = one.referenced_data_file in alive
        elif one.content is Content.EQUALITY_DELETES:
            needed = (of_all if one.spec_id in unpartitioned else of_partition) < sequence
        else:
            needed = of_partition <= sequence
        if not needed:
            found.append(one)
    return found


def _oldest(entries: pa.Table) -> dict[tuple[int, Partition], int]:
    """The least data sequence number of each partition of one spec."""
    if not len(entries):
        return {}
    spec_id = entries["spec_id"][0].as_py()
    codes, values = distinct_partitions(entries["partition"])
    least = np.full(len(values), _NONE, np.int64)
    np.minimum.at(least, codes, pc.fill_null(entries["sequence_number"], 0).to_numpy())
    return {(spec_id, partition_key(one)): int(number) for one, number in zip(values, least.tolist(), strict=True)}
