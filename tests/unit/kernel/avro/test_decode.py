"""Avro blocks on their way to DataFusion: right rows, or a named error in bounded time, whatever the bytes are."""

import io
import random
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import pytest

from lakebed.errors import CorruptError, LakebedError, UnsupportedError
from lakebed.kernel import inflate
from lakebed.kernel.avro.container import Container, avro_long, header, take_apart
from lakebed.kernel.avro.decode import decode_blocks, read_batches
from lakebed.kernel.avro.schema import check_schema, plain_fields
from lakebed.kernel.scratch import Scratch

SYNC = b"0123456789abcdef"
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": 'a "quoted" é', "type": ["null", "string"]},
    {"name": "in", "type": {"type": "record", "name": "x.y", "fields": [{"name": 'd"', "type": ["null", "double"]}]}},
    {"name": "some", "type": {"type": "array", "items": {"type": "fixed", "name": "f", "size": 2}}},
    {"name": "named", "type": {"type": "map", "values": "bytes"}},
]
SCHEMA: dict[str, Any] = {"type": "record", "name": "t", "fields": FIELDS}


def records(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": n, 'a "quoted" é': None if n % 3 else f"text {n}", "in": {'d"': n / 2},
            "some": [b"ab"] * (n % 4), "named": {f"k{n}": b"v"},
        }
        for n in range(count)
    ]  # fmt: skip


def written(rows: Sequence[dict[str, Any]], codec: str = "null", schema: Any = SCHEMA) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), rows, codec=codec, sync_interval=500, sync_marker=SYNC)
    return out.getvalue()


def decoded(container: Container, wanted: Sequence[int] = range(5)) -> list[dict[str, Any]]:
    batches = read_batches(container, wanted, 100, Scratch())
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_rows_come_back_under_any_names(codec: str) -> None:
    rows = records(1000)
    expected = [row | {"named": list(row["named"].items())} for row in rows]
    assert decoded(take_apart(written(rows, codec))) == expected


def test_rows_without_columns_are_counted() -> None:
    batches = decode_blocks([take_apart(written(records(700)))], plain_fields(SCHEMA), [], 100, Scratch())
    assert sum(batch.num_rows for batch in batches) == 700


def reframed(change: Callable[[int, bytes], tuple[int, bytes]]) -> Container:
    """A file with one block changed, in a frame that is whole."""
    whole = take_apart(written(records(300)))
    blocks = [(count, bytes(content)) for count, content in whole.contents()]
    blocks[1] = change(*blocks[1])
    body = [part for count, data in blocks for part in (avro_long(count), avro_long(len(data)), data, SYNC)]
    return take_apart(b"".join([header(whole.metadata, SYNC), *body]))


@pytest.mark.parametrize("wrong", [-1, 1, -5])
def test_a_count_that_does_not_fit_its_bytes(wrong: int) -> None:
    for wanted in ([], [0], range(5)):
        with pytest.raises(CorruptError):
            decoded(reframed(lambda count, data: (count + wrong, data)), wanted)
    with pytest.raises(CorruptError):
        decoded(reframed(lambda count, data: (1 << 50, data)))
    with pytest.raises(CorruptError):
        decoded(reframed(lambda count, data: (count, data + b"\0\0")))


@pytest.mark.slow
def test_flipped_bits_end_in_rows_or_a_named_error() -> None:
    """Each would hang for ever, or lose rows, if the reader saw the table's own framing."""
    data = written(records(60))
    start = data.index(SYNC)
    chance = random.Random(11)
    errors = 0
    for _ in range(150):
        at = chance.randrange(start, len(data))
        damaged = bytearray(data)
        damaged[at] ^= 1 << chance.randrange(8)
        try:
            found = decoded(take_apart(bytes(damaged)))
        except (LakebedError, ValueError, IndexError):  # a codec's border makes CorruptError of the last two
            errors += 1
            continue
        assert len(found) == 60
    assert errors > 20


def test_schemas_that_could_ask_for_anything_are_refused() -> None:
    nothing = {"type": "record", "name": "n", "fields": [{"name": "x", "type": "null"}]}
    for kind in ({"type": "array", "items": "null"}, {"type": "array", "items": nothing}):
        with pytest.raises(UnsupportedError, match="without bytes"):
            check_schema({"type": "record", "name": "t", "fields": [{"name": "a", "type": kind}]})
    with pytest.raises(UnsupportedError, match="no bytes"):
        check_schema(nothing)
    deep: Any = "long"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    with pytest.raises(UnsupportedError, match="64 deep"):
        check_schema({"type": "record", "name": "t", "fields": [{"name": "a", "type": deep}]})
    own = {"type": "record", "name": "t", "fields": [{"name": "a", "type": ["null", "t"]}]}
    with pytest.raises(UnsupportedError, match="contains itself"):
        check_schema(own)
    for broken in ([], {}, {"type": "record"}, {"type": "record", "fields": [{"name": "a", "type": "what"}]}):
        with pytest.raises(CorruptError):
            check_schema(broken)


def test_a_block_that_blows_up_is_refused() -> None:
    for codec in ("deflate", "bzip2", "xz"):
        whole = take_apart(written(records(1000), codec))
        with pytest.raises(UnsupportedError, match="more than"):
            inflate.inflated(whole.body[slice(*whole.blocks[0][1:])], codec, most=100)
