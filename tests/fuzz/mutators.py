"""Mutations that get past framing: trees of JSON, fields of Avro, numbers of binary formats, with lengths and checksums
made right again.

A mutator takes bytes and a `Random`, and returns other bytes. It must not fail: bytes that it cannot take apart it
changes without understanding them.
"""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import fastavro

from lakebed.formats.hudi.codec.hfile import open_hfile
from lakebed.formats.hudi.codec.hfile_write import write_hfile
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey, LogBlock, parse_log
from lakebed.formats.hudi.codec.log_write import write_block
from lakebed.kernel.avro.container import avro_long, header, take_apart

Mutate = Callable[[bytes, random.Random], bytes]

NUMBERS = (
    0,
    1,
    -1,
    2,
    4,
    7,
    8,
    16,
    64,
    127,
    128,
    255,
    256,
    1000,
    32767,
    -32768,
    65535,
    65536,
    2**20,
    2**24,
    2**28,
    2**30,
    2**31 - 1,
    -(2**31),
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
)
TEXTS = (
    "",
    "x",
    "../../../x",
    "/etc/passwd",
    "a/../../b",
    "file:///etc/passwd",
    "s3://other/x",
    "..%2f..%2fx",
    "\0",
    "\ud800",
    "é😀",
    "a" * 5000,
    "-1",
    "1e999",
    "NaN",
    "null",
    "true",
    "9" * 5000,
    "decimal(38, 400)",
    "2026-02-30",
    "array<" * 200,
    "map",
    "[" * 3000,
    "𝟙",
    "\u0661",
)
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    1.5,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    [None],
    [0] * 50,
    {"": None},
    2**70,
    -(2**70),
    10**400,
    *NUMBERS,
    *TEXTS,
)


