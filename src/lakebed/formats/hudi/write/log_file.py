"""Append changes to a file group: data blocks and delete blocks in new log files.

A write never appends to a file that is there: each makes a new one, as Hudi does where the storage cannot append. In
table version 6 and older a log file's name has the base instant of its slice and the next free version, later on the
instant of the delta commit.

Rules: Hudi's `HoodieAppendHandle` (meta columns: the file name is the file id; blocks of bounded bytes; data before
deletes), `HoodieLogFormatWriter` (the next file when one is full), `HoodieDeltaWriteStat`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.formats.hudi.codec.avro_rows import framed_rows
from lakebed.formats.hudi.codec.avro_schema import with_meta_fields
from lakebed.formats.hudi.codec.delete_write import delete_content
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import run_content, write_block
from lakebed.formats.hudi.codec.null_first import null_first
from lakebed.formats.hudi.layout import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY, file_path
from lakebed.formats.hudi.merge.rules import rules_of
from lakebed.formats.hudi.metadata_table.change import WrittenFile
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.files import FileTarget
from lakebed.formats.hudi.write.positions import position_headers, with_positions
from lakebed.formats.hudi.write.staged_rows import DELETE_ALWAYS, KIND, ROW
from lakebed.formats.hudi.write.statistics import ranges_of_rows
from lakebed.kernel.arrays import from_numpy, one_chunk, to_numpy

_SEQNO, _FILE_NAME = META_COLUMNS[1], META_COLUMNS[4]


def append_group(
    target: FileTarget, file_slice: FileSlice, base_instant: str, token: str, changes: pa.Table, inserts: int = 0
) -> tuple[WrittenFile, ...]:
    """Append rows and deletes to the logs of a file group.

    `file_slice` is the newest one; of a new group it has neither base nor logs. `base_instant` is the instant that
    names new log files in table version 6: that of the base file, of the pending compaction that takes the slice, or
    of the write itself for a new group. `inserts` of the rows have new keys.
    """
    if not target.config.completion_times:
        name_time = base_instant
        version = 1 + max((log.version for log in file_slice.logs if log.instant == base_instant), default=0)
    else:
        name_time, version = target.instant, 1
    target.prepare(file_slice.partition)
    changes = with_positions(target, file_slice, changes.combine_chunks()).combine_chunks()
    kinds = to_numpy(one_chunk(changes.column(KIND)))
    rows, deletes = changes.filter(from_numpy(kinds == ROW)), changes.filter(from_numpy(kinds != ROW))
    written: list[WrittenFile] = []
    names = [log.name for log in file_slice.logs]
    for content, count, gone, part in _files(target, file_slice, rows, deletes, token):
        name = f".{file_slice.file_id}_{name_time}.log.{version}_{token}"
        path = file_path(file_slice.partition, name)
        target.markers(path, "APPEND")
        with target.store.open_output(path) as sink:
            for block in content:
                sink.write(block)
        names.append(name)
        wanted = target.wanted
        new = min(inserts, count)
        inserts -= new
        written.append(
            WrittenFile(
                file_slice.partition,
                file_slice.file_id,
                path,
                sum(map(len, content)),
                base_instant,
                writes=count + gone,
                inserts=new,
                updates=count - new,
                deletes=gone,
                base=file_slice.base.name if file_slice.base is not None else "",
                log_version=version,
                logs=tuple(names),
                ranges=ranges_of_rows(part, wanted.columns) if wanted.columns is not None else (),
                added=one_chunk(part.column(RECORD_KEY)) if wanted.keys else None,
                removed=_certainly_removed(target, deletes) if wanted.keys and gone else None,
            )
        )
        version += 1
    return tuple(written)


def _files(
    target: FileTarget, file_slice: FileSlice, rows: pa.Table, deletes: pa.Table, token: str
) -> Iterator[tuple[list[bytes], int, int, pa.Table]]:
    """The blocks of each log file, with its numbers of rows and of deletes, and its rows."""
    blocks: list[bytes] = []
    parts: list[pa.Table] = []
    size = count = gone = seen = 0
    for part in pieces(rows, target.options.block_bytes):
        stored = _stored(target, file_slice, part, seen, token)
        seen += len(part)
        blocks.append(data_block(target, stored, position_headers(file_slice, part)))
        parts.append(stored)
        size, count = size + len(blocks[-1]), count + len(part)
        if size >= target.options.log_bytes:
            yield blocks, count, gone, pa.concat_tables(parts)
            blocks, parts, size, count = [], [], 0, 0
    if len(deletes):
        blocks.append(_delete_block(target, deletes, position_headers(file_slice, deletes)))
        gone = len(deletes)
    if blocks:
        yield blocks, count, gone, pa.concat_tables(parts or [target.file_schema.empty_table()])


def _certainly_removed(target: FileTarget, deletes: pa.Table) -> pa.Array:
    """The keys of deletes that win against every row of the table."""
    keys = one_chunk(deletes.column(RECORD_KEY))
    if not rules_of(target.config).ordering:
        return keys
    return keys.filter(from_numpy(to_numpy(one_chunk(deletes.column(KIND))) == DELETE_ALWAYS))


def pieces(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    """Rows in parts of about `size` bytes."""
    if not len(rows):
        return
    step = max(1, len(rows) * size // max(1, rows.nbytes))
    for start in range(0, len(rows), step):
        yield rows.slice(start, step).combine_chunks()


def _stored(target: FileTarget, file_slice: FileSlice, rows: pa.Table, first: int, token: str) -> pa.Table:
    """Rows with their meta columns, which are null in a table without them, in the columns of a data block."""
    if not target.config.meta_fields:
        nothing = pa.nulls(len(rows), pa.string())
        columns = [nothing if f.name in META_COLUMNS else one_chunk(rows.column(f.name)) for f in target.file_schema]
        return pa.Table.from_arrays(columns, schema=target.file_schema)
    numbers = pa.array(np.arange(first, first + len(rows))).cast(pa.string())
    meta_columns: dict[str, pa.Array] = {
        COMMIT_TIME: pa.repeat(target.instant, len(rows)),
        _SEQNO: pc.binary_join_element_wise(f"{target.instant}_{token.partition('-')[0]}_", numbers, ""),
        _FILE_NAME: pa.repeat(file_slice.file_id, len(rows)),
    }
    columns = [
        meta_columns[field.name] if field.name in meta_columns else one_chunk(rows.column(field.name))
        for field in target.file_schema
    ]
    return pa.Table.from_arrays(columns, schema=target.file_schema)


def data_block(target: FileTarget, rows: pa.Table, more: Mapping[HeaderKey, str] = {}) -> bytes:
    """A block of rows that have their meta columns. `more` are further headers."""
    schema = null_first(with_meta_fields(target.avro))
    headers = {HeaderKey.INSTANT_TIME: target.instant, HeaderKey.SCHEMA: schema, **more}
    if target.options.block == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression=target.options.compression, write_page_checksum=True)
        return write_block(BlockKind.PARQUET_DATA, headers, sink.getvalue().to_pybytes())
    (batch,) = rows.combine_chunks().to_batches()
    content = run_content([(len(rows), framed_rows(batch, schema))])
    return write_block(BlockKind.AVRO_DATA, headers, content)


def _delete_block(target: FileTarget, deletes: pa.Table, more: Mapping[HeaderKey, str]) -> bytes:
    always = pa.array(to_numpy(one_chunk(deletes.column(KIND))) == DELETE_ALWAYS)
    ordering = []
    for name in rules_of(target.config).ordering:
        column = one_chunk(deletes.column(name))
        ordering.append(pc.if_else(always, pa.scalar(None, column.type), column))
    keys, partitions = one_chunk(deletes.column(RECORD_KEY)), one_chunk(deletes.column(PARTITION_PATH))
    return delete_block(target, keys, partitions, ordering, more)


def delete_block(
    target: FileTarget,
    keys: pa.Array,
    partitions: pa.Array,
    ordering: Sequence[pa.Array],
    more: Mapping[HeaderKey, str] = {},
) -> bytes:
    """A block of deletes. Those whose ordering values are null win over all that came before."""
    headers = {HeaderKey.INSTANT_TIME: target.instant, **more}
    return write_block(BlockKind.DELETE, headers, delete_content(keys, partitions, ordering))
