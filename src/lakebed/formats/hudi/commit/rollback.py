"""Take back what a failed write left: its files, then its state files, with the plan and the record that Hudi keeps.

    requested (the plan) -> inflight -> files go -> the failed instant's state files go -> completed -> markers go

Of a completed instant the completed file goes first, so that nobody takes it for committed while its files go. A
rollback that was itself cut off is carried on from its plan. In table version 6 and older a log file may hold blocks
of other instants too: there a command block in a new log file takes back those of the failed one.

Rules: Hudi's `BaseRollbackActionExecutor`, `MarkerBasedRollbackStrategy`, `ListingBasedRollbackStrategy`,
`BaseHoodieTableServiceClient.rollbackFailedWrites`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from lakebed.errors import CorruptError, LakebedError
from lakebed.formats.hudi.codec.metadata import planned_partitions, planned_updates
from lakebed.formats.hudi.codec.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    decode,
    encode,
)
from lakebed.formats.hudi.codec.rollback_record import RollbackRecord, command_block, command_file
from lakebed.formats.hudi.codec.service_plans import parse_clustering_plan
from lakebed.formats.hudi.commit.completion import complete_once
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.exclusive import Held
from lakebed.formats.hudi.commit.heartbeat import heartbeat_file, stopped
from lakebed.formats.hudi.commit.markers import marked_files, remove_markers
from lakebed.formats.hudi.layout import (
    HASHING_METADATA,
    LogFile,
    bucket_rules_file,
    file_path,
    parse_base_name,
    parse_log_name,
)
from lakebed.formats.hudi.metadata_table.change import MetadataChange
from lakebed.formats.hudi.metadata_table.update import update
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.formats.hudi.timeline.writing import (
    inflight,
    inflight_file,
    new_instant,
    remove_instant,
    remove_strays,
    request,
)
from lakebed.kernel import clock
from lakebed.kernel.commit.claim import put_new
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store


def roll_back_failed(context: WriteContext, timeline: Timeline, held: Held) -> tuple[str, ...]:
    """End all rollbacks on a timeline that were cut off, and take back its pending writes; their instants.

    Call it under the table's lock, whose `held` is asked before each one. A write whose heartbeat says that its writer
    lives stays, and so do pending compactions, clusterings and other plans.
    """
    done = end_rollbacks(context, timeline, held)
    for entry in failed_writes(context, timeline):
        if entry.time in timeline.lost:
            raise CorruptError(
                "a savepoint names an instant that is not complete",
                table=context.store.location,
                instant=entry.time,
                file=entry.file,
                why="it was complete when the savepoint was made; a write would take it back now, with its rows",
                todo=f"Restore its completed file in {timeline.folder} from a copy, or delete the savepoint",
            )
        if entry.time not in done and stopped(context.store, entry.time, context.concurrency.patience):
            held()
            roll_back(context, entry, held=held)
            done.append(entry.time)
    return tuple(filter(None, done))


def end_rollbacks(context: WriteContext, timeline: Timeline, held: Held) -> list[str]:
    """End all rollbacks that were cut off; the instants that they take back. Call it under `exclusive`."""
    done = []
    for entry in cut_off_rollbacks(timeline):
        held()
        done.append(carry_on(context, timeline, entry, held))
    return done


def cut_off_rollbacks(timeline: Timeline) -> list[Entry]:
    """The pending rollbacks that have a plan, oldest first."""
    return [e for e in timeline.entries if e.action == "rollback" and not e.done and e.requested]


def planned_rollback(context: WriteContext, entry: Entry) -> RollbackPlan:
    """The plan of a pending rollback. If the process died before it wrote the plan, the file is empty and names no
    instant."""
    data = context.store.read(entry.requested)
    if not data:
        return RollbackPlan()
    with decoding(
        "the plan of a rollback cannot be read",
        table=context.store.location,
        file=entry.requested,
        instant=entry.time,
        todo="Restore the file from a copy, or run the same rollback again with the engine that began it",
    ):
        return decode(RollbackPlan, data)


def forget_unplanned(store: Store, entry: Entry) -> None:
    """Take a rollback or restore off the timeline that ended before its plan was written: nothing was done."""
    store.delete_in_order(dict.fromkeys((entry.file, entry.requested)))


def carry_on(context: WriteContext, timeline: Timeline, entry: Entry, held: Held) -> str:
    """End a rollback that was cut off. Returns the instant that it takes back, "" where it has no plan yet: then it is
    forgotten."""
    plan = planned_rollback(context, entry)
    info = plan.instant_to_rollback
    if info is None:
        forget_unplanned(context.store, entry)
        return ""
    _run(context, entry.time, plan, entry_of(timeline.entries, info), held)
    return info.commit_time


def failed_writes(context: WriteContext, timeline: Timeline) -> list[Entry]:
    """The pending writes of a timeline, oldest first. A writer may still be at work on one."""
    return [entry for entry in timeline.pending if is_failed_write(context, entry)]


def roll_back(context: WriteContext, entry: Entry, plan: RollbackPlan | None = None, *, held: Held) -> str:
    """Take back one instant, by a plan if it is not a write that failed; the rollback's own instant. Call it under the
    table's lock, which is `held`, and taken anew where deleting takes longer than it lasts."""
    plan = plan or plan_rollback(context, entry)
    instant = new_instant(context.config, context.timeline())
    request(context.store, context.config, instant, "rollback", encode(plan))
    _run(context, instant, plan, entry, held)
    return instant


