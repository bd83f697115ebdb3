"""Compaction and cleaning of the metadata table itself.

A compaction merges each file slice into a base file once enough delta commits came since the last one, and only while
the table has completed what all of them record: a base file no longer tells which instant a record is of. Then file
slices go that none of the newest twenty commits needs.

Rules: Hudi's `HoodieBackedTableMetadataWriter.performTableServices`, `compactIfNecessary` and `cleanIfNecessary`,
`HoodieMetadataWriteUtils.createMetadataWriteConfig` (what a clean retains),
`HoodieTableMetadataUtil.createCompactionTimestamp` and `createCleanTimestamp`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.formats.hudi.codec.plans import (
    ActionInstant,
    CleanerPlan,
    CleanFileInfo,
    CleanMetadata,
    CleanPartitionMetadata,
    CompactionOperation,
    CompactionPlan,
    decode,
    encode,
)
from lakebed.formats.hudi.layout import file_path
from lakebed.formats.hudi.metadata_table.parts import PARTS
from lakebed.formats.hudi.metadata_table.target import Target, stat_of
from lakebed.formats.hudi.metadata_table.write import base_file, encoded, schema_text
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.timeline.writing import complete, following, greatest, inflight, request

_COMPACTION, _CLEAN = "001", "002"
"""What follows the instant of the newest delta commit in table version 6 and older."""
_COMMITS = 20
"""How many of its own commits stay readable: what releases retain unless the table's own cleaner retains more."""
_TOKEN = "0-0-0"
_POLICY = "KEEP_LATEST_COMMITS"


def look_after(target: Target, every: int, before: str) -> None:
    """Compact and clean the metadata table where that is due, and bring to its end what was cut off. The instants of
    both are older than `before`, the one whose delta commit comes next, so that its log files are newer than the base
    files for readers that go by requested times too (hudi-rs)."""
    for entry in target.timeline.pending:
        if entry.action == "compaction" and entry.requested:
            _compact(target, entry.time, _planned(target, decode(CompactionPlan, target.store.read(entry.requested))))
            target.list_again()
    for entry in target.timeline.entries:
        if entry.action == "clean" and not entry.done and entry.requested:
            _clean(target, entry.time, decode(CleanerPlan, target.store.read(entry.requested)))
            target.list_again()
    if not _is_due(target, every):
        return
    instant = _instant(target, _COMPACTION, before)
    slices = [file_slice for part in target.listed for file_slice in target.slices(part)]
    operations = tuple(
        CompactionOperation(
            base_instant_time=each.base.instant if each.base else instant,
            delta_file_paths=tuple(log.name for log in each.logs),
            data_file_path=each.base.name if each.base else None,
            file_id=each.file_id,
            partition_path=each.partition,
            metrics={},
        )
        for each in slices
        if each.logs
    )
    request(target.store, target.config, instant, "compaction", encode(CompactionPlan(operations=operations)))
    _compact(target, instant, [each for each in slices if each.logs])
    target.list_again()
    _clean_old(target, before)


def _is_due(target: Target, every: int) -> bool:
    last = max((e.time for e in target.timeline.commits if e.action == "commit"), default="")
    deltas = [e for e in target.timeline.commits if e.action == "deltacommit" and e.time > last]
    pending = {entry.time for entry in target.data.entries if not entry.done}
    if any(entry.action == "restore" and not entry.done for entry in target.data.entries):
        return False
    return len(deltas) >= every and not any(entry.time in pending for entry in target.timeline.commits)


def _instant(target: Target, suffix: str, before: str) -> str:
    if target.config.completion_times:
        early = following(greatest(target.timeline))
        return early if "" < early < before else target.new_instant()
    newest = max(e.time for e in target.timeline.commits if e.action == "deltacommit")
    return f"{newest}{suffix}"


