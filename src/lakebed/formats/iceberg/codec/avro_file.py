"""Manifests as Avro container files: opened with Iceberg's own error, and one file made of the blocks of many.

Nothing is decoded here: blocks are moved whole, so that many small manifests are decoded at once (`codec/manifest.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lakebed.errors import CorruptError
from lakebed.kernel.avro_container import Container, avro_long, header, take_apart

_SYNC = b"lakebed-manifest"


def open_container(data: bytes, file: str = "") -> Container:
    """Header and blocks of a file. CorruptError when it is none, or is cut short."""
    try:
        return take_apart(data)
    except (ValueError, IndexError) as error:
        raise CorruptError("an Avro file cannot be read", file=file, why=str(error)) from error


def joined(containers: Sequence[Container], schema: Any) -> list[bytes | memoryview]:
    """The bytes of one file with the blocks of many, in order. All must have one codec; `schema` replaces their own
    and must have the same layout."""
    metadata = {"avro.schema": json.dumps(schema).encode(), "avro.codec": containers[0].codec.encode()}
    chunks: list[bytes | memoryview] = [header(metadata, _SYNC)]
    for container in containers:
        for count, start, end in container.blocks:
            chunks += (avro_long(count), avro_long(end - start), container.body[start:end], _SYNC)
    return chunks