def plan_rollback(context: WriteContext, entry: Entry) -> RollbackPlan:
    """What taking an instant back does, by its markers; where there are none, by the files of the partitions that it
    planned to write to."""
    marked = marked_files(context.store, entry.time)
    paths = marked if marked is not None else _listed(context, entry)
    requests = []
    for path in sorted(paths):
        partition, _, name = path.rpartition("/")
        log = parse_log_name(name)
        base = parse_base_name(name)
        location = context.location_of(path)
        parsed = log or base
        # Releases before 0.15 name the marker of an append like a base file of the slice that it appends to.
        appends = (log is not None and not log[1].cdc) or (base is not None and base[1].instant != entry.time)
        if parsed is not None and appends and not context.config.completion_times:
            requests.append(
                RollbackRequest(
                    partition_path=partition,
                    file_id=parsed[0],
                    latest_base_instant=parsed[1].instant,
                    log_blocks_to_be_deleted={location: 1},
                )
            )
        elif parsed is not None:
            requests.append(
                RollbackRequest(
                    partition_path=partition,
                    file_id=parsed[0],
                    latest_base_instant=entry.time,
                    files_to_be_deleted=(location,),
                )
            )
    info = InstantInfo(commit_time=entry.time, action=entry.action)
    return RollbackPlan(instant_to_rollback=info, requests=tuple(requests))


def _run(context: WriteContext, instant: str, plan: RollbackPlan, entry: Entry | None, held: Held) -> None:
    store, config = context.store, context.config
    inflight(store, config, instant, "rollback")
    began = clock.steady()
    record = RollbackRecord()
    info = plan.instant_to_rollback
    assert info is not None
    if entry is not None and entry.done:
        store.delete(entry.file)
    for each in plan.requests or ():
        paths = deleted_paths(each)
        store.delete_many(paths)
        blocks: dict[str, int] = {}
        logs: dict[str, int] = {}
        if each.log_blocks_to_be_deleted:
            blocks, logs = _command(context, instant, info.commit_time, each)
        record.add(each, blocks, logs)
    if info.action in ("replacecommit", "clustering"):
        forget_buckets(context, info.commit_time)
    metadata = record.metadata(instant, info, int((clock.steady() - began) * 1000))
    update(context, instant, change_of("rollback", [metadata], (info.commit_time,)))
    if entry is not None:
        remove_instant(store, config, entry)
    with held.going_on() as still:
        timeline = context.timeline()
        if any(other.time == instant and other.action == "rollback" and not other.done for other in timeline.entries):
            remove_strays(store, timeline, instant)
            completed = new_instant(config, timeline, instant)
            complete_once(store, config, instant, completed, "rollback", encode(metadata), still)
    remove_markers(store, info.commit_time)
    with suppress(LakebedError, OSError):
        store.delete(heartbeat_file(info.commit_time))


