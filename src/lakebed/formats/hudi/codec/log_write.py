"""Write blocks of Hudi log files. `log.py` reads them, and describes their frame.

Archive files of table version 6 and older are in this format too.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from lakebed.formats.hudi.codec.log import LOG_FORMAT_VERSION, MAGIC, BlockKind

CONTENT_VERSION = 3
"""The content version of data blocks that Hudi 0.14 and later write."""


def write_block(
    kind: BlockKind | int,
    headers: Mapping[Any, str],
    content: bytes,
    *,
    footers: Mapping[int, str] | None = None,
    version: int = LOG_FORMAT_VERSION,
) -> bytes:
    """The bytes of one block with these headers, in their order, and this content."""
    return b"".join(block_parts(kind, headers, [content], footers=footers, version=version))


def block_parts(
    kind: BlockKind | int,
    headers: Mapping[Any, str],
    content: Sequence[bytes | memoryview],
    *,
    footers: Mapping[int, str] | None = None,
    version: int = LOG_FORMAT_VERSION,
) -> list[bytes | memoryview]:
    """The bytes of one block in parts, from a content in parts. Joining several blocks copies each part once."""
    length = sum(len(part) for part in content)
    head = struct.pack(">ii", version, int(kind)) + _texts(headers) + struct.pack(">q", length)
    tail = _texts(footers or {})
    size = len(head) + length + len(tail) + 8
    return [MAGIC + struct.pack(">q", size) + head, *content, tail + struct.pack(">q", size + len(MAGIC))]


def record_content(records: Sequence[bytes | memoryview]) -> bytes:
    """The content of a data block with these Avro datums."""
    return b"".join(record_parts(records))


def record_parts(records: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """The content of a data block with these Avro datums, in parts."""
    parts: list[bytes | memoryview] = [struct.pack(">ii", CONTENT_VERSION, len(records))]
    for record in records:
        parts += (struct.pack(">i", len(record)), record)
    return parts


def run_content(runs: Sequence[tuple[int, bytes | memoryview]]) -> bytes:
    """The content of a data block from runs of records with their lengths, each run with its count, as
    `codec.avro.record_run` gives them."""
    head = struct.pack(">ii", CONTENT_VERSION, sum(count for count, _ in runs))
    return b"".join((head, *(body for _, body in runs)))


def _texts(texts: Mapping[Any, str]) -> bytes:
    parts = [struct.pack(">i", len(texts))]
    for key, text in texts.items():
        encoded = text.encode()
        parts.append(struct.pack(">ii", int(key), len(encoded)) + encoded)
    return b"".join(parts)
