"""Decode Avro records to Arrow columns with DataFusion: blocks of container files, and runs of datums without a header.
Few records of plain types are left to `few.py`.

DataFusion reads Avro only as container files, and these only from a path. So the records to decode get a header and
become the one block of a file.

DataFusion's reader runs forever, and cannot be stopped, when a block has more bytes than its count of records takes up
(seen in release 55), and it leaves rows out when the block has fewer. Damaged bytes can cause both at any time. So
nothing of a table's own framing reaches the reader: the batch size *is* the count of records, the rows are limited to
as many, and the reader stops at the full batch. Something known after the last record shows whether the bytes were used
up. For blocks of files that is a record with a random value (`mark.py`), or a pass of its own where no column can hold
one (`_check_counts`). For other runs their callers see to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.kernel.avro.container import Container, avro_long, header
from lakebed.kernel.avro.few import decode_few
from lakebed.kernel.avro.mark import Mark, mark_for
from lakebed.kernel.avro.recent import Recent
from lakebed.kernel.avro.schema import named, plain_fields, record_fields
from lakebed.kernel.decoding import decoding
from lakebed.kernel.scratch import Scratch

_SYNC = b"lakebed-log-sync"
_END = b"lakebed-end-mark"
"""Stands after the records of each block, to show that they end there."""
_RUN_BYTES = 16 << 20
"""How much is decoded at once, in bytes. A block is never split, so a larger block makes a larger run."""
_RECENT = Recent()


def read_batches(container: Container, wanted: Sequence[int], rows: int, scratch: Scratch) -> Iterator[pa.RecordBatch]:
    """The records of a file in order, at most about `rows` at a time, with the names that the file gives.

    `wanted` are the places of the fields to keep, in the order of the batch's columns. Types are DataFusion's own. With
    no field wanted a batch has rows and no columns. Raises what `decode_blocks` and `plain_fields` do.
    """
    schema = container.schema
    fields = record_fields(schema)
    kept = [fields[place] for place in wanted]
    for batch in decode_blocks([container], plain_fields(schema), wanted, rows, scratch):
        if not kept:
            yield batch
            continue
        columns = [named(column, field["type"]) for column, field in zip(batch.columns, kept, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=[field["name"] for field in kept])


def decode_blocks(
    containers: Sequence[Container], fields: Sequence[Any], wanted: Sequence[int], rows: int, scratch: Scratch
) -> Iterator[pa.RecordBatch]:
    """The records of whole files of one schema, in order, at most about `rows` at a time, as `decode_run` gives them.

    `fields` come from `schema.plain_fields`. Raises CorruptError unless the records of each block take up its bytes,
    UnsupportedError for a block that is larger than `kernel/inflate.py` allows.
    """
    for run in _runs(containers, rows):
        few = decode_few(fields, wanted, run)
        if few is not None:
            yield few
            continue
        count = sum(records for records, _ in run)
        mark = mark_for(fields, wanted)
        if mark is not None:
            yield _decode_marked(fields, wanted, count, [content for _, content in run], mark, scratch)
            continue
        _check_counts(fields, run, scratch)
        if wanted:
            yield decode_run(fields, wanted, count, [content for _, content in run], scratch)
        else:
            yield pa.RecordBatch.from_struct_array(pa.nulls(count, pa.struct([])))


def decode_run(
    fields: Sequence[Any], wanted: Sequence[int], count: int, chunks: Sequence[bytes | memoryview], scratch: Scratch
) -> pa.RecordBatch:
    """The first `count` (at least 1) records of the bytes in `chunks` as one batch, in order.

    `fields` are the Avro types of the record's fields, `wanted` the places of the fields to keep. The batch has these
    in that order, named by place, with DataFusion's own types. Raises CorruptError when the bytes run out or do not
    have the types. Bytes that are left over are NOT noticed: see the module's docstring.
    """
    head = _head(_record(fields))
    return _RECENT.batch(head, wanted, count, chunks, lambda: _decoded(head, wanted, count, chunks, scratch))


def _decoded(
    head: bytes, wanted: Sequence[int], count: int, chunks: Sequence[bytes | memoryview], scratch: Scratch
) -> pa.RecordBatch:
    """What `decode_run` gives, decoded anew. `head` is the header of a file of the schema."""
    size = sum(len(chunk) for chunk in chunks)
    head = head + avro_long(count) + avro_long(size)
    with (
        decoding("the Avro records do not fit their schema"),
        scratch.holding([head, *chunks, _SYNC]) as url,
    ):
        frame = _session(count).read_avro(url, file_extension="")
        batches = frame.select(*[f"c{place}" for place in wanted]).limit(count).collect()
        whole = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
        if len(whole) != 1 or whole[0].num_rows != count:
            raise CorruptError("the Avro records do not fit their count", why=f"there are fewer than {count}")
        return whole[0]


def _runs(containers: Sequence[Container], rows: int) -> Iterator[list[tuple[int, bytes | memoryview]]]:
    """Groups of neighbouring blocks that are decoded at once."""
    run: list[tuple[int, bytes | memoryview]] = []
    count = size = 0
    for container in containers:
        for records, content in container.contents():
            if run and (count + records > rows or size + len(content) > _RUN_BYTES):
                yield run
                run, count, size = [], 0, 0
            if records > len(content):  # a record has at least one byte
                raise CorruptError("an Avro block is damaged", why=f"{records} records in {len(content)} bytes")
            run.append((records, content))
            count, size = count + records, size + len(content)
    if run:
        yield run


def _decode_marked(
    fields: Sequence[Any],
    wanted: Sequence[int],
    count: int,
    contents: Sequence[bytes | memoryview],
    mark: Mark,
    scratch: Scratch,
) -> pa.RecordBatch:
    """The records of a run, decoded with the mark after them. CorruptError unless the mark comes out there."""
    places = [*wanted, *(() if mark.place in wanted else (mark.place,))]
    head = _head(_record(fields))

    def decode() -> pa.RecordBatch:
        try:
            batch = _decoded(head, places, count + 1, [*contents, mark.data], scratch)
        except CorruptError as error:
            why = f"its records do not fit its bytes: {error.why}"
            raise CorruptError("an Avro block is damaged", why=why) from error
        if batch.column(places.index(mark.place))[count].as_py() != mark.value:
            raise CorruptError("an Avro block is damaged", why="its records take up more or fewer bytes than it has")
        if not wanted:
            return pa.RecordBatch.from_struct_array(pa.nulls(count, pa.struct([])))
        return batch.slice(0, count).select(range(len(wanted)))

    # Kept apart from runs without a mark, of which nobody knows that their records end where their bytes do.
    return _RECENT.batch(head + b"marked", wanted, count, contents, decode)


def _check_counts(fields: Sequence[Any], run: Sequence[tuple[int, bytes | memoryview]], scratch: Scratch) -> None:
    """CorruptError unless each block's records end where the block does. Each block is read as an array of records,
    which DataFusion skips, with the mark after it."""
    chunks = [part for records, content in run for part in (avro_long(records), content, b"\0", _END)]
    blocks = [{"type": "array", "items": _record(fields)}, {"type": "fixed", "name": "mark", "size": len(_END)}]
    try:
        marks = decode_run(blocks, [1], len(run), chunks, scratch).column(0)
    except CorruptError as error:
        raise CorruptError("an Avro block is damaged", why=f"its records do not fit its bytes: {error.why}") from error
    if marks != pa.array([_END] * len(run), marks.type):
        raise CorruptError("an Avro block is damaged", why="its records take up more or fewer bytes than it has")


def _session(batch_rows: int) -> Any:
    """A DataFusion session of one partition: batches come in the order of the file, with `batch_rows` rows at most."""
    datafusion = import_module("datafusion")  # half a second, which most commands need not pay
    config = datafusion.SessionConfig().with_target_partitions(1).with_repartition_file_scans(False)
    return datafusion.SessionContext(config.with_batch_size(batch_rows))


def _record(fields: Sequence[Any]) -> dict[str, Any]:
    named = [{"name": f"c{place}", "type": kind} for place, kind in enumerate(fields)]
    return {"type": "record", "name": f"row{len(fields)}", "fields": named}


def _head(schema: Any) -> bytes:
    # Not escaped to ASCII, since the reader's JSON parser does not resolve escapes.
    text = json.dumps(schema, ensure_ascii=False).encode()
    return header({"avro.schema": text, "avro.codec": b"null"}, _SYNC)
