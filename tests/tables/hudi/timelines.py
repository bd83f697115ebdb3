"""Hudi tables of timeline files alone, made to order: what archival sees of a table, without data files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro

import lakebed
from lakebed.model.upkeep import ArchiveResult

SCHEMA = '{"type":"record","name":"row","fields":[{"name":"id","type":"string"}]}'
FREE = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "lakebed.archive.lock": "none"}
"""Options under which the cleaner retains no commits, so that the bounds are as asked."""
NO_COMPACTION = {"hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED"}


def at(number: int) -> str:
    """The requested time of the instant with a number, counted in minutes."""
    return f"20260101{number // 60:02d}{number % 60:02d}00000"


def done_at(number: int) -> str:
    """The completion time of that instant: before the next one begins."""
    return f"20260101{number // 60:02d}{number % 60:02d}30000"


@dataclass
class Lake:
    """A table of version 6 or 8 whose state files are written one by one; instants are numbered by minute."""

    folder: Path
    version: int = 6
    merge_on_read: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.timeline.mkdir(parents=True, exist_ok=True)
        self.set_properties(self.properties)

    @property
    def timeline(self) -> Path:
        """The folder of the active timeline."""
        return self.folder / ".hoodie" / ("timeline" if self.version >= 8 else "")

    def set_properties(self, more: Mapping[str, str]) -> None:
        """Writes `hoodie.properties` with these on top."""
        found = {
            "hoodie.table.name": "lake",
            "hoodie.table.type": "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE",
            "hoodie.table.version": str(self.version),
            "hoodie.timeline.layout.version": "2" if self.version >= 8 else "1",
            "hoodie.archivelog.folder": "archived",
            "hoodie.table.create.schema": SCHEMA,
            **more,
        }
        (self.folder / ".hoodie/hoodie.properties").write_text("".join(f"{k}={v}\n" for k, v in found.items()))

    def put(self, name: str, data: bytes = b"") -> Path:
        """One state file."""
        path = self.timeline / name
        path.write_bytes(data)
        return path

    def commit(self, *numbers: int, action: str = "commit", data: bytes | None = None) -> None:
        """Completed commits, or others of that action."""
        for number in numbers:
            self.pending(number, action)
            content = commit_metadata(action) if data is None else data
            self.put(self.done_name(number, action), content)

    def pending(self, number: int, action: str = "commit", state: str = "inflight") -> None:
        """An instant that was not completed."""
        plan = plan_of(action)
        self.put(f"{at(number)}.{action}.requested", plan)
        if state == "inflight":
            self.put(f"{at(number)}.inflight" if action == "commit" else f"{at(number)}.{action}.inflight")

    def clean(self, *numbers: int, retained: int | None = None) -> None:
        """Completed cleans whose plan retained all from an instant on; None: not by commits."""
        for number in numbers:
            earliest = (
                None if retained is None else {"timestamp": at(retained), "action": "commit", "state": "COMPLETED"}
            )
            plan = container(CLEAN_PLAN, {"earliestInstantToRetain": earliest, "policy": "KEEP_LATEST_COMMITS"})
            self.put(f"{at(number)}.clean.requested", plan)
            self.put(f"{at(number)}.clean.inflight", plan)
            metadata = {
                "startCleanTime": at(number),
                "timeTakenInMillis": 1,
                "totalFilesDeleted": 0,
                "earliestCommitToRetain": at(retained) if retained is not None else "",
                "partitionMetadata": {},
            }
            self.put(self.done_name(number, "clean"), container(CLEAN_METADATA, metadata))

    def rollback(self, *numbers: int) -> None:
        """Completed rollbacks."""
        for number in numbers:
            self.put(f"{at(number)}.rollback.requested", container(ROLLBACK_PLAN, {}))
            self.put(f"{at(number)}.rollback.inflight")
            self.put(self.done_name(number, "rollback"), container(ROLLBACK_METADATA, rollback_of(number)))

    def savepoint(self, *numbers: int) -> None:
        """Completed savepoints of commits."""
        for number in numbers:
            self.put(f"{at(number)}.savepoint.inflight")
            self.put(self.done_name(number, "savepoint"), container(SAVEPOINT, {"partitionMetadata": {}}))

    def done_name(self, number: int, action: str) -> str:
        """The name of a completed file."""
        completes_as = {"compaction": "commit", "clustering": "replacecommit"}.get(action, action)
        return f"{at(number)}_{done_at(number)}.{completes_as}" if self.version >= 8 else f"{at(number)}.{completes_as}"

    def archive(self, least: int = 2, most: int = 3, dry_run: bool = False, **options: Any) -> ArchiveResult:
        """Archival with these bounds; keys of options are written with `__` for a dot."""
        given = {"hoodie.keep.min.commits": least, "hoodie.keep.max.commits": most, **FREE}
        given |= {key.replace("__", "."): value for key, value in options.items()}
        return lakebed.open(self.folder).archive(dry_run=dry_run, options=given)

    def active(self, *actions: str) -> list[str]:
        """Times of the instants that are active, of some actions only."""
        table = lakebed.open(self.folder)
        return [i.time for i in table.history() if not actions or i.action in actions]

    def names(self) -> list[str]:
        """Names of the state files that are active."""
        return sorted(path.name for path in self.timeline.iterdir() if path.name[0].isdigit())

    def history(self) -> list[tuple[str, str]]:
        """(time, action) of all instants, active and archived."""
        return [(i.time, i.action) for i in lakebed.open(self.folder).history(archived=True)]

    def archived(self) -> list[str]:
        """Times of the archived instants."""
        return [i.time for i in lakebed.open(self.folder).history(archived=True) if i.archived]


def reasons(result: ArchiveResult, number: int) -> str:
    """Why the instant with a number stays: all its blockers."""
    return "; ".join(f"{b.reason} -> {b.remedy}" for b in result.blockers if b.instant == at(number))


def times(numbers: Iterable[int]) -> list[str]:
    """The requested times of instants."""
    return [at(number) for number in numbers]


def commit_metadata(action: str = "commit", size: int = 0) -> bytes:
    """JSON commit metadata, at least so many bytes long."""
    stats: list[dict[str, Any]] = []
    one = {"path": "dt=2026-01-01/" + "f" * 600, "prevCommit": "null", "numWrites": 1, "partitionPath": "dt=2026-01-01"}
    while size > 0:
        stats.append({**one, "fileId": f"f{len(stats):08d}-0"})
        size -= 700
    document = {
        "partitionToWriteStats": {"": stats} if stats else {},
        "compacted": action == "compaction",
        "extraMetadata": {"schema": SCHEMA},
        "operationType": "INSERT_OVERWRITE" if action == "replacecommit" else "UPSERT",
    }
    if action == "replacecommit":
        document["partitionToReplaceFileIds"] = {}
    return json.dumps(document, indent=2).encode()


def plan_of(action: str) -> bytes:
    """The content of a requested file: a compaction's plan, nothing for most."""
    return container(COMPACTION_PLAN, {"operations": []}) if action == "compaction" else b""


