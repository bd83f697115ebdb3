"""New, empty Hudi tables of any version and type."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow as pa

import lakebed
from lakebed import Table
from lakebed.formats.hudi.codec.avro_schema import avro_schema

KINDS = tuple((version, kind) for version in (6, 8, 9) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ"))


def fresh_table(
    folder: Path,
    schema: pa.Schema,
    *,
    version: int = 9,
    kind: str = "COPY_ON_WRITE",
    keys: str = "id",
    partition: str = "dt",
    ordering: str = "",
    metadata: bool = False,
    **more: str,
) -> Table:
    """An empty table in a folder, made on the first call. Its writes keep a metadata table where `metadata` is true."""
    file = folder / ".hoodie" / "hoodie.properties"
    if not file.exists():
        text = avro_schema(schema, "fresh").replace(":", "\\:")
        mode = "EVENT_TIME_ORDERING" if ordering else "COMMIT_TIME_ORDERING"
        payload = "DefaultHoodieRecordPayload" if ordering else "OverwriteWithLatestAvroPayload"
        properties = {
            "hoodie.table.name": "fresh",
            "hoodie.table.type": kind,
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": "2" if version >= 8 else "1",
            "hoodie.table.recordkey.fields": keys,
            "hoodie.table.partition.fields": partition,
            "hoodie.table.keygenerator.type": "COMPLEX" if "," in keys + partition else "SIMPLE",
            "hoodie.table.create.schema": text,
            "hoodie.table.checksum": str(zlib.crc32(b".fresh")),
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.archivelog.folder": "archived" if version < 8 else "history",
            "hoodie.metadata.enable": str(metadata).lower(),
            **({"hoodie.record.merge.mode": mode} if version >= 8 else {}),
            **({"hoodie.compaction.payload.class": f"org.apache.hudi.common.model.{payload}"} if version < 9 else {}),
            **(
                {("hoodie.table.ordering.fields" if version >= 9 else "hoodie.table.precombine.field"): ordering}
                if ordering
                else {}
            ),
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        (folder / ".hoodie" / "timeline").mkdir(parents=True, exist_ok=True)
        file.write_text("#\n" + "".join(f"{key}={value}\n" for key, value in properties.items()))
    return lakebed.open(str(folder))
