"""PARQUET_DATA log blocks: the content is a whole Parquet file (`HoodieParquetDataBlock`)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock
from lakebed.formats.hudi.codec.schema import writer_schema
from lakebed.kernel.decoding import decoding


def decode_parquet_block(block: LogBlock, columns: Sequence[str] | None) -> pa.Table:
    """The rows of a PARQUET_DATA block, in order, with the types that the Parquet file has.

    `columns` are the columns to read, in their order; None reads all of the block's schema.

    Raises CorruptError, naming the instant and the offset, when the content is no Parquet file or lacks a column of the
    block's schema.
    """
    if block.kind is not BlockKind.PARQUET_DATA:
        raise UnsupportedError(
            f"a {block.kind.name} block holds no Parquet file", instant=block.instant_time, todo=_TODO
        )
    writer = writer_schema(block.schema)
    names = [column.name for column in writer.columns] if columns is None else list(columns)
    with decoding(_what(block), instant=block.instant_time, todo=_TODO):
        table = pq.read_table(
            pa.BufferReader(pa.py_buffer(block.content)),
            columns=names,
            use_threads=False,
            partitioning=None,
            page_checksum_verification=True,
        )
    if missing := [name for name in names if name not in table.column_names]:
        raise _corrupt(block, f"it has no column {missing[0]!r}")
    return table.select(names)


def _what(block: LogBlock) -> str:
    return f"the PARQUET_DATA block at offset {block.offset} cannot be decoded"


def _corrupt(block: LogBlock, why: str) -> CorruptError:
    return CorruptError(_what(block), instant=block.instant_time, why=why, todo=_TODO)


_TODO = "Its rows are lost: roll the instant back and write it again, or restore the file from a copy"