def _planned(target: Target, plan: CompactionPlan) -> list[FileSlice]:
    """The slices of a plan, of those parts that are kept."""
    slices = []
    for each in plan.operations or ():
        part, file_id = each.partition_path or "", each.file_id or ""
        group = target.groups(part).get(file_id) if part in target.listed else None
        if group is not None:
            names = {path.rpartition("/")[2] for path in each.delta_file_paths or ()}
            base = next((b for b in group.bases if b.name == (each.data_file_path or "").rpartition("/")[2]), None)
            logs = [log for log in group.logs if log.name in names]
            ordered = sorted(logs, key=lambda log: (target.completed(log.instant), log.version, log.token))
            slices.append(FileSlice(part, file_id, base, tuple(ordered)))
    return slices


def _compact(target: Target, instant: str, slices: Sequence[FileSlice]) -> None:
    """Run a requested compaction. A run that was cut off is done again: its files have the same names."""
    store, config, version = target.store, target.config, target.described.version
    inflight(store, config, instant, "compaction")
    files, stats = {}, []
    for each in slices:
        keys, values = PARTS[each.partition].merge(version, [*target.reader.images(each)])
        name, data = f"{each.file_id}_{_TOKEN}_{instant}.hfile", base_file(version, keys, values)
        files[file_path(each.partition, name)] = data
        previous = each.base.instant if each.base else "null"
        counts = {
            "totalLogFilesCompacted": len(each.logs),
            "totalLogSizeCompacted": sum(log.size for log in each.logs),
            "totalLogBlocks": len(each.logs),
        }
        stats.append(
            stat_of(
                each.partition, each.file_id, name, len(data), previous, len(keys), updates=len(keys), log_stats=counts
            )
        )
    store.write_many(files)
    done = encoded(target, stats, "COMPACT", schema_text(version))
    complete(store, config, instant, target.new_instant(instant), "compaction", done)


def _clean_old(target: Target, before: str) -> None:
    """Delete file slices that none of the newest commits needs."""
    commits = target.timeline.commits
    earliest = commits[max(0, len(commits) - _COMMITS)]
    gone: dict[str, list[str]] = {}
    for part in target.listed:
        for group in target.groups(part).values():
            needed = max((base.instant for base in group.bases if base.instant <= earliest.time), default="")
            old = [base.name for base in group.bases if base.instant < needed]
            old += [log.name for log in group.logs if target.completed(log.instant) < needed]
            if old:
                gone.setdefault(part, []).extend(old)
    if not gone:
        return
    plan = CleanerPlan(
        earliest_instant_to_retain=ActionInstant(timestamp=earliest.time, action=earliest.action),
        policy=_POLICY,
        last_completed_commit_timestamp=commits[-1].time,
        file_paths_to_be_deleted_per_partition={
            part: tuple(CleanFileInfo(file_path=f"{target.store.location}/{part}/{name}") for name in sorted(names))
            for part, names in gone.items()
        },
    )
    instant = _instant(target, _CLEAN, before)
    request(target.store, target.config, instant, "clean", encode(plan))
    _clean(target, instant, plan)
    target.list_again()


def _clean(target: Target, instant: str, plan: CleanerPlan) -> None:
    store, config = target.store, target.config
    inflight(store, config, instant, "clean", encode(plan) if config.version < 9 else b"")
    names = {
        part: tuple((info.file_path or "").rpartition("/")[2] for info in infos)
        for part, infos in (plan.file_paths_to_be_deleted_per_partition or {}).items()
    }
    store.delete_many(file_path(part, name) for part, each in names.items() for name in each)
    metadata = CleanMetadata(
        start_clean_time=instant,
        time_taken_in_millis=0,
        total_files_deleted=sum(map(len, names.values())),
        earliest_commit_to_retain=plan.earliest_instant_to_retain.timestamp if plan.earliest_instant_to_retain else "",
        last_completed_commit_timestamp=plan.last_completed_commit_timestamp,
        partition_metadata={
            part: CleanPartitionMetadata(
                partition_path=part, policy=plan.policy, delete_path_patterns=each, success_delete_files=each
            )
            for part, each in names.items()
        },
    )
    complete(store, config, instant, target.new_instant(instant), "clean", encode(metadata))
