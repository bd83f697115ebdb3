"""Plans and results of the actions on a timeline, as values: rollback, restore, savepoint, clean, compaction,
clustering and indexing. Each is an Avro container file with one record, in every table version.

`encode` and `decode` take the record types below. A file is read by its own schema, and fields that an older release
did not write have their defaults. What is written has the schemas of Hudi 1.0 and 1.1, which 0.15 resolves by the names
of the fields. The field names here are Hudi's in Python's spelling, and the default values are those that Hudi writes.

Rules: Hudi's Avro records `HoodieRollbackPlan`, `HoodieRollbackMetadata`, `HoodieRestorePlan`, `HoodieRestoreMetadata`,
`HoodieSavepointMetadata`, `HoodieCleanerPlan`, `HoodieCleanMetadata`, `HoodieCompactionPlan`,
`HoodieRequestedReplaceMetadata`, `HoodieIndexPlan` and `HoodieIndexCommitMetadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.plan_schemas import plan_schema
from lakebed.kernel.avro.container import MAGIC, Framing
from lakebed.kernel.avro.records import read_records, write_records
from lakebed.kernel.decoding import RESTORE, decoding

Texts = Mapping[str, str]


class Plan(Struct, frozen=True, kw_only=True, rename="camel"):
    """A record of a timeline file. Its Avro type is `Hoodie` and the name of the class."""


PlanType = TypeVar("PlanType", bound=Plan)


def encode(plan: Plan) -> bytes:
    """The bytes of a state file that holds this record."""
    schema = plan_schema(f"Hoodie{type(plan).__name__}")
    record = msgspec.json.decode(msgspec.json.encode(plan))  # with lists: a tuple would name the branch of a union
    return write_records(schema, [record], Framing.new())


def decode(kind: type[PlanType], data: bytes) -> PlanType:
    """The record of a state file. CorruptError for bytes that hold no such record."""
    with decoding(f"the file holds no {kind.__name__}"):
        if not data.startswith(MAGIC):
            raise CorruptError("it is no Avro container", todo=RESTORE)
        record = next(read_records(data), None)
        if record is None:
            raise CorruptError("the file is empty", todo=RESTORE)
        return msgspec.convert(record, kind, strict=False)


# rollback and restore


class InstantInfo(Plan, frozen=True, kw_only=True, rename="camel"):
    """An instant that is taken back: its requested time and its action."""

    commit_time: str
    action: str


class RollbackRequest(Plan, frozen=True, kw_only=True, rename="camel"):
    """What a rollback does in one file group, or in a partition where `file_id` is "".

    `files_to_be_deleted` are full locations. `log_blocks_to_be_deleted` are log files (full location to size) of the
    slice `latest_base_instant`, whose blocks a command block takes back (table version 6 and older).
    """

    partition_path: str
    file_id: str | None = ""
    latest_base_instant: str | None = ""
    files_to_be_deleted: tuple[str, ...] = ()
    log_blocks_to_be_deleted: Mapping[str, int] | None = {}


class RollbackPlan(Plan, frozen=True, kw_only=True, rename="camel"):
    """A requested rollback of one instant."""

    instant_to_rollback: InstantInfo | None = None
    requests: tuple[RollbackRequest, ...] | None = field(name="RollbackRequests", default=())
    version: int | None = 1


class RollbackPartitionMetadata(Plan, frozen=True, kw_only=True, rename="camel"):
    """What a rollback did in one partition. Files are full locations, those with numbers have their sizes."""

    partition_path: str
    success_delete_files: tuple[str, ...] = ()
    failed_delete_files: tuple[str, ...] = ()
    rollback_log_files: Mapping[str, int] | None = {}
    log_files_from_failed_commit: Mapping[str, int] | None = {}


class RollbackMetadata(Plan, frozen=True, kw_only=True, rename="camel"):
    """A completed rollback."""

    start_rollback_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    commits_rollback: tuple[str, ...]
    partition_metadata: Mapping[str, RollbackPartitionMetadata]
    version: int | None = 1
    instants_rollback: tuple[InstantInfo, ...] = ()


class RestorePlan(Plan, frozen=True, kw_only=True, rename="camel"):
    """A requested restore: the instants that it takes back, newest first."""

    instants_to_rollback: tuple[InstantInfo, ...]
    version: int | None = 2
    savepoint_to_restore_timestamp: str | None = None


class RestoreMetadata(Plan, frozen=True, kw_only=True, rename="camel"):
    """A completed restore. `rollbacks` has the rollback of each instant, by the instant's requested time."""

    start_restore_time: str
    time_taken_in_millis: int
    instants_to_rollback: tuple[str, ...]
    rollbacks: Mapping[str, tuple[RollbackMetadata | None, ...]] = field(name="hoodieRestoreMetadata")
    version: int | None = 1
    restore_instant_info: tuple[InstantInfo, ...] = ()


# savepoint


class SavepointPartitionMetadata(Plan, frozen=True, kw_only=True, rename="camel"):
    """The names of the files that a savepoint keeps in one partition."""

    partition_path: str
    savepoint_data_file: tuple[str, ...]


class SavepointMetadata(Plan, frozen=True, kw_only=True, rename="camel"):
    """A savepoint: who made it, when (milliseconds since 1970), why, and the files that it keeps."""

    savepointed_by: str
    savepointed_at: int
    comments: str
    partition_metadata: Mapping[str, SavepointPartitionMetadata]
    version: int | None = 1


# clean


class ActionInstant(Plan, frozen=True, kw_only=True, rename="camel"):
    """The earliest instant whose files a clean retains; `state` is in upper case."""

    timestamp: str
    action: str
    state: str = "COMPLETED"