def change_of(action: str, rollbacks: Iterable[RollbackMetadata], undone: tuple[str, ...] = ()) -> MetadataChange:
    """The changes that rollbacks made to a table's files, for the metadata table."""
    deleted: dict[str, dict[str, int]] = {}
    added: dict[str, dict[str, int]] = {}
    for part in (part for metadata in rollbacks for part in metadata.partition_metadata.values()):
        path = part.partition_path
        gone = {location.rpartition("/")[2]: 0 for location in part.success_delete_files}
        logs = {**(part.log_files_from_failed_commit or {}), **(part.rollback_log_files or {})}
        if gone:
            deleted.setdefault(path, {}).update(gone)
        if logs:
            added.setdefault(path, {}).update({location.rpartition("/")[2]: size for location, size in logs.items()})
    left = {
        path: {name: size for name, size in logs.items() if name not in deleted.get(path, ())}
        for path, logs in added.items()
    }
    return MetadataChange(action, added=left, deleted=deleted, undone=undone)


def forget_buckets(context: WriteContext, instant: str) -> None:
    """Remove the buckets that an instant made, or their numbers: readers of them may not ask the timeline."""
    context.store.delete(bucket_rules_file(instant))
    if context.config.merge_on_read:
        named = (info.path for info in context.store.walk(HASHING_METADATA) if info.name.startswith(f"{instant}."))
        context.store.delete_many([*named])


def _command(
    context: WriteContext, instant: str, target: str, each: RollbackRequest
) -> tuple[dict[str, int], dict[str, int]]:
    """Write a command block that takes back the blocks of an instant in one file group, where the slice has a log file.
    The new file and the other log files of the slice, by their locations, with their sizes.

    Which log files the plan names is of no account: Hudi 1.0 names the table itself there.
    """
    logs: list[LogFile] = []
    for info in context.store.list(each.partition_path).files:
        parsed = parse_log_name(info.name, info.size)
        if parsed is not None and parsed[0] == each.file_id and parsed[1].instant == each.latest_base_instant:
            logs.append(parsed[1])
    if not logs:
        return {}, {}
    version = 1 + max(log.version for log in logs)
    path = file_path(each.partition_path, command_file(each, version))
    block = command_block(instant, target)
    put_new(context.store, {path: block}, "to the log of a file group meanwhile")
    sizes = {context.location_of(file_path(each.partition_path, log.name)): log.size for log in logs}
    return {context.location_of(path): len(block)}, sizes


def is_failed_write(context: WriteContext, entry: Entry) -> bool:
    """Whether a pending instant is a write, and no table service."""
    if entry.action in ("commit", "deltacommit"):
        return True
    if entry.action != "replacecommit":
        return False
    try:
        return not entry.requested or parse_clustering_plan(context.store.read(entry.requested)) is None
    except FileNotFoundError:
        return True


def entry_of(entries: Iterable[Entry], info: InstantInfo) -> Entry | None:
    """The instant that a plan takes back, None where it is gone. A compaction that lost its completed file has another
    action than before."""
    return next((e for e in entries if e.time == info.commit_time and e.writes), None)


def _listed(context: WriteContext, entry: Entry) -> set[str]:
    """Files whose names have the instant, in the partitions that its inflight state names.

    In table version 6 and older a log file does not tell whose blocks it holds. There the newest log file of each file
    group to be updated represents its slice.
    """
    data = b""
    if entry.state == "inflight":
        with suppress(FileNotFoundError):
            data = context.store.read(inflight_file(context.config, entry.time, entry.action))
    if not data:
        return set()
    paths = set()
    updates = frozenset() if context.config.completion_times else planned_updates(data)
    for partition in planned_partitions(data):
        newest: dict[str, tuple[tuple[str, int], str]] = {}
        for info in context.store.list(partition).files:
            base, log = parse_base_name(info.name), parse_log_name(info.name)
            if log is not None and (partition, log[0]) in updates and not log[1].cdc:
                file = (log[1].instant, log[1].version), info.path
                newest[log[0]] = max(newest.get(log[0], file), file)
            if (base is not None and base[1].instant == entry.time) or (
                log is not None and (context.config.completion_times or log[1].cdc) and log[1].instant == entry.time
            ):
                paths.add(info.path)
        paths.update(path for _, path in newest.values())
    return paths


def deleted_paths(each: RollbackRequest) -> list[str]:
    """The paths inside the table of the files that a request deletes. Engines spell the same location in several ways,
    and the table may have been moved since, so the partition and the file's name decide."""
    return [file_path(each.partition_path, location.rpartition("/")[2]) for location in each.files_to_be_deleted]
