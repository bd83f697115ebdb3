"""The archived timeline of table versions 8 and later: Parquet files in levels, named by a manifest.

`_version_` holds the number of the newest manifest, `manifest_<n>` is JSON {"files": [{"fileName", "fileLen"}]}, and a
data file `<first>_<last>_<level>.parquet` has one row for each instant: instantTime, completionTime, action, metadata
(the bytes of the completed file), plan (those of the requested one, or null), version. In files that an upgrade from
table version 6 wrote, rows are in no order and the name holds the first and the last row's instants, not the least and
the greatest: do not prune by names (`LSMTimeline`, `LegacyArchivedMetaEntryReader`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import CorruptError

VERSION_FILE = "_version_"
MANIFEST_PREFIX = "manifest_"


@dataclass(frozen=True, slots=True)
class LsmFile:
    """A data file that a manifest names; `length` in bytes, `level` 0 for what was archived last."""

    name: str
    length: int
    first: str
    last: str
    level: int


def parse_version(data: bytes | memoryview) -> int:
    """The number in `_version_`; CorruptError when it is none."""
    try:
        return int(bytes(data).decode().strip())
    except ValueError as error:
        raise CorruptError("the archive's version file holds no number", file=VERSION_FILE, why=str(error)) from error


def manifest_version(name: str) -> int | None:
    """The number of a manifest by its file name; None for another file."""
    found = re.fullmatch(rf"{MANIFEST_PREFIX}(\d+)", name)
    return int(found[1]) if found else None


def parse_manifest(data: bytes | memoryview) -> tuple[LsmFile, ...]:
    """The files that a manifest names, in its order. Raises CorruptError."""
    try:
        nodes = json.loads(bytes(data))["files"]
        return tuple(_file(node["fileName"], int(node.get("fileLen", -1))) for node in nodes)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError("an archive manifest cannot be read", why=f"{type(error).__name__}: {error}") from error


def read_instants(source: pa.NativeFile | pa.Buffer | bytes) -> pa.Table:
    """instantTime, completionTime, action (strings) of a data file, ordered by instantTime; payloads stay unread."""
    return _read(source, ["instantTime", "completionTime", "action"], None)


def read_payloads(source: pa.NativeFile | pa.Buffer | bytes, instants: Sequence[str] | None = None) -> pa.Table:
    """instantTime, completionTime, action, metadata and plan (binary) of a data file, ordered by instantTime.

    `instants` None gives all. Raises CorruptError when the file is no such Parquet file.
    """
    return _read(source, ["instantTime", "completionTime", "action", "metadata", "plan"], instants)


def _file(name: str, length: int) -> LsmFile:
    found = re.fullmatch(r"(\d+)_(\d+)_(\d+)\.parquet", name)
    if not found:
        raise ValueError(f"{name!r} is no name of an archive file")
    return LsmFile(name, length, found[1], found[2], int(found[3]))


def _read(source: Any, columns: list[str], instants: Sequence[str] | None) -> pa.Table:
    wanted = None if instants is None else pc.field("instantTime").isin(list(instants))
    opened = pa.BufferReader(source) if isinstance(source, (bytes, bytearray, memoryview, pa.Buffer)) else source
    try:
        table = pq.read_table(opened, columns=columns, filters=wanted, use_threads=False, partitioning=None)
        return table.select(columns).sort_by("instantTime")
    except (pa.ArrowException, OSError, KeyError) as error:
        raise CorruptError("an archive file cannot be read", why=str(error)) from error
