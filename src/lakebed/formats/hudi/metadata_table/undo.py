"""Take delta commits of the metadata table back, and bring what was cut off there to its end.

In table version 6 a command block takes back the blocks of a delta commit; later versions delete its log files. Either
way the metadata table's timeline has a rollback of its own.

Rules: Hudi's `HoodieBackedTableMetadataWriter.update` of a rollback, `HoodieTableMetadataUtil.createRollbackTimestamp`.
"""

from __future__ import annotations

from lakebed.formats.hudi.codec.plans import InstantInfo, RollbackPlan, RollbackRequest, decode, encode
from lakebed.formats.hudi.codec.rollback_record import RollbackRecord, command_block, command_file
from lakebed.formats.hudi.layout import file_path
from lakebed.formats.hudi.metadata_table.opened import is_log_compaction
from lakebed.formats.hudi.metadata_table.target import BOOTSTRAP, Target
from lakebed.formats.hudi.timeline.active import Entry
from lakebed.formats.hudi.timeline.writing import complete, inflight, remove_instant, remove_pending, request
from lakebed.kernel.commit.claim import put_new

_SUFFIX = "006"
"""What follows the instant of a rollback in table version 6 and older."""


def settle(target: Target, building: bool) -> None:
    """End rollbacks that were cut off, and take back delta commits that did not complete.

    Those of pending instants of the table stay: release 1.1 begins them with the write, and they go with it. So do
    those that build a part where another writer is `building` one. Log compactions that did not complete go.
    """
    changed = False
    for entry in target.timeline.entries:
        if entry.action == "rollback" and not entry.done and entry.requested:
            _run(target, entry.time, decode(RollbackPlan, target.store.read(entry.requested)))
            changed = True
    if changed:
        target.list_again()
    under_way = {entry.time for entry in target.data.entries if not entry.done}
    for entry in target.timeline.pending:
        awaited = entry.time in under_way or (building and entry.time.startswith(BOOTSTRAP))
        if is_log_compaction(entry) or (entry.action == "deltacommit" and not awaited):
            take_back(target, entry)


def unfold(target: Target, since: str) -> None:
    """Take log compactions back that may have merged blocks of an instant: what they merged is there as it was, unless
    a compaction put all of it into base files."""
    last = max((entry.time for entry in target.timeline.commits if entry.action == "commit"), default="")
    for entry in reversed(target.timeline.commits):
        if is_log_compaction(entry) and entry.time > max(since, last):
            take_back(target, entry)


def take_back(target: Target, entry: Entry, instant: str = "") -> None:
    """Take back a delta commit, completed or not. `instant` is that of the rollback of the table, "" for a new one."""
    if instant and not target.config.completion_times:
        instant += _SUFFIX
    used = {each.time for each in target.timeline.entries}
    if not instant or instant in used:
        instant = target.new_instant()
    plan = _plan(target, entry)
    request(target.store, target.config, instant, "rollback", encode(plan))
    _run(target, instant, plan)
    target.list_again()


def _plan(target: Target, entry: Entry) -> RollbackPlan:
    by_name = target.config.completion_times
    requests = []
    for part in target.listed:
        for file_id, group in target.groups(part).items():
            logs = [log for log in group.logs if log.instant == entry.time] if by_name else group.logs
            gone = tuple(f"{target.store.location}/{part}/{log.name}" for log in logs) if by_name else ()
            if logs:
                newest = max(log.instant for log in logs)
                requests.append(
                    RollbackRequest(
                        partition_path=part,
                        file_id=file_id,
                        latest_base_instant=newest,
                        files_to_be_deleted=gone,
                        log_blocks_to_be_deleted={} if by_name else {f"{target.store.location}/{part}": 1},
                    )
                )
    info = InstantInfo(commit_time=entry.time, action=entry.action)
    return RollbackPlan(instant_to_rollback=info, requests=tuple(requests))


def _run(target: Target, instant: str, plan: RollbackPlan) -> None:
    store, config, info = target.store, target.config, plan.instant_to_rollback
    assert info is not None
    inflight(store, config, instant, "rollback")
    record = RollbackRecord()
    for each in plan.requests or ():
        store.delete_many([file_path(each.partition_path, f.rpartition("/")[2]) for f in each.files_to_be_deleted])
        record.add(each, {} if config.completion_times else _command(target, instant, info.commit_time, each))
    entry = target.timeline.by_time.get(info.commit_time)
    if entry is not None:
        (remove_instant if is_log_compaction(entry) else remove_pending)(store, config, entry)
    complete(store, config, instant, target.new_instant(instant), "rollback", encode(record.metadata(instant, info)))


def _command(target: Target, instant: str, undone: str, each: RollbackRequest) -> dict[str, int]:
    """Write a command block into the next log file of the slice."""
    group = target.groups(each.partition_path).get(each.file_id or "")
    logs = [log for log in group.logs if log.instant == each.latest_base_instant] if group else []
    if not logs:
        return {}
    version = 1 + max(log.version for log in logs)
    path = file_path(each.partition_path, command_file(each, version))
    block = command_block(instant, undone)
    put_new(target.store, {path: block}, "to the metadata table meanwhile")
    return {f"{target.store.location}/{path}": len(block)}
