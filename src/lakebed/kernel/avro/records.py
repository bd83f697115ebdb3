"""The records of small Avro container files as plain dicts, read and written one by one with fastavro.

fastavro only sees records. Frame, compression and schema are checked before, so no count, block or schema can make it
run on, and the records of each block must take up all of its bytes.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.kernel.avro.container import Framing, take_apart
from lakebed.kernel.avro.schema import check_schema
from lakebed.kernel.decoding import parsed_json

RECORD_FILE_BYTES = 1 << 30
"""The most bytes in all blocks of a file whose records become Python objects."""
BLOCK_RECORDS = 1000
"""How many records each written block has; the last one has the rest."""


def read_records(data: bytes | memoryview, numbers: bool = False) -> Iterator[dict[str, Any]]:
    """The records of a file in order, as its own schema has them. With `numbers`, values of logical types stay the
    numbers that they are stored as.

    Raises CorruptError when a block's records do not take up its bytes, UnsupportedError beyond the bounds. Other
    damage raises what the decoder raises: work inside `decoding`.
    """
    container = take_apart(data)
    schema = _parsed(container.metadata["avro.schema"], numbers)
    held = 0
    for count, content in container.contents():
        held += len(content)
        if held > RECORD_FILE_BYTES:
            raise UnsupportedError(f"the blocks of an Avro file hold more than {RECORD_FILE_BYTES >> 20} MiB")
        if count > len(content):  # a record has at least one byte
            raise CorruptError("an Avro block is damaged", why=f"{count} records in {len(content)} bytes")
        block = io.BytesIO(content)
        for _ in range(count):
            yield datum(block, schema)
        if block.tell() != len(content):
            raise CorruptError("an Avro block is damaged", why="its records take up fewer bytes than it has")


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The schema of records that are written, made ready once: as fastavro takes it, and as the text in a file."""

    parsed: Any
    text: bytes

    @classmethod
    def of(cls, schema: Any) -> RecordSchema:
        """From plain JSON. Raises what fastavro does for JSON that is no schema."""
        parsed = fastavro.parse_schema(schema)
        return cls(parsed, json.dumps(_excluding(parsed)).encode())


def write_records(
    schema: RecordSchema,
    records: Iterable[Mapping[str, Any]],
    framing: Framing,
    metadata: Mapping[str, bytes] = {},
) -> bytes:
    """A whole file of these records; `metadata` goes into its header besides the schema and the codec."""
    blocks = (framing.block(count, block) for count, block in record_blocks(schema, records))
    return b"".join((framing.header({**metadata, "avro.schema": schema.text}), *blocks))


def record_blocks(schema: RecordSchema, records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, bytes]]:
    """Records as blocks of `BLOCK_RECORDS`, the last one shorter: their number and their bytes, uncompressed."""
    block, count = io.BytesIO(), 0
    for record in records:
        fastavro.schemaless_writer(block, schema.parsed, record)
        count += 1
        if count == BLOCK_RECORDS:
            yield count, block.getvalue()
            block, count = io.BytesIO(), 0
    if count:
        yield count, block.getvalue()


def datum(source: io.BytesIO, schema: Any) -> dict[str, Any]:
    """One record of a parsed schema."""
    record: Any = fastavro.schemaless_reader(source, schema, None)
    if not isinstance(record, dict):
        raise CorruptError("an Avro datum is not a record")
    return record


def parsed_schema(text: bytes | str) -> Any:
    """The schema of a file or block, checked and made ready for fastavro."""
    return _parsed(text.encode() if isinstance(text, str) else text, False)


def numbers_schema(text: bytes) -> Any:
    """The schema of a file, made ready so that values of logical types stay the numbers that they are stored as."""
    return _parsed(text, True)


@functools.lru_cache(maxsize=64)
def _parsed(text: bytes, numbers: bool) -> Any:
    schema = parsed_json(text)
    check_schema(schema)
    return fastavro.parse_schema(_excluding(schema, ("logicalType",) if numbers else ()))


def _excluding(schema: Any, dropped: tuple[str, ...] = ()) -> Any:
    """A schema without some attributes, and without those that fastavro adds to it."""
    if isinstance(schema, dict):
        kept = {key: value for key, value in schema.items() if not key.startswith("__") and key not in dropped}
        return {key: _excluding(value, dropped) for key, value in kept.items()}
    return [_excluding(item, dropped) for item in schema] if isinstance(schema, list) else schema