class CleanFileInfo(Plan, frozen=True, kw_only=True, rename="camel"):
    """A file that a clean deletes, by its full location."""

    file_path: str | None
    is_bootstrap_base_file: bool | None = False


class CleanerPlan(Plan, frozen=True, kw_only=True, rename="camel"):
    """A requested clean. `file_paths_to_be_deleted_per_partition` has the files; the older field stays empty."""

    earliest_instant_to_retain: ActionInstant | None
    last_completed_commit_timestamp: str = ""
    policy: str
    files_to_be_deleted_per_partition: Mapping[str, tuple[str, ...]] | None = {}
    version: int | None = 2
    file_paths_to_be_deleted_per_partition: Mapping[str, tuple[CleanFileInfo, ...]] | None = {}
    partitions_to_be_deleted: tuple[str, ...] | None = ()
    extra_metadata: Texts | None = {}


class CleanPartitionMetadata(Plan, frozen=True, kw_only=True, rename="camel"):
    """What a clean did in one partition. Files are names without their folder."""

    partition_path: str
    policy: str
    delete_path_patterns: tuple[str, ...] = ()
    success_delete_files: tuple[str, ...] = ()
    failed_delete_files: tuple[str, ...] = ()
    is_partition_deleted: bool | None = False


class CleanMetadata(Plan, frozen=True, kw_only=True, rename="camel"):
    """A completed clean. `earliest_commit_to_retain` is "" for a policy that does not count commits."""

    start_clean_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str = ""
    partition_metadata: Mapping[str, CleanPartitionMetadata]
    version: int | None = 2
    bootstrap_partition_metadata: Mapping[str, CleanPartitionMetadata] | None = {}
    extra_metadata: Texts | None = {}


# compaction


class CompactionOperation(Plan, frozen=True, kw_only=True, rename="camel"):
    """One file slice that a compaction merges. Files are names without their folder; `data_file_path` is None for a
    slice without a base file."""

    base_instant_time: str | None
    delta_file_paths: tuple[str, ...] | None = ()
    data_file_path: str | None = None
    file_id: str | None
    partition_path: str | None = None
    metrics: Mapping[str, float] | None = {}
    bootstrap_file_path: str | None = None


class CompactionStrategy(Plan, frozen=True, kw_only=True, rename="camel"):
    """What executes a compaction; only plans of log compactions name it."""

    compactor_class_name: str | None = None
    strategy_params: Texts | None = None
    version: int | None = 1


class CompactionPlan(Plan, frozen=True, kw_only=True, rename="camel"):
    """A requested compaction or log compaction."""

    operations: tuple[CompactionOperation, ...] | None
    extra_metadata: Texts | None = {}
    version: int | None = 2
    strategy: CompactionStrategy | None = None
    preserve_hoodie_metadata: bool | None = False
    missing_schedule_partitions: tuple[str, ...] | None = ()


# clustering and other replace commits


class SliceInfo(Plan, frozen=True, kw_only=True, rename="camel"):
    """One file slice that a clustering reads. Files are full locations, `data_file_path` is "" without a base file."""

    data_file_path: str | None = ""
    delta_file_paths: tuple[str, ...] | None = ()
    file_id: str | None
    partition_path: str | None = None
    bootstrap_file_path: str | None = ""
    version: int | None = 1


class ClusteringGroup(Plan, frozen=True, kw_only=True, rename="camel"):
    """File slices whose rows a clustering puts together into `num_output_file_groups` new file groups."""

    slices: tuple[SliceInfo, ...] | None
    metrics: Mapping[str, float] | None = {}
    num_output_file_groups: int | None = 1
    extra_metadata: Texts | None = None
    version: int | None = 1


class ClusteringStrategy(Plan, frozen=True, kw_only=True, rename="camel"):
    """The class that executes a clustering, with its parameters."""

    strategy_class_name: str | None = None
    strategy_params: Texts | None = None
    version: int | None = 1


class ClusteringPlan(Plan, frozen=True, kw_only=True, rename="camel"):
    """The plan in a requested clustering."""

    input_groups: tuple[ClusteringGroup, ...] | None
    strategy: ClusteringStrategy | None = None
    extra_metadata: Texts | None = {}
    version: int | None = 1
    preserve_hoodie_metadata: bool | None = True
    missing_schedule_partitions: tuple[str, ...] | None = ()


class RequestedReplaceMetadata(Plan, frozen=True, kw_only=True, rename="camel"):
    """A requested replace commit. That of a clustering has its plan, that of an overwrite has only nulls."""

    operation_type: str | None = None
    clustering_plan: ClusteringPlan | None = None
    extra_metadata: Texts | None = None
    version: int | None = None


# indexing


class IndexPartitionInfo(Plan, frozen=True, kw_only=True, rename="camel"):
    """A partition of the metadata table that is built, and the instant up to which the table was read for it."""

    version: int | None = 1
    metadata_partition_path: str | None = None
    index_upto_instant: str | None = None
    extra_metadata: Texts | None = None


class IndexPlan(Plan, frozen=True, kw_only=True, rename="camel"):
    """A requested indexing."""

    version: int | None = 1
    index_partition_infos: tuple[IndexPartitionInfo, ...] | None = None


class IndexCommitMetadata(Plan, frozen=True, kw_only=True, rename="camel"):
    """A completed indexing."""

    version: int | None = 1
    operation_type: str | None = None
    index_partition_infos: tuple[IndexPartitionInfo, ...] | None = None
