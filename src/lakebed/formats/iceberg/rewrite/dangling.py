"""Delete files that nothing needs any more once some data files are gone.

Rule: which deletes apply to which data (`entries.py`): a delete file is dead when no data file is left that it could
apply to. What a rewrite adds needs none of the deletes that are there: rows they remove were left out, and no position
delete names a new file. Files of other writers that come meanwhile are newer than all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.entries import Content, DeleteFile, Partition, partition_key, partition_values
from lakebed.kernel.keys.distinct import distinct

_NONE = 2**63 - 1


def dangling(
    deletes: Sequence[DeleteFile], entries: Sequence[pa.Table], removed: Collection[str], unpartitioned: Collection[int]
) -> list[DeleteFile]:
    """Those of the delete files that no data file needs. `entries` are all live data files of the snapshot, a table a
    spec, of which those at the paths `removed` go."""
    gone = pa.array(list(removed), pa.string())
    left = [some.filter(pc.invert(pc.is_in(some["file_path"], value_set=gone))) for some in entries]
    oldest: dict[tuple[int, Partition], int] = {}
    for some in left:
        if len(some):
            oldest |= _oldest(some)
    of_all = min(oldest.values(), default=_NONE)
    named = pa.array([one.referenced_data_file for one in deletes if one.referenced_data_file], pa.string())
    alive: set[str] = set()
    for some in left:
        alive.update(some["file_path"].filter(pc.is_in(some["file_path"], value_set=named)).to_pylist())
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
    spec_id = entries["spec_id"][0].as_py()
    numbers = pc.fill_null(entries["sequence_number"], 0).to_numpy()
    partitions = entries["partition"]
    if not partitions.type.num_fields:
        return {(spec_id, ()): int(numbers.min())}
    whole = pa.concat_arrays(partitions.chunks) if partitions.num_chunks != 1 else partitions.chunk(0)
    codes, first = distinct(whole.flatten())
    least = np.full(len(first), _NONE, np.int64)
    np.minimum.at(least, codes, numbers)
    values = partition_values(whole.take(pa.array(first)))
    return {(spec_id, partition_key(one)): int(number) for one, number in zip(values, least.tolist(), strict=True)}
