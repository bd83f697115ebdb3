"""Avro containers taken apart as fastavro writes them, and whatever is not whole refused."""

import io
from typing import Any

import fastavro
import pytest

from lakebed.kernel.avro.container import Framing, avro_long, read_long, take_apart
from lakebed.kernel.avro.records import RecordSchema, read_records, write_records

SCHEMA: Any = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}


def written(rows: int, codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [{"n": n} for n in range(rows)], codec=codec, sync_interval=200)
    return out.getvalue()


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_blocks_and_header(rows: int) -> None:
    found = take_apart(written(rows, "deflate"))
    assert (found.rows, found.codec, found.schema["name"]) == (rows, "deflate", "r")
    assert all(end > start for _, start, end in found.blocks)


@pytest.mark.parametrize(("codec", "level"), [("null", 0), ("deflate", 6), ("zstandard", 1)])
def test_what_is_put_together_is_read_again(codec: Any, level: int) -> None:
    source = take_apart(written(100))
    framing = Framing.new(codec, level)
    parts = [framing.header({**source.metadata, "more": b"is kept"})]
    parts += [framing.block(count, bytes(content)) for count, content in source.contents()]
    found = take_apart(b"".join(parts))
    assert (found.codec, found.metadata["more"], found.sync) == (codec, b"is kept", framing.sync)
    assert [row["n"] for row in read_records(b"".join(parts))] == list(range(100))


def test_what_is_put_together_is_read_by_fastavro() -> None:
    source = take_apart(written(100))
    framing = Framing.new("deflate", 1)
    packed = [(count, framing.compressed(bytes(content))) for count, content in source.contents()]
    data = framing.header(source.metadata) + b"".join(framing.framed(count, content) for count, content in packed)
    assert [row["n"] for row in fastavro.reader(io.BytesIO(data))] == list(range(100))  # type: ignore[index, call-overload]


@pytest.mark.parametrize("count", [0, 1, 1000, 2500])
def test_records_are_written_in_blocks(count: int) -> None:
    records = [{"n": n} for n in range(count)]
    data = write_records(RecordSchema.of(SCHEMA), records, Framing.new("deflate", 6), {"more": b"is kept"})
    assert [*read_records(data)] == records
    found = take_apart(data)
    assert found.metadata["more"] == b"is kept"
    assert [rows for rows, _, _ in found.blocks] == [min(1000, count - at) for at in range(0, count, 1000)]


@pytest.mark.parametrize("value", [0, -1, 1, 63, 64, -64, -65, 2**31, -(2**31), 2**63 - 1, -(2**63)])
def test_longs_are_those_of_avro(value: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    assert avro_long(value) == out.getvalue()
    assert read_long(b"?" + out.getvalue() + b"?", 1) == (value, 1 + len(out.getvalue()))


def test_a_file_cut_anywhere_but_after_a_block_is_refused() -> None:
    data = written(200)
    found = take_apart(data)
    begin = len(data) - len(found.body)
    whole = {begin} | {begin + end + 16 for _, _, end in found.blocks}
    for size in range(len(data)):
        if size not in whole:
            with pytest.raises((ValueError, IndexError)):
                take_apart(data[:size])
