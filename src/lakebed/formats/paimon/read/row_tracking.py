"""The ids and sequence numbers of rows, in tables with `row-tracking.enabled`.

Rules: Paimon's SpecialFields, RowTrackingTable and DataFileRecordReader. A file that has no column `_ROW_ID`, or a null
in it, numbers its rows on from its first row id. Likewise, the `_SEQUENCE_NUMBER` of a row is the greatest one of the
file: the snapshot that wrote or changed the row. Compacted files carry both columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.file_schema import TRACKING_FIELDS
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import ROW_ID, SEQUENCE_NUMBER
from lakebed.formats.paimon.entries import Entries
from lakebed.kernel.arrays import one_chunk, to_numpy
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.facts import Facts

TRACKING_COLUMNS = tuple(field.name for field in TRACKING_FIELDS)


def with_tracking(schema: TableSchema, options: Options) -> TableSchema:
    """The schema with the columns that a read may name: `_ROW_ID` and `_SEQUENCE_NUMBER` too where rows are tracked."""
    if not options[opt.ROW_TRACKING] or {*schema.names} & {*TRACKING_COLUMNS}:
        return schema
    nullable = (replace(field, type=replace(field.type, nullable=True)) for field in TRACKING_FIELDS)
    return replace(schema, fields=(*schema.fields, *nullable))


def fields_of_file(written: TableSchema, file: DataFileMeta) -> TableSchema:
    """The columns that a file has, of the schema that it was written with. Large values are in files of their own."""
    if file.write_cols is None:
        return replace(written, fields=tuple(field for field in written.fields if field.type.root != "BLOB"))
    names = {*file.write_cols}
    return replace(written, fields=tuple(field for field in (*written.fields, *TRACKING_FIELDS) if field.name in names))


def numbered(batches: Iterator[pa.RecordBatch], file: DataFileMeta, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All rows of a file in order, with the ids and sequence numbers that the file itself does not carry. `names` are
    the columns that are read."""
    places = [(place, name) for place, name in enumerate(names) if name in TRACKING_COLUMNS]
    if not places:
        yield from batches
        return
    start = 0
    for batch in batches:
        for place, name in places:
            column = batch.num_columns - len(names) + place
            values = _filled(batch.column(column), name, file, start)
            batch = batch.set_column(column, batch.schema.field(column), values)
        start += len(batch)
        yield batch


def row_id_facts(entries: Entries) -> Facts:
    """The range of row ids of each file that numbers its rows itself."""
    table = entries.table
    carried = pc.fill_null(pc.match_substring(pc.binary_join(table["write_cols"], "\0"), ROW_ID), False)
    first = one_chunk(pc.if_else(carried, pa.scalar(None, pa.int64()), table["first_row_id"]))
    last = one_chunk(pc.subtract(pc.add(first, table["row_count"]), 1))
    anything = np.ones(len(entries), np.bool_)
    return Facts(first, last, to_numpy(first.is_null()), anything, ~anything)


def _filled(own: pa.Array, name: str, file: DataFileMeta, start: int) -> pa.Array:
    """A column of some rows, the first of which is at position `start`, without the nulls that the manifest knows."""
    if not own.null_count:
        return own
    if name == SEQUENCE_NUMBER:
        return pc.fill_null(own, file.max_sequence_number)
    if file.first_row_id is None:
        return own
    first = file.first_row_id + start
    return pc.coalesce(own, pa.array(np.arange(first, first + len(own), dtype=np.int64)))
