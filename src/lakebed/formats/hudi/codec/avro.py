"""Avro records of log blocks, decoded to Arrow columns by DataFusion.

A data block's content is an int32 content version, an int32 record count, then per record an int32 length and its Avro
datum (`HoodieAvroDataBlock`; content versions 1, 2 and 3 are alike). The schema is in the block's header.

There is no loop over records. Each datum is taken together with the four bytes after it, the length of the next record,
as if the record had one more field of type fixed(4). So a run of (length, datum) is a run of records, which DataFusion
decodes to Arrow, only the columns asked for. The lengths come back as a column of their own, and they prove the
decoding: if a datum had been read short or long, that column would not hold the lengths that the run has. Changed bytes
inside a value cannot be detected, since the format keeps no checksum.

DataFusion's reader was compared with fastavro on random schemas and rows. They agree on every type of the mapping in
`schema.py`, so there is no second decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock
from lakebed.formats.hudi.codec.schema import AvroColumn, WriterSchema, writer_schema
from lakebed.kernel.arrays import Int32s, Int64s
from lakebed.kernel.avro.decode import decode_run
from lakebed.kernel.decoding import RESTORE
from lakebed.kernel.scratch import Scratch

RecordRun = tuple[int, memoryview]
"""A count of records, and their bytes: (int32 length, Avro datum) per record, nothing before or after."""

PIECE_BYTES = 16 << 20
"""How much Avro is decoded at once, in bytes. A block is never split, so a larger block makes a larger piece."""


def record_run(block: LogBlock) -> RecordRun:
    """The records of an AVRO_DATA or CDC_DATA block.

    Raises CorruptError for a content too short to hold its version and count, UnsupportedError for other content
    versions and kinds of block.
    """
    if block.kind is BlockKind.HFILE_DATA:
        raise UnsupportedError(
            f"the log block at offset {block.offset} holds an HFile",
            instant=block.instant_time,
            why="data tables write HFiles only with hoodie.table.base.file.format=HFILE",
            todo="Rewrite the table with Parquet base files",
        )
    if block.kind not in (BlockKind.AVRO_DATA, BlockKind.CDC_DATA):
        raise UnsupportedError(
            f"a {block.kind.name} block holds no Avro records",
            instant=block.instant_time,
            todo="Read the table with Hudi's own engine",
        )
    if len(block.content) < _CONTENT_HEAD.size:
        raise _corrupt(block, "its content is too short for a version and a count")
    version, count = _CONTENT_HEAD.unpack_from(block.content)
    if version not in _CONTENT_VERSIONS:
        raise UnsupportedError(
            f"the {block.kind.name} block at offset {block.offset} has content version {version}",
            instant=block.instant_time,
            why=f"lakebed reads versions {', '.join(map(str, _CONTENT_VERSIONS))}",
            todo="Compact the table with the Hudi release that wrote it, then read it again",
        )
    return count, block.content[_CONTENT_HEAD.size :]


def decode_blocks(blocks: Sequence[LogBlock], columns: Sequence[str] | None, scratch: Scratch) -> pa.Table:
    """The rows of AVRO_DATA or CDC_DATA blocks of ONE schema, block by block, in the order of each block.

    `columns` None gives all columns; otherwise those, in the given order. `record_run(block)[0]` is the number of rows
    of a block. Raises CorruptError, which names the instant and the offset of the block that cannot be decoded.
    """
    runs = [record_run(block) for block in blocks]
    schema = blocks[0].schema
    try:
        return decode_records(schema, runs, columns, scratch)
    except CorruptError as error:
        for block, run in zip(blocks, runs, strict=True):
            try:
                decode_records(schema, [run], [], scratch)
            except CorruptError as cause:
                raise _corrupt(block, cause.why or cause.what) from error
        raise


def decode_records(schema: str, runs: Sequence[RecordRun], columns: Sequence[str] | None, scratch: Scratch) -> pa.Table:
    """The rows of several runs that were written with one schema (Avro JSON text), in order.

    `columns` None gives all columns, an empty list gives rows without columns. Types are those of
    `schema.arrow_schema`. Raises CorruptError when the bytes do not agree with counts, lengths and schema, SchemaError
    for a column that the writer's schema lacks, UnsupportedError for a column whose type has no Arrow type.
    """
    writer = writer_schema(schema)
    wanted = writer.columns if columns is None else tuple(writer.column(name) for name in columns)
    target = pa.schema([column.field() for column in wanted])
    for column in writer.columns:
        if column.physical is None:
            raise UnsupportedError(
                f"column {column.name!r} cannot be read",
                why=column.refusal,
                todo="Read the table with Hudi's own engine",
            )
    batches = [_decode_piece(writer, wanted, target, piece, scratch) for piece in _pieces(runs)]
    return pa.Table.from_batches(batches, target)


_CONTENT_HEAD = struct.Struct(">ii")
_CONTENT_VERSIONS = (1, 2, 3)
_LENGTH_BYTES = 4
# Stands after the last record of a run, where no length follows. No length can be negative.
_SENTINEL = b"\xff\xfe\xfd\xfc"
_NEXT_LENGTH = {"type": "fixed", "name": "length", "size": _LENGTH_BYTES}


def _corrupt(block: LogBlock, why: str) -> CorruptError:
    return CorruptError(
        f"the {block.kind.name} block at offset {block.offset} cannot be decoded",
        instant=block.instant_time,
        why=why,
        todo="Its rows are lost: roll the instant back and write it again, or restore the file from a copy",
    )


def _pieces(runs: Sequence[RecordRun]) -> Iterator[list[RecordRun]]:
    piece: list[RecordRun] = []
    size = 0
    for count, body in runs:
        if count < 0 or count * _LENGTH_BYTES > len(body) or (count == 0 and len(body)):
            raise CorruptError("bad record count", why=f"{count} records cannot have {len(body)} bytes", todo=RESTORE)
        if not count:
            continue
        if piece and size + len(body) > PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append((count, body))
        size += len(body)
    if piece:
        yield piece


def _decode_piece(
    writer: WriterSchema, wanted: Sequence[AvroColumn], target: pa.Schema, piece: list[RecordRun], scratch: Scratch
) -> pa.RecordBatch:
    """The runs of a piece as one batch: one after another they make one run."""
    places = {column.name: place for place, column in enumerate(writer.columns)}
    fields = [*(column.physical for column in writer.columns), _NEXT_LENGTH]
    kept = [len(writer.columns), *(places[column.name] for column in wanted)]
    bodies = [body for _, body in piece]
    count = sum(count for count, _ in piece)
    chunks: list[bytes | memoryview] = [bodies[0][_LENGTH_BYTES:], *bodies[1:], _SENTINEL]
    batch = decode_run(fields, kept, count, chunks, scratch)
    _check_frames(_fixed_ints(batch.column(0)), piece)
    if not wanted:
        return pa.RecordBatch.from_struct_array(pa.nulls(count, pa.struct([])))
    columns = [_typed(batch.column(place + 1), field) for place, field in enumerate(target)]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _check_frames(following: Int32s, piece: list[RecordRun]) -> None:
    """CorruptError unless the lengths that were decoded after each record are those in the bytes."""
    lengths = np.empty(len(following), np.int64)
    lengths[0] = int.from_bytes(piece[0][1][:_LENGTH_BYTES], "big", signed=True)
    lengths[1:] = following[:-1]
    whole = bool((lengths >= 0).all()) and int(following[-1]) == int.from_bytes(_SENTINEL, "big", signed=True)
    start = 0
    for count, body in piece:
        whole = whole and _has_lengths(lengths[start : start + count], body)
        start += count
    if not whole:
        raise CorruptError(
            "the Avro records do not fit their lengths", why="record lengths and records disagree", todo=RESTORE
        )


def _has_lengths(lengths: Int64s, body: memoryview) -> bool:
    """Whether a run consists of records of just these lengths, each after its own length."""
    ends = np.cumsum(lengths + _LENGTH_BYTES)
    if int(ends[-1]) != len(body):
        return False
    starts = ends - lengths - _LENGTH_BYTES
    stored = np.frombuffer(body, np.uint8)[starts[:, None] + np.arange(_LENGTH_BYTES)]
    return bool((stored.reshape(-1).view(">i4") == lengths).all())


def _fixed_ints(column: pa.Array) -> Int32s:
    ints = np.frombuffer(column.buffers()[1], ">i4")
    return ints[column.offset : column.offset + len(column)]


def _typed(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise CorruptError(f"a value of column {field.name!r} is out of range", why=str(error), todo=RESTORE) from error
