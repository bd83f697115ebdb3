"""Where the rows that a log block changes stand in the base file: a hint for readers that merge by position.

A block has the header only where each of its rows, or deletes, is in the base file once; its entries then stand in the
order of that file. Rules: Hudi's `HoodieAppendHandle`, `HoodieDataBlock`, `LogReaderUtils.encodePositions`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakebed.formats.hudi.codec.log import HeaderKey
from lakebed.formats.hudi.layout import RECORD_KEY, file_path
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.files import FileTarget
from lakebed.formats.hudi.write.stored_keys import StoredKeys
from lakebed.kernel.arrays import Int64s, one_chunk, to_numpy
from lakebed.kernel.decoding import decoding

POSITION = "_lakebed_position"
"""The column of positions in changes, null where the base file has the key not at all or more than once."""


def with_positions(target: FileTarget, file_slice: FileSlice, changes: pa.Table) -> pa.Table:
    """Changes of a file group in the order of its base file, with a column of positions; as they are where none are
    asked for, or nothing can have one."""
    base = file_slice.base
    if not target.options.positions or base is None or not target.config.completion_times:
        return changes
    keys, stored = one_chunk(changes.column(RECORD_KEY)), StoredKeys.of(target.config, target.schema)
    positions: Int64s = np.full(len(keys), -1, np.int64)
    times: Int64s = np.zeros(len(keys), np.int64)
    path = file_path(file_slice.partition, base.name)
    with (
        decoding(
            "a base file cannot be read", table=target.store.location, file=path, todo="Restore the file from a copy"
        ),
        target.store.open_input(path, base.size) as source,
    ):
        batches = pq.ParquetFile(source).iter_batches(1 << 17, columns=[*stored.columns], use_threads=False)
        old = pa.chunked_array([stored.keys(batch).cast(pa.string()) for batch in batches], pa.string())
    places = one_chunk(pc.index_in(old, value_set=keys))  # at once: a lookup hashes all keys that it looks in
    hit = to_numpy(places.drop_null())
    positions[hit] = np.flatnonzero(to_numpy(places.is_valid()))
    np.add.at(times, hit, 1)
    column = pa.array(positions, mask=times != 1)
    return changes.append_column(POSITION, column).sort_by(POSITION)


def position_headers(file_slice: FileSlice, changes: pa.Table) -> Mapping[HeaderKey, str]:
    """The headers of a block with these changes."""
    if POSITION not in changes.column_names or file_slice.base is None:
        return {}
    positions = one_chunk(changes.column(POSITION))
    if positions.null_count or not len(positions) or len(changes) != len(positions.unique()):
        return {}
    bitmap = BitMap64(to_numpy(positions).tolist())
    return {
        HeaderKey.RECORD_POSITIONS: base64.b64encode(bitmap.serialize()).decode(),
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: file_slice.base.instant,
    }
