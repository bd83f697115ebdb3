"""Which file groups a compaction takes, and why. Pure; this is the dry run.

Rules: Hudi's `BaseHoodieCompactionPlanGenerator` and its `CompactionStrategy` classes. A file group takes part where
its slice has log files and no pending service has taken it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakebed.errors import counted
from lakebed.formats.hudi.codec.service_plans import ClusteringPlan, CompactionPlan, PlannedSlice
from lakebed.formats.hudi.rewrite import options as opt
from lakebed.formats.hudi.rewrite.partition_choice import BY_PARTITION, for_compaction
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.timeline.pending_services import PendingServices
from lakebed.kernel.options import Options
from lakebed.model.upkeep import RewriteGroup, Skipped

_MB = 1 << 20
_NEW_FILE = 120 << 20
"""What a file group without a base file is taken to write: `hoodie.parquet.max.file.size`."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, its groups as a dry run shows them, and what is left alone."""

    plan: CompactionPlan | ClusteringPlan
    groups: tuple[RewriteGroup, ...]
    skipped: tuple[Skipped, ...]


def plan_compaction(slices: Iterable[FileSlice], pending: PendingServices, options: Options) -> Planned:
    """Choose among the newest slices of file groups, by one strategy after the other."""
    chosen: list[FileSlice] = []
    skipped: list[Skipped] = []
    for each in slices:
        instant = pending.taken((each.partition, each.file_id))
        if instant:
            skipped.append(Skipped(slice_name(each), f"the pending table service {instant} has taken it"))
        elif each.logs:
            chosen.append(each)
    for strategy in options[opt.STRATEGY]:
        chosen, left = _chosen(strategy, chosen, options)
        skipped += left
    return Planned(CompactionPlan(tuple(map(operation_of, chosen))), tuple(map(_group, chosen)), tuple(skipped))


def _chosen(strategy: str, slices: list[FileSlice], options: Options) -> tuple[list[FileSlice], list[Skipped]]:
    """The slices that a strategy takes, in its order, and why it leaves the others."""
    if strategy in BY_PARTITION:
        paths = for_compaction(strategy, sorted({each.partition for each in slices}), options)
        kept = [each for path in paths for each in slices if each.partition == path]
        why = f"{opt.STRATEGY.key} = {strategy} leaves its partition out"
        return kept, [Skipped(slice_name(each), why) for each in slices if each.partition not in paths]
    skipped = [Skipped(slice_name(each), why) for each in slices if (why := _too_little(each, strategy, options))]
    kept = [each for each in slices if not _too_little(each, strategy, options)]
    if strategy == "LogFileSizeBased":
        kept.sort(key=_log_bytes, reverse=True)
    elif strategy == "LogFileNumBased":
        kept.sort(key=lambda each: len(each.logs), reverse=True)
    taken = kept if strategy == "UnBounded" else _within(kept, options[opt.TARGET_IO])
    beyond = f"the plan reaches {opt.TARGET_IO.key} = {options[opt.TARGET_IO]} MB without it"
    return taken, [*skipped, *(Skipped(slice_name(each), beyond) for each in kept[len(taken) :])]


def _too_little(each: FileSlice, strategy: str, options: Options) -> str:
    if strategy == "LogFileNumBased" and len(each.logs) < options[opt.LOG_NUMBER]:
        return f"its log has {counted(len(each.logs), 'file')}, fewer than {opt.LOG_NUMBER.key}"
    if strategy == "LogFileSizeBased" and _log_bytes(each) < options[opt.LOG_SIZE]:
        return f"its log has {_log_bytes(each)} bytes, fewer than {opt.LOG_SIZE.key}"
    return ""


def _within(slices: list[FileSlice], target: int) -> list[FileSlice]:
    """The first slices, up to the one that reaches the target of MB."""
    left, taken = target, []
    for each in slices:
        taken.append(each)
        left -= int(_metrics(each)["TOTAL_IO_MB"])
        if left <= 0:
            break
    return taken


def operation_of(each: FileSlice) -> PlannedSlice:
    """A slice as the plan of a compaction names it."""
    first = each.base.instant if each.base else each.logs[0].instant
    names = tuple(log.name for log in each.logs)
    return PlannedSlice(each.partition, each.file_id, each.base.name if each.base else "", names, first, _metrics(each))


def _metrics(each: FileSlice) -> dict[str, float]:
    base = each.base.size if each.base else 0
    read, write = (base + _log_bytes(each)) // _MB, (base or _NEW_FILE) // _MB
    return {
        "TOTAL_LOG_FILES": float(len(each.logs)),
        "TOTAL_IO_READ_MB": float(read),
        "TOTAL_IO_WRITE_MB": float(write),
        "TOTAL_IO_MB": float(read + write),
        "TOTAL_LOG_FILES_SIZE": float(_log_bytes(each)),
    }


def _group(each: FileSlice) -> RewriteGroup:
    return about(each, f"its log has {counted(len(each.logs), 'file')} of {_log_bytes(each)} bytes")


def about(each: FileSlice, reason: str) -> RewriteGroup:
    """A slice as a dry run shows it."""
    files = len(each.logs) + bool(each.base)
    return RewriteGroup(slice_name(each), files, each.size, 1, each.base.size if each.base else each.size, reason)


def _log_bytes(each: FileSlice) -> int:
    return sum(log.size for log in each.logs)


def slice_name(each: FileSlice) -> str:
    """The name of a file group in reports and errors."""
    return f"{each.partition}/{each.file_id}" if each.partition else each.file_id
