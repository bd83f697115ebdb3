"""The content of timeline files as values: commits, replace commits, cleans and their plans, savepoints.

Table version 6 and older write commit metadata as JSON, version 8 and later as an Avro container file with the same
field names. Plans and cleans are Avro container files in all versions. Each decoder goes by the bytes and not by the
version, since an upgraded table holds both. The fields are those of Hudi's `HoodieCommitMetadata`, `HoodieWriteStat`,
`HoodieReplaceCommitMetadata`, `HoodieCleanMetadata`, `HoodieCleanerPlan` and `HoodieSavepointMetadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakebed.errors import CorruptError
from lakebed.kernel.avro.container import MAGIC
from lakebed.kernel.avro.records import read_records
from lakebed.kernel.decoding import RESTORE, decoding, parsed_json

SERVICE_OPERATIONS = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
"""Operations that only move rows of other commits."""


class WriteStat(NamedTuple):
    """One file that a commit wrote, with its size in bytes and its counts of rows.

    `path` is relative to the table. `logs` are the names of the log files; an append that rolled over has several.
    `previous` is the instant of the file slice before it, "null" for a new file group. `base` names the base file that
    the writer of a log file saw, "" where there was none or its writer does not tell.
    """

    file_id: str
    path: str
    partition: str
    size: int
    writes: int
    inserts: int
    deletes: int
    logs: tuple[str, ...]
    cdc: tuple[str, ...]
    previous: str = ""
    base: str = ""

    @property
    def name(self) -> str:
        """The name of the file, without its folder."""
        return self.path.rpartition("/")[2]

    @property
    def is_log(self) -> bool:
        """Whether the file is a log file."""
        return self.name.startswith(".")


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """A completed commit, deltacommit or replacecommit.

    `operation` is the operation in upper case, "" where it is not recorded. `schema` is the writer's Avro schema as
    text without meta columns, "" where there is none. `replaced` are the file ids that it replaces, by partition.
    `extra` is the rest of the extra metadata.
    """

    operation: str
    schema: str
    stats: tuple[WriteStat, ...]
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_names(self) -> frozenset[str]:
        """The names of all files that it wrote to: base files, log files, and the logs beside a base file."""
        return frozenset(name for stat in self.stats for name in (stat.path.rpartition("/")[2], *stat.logs))

    @property
    def is_service(self) -> bool:
        """Whether it only moved rows: compaction, log compaction, clustering."""
        return self.operation in SERVICE_OPERATIONS


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    """A completed clean: the names of deleted files by partition, and the earliest commit whose snapshot can still be
    read, "" for a policy that does not count commits."""

    deleted: Mapping[str, tuple[str, ...]]
    earliest_retained: str


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """A requested clean: the earliest instant whose files it retains, "" for a policy that does not count commits; and
    the savepoints that it spares."""

    earliest_to_retain: str
    savepoints: tuple[str, ...]


@decoding("the metadata of a commit cannot be read")
def parse_commit(data: bytes) -> CommitMetadata:
    """Commit metadata from the bytes of a completed state file, or of an inflight one that has counts. CorruptError if
    it is neither JSON nor Avro."""
    return commit_from(_record(data))


@decoding("the metadata of a commit cannot be read")
def planned_partitions(data: bytes) -> frozenset[str]:
    """The partitions that an inflight state file plans to write to. CorruptError if it is neither JSON nor Avro."""
    return frozenset(_record(data).get("partitionToWriteStats") or ())


@decoding("the metadata of a commit cannot be read")
def planned_updates(data: bytes) -> frozenset[tuple[str, str]]:
    """The (partition, file id) that an inflight state file plans to update."""
    planned = _record(data).get("partitionToWriteStats") or {}
    return frozenset(
        (part, stat["fileId"]) for part, stats in planned.items() for stat in stats or () if stat["fileId"]
    )


@decoding("the metadata of a commit cannot be read")
def commit_from(record: Mapping[str, Any]) -> CommitMetadata:
    """Commit metadata from its decoded fields, as archived timelines hold them too."""
    stats = tuple(
        _stat(partition, stat)
        for partition, files in (record.get("partitionToWriteStats") or {}).items()
        for stat in files or ()
        if stat.get("path")
    )
    extra = record.get("extraMetadata") or {}
    replaced = {p: tuple(ids) for p, ids in (record.get("partitionToReplaceFileIds") or {}).items()}
    return CommitMetadata(
        operation=str(record.get("operationType") or "").upper(),
        schema=str(extra.get("schema") or ""),
        stats=stats,
        replaced=replaced,
        extra={key: value for key, value in extra.items() if key != "schema" and value is not None},
    )


@decoding("the metadata of a clean cannot be read")
def parse_clean(data: bytes) -> CleanMetadata:
    """A completed clean from the bytes of its state file."""
    return clean_from(_record(data))


@decoding("the metadata of a clean cannot be read")
def clean_from(record: Mapping[str, Any]) -> CleanMetadata:
    """A completed clean from its decoded fields. Old writers recorded full paths; only the names are kept."""
    deleted = {
        partition: tuple(path.rpartition("/")[2] for path in clean.get("successDeleteFiles") or ())
        for partition, clean in (record.get("partitionMetadata") or {}).items()
    }
    return CleanMetadata(deleted, record.get("earliestCommitToRetain") or "")


@decoding("the plan of a clean cannot be read")
def parse_clean_plan(data: bytes) -> CleanPlan:
    """The plan of a clean from the bytes of its requested or inflight state file."""
    record = _record(data)
    retained = (record.get("earliestInstantToRetain") or {}).get("timestamp") or ""
    savepoints = (record.get("extraMetadata") or {}).get("savepointed_timestamps") or ""
    return CleanPlan(retained, tuple(part.strip() for part in savepoints.split(",") if part.strip()))


@decoding("a savepoint cannot be read")
def parse_savepoint(data: bytes) -> Mapping[str, tuple[str, ...]]:
    """The names of the files that a savepoint keeps, by partition."""
    return {
        partition: tuple(saved.get("savepointDataFile") or ())
        for partition, saved in (_record(data).get("partitionMetadata") or {}).items()
    }


def _stat(partition: str, stat: Mapping[str, Any]) -> WriteStat:
    get = stat.get
    path = str(stat["path"])
    folder = path.rpartition("/")[0]
    return WriteStat(
        str(get("fileId") or ""),
        path,
        partition if folder == partition else folder,
        int(get("fileSizeInBytes") or 0),
        int(get("numWrites") or 0),
        int(get("numInserts") or 0),
        int(get("numDeletes") or 0),
        tuple(map(str, get("logFiles") or ())),
        tuple(map(str, get("cdcStats") or ())),
        str(get("prevCommit") or ""),
        str(get("baseFile") or ""),
    )


def _record(data: bytes) -> dict[str, Any]:
    """The one record of a state file."""
    with decoding("a timeline file is neither JSON nor an Avro container"):
        record = next(read_records(data), {}) if data.startswith(MAGIC) else parsed_json(data)
    if not isinstance(record, dict):
        raise CorruptError("a timeline file holds no record", todo=RESTORE)
    return record