def rollback_of(number: int) -> dict[str, Any]:
    """Metadata of a rollback."""
    return {
        "startRollbackTime": at(number),
        "timeTakenInMillis": 1,
        "totalFilesDeleted": 0,
        "commitsRollback": [],
        "partitionMetadata": {},
    }


def container(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    """An Avro container file with one record."""
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), [record])
    return sink.getvalue()


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {"name": key, "type": kind, **({"default": None} if isinstance(kind, list) else {})}
            for key, kind in fields.items()
        ],
    }


_STRINGS = {"type": "array", "items": "string"}
_INSTANT = _record("HoodieActionInstant", timestamp="string", action="string", state="string")
CLEAN_PLAN = _record(
    "HoodieCleanerPlan",
    earliestInstantToRetain=["null", _INSTANT],
    policy="string",
    extraMetadata=["null", {"type": "map", "values": "string"}],
)
CLEAN_METADATA = _record(
    "HoodieCleanMetadata",
    startCleanTime="string",
    timeTakenInMillis="long",
    totalFilesDeleted="int",
    earliestCommitToRetain="string",
    partitionMetadata={"type": "map", "values": "string"},
)
COMPACTION_PLAN = _record("HoodieCompactionPlan", operations=["null", {"type": "array", "items": "string"}])
ROLLBACK_PLAN = _record("HoodieRollbackPlan", version=["null", "int"])
ROLLBACK_METADATA = _record(
    "HoodieRollbackMetadata",
    startRollbackTime="string",
    timeTakenInMillis="long",
    totalFilesDeleted="int",
    commitsRollback=_STRINGS,
    partitionMetadata={"type": "map", "values": "string"},
)
SAVEPOINT = _record("HoodieSavepointMetadata", partitionMetadata={"type": "map", "values": "string"})
