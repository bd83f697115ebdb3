"""A run of Avro datums without a header, decoded to Arrow columns by DataFusion.

DataFusion reads Avro object container files, so the run gets a header and becomes the file's one block.

Its reader spins for ever, and cannot be stopped, when a block holds more bytes than its count of records takes up
(seen in 55). Damaged bytes can bring that about at any time, so the reader must never look for more than that
count: the batch size *is* the count, with a limit of as many rows, and the reader stops at the full batch. What was
left over is for the caller to find, by something known that stands behind the last record.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.kernel.avro_container import avro_long, header
from lakebed.kernel.datafusion import ordered_session
from lakebed.kernel.scratch import Scratch

_SYNC = b"lakebed-log-sync"


def decode_run(
    fields: Sequence[Any], wanted: Sequence[int], count: int, chunks: Sequence[bytes | memoryview], scratch: Scratch
) -> pa.RecordBatch:
    """The first `count` (at least 1) records of the bytes in `chunks`, as one batch, in order.

    `fields` are the Avro types of the record's fields, `wanted` the places of those to keep; the batch has them in
    that order, named by place, with DataFusion's own types. Raises CorruptError when the bytes run out or do not fit
    the types. Bytes left over are NOT noticed: see the module's text.
    """
    record = {
        "type": "record",
        "name": "row",
        "fields": [{"name": f"c{place}", "type": kind} for place, kind in enumerate(fields)],
    }
    # Not escaped to ASCII: the reader's JSON parser takes text as it stands.
    schema = json.dumps(record, ensure_ascii=False).encode()
    size = sum(len(chunk) for chunk in chunks)
    head = header({"avro.schema": schema, "avro.codec": b"null"}, _SYNC) + avro_long(count) + avro_long(size)
    with scratch.holding([head, *chunks, _SYNC]) as url:
        try:
            frame = ordered_session(count).read_avro(url, file_extension="")
            batches = frame.select(*[f"c{place}" for place in wanted]).limit(count).collect()
        # DataFusion has no error type of its own: what Rust says arrives as a bare Exception.
        except Exception as error:
            raise CorruptError("the Avro records do not fit their schema", why=_first_line(error)) from error
    found = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
    if len(found) != 1 or found[0].num_rows != count:
        raise CorruptError("the Avro records do not fit their count", why=f"there are fewer than {count}")
    return found[0]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
