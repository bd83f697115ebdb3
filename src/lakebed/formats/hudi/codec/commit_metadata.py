"""Encode the metadata of commits: what a completed or inflight state file of a write holds.

Table version 6 and older have JSON, version 8 and later an Avro container file. Both have the same fields, and
`metadata.py` decodes both. The order of the fields, the nulls and the zeros are those of Hudi 1.0.

Rules: Hudi's `HoodieCommitMetadata`, `HoodieReplaceCommitMetadata`, `HoodieWriteStat`, `HoodieDeltaWriteStat` (a log
file's), and `BaseCommitActionExecutor.saveWorkloadProfileMetadataToInflight` (planned counts).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.formats.hudi.codec.plan_schemas import plan_schema
from lakebed.kernel.avro.container import Framing
from lakebed.kernel.avro.records import write_records

_COUNTS = (
    "totalLogReadTimeMs",
    "totalLogRecords",
    "totalLogFilesCompacted",
    "totalLogSizeCompacted",
    "totalUpdatedRecordsCompacted",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
)
"""Counts of merged log files. They are 0 for a file that is not of a compaction."""
COMPACTS = ("COMPACT", "LOG_COMPACT")
"""The operations of a compaction and of a log compaction."""


@dataclass(frozen=True, slots=True)
class FileStat:
    """One file of a commit: `HoodieWriteStat` in Python's spelling.

    `path` is relative to the table, None in planned counts. `logs` is given for log files only; `log_stats` are counts
    of a compaction by Hudi's names.
    """

    partition: str
    file_id: str
    path: str | None
    size: int = 0
    previous: str = "null"
    writes: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    is_log: bool = False
    base: str = ""
    log_version: int = 0
    log_offset: int = 0
    logs: tuple[str, ...] = ()
    changes: Mapping[str, int] | None = None
    previous_base: str | None = None
    least_event_time: int | None = None
    greatest_event_time: int | None = None
    log_stats: Mapping[str, int] | None = None


def encode_commit(
    stats: Sequence[FileStat],
    *,
    version: int,
    operation: str,
    extra: Mapping[str, str] = {},
    replaced: Mapping[str, Sequence[str]] | None = None,
    partitions: Sequence[str] = (),
) -> bytes:
    """The bytes of a commit's state file for a table version.

    `extra` is the extra metadata, with the writer's Avro schema under `schema`. `replaced` are the file ids taken out
    of use by partition, None for an action that replaces nothing. `partitions` stand in the metadata even without a
    file.
    """
    files: dict[str, list[dict[str, Any]]] = {partition: [] for partition in partitions}
    for stat in stats:
        files.setdefault(stat.partition, []).append(_stat(stat))
    record: dict[str, Any] = {
        "partitionToWriteStats": files,
        "compacted": operation in COMPACTS,
        "extraMetadata": dict(extra),
        "operationType": operation,
    }
    if replaced is not None:
        record["partitionToReplaceFileIds"] = {partition: list(ids) for partition, ids in replaced.items()}
    if version < 8:
        return json.dumps(record, indent=2, separators=(",", " : "), ensure_ascii=False).encode()
    schema = plan_schema("HoodieCommitMetadata" if replaced is None else "HoodieReplaceCommitMetadata")
    return write_records(schema, [{**record, "version": None}], Framing.new())


def planned(partition: str, file_id: str = "", previous: str = "null", inserts: int = 0, updates: int = 0) -> FileStat:
    """A planned count, as inflight metadata has it: inserts of a partition, or updates of a file group."""
    return FileStat(partition, file_id, None, 0, previous, inserts=inserts, updates=updates)


def _stat(stat: FileStat) -> dict[str, Any]:
    counts = stat.log_stats or {}
    record: dict[str, Any] = {
        "numInserts": stat.inserts,
        "numUpdates": 0,
        "numDeletes": stat.deletes,
        **{name: counts.get(name, 0) for name in _COUNTS},
        "fileId": stat.file_id,
        "path": stat.path,
        "cdcStats": dict(stat.changes) if stat.changes else None,
        "prevCommit": stat.previous,
        "numWrites": stat.writes,
        "numUpdateWrites": stat.updates,
        "totalWriteBytes": stat.size,
        "totalWriteErrors": 0,
        "tempPath": None,
        "partitionPath": None if stat.path is None else stat.partition,
        "fileSizeInBytes": stat.size,
        "minEventTime": stat.least_event_time,
        "maxEventTime": stat.greatest_event_time,
        "prevBaseFile": stat.previous_base,
        "runtimeStats": None,
    }
    if stat.is_log:
        record["logVersion"] = stat.log_version
        record["logOffset"] = stat.log_offset
        record["baseFile"] = stat.base
        record["logFiles"] = list(stat.logs)
    return record