def plain(data: bytes, chance: random.Random) -> bytes:
    """Bytes changed without understanding them: a bit, a stretch, a number, a cut, a copy."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if not data:
            return chance.randbytes(chance.randrange(1, 20))
        at = chance.randrange(len(data))
        match chance.randrange(9):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at:]
            case 2:
                stop = at + chance.randrange(1, 17)
                data = data[:at] + data[stop:]
            case 3:
                start, size = chance.randrange(len(data)), chance.randrange(1, 65)
                data = data[:at] + data[start : start + size] + data[at:]
            case 4 | 5:
                data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
            case 6:
                data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
            case _:
                data = _with_number(data, at, chance)
    return data


def _with_number(data: bytes, at: int, chance: random.Random) -> bytes:
    width = chance.choice((1, 2, 4, 4, 4, 8))
    number = chance.choice((*NUMBERS, len(data), len(data) - at, len(data) + 1, at))
    order = chance.choice(("little", "big"))
    return data[:at] + (number % (1 << 8 * width)).to_bytes(width, order) + data[at + width :]


def json_tree(value: Any, chance: random.Random) -> Any:
    """A document with one value, somewhere inside, gone, doubled, or another."""
    if isinstance(value, (dict, list)) and value and chance.random() < 0.88:
        places: Any = [*value] if isinstance(value, dict) else range(len(value))
        place = chance.choice(places)
        made: Any = dict(value) if isinstance(value, dict) else list(value)
        draw = chance.random()
        if draw < 0.1:
            del made[place]
        elif draw < 0.15 and isinstance(made, list):
            made += [made[place]] * chance.choice((1, 1, 30))
        elif draw < 0.2 and isinstance(made, dict):
            made[chance.choice(TEXTS)] = made[place]
        else:
            made[place] = json_tree(value[place], chance)
        return made
    if isinstance(value, str) and value and chance.random() < 0.5:
        return plain(value.encode("utf-8", "surrogatepass"), chance).decode("utf-8", "replace")
    if isinstance(value, int) and chance.random() < 0.5:
        return value + chance.choice((1, -1, 1000))
    if chance.random() < 0.05:
        return deep(value, chance.choice((30, 70, 500, 3000)))
    return chance.choice(ODD)


def deep(value: Any, levels: int) -> Any:
    """A value inside so many lists."""
    for _ in range(levels):
        value = [value]
    return value


def json_text(data: bytes, chance: random.Random) -> bytes:
    """A JSON document with an edit in its tree."""
    try:
        document = json.loads(data)
        for _ in range(chance.choice((1, 1, 2, 3))):
            document = json_tree(document, chance)
        return _json(document)
    except (ValueError, RecursionError):
        return plain(data, chance)


def _json(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")


def avro_file(data: bytes, chance: random.Random) -> bytes:
    """An Avro container file with another schema, other records, another block or another codec. Frames fit again."""
    with suppress(Exception):
        container = take_apart(data)
        metadata = dict(container.metadata)
        blocks = [(count, bytes(content)) for count, content in container.contents()]
        metadata["avro.codec"] = b"null"
        match chance.randrange(5):
            case 0:
                key = chance.choice([*metadata])
                metadata[key] = json_text(metadata[key], chance)
            case 1 | 2:
                blocks = [_records_changed(container.schema, blocks, chance)]
            case 3:
                place = chance.randrange(len(blocks))
                count, content = blocks[place]
                blocks[place] = (chance.choice((count, count, count + 1, *NUMBERS[:12])), plain(content, chance))
            case _:
                codec = chance.choice((b"deflate", b"snappy", b"zstandard", b"bzip2", b"xz", b"null", b"odd"))
                metadata["avro.codec"] = codec
        return b"".join([header(metadata, container.sync), *(_framed(*block, container.sync) for block in blocks)])
    return plain(data, chance)


def _framed(count: int, content: bytes, sync: bytes) -> bytes:
    return b"".join((avro_long(count), avro_long(len(content)), content, sync))


def _records_changed(schema: Any, blocks: list[tuple[int, bytes]], chance: random.Random) -> tuple[int, bytes]:
    """The records with one field of one of them changed, where the schema allows what it became."""
    parsed = fastavro.parse_schema(schema)
    records = []
    for count, content in blocks:
        source = io.BytesIO(content)
        records += [fastavro.schemaless_reader(source, parsed, None) for _ in range(count)]
    for _ in range(30):
        changed = list(records)
        place = chance.randrange(len(records))
        changed[place] = _field_changed(records[place], chance)
        out = io.BytesIO()
        with suppress(Exception):
            for record in changed:
                fastavro.schemaless_writer(out, parsed, record)
            return len(changed), out.getvalue()
    raise ValueError("no change fits the schema")


def _field_changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, (dict, list)) and value:
        place = chance.choice([*value] if isinstance(value, dict) else range(len(value)))
        made: Any = dict(value) if isinstance(value, dict) else list(value)
        if isinstance(made, list) and chance.random() < 0.1:
            made += [made[place]] * chance.choice((1, 30))
        else:
            made[place] = _field_changed(value[place], chance)
        return made
    if isinstance(value, bytes):
        return plain(value, chance)
    if isinstance(value, str):
        return chance.choice((*TEXTS, json_text(value.encode(), chance).decode("utf-8", "replace")))
    if isinstance(value, bool) or value is None:
        return chance.choice((True, False, None, 0, "x", b"x"))
    return chance.choice((*NUMBERS, value))


def log_file(data: bytes, chance: random.Random) -> bytes:
    """A Hudi log file with a block of another kind, with other headers or another content. Frames fit again."""
    with suppress(Exception):
        blocks = list(parse_log(data).blocks)
        place = chance.randrange(len(blocks))
        changed = _log_block(blocks[place], chance)
        parts = [bytes(data[b.offset : b.offset + b.length]) for b in blocks]
        parts[place] = changed
        if chance.random() < 0.1:
            parts.insert(chance.randrange(len(parts)), chance.choice((b"#HUDI#", parts[place][: len(changed) // 2])))
        return b"".join(parts)
    return plain(data, chance)


def _log_block(block: LogBlock, chance: random.Random) -> bytes:
    headers: dict[Any, str] = dict(block.headers)
    kind: int = block.kind
    content = bytes(block.content)
    match chance.randrange(6):
        case 0:
            key = chance.choice([*headers])
            headers[key] = json_text(headers[key].encode(), chance).decode("utf-8", "replace")
        case 1:
            headers[chance.choice([*HeaderKey])] = chance.choice(TEXTS[:-3]).encode("utf-8", "replace").decode()
        case 2:
            kind = chance.choice([*BlockKind])
        case 3 if block.kind in (BlockKind.AVRO_DATA, BlockKind.CDC_DATA):
            content = _datums_changed(content, chance)
        case 4 if block.kind is BlockKind.HFILE_DATA:
            content = hfile(content, chance)
        case _:
            body = plain(content[8:], chance)
            if block.kind is BlockKind.DELETE:
                content = content[:4] + struct.pack(">i", len(body)) + body
            else:
                content = plain(content, chance)
    return write_block(kind, headers, content)


def _datums_changed(content: bytes, chance: random.Random) -> bytes:
    """The records of a data block, one of them changed, with its length."""
    version, count = struct.unpack_from(">ii", content)
    datums, at = [], 8
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, at)
        datums.append(content[at + 4 : at + 4 + length])
        at += 4 + length
    place = chance.randrange(len(datums))
    datums[place] = plain(datums[place], chance)
    framed = [struct.pack(">i", len(datum)) + datum for datum in datums]
    return struct.pack(">ii", version, len(datums)) + b"".join(framed)


def hfile(data: bytes, chance: random.Random) -> bytes:
    """An HFile with another entry, or with a number or a block changed."""
    if chance.random() < 0.4:
        with suppress(Exception):
            image = open_hfile(lambda start, length: data[start : start + length], len(data))
            table = image.scan()
            values = table["value"].combine_chunks().to_pylist()
            place = chance.randrange(len(values))
            values[place] = plain(values[place], chance)
            info = {key: text.encode() for key, text in image.info.items() if key == "schema"}
            if chance.random() < 0.3:
                info["schema"] = json_text(info["schema"], chance)
            return write_hfile(table["key"].combine_chunks(), _binary(values), info)
    if chance.random() < 0.5:
        places = [at for mark in (b"DATABLK*", b"IDXROOT2", b"FILEINF2", b'TRABLK"$') for at in _all(data, mark)]
        if places:
            return _with_number(data, min(chance.choice(places) + chance.randrange(8, 90), len(data) - 1), chance)
    return plain(data, chance)


def _binary(values: list[bytes]) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.binary())


def _all(data: bytes, mark: bytes) -> Iterator[int]:
    at = data.find(mark)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)


def vector(data: bytes, chance: random.Random) -> bytes:
    """A deletion vector of Iceberg or Paimon with another bitmap; length and checksum fit."""
    body = data[4:8] + plain(data[8:-4], chance) if chance.random() < 0.9 else plain(data[4:-4], chance)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def puffin(data: bytes, chance: random.Random) -> bytes:
    """A Puffin file with another footer, whose length fits."""
    (size,) = struct.unpack("<I", data[-12:-8]) if len(data) >= 16 else (0,)
    if not 0 < size <= len(data) - 16 or chance.random() < 0.2:
        return plain(data, chance)
    footer = json_text(data[-12 - size : -12], chance)
    flags = struct.pack("<I", chance.choice((0, 0, 0, 1, 2)))
    return data[: -12 - size] + footer + struct.pack("<I", len(footer)) + flags + data[-4:]


def text(words: tuple[str, ...]) -> Mutate:
    """A mutator of texts of a language: puts its words in, besides changing characters."""

    def mutate(data: bytes, chance: random.Random) -> bytes:
        spelled = data.decode("utf-8", "replace")
        for _ in range(chance.choice((1, 1, 2, 4))):
            at = chance.randrange(len(spelled) + 1)
            stop = at + chance.choice((0, 0, 1, 3, 10))
            word = chance.choice(words) if chance.random() < 0.8 else spelled[: chance.randrange(40)]
            if chance.random() < 0.03:
                word *= chance.choice((20, 300))
            spelled = spelled[:at] + word + spelled[stop:]
        return spelled.encode("utf-8", "surrogatepass")

    return mutate


def any_of(*mutators: Mutate) -> Mutate:
    """One of some mutators each time."""

    def mutate(data: bytes, chance: random.Random) -> bytes:
        return chance.choice(mutators)(data, chance)

    return mutate


def behind(first: int, inner: Mutate) -> Mutate:
    """A mutator of what follows the first bytes, which choose what the rest is taken for."""

    def mutate(data: bytes, chance: random.Random) -> bytes:
        head = data[:first].ljust(first, b"\0")
        if chance.random() < 0.05:
            head = chance.randbytes(first)
        return head + inner(data[first:], chance)

    return mutate


def base64_body(data: bytes, chance: random.Random) -> bytes:
    """Text in base64 with other bytes inside."""
    with suppress(ValueError):
        return base64.b64encode(plain(base64.b64decode(data), chance))
    return plain(data, chance)
