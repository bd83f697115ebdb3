"""The archived timeline of table versions 8 and later: Parquet files in levels, listed by a manifest.

`_version_` holds the number of the newest manifest, and `manifest_<n>` is JSON {"files": [{"fileName", "fileLen"}]}. A
data file `<first>_<last>_<level>.parquet` has one row per instant: instantTime, completionTime, action, metadata (the
bytes of the completed file), plan (the bytes of the requested file, or null), version. In files that an upgrade from
table version 6 wrote, rows are in no order, and the name has the instants of the first and last rows instead of the
least and greatest ones. So do not prune by names.

Rules: Hudi's `LSMTimeline` and `LegacyArchivedMetaEntryReader`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.kernel.decoding import decoding, parsed_json

VERSION_FILE = "_version_"
MANIFEST_PREFIX = "manifest_"


@dataclass(frozen=True, slots=True)
class LsmFile:
    """A data file that a manifest lists. `length` is in bytes; `level` is 0 for the instants archived last."""

    name: str
    length: int
    first: str
    last: str
    level: int


def parse_version(data: bytes | memoryview) -> int:
    """The number in `_version_`. CorruptError if it is not a number."""
    with decoding("the archive's version file holds no number", file=VERSION_FILE):
        return int(bytes(data).decode().strip())


def manifest_version(name: str) -> int | None:
    """The number of a manifest by its file name; None for another file."""
    match = re.fullmatch(rf"{MANIFEST_PREFIX}(\d+)", name)
    return int(match[1]) if match else None


def parse_name(name: str, length: int = -1) -> LsmFile | None:
    """A data file by its name; None for another file."""
    match = re.fullmatch(r"(\d+)_(\d+)_(\d+)\.parquet", name)
    return LsmFile(name, length, match[1], match[2], int(match[3])) if match else None


def parse_manifest(data: bytes | memoryview) -> tuple[LsmFile, ...]:
    """The files that a manifest lists, in its order. Raises CorruptError."""
    with decoding("an archive manifest cannot be read"):
        nodes = parsed_json(data)["files"]
        return tuple(_file(node["fileName"], int(node.get("fileLen", -1))) for node in nodes)


def manifest_json(files: Sequence[LsmFile]) -> bytes:
    """The bytes of a manifest that lists these files."""
    return json.dumps({"files": [{"fileName": f.name, "fileLen": f.length} for f in files]}, indent=2).encode()


def lsm_name(first: str, last: str, level: int) -> str:
    """The name of a data file with these least and greatest requested times."""
    return f"{first}_{last}_{level}.parquet"


def lsm_batch(rows: Sequence[tuple[str, str, str, bytes, bytes | None]]) -> pa.RecordBatch:
    """Rows of a data file from (requested time, completion time, action, bytes of the completed file, of the plan)."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    arrays = [pa.array(column, field.type) for column, field in zip(columns, LSM_SCHEMA, strict=False)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array([1] * len(rows), pa.int32())], schema=LSM_SCHEMA)


def lsm_writer(sink: Any) -> pq.ParquetWriter:
    """A writer of a data file as Hudi writes it: no dictionary, GZIP, and the Avro schema in the footer.

    It uses the least compression level, since the file is read rarely and archival waits for it.
    """
    writer = pq.ParquetWriter(
        sink,
        LSM_SCHEMA,
        compression="gzip",
        compression_level=1,
        use_dictionary=False,
        store_schema=False,
        version="1.0",
        write_statistics=["instantTime", "completionTime", "action"],
    )
    writer.add_key_value_metadata({"parquet.avro.schema": _AVRO_SCHEMA, "writer.model.name": "avro"})
    return writer


LSM_SCHEMA = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
"""The columns of a data file."""

_TEXT = {"type": "string", "avro.java.string": "String"}
_AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "HoodieLSMTimelineInstant",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            *({"name": n, "type": ["null", _TEXT], "default": None} for n in LSM_SCHEMA.names[:3]),
            *({"name": n, "type": ["null", "bytes"], "default": None} for n in LSM_SCHEMA.names[3:5]),
            {"name": "version", "type": "int", "default": 1},
        ],
    },
    separators=(",", ":"),
)


def read_instants(source: pa.NativeFile | pa.Buffer | bytes) -> pa.Table:
    """instantTime, completionTime, action (strings) of a data file, ordered by instantTime. Payloads are not read."""
    return _read(source, ["instantTime", "completionTime", "action"], None)


def read_rows(source: Any) -> Iterator[pa.RecordBatch]:
    """All columns of a data file in its own order, a few rows at a time. Raises CorruptError."""
    with decoding("an archive file cannot be read"), pq.ParquetFile(source, page_checksum_verification=True) as file:
        yield from file.iter_batches(_ROWS, columns=LSM_SCHEMA.names, use_threads=False)


_ROWS = 16
"""How many rows are read at once. Each can have megabytes."""


def read_payloads(source: pa.NativeFile | pa.Buffer | bytes, instants: Sequence[str] | None = None) -> pa.Table:
    """instantTime, completionTime, action, metadata and plan (binary) of a data file, ordered by instantTime.

    `instants` are the requested times to read; None reads all. Raises CorruptError for a file of another kind.
    """
    return _read(source, ["instantTime", "completionTime", "action", "metadata", "plan"], instants)


def _file(name: str, length: int) -> LsmFile:
    file = parse_name(name, length)
    if file is None:
        raise ValueError(f"{name!r} is not the name of an archive file")
    return file


def _read(source: Any, columns: list[str], instants: Sequence[str] | None) -> pa.Table:
    times = None if instants is None else pc.field("instantTime").isin(list(instants))
    opened = pa.BufferReader(source) if isinstance(source, (bytes, bytearray, memoryview, pa.Buffer)) else source
    with decoding("an archive file cannot be read"):
        table = pq.read_table(
            opened,
            columns=columns,
            filters=times,
            use_threads=False,
            partitioning=None,
            page_checksum_verification=True,
        )
        return table.select(columns).sort_by("instantTime")
