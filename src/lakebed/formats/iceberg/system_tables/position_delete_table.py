"""The metadata table `position_deletes`: one row for each position that a live delete file or vector names.

Rule: PositionDeletesTable of the reference engine. A position counts whether or not its data file is still live. `row`
is the deleted row where a delete file keeps it. lakebed does not read it and refuses such a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.iceberg.codec.puffin import decode_vector
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import Content, DeleteFile, delete_files
from lakebed.formats.iceberg.manifests import ALL_COLUMNS, iter_entries
from lakebed.formats.iceberg.read.deletes import positions_by_path
from lakebed.formats.iceberg.read.formats import opened, stated_of
from lakebed.formats.iceberg.system_tables.file_tables import State
from lakebed.formats.iceberg.system_tables.partition_column import PartitionColumn
from lakebed.kernel.arrays import Int64s
from lakebed.verbs.system_tables import SystemTable

_ROW = 2147483544
"""Field id of the column `row` of position delete files."""
_BATCH_ROWS = 65_536


def position_deletes(state: State) -> SystemTable:
    """One row per deleted position of the snapshot, by delete file. Vectors also have their place in the Puffin file,
    in tables of format version 3."""
    metadata, column = state.metadata, PartitionColumn.of(state.metadata)
    schema = pa.schema([
        pa.field("file_path", pa.string(), False), pa.field("pos", pa.int64(), False),
        pa.field("row", pa.struct(list(arrow_schema(metadata.schema)))),
        *([pa.field("partition", column.type, False)] if column.fields else []),
        pa.field("spec_id", pa.int32(), False), pa.field("delete_file_path", pa.string(), False),
        *([pa.field("content_offset", pa.int64()), pa.field("content_size_in_bytes", pa.int64())]
          if metadata.format_version >= 3 else []),
    ])  # fmt: skip

    def batches() -> Iterator[pa.RecordBatch]:
        manifests = [m for m in state.manifests() if m.content and m.has_live]
        for _, of_spec in groupby(manifests, lambda m: m.spec_id):
            for entries in iter_entries(state.files, metadata, [*of_spec], ALL_COLUMNS):
                spec = metadata.specs[entries["spec_id"][0].as_py()] if len(entries) else metadata.spec
                partitions = column.values(entries["partition"], spec)
                for place, delete in enumerate(delete_files(entries)):
                    if delete.content is Content.POSITION_DELETES:
                        for path, positions in _positions(state, delete):
                            for start in range(0, len(positions), _BATCH_ROWS):
                                values = positions[start : start + _BATCH_ROWS]
                                yield _batch(schema, path, values, partitions.slice(place, 1), delete)

    return SystemTable(schema, batches)


def _positions(state: State, delete: DeleteFile) -> Iterator[tuple[str, Int64s]]:
    """The positions by data file."""
    if not delete.is_vector:
        with opened(state.files, delete.path, delete.format, None, ["file_path"], stated_of(delete)) as file:
            if any(field.id == _ROW for field in file.fields):
                raise UnsupportedError(
                    "a position delete file keeps the deleted rows, which lakebed does not read", file=delete.path
                )
        yield from positions_by_path(state.files, delete).items()
        return
    if delete.referenced_data_file is None or delete.content_offset is None or delete.content_size is None:
        raise CorruptError("the entry of a deletion vector has no data file, offset or size", file=delete.path)
    blob = state.files.read(delete.path, delete.content_offset, delete.content_size)
    yield delete.referenced_data_file, decode_vector(blob, delete.path)


def _batch(schema: pa.Schema, path: str, positions: Int64s, partition: pa.Array, delete: DeleteFile) -> pa.RecordBatch:
    count = len(positions)
    values = {
        "file_path": path, "spec_id": delete.spec_id, "delete_file_path": delete.path,
        "content_offset": delete.content_offset, "content_size_in_bytes": delete.content_size,
    }  # fmt: skip
    columns = []
    for field in schema:
        if field.name == "pos":
            columns.append(pa.array(positions, pa.int64()))
        elif field.name == "partition":
            columns.append(partition.take(pa.array(np.zeros(count, np.int64))))
        elif field.name == "row":
            columns.append(pa.nulls(count, field.type))
        else:
            columns.append(pa.repeat(pa.scalar(values[field.name], field.type), count))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
