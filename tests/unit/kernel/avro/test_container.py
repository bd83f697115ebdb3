"""Avro containers taken apart as fastavro writes them, and whatever is not whole refused."""

import io
from typing import Any

import fastavro
import pytest

from lakebed.kernel.avro.container import avro_bytes, avro_long, header, take_apart

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


def test_what_is_put_together_is_read_again() -> None:
    found = take_apart(written(100))
    sync = b"x" * 16
    parts = [header(found.metadata, sync)]
    for count, start, end in found.blocks:
        parts += (avro_long(count), avro_bytes(bytes(found.body[start:end])), sync)
    assert [row["n"] for row in fastavro.reader(io.BytesIO(b"".join(parts)))] == list(range(100))  # type: ignore[index, call-overload]


@pytest.mark.parametrize("value", [0, -1, 1, 63, 64, -64, -65, 2**31, -(2**31), 2**63 - 1, -(2**63)])
def test_longs_are_those_of_avro(value: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    assert avro_long(value) == out.getvalue()


def test_a_file_cut_anywhere_but_after_a_block_is_refused() -> None:
    data = written(200)
    found = take_apart(data)
    begin = len(data) - len(found.body)
    whole = {begin} | {begin + end + 16 for _, _, end in found.blocks}
    for size in range(len(data)):
        if size not in whole:
            with pytest.raises((ValueError, IndexError)):
                take_apart(data[:size])
