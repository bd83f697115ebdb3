"""The plans of compactions, log compactions and clusterings: values to the bytes of their requested state files, and
back.

They are Avro container files in every table version: `HoodieCompactionPlan` for both kinds of compaction, and
`HoodieRequestedReplaceMetadata` for a clustering. The same record without a plan is what an insert overwrite requests.
Compaction plans name files without their folders (plan version 2); version 1 had whole paths. Clustering plans hold
paths that may be absolute; only the names count here, since the partition is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakebed.formats.hudi.codec.archive_schema import parsed_type
from lakebed.kernel.avro.container import Framing
from lakebed.kernel.avro.records import RecordSchema, read_records, write_records
from lakebed.kernel.decoding import decoding

COMPACTION_PLAN_VERSION = 2
SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"
EXECUTION_CLASS = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
"""The execution strategy that Hudi's Spark writers run by default, and with which they can run our plans."""


class PlannedSlice(NamedTuple):
    """A file slice that a plan takes. `base` and `logs` are names of files in the partition's folder, `base` "" where
    there is no base file. `base_instant` is the slice's base instant, "" in a clustering plan."""

    partition: str
    file_id: str
    base: str
    logs: tuple[str, ...]
    base_instant: str = ""
    metrics: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """A compaction or log compaction: one operation per file group. `parameters` are those of the plan's strategy."""

    operations: tuple[PlannedSlice, ...]
    extra: Mapping[str, str] = field(default_factory=dict)
    compactor: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    missing_partitions: tuple[str, ...] = ()


class ClusteringGroup(NamedTuple):
    """File slices of one partition whose rows are written together into about `outputs` new file groups."""

    slices: tuple[PlannedSlice, ...]
    outputs: int = 1
    metrics: Mapping[str, float] = {}
    extra: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """A clustering: its groups, the class that runs it in Hudi, and the parameters of that class, such as the sort
    columns."""

    groups: tuple[ClusteringGroup, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    execution: str = EXECUTION_CLASS
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def slices(self) -> tuple[PlannedSlice, ...]:
        """The file slices of all groups."""
        return tuple(part for group in self.groups for part in group.slices)


@decoding("the plan of a compaction cannot be read")
def parse_compaction_plan(data: bytes) -> CompactionPlan:
    """The plan of a compaction or log compaction from its requested state file."""
    record = next(read_records(data), {})
    strategy = record.get("strategy") or {}
    return CompactionPlan(
        tuple(
            PlannedSlice(
                operation.get("partitionPath") or "",
                operation.get("fileId") or "",
                _name(operation.get("dataFilePath")),
                tuple(map(_name, operation.get("deltaFilePaths") or ())),
                operation.get("baseInstantTime") or "",
                operation.get("metrics") or {},
            )
            for operation in record.get("operations") or ()
        ),
        record.get("extraMetadata") or {},
        strategy.get("compactorClassName") or "",
        strategy.get("strategyParams") or {},
        tuple(record.get("missingSchedulePartitions") or ()),
    )


def encode_compaction_plan(plan: CompactionPlan) -> bytes:
    """The requested state file of a compaction or log compaction."""
    strategy = {"compactorClassName": plan.compactor, "strategyParams": dict(plan.parameters), "version": 1}
    operations = [
        {
            "baseInstantTime": part.base_instant,
            "deltaFilePaths": list(part.logs),
            "dataFilePath": part.base or None,
            "fileId": part.file_id,
            "partitionPath": part.partition,
            "metrics": dict(part.metrics),
            "bootstrapFilePath": None,
        }
        for part in plan.operations
    ]
    record = {
        "operations": operations,
        "extraMetadata": dict(plan.extra),
        "version": COMPACTION_PLAN_VERSION,
        "strategy": strategy if plan.compactor else None,
        "preserveHoodieMetadata": bool(plan.compactor),
        "missingSchedulePartitions": list(plan.missing_partitions),
    }
    return _container("HoodieCompactionPlan", record)


@decoding("the plan of a replace commit cannot be read")
def parse_clustering_plan(data: bytes) -> ClusteringPlan | None:
    """The plan of a clustering from its requested state file, None for another kind of replace commit."""
    record = next(read_records(data), {}) if data else {}
    plan = record.get("clusteringPlan")
    if not plan:
        return None
    strategy = plan.get("strategy") or {}
    return ClusteringPlan(
        tuple(_group(group) for group in plan.get("inputGroups") or ()),
        strategy.get("strategyParams") or {},
        strategy.get("strategyClassName") or "",
        record.get("extraMetadata") or {},
    )


def encode_clustering_plan(plan: ClusteringPlan, root: str) -> bytes:
    """The requested state file of a clustering. `root` is the table's location, before which paths are put: Hudi's
    engines open the files by them."""
    groups = [
        {
            "slices": [_slice(part, root) for part in group.slices],
            "metrics": dict(group.metrics),
            "numOutputFileGroups": group.outputs,
            "extraMetadata": dict(group.extra) or None,
            "version": 1,
        }
        for group in plan.groups
    ]
    strategy = {"strategyClassName": plan.execution, "strategyParams": dict(plan.parameters), "version": 1}
    clustering = {
        "inputGroups": groups,
        "strategy": strategy,
        "extraMetadata": {},
        "version": 1,
        "preserveHoodieMetadata": True,
        "missingSchedulePartitions": [],
    }
    record = {"operationType": "CLUSTER", "clusteringPlan": clustering, "extraMetadata": dict(plan.extra), "version": 1}
    return _container("HoodieRequestedReplaceMetadata", record)


def _group(group: Mapping[str, Any]) -> ClusteringGroup:
    slices = tuple(
        PlannedSlice(
            part.get("partitionPath") or "",
            part.get("fileId") or "",
            _name(part.get("dataFilePath")),
            tuple(map(_name, part.get("deltaFilePaths") or ())),
        )
        for part in group.get("slices") or ()
    )
    return ClusteringGroup(
        slices, int(group.get("numOutputFileGroups") or 1), group.get("metrics") or {}, group.get("extraMetadata") or {}
    )


def _slice(part: PlannedSlice, root: str) -> dict[str, Any]:
    folder = f"{root.rstrip('/')}/{part.partition}".rstrip("/")
    return {
        "dataFilePath": f"{folder}/{part.base}" if part.base else "",
        "deltaFilePaths": [f"{folder}/{log}" for log in part.logs],
        "fileId": part.file_id,
        "partitionPath": part.partition,
        "bootstrapFilePath": "",
        "version": 1,
    }


def _name(path: str | None) -> str:
    return (path or "").rpartition("/")[2]


def _container(name: str, record: Mapping[str, Any]) -> bytes:
    return write_records(RecordSchema.of(parsed_type(name)), [record], Framing.new())
