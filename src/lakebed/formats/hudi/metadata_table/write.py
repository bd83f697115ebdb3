"""A delta commit of the metadata table: records of any of its parts, as log files.

    requested -> inflight -> one log file per file group -> completed

It has the instant of the commit that it records, and is completed before that: until then readers leave it out.

Rules: Hudi's `HoodieBackedTableMetadataWriter.commitInternal`, `HoodieHFileDataBlock`, `HoodieAvroHFileWriter`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

import pyarrow as pa

from lakebed.formats.hudi.codec.bloom import FilterBuilder, FilterSettings
from lakebed.formats.hudi.codec.commit_metadata import FileStat, encode_commit
from lakebed.formats.hudi.codec.commit_metadata import planned as planned_stat
from lakebed.formats.hudi.codec.delete_write import delete_content
from lakebed.formats.hudi.codec.hfile_write import write_hfile
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import write_block
from lakebed.formats.hudi.codec.metadata_records import record_schema
from lakebed.formats.hudi.metadata_table.opened import FOLDER
from lakebed.formats.hudi.metadata_table.records import GroupRecords
from lakebed.formats.hudi.metadata_table.target import Target, stat_of
from lakebed.formats.hudi.timeline.writing import complete, inflight, request
from lakebed.kernel.commit.claim import put_new

UPSERT = "UPSERT_PREPPED"
_META_FIELDS = 5


def delta_commit(target: Target, instant: str, records: Sequence[GroupRecords], operation: str = UPSERT) -> None:
    """Write records as one delta commit of the metadata table."""
    store, config = target.store, target.config
    request(store, config, instant, "deltacommit")
    placed = [(each, *target.next_log(each.part, each.file_id, instant)) for each in records]
    plan = [planned_stat(each.part, each.file_id, previous, updates=len(each.keys)) for each, _, previous, _ in placed]
    inflight(store, config, instant, "deltacommit", encoded(target, plan, operation))
    files, stats = {}, []
    for each, name, previous, version in placed:
        data = log_file(target.described.version, instant, each)
        files[f"{FOLDER}/{each.part}/{name}"] = data
        count = len(each.keys) + len(each.deleted)
        group = target.groups(each.part).get(each.file_id)
        base = max(group.bases, key=lambda file: file.instant).name if group and group.bases else ""
        log = {"is_log": True, "log_version": version, "logs": (name,), "base": base}
        stats.append(
            stat_of(
                each.part,
                each.file_id,
                name,
                len(data),
                previous,
                count,
                updates=len(each.keys),
                deletes=len(each.deleted),
                **log,
            )
        )
    if config.completion_times:  # each name has the instant in it
        target.outer.write_many(files)
    else:
        put_new(target.outer, files, "to the metadata table meanwhile")
    complete(
        store,
        config,
        instant,
        target.new_instant(instant),
        "deltacommit",
        encoded(target, stats, operation, schema_text(target.described.version)),
    )


def log_file(version: int, instant: str, records: GroupRecords) -> bytes:
    """The bytes of a log file: a data block of the records, and a delete block where some go."""
    blocks = []
    if len(records.keys) or not len(records.deleted):
        schema = record_schema(version).text
        image = write_hfile(records.keys, records.values, {"schema": schema})
        headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema.decode()}
        blocks.append(write_block(BlockKind.HFILE_DATA, headers, image))
    if len(records.deleted):
        keys = records.deleted.cast(pa.string())
        content = delete_content(keys, pa.repeat(pa.scalar(records.part, pa.string()), len(keys)), [])
        blocks.append(write_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: instant}, content))
    return b"".join(blocks)


def base_file(version: int, keys: pa.Array, values: pa.Array) -> bytes:
    """The bytes of a base file, with the range of its keys and a bloom filter of them."""
    settings = FilterSettings(entries=max(10_000, min(len(keys), 60_000)))
    builder = FilterBuilder(settings)
    builder.add(keys.cast(pa.string()))
    info = {"schema": record_schema(version).text, "bloomFilterTypeCode": settings.kind.value.encode()}
    if len(keys):
        info |= {"minRecordKey": keys[0].as_py(), "maxRecordKey": keys[-1].as_py()}
    return write_hfile(keys, values, info, {"bloomFilter": builder.finish()})


def encoded(target: Target, stats: Sequence[FileStat], operation: str, schema: str = "") -> bytes:
    """The bytes of a commit's state file."""
    extra: Mapping[str, str] = {"schema": schema} if schema else {}
    return encode_commit(stats, version=target.config.version, operation=operation, extra=extra)


@cache
def schema_text(version: int) -> str:
    """The schema of records without the meta fields, as commits name it."""
    whole = json.loads(record_schema(version).text)
    return json.dumps({**whole, "fields": whole["fields"][_META_FIELDS:]}, separators=(",", ":"))
