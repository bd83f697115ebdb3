"""Which file groups a clustering joins, and the task that does it.

Rules: Hudi's `SparkSizeBasedClusteringPlanStrategy` (small base files of a partition, largest first, in groups of
bounded bytes), `ClusteringPlanPartitionFilter`, and `SparkSortAndSizeExecutionStrategy`. lakebed adds one rule: a file
group that would be rewritten alone and unsorted is left, so that a second run plans nothing. Rows keep the meta columns
that they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from lakebed.errors import counted
from lakebed.formats.hudi.codec.service_plans import SORT_COLUMNS, ClusteringGroup, ClusteringPlan, PlannedSlice
from lakebed.formats.hudi.metadata_table.change import NEW_GROUP, WrittenFile
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.rewrite import options as opt
from lakebed.formats.hudi.rewrite.arrange import RowOrder
from lakebed.formats.hudi.rewrite.partition_choice import for_clustering
from lakebed.formats.hudi.rewrite.plan import Planned
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.timeline.pending_services import PendingServices
from lakebed.formats.hudi.write.assign import new_file_id
from lakebed.formats.hudi.write.base_file import BaseFileWriter
from lakebed.formats.hudi.write.files import FileTarget, new_token
from lakebed.kernel.options import Options
from lakebed.kernel.sorting import sorted_batches
from lakebed.model.upkeep import RewriteGroup, Skipped

_NEW_FILE = 120 << 20
"""What a file group without a base file counts as: `hoodie.parquet.max.file.size`."""


def plan_clustering(slices: Iterable[FileSlice], pending: PendingServices, options: Options) -> Planned:
    """Choose among the newest slices of file groups."""
    by_partition = {key: [*each] for key, each in groupby(sorted(slices, key=_partition), _partition)}
    wanted = for_clustering(sorted(by_partition), options)
    left = "the options of the clustering leave the partition out"
    skipped = [Skipped(path, left) for path in by_partition if path not in wanted]
    alone = options[opt.PLAN_STRATEGY] == "SingleFileSort"
    groups: list[list[FileSlice]] = []
    for path in wanted:
        small = []
        for each in by_partition[path]:
            why = _why_not(each, pending, options)
            if why:
                skipped.append(Skipped(_name(each), why))
            else:
                small.append(each)
        for group in [[each] for each in small] if alone else _grouped(small, options[opt.GROUP_BYTES]):
            sorts = options[opt.SORT_COLUMNS] and (alone or options[opt.SINGLE_GROUP])
            if len(group) == 1 and not sorts:
                skipped.append(Skipped(_name(group[0]), "there is no other small file to join it with"))
            else:
                groups.append(group)
    beyond = f"the plan has {opt.MAX_GROUPS.key} = {counted(options[opt.MAX_GROUPS], 'group')} without it"
    skipped += [Skipped(_name(each), beyond) for group in groups[options[opt.MAX_GROUPS] :] for each in group]
    groups = groups[: options[opt.MAX_GROUPS]]
    sort = options[opt.SORT_COLUMNS]
    parameters = {SORT_COLUMNS: sort, opt.LAYOUT.key: options[opt.LAYOUT].replace("-", "").upper()} if sort else {}
    if options.given(opt.TARGET_FILE):
        parameters[opt.TARGET_FILE.key] = str(options[opt.TARGET_FILE])
    target = options[opt.TARGET_FILE]
    plan = ClusteringPlan(tuple(planned_group(group, _outputs(group, target)) for group in groups), parameters)
    return Planned(plan, tuple(_about(group, target) for group in groups), tuple(skipped))


def _why_not(each: FileSlice, pending: PendingServices, options: Options) -> str:
    instant = pending.taken((each.partition, each.file_id))
    if instant:
        return f"the pending table service {instant} has taken it"
    if each.base and each.base.size >= options[opt.SMALL_FILE]:
        return f"its base file has {each.base.size} bytes, {opt.SMALL_FILE.key} or more"
    return ""


def _grouped(slices: list[FileSlice], most: int) -> Iterator[list[FileSlice]]:
    group: list[FileSlice] = []
    size = 0
    for each in sorted(slices, key=_bytes, reverse=True):
        if group and size + _bytes(each) > most:
            yield group
            group, size = [], 0
        group.append(each)
        size += _bytes(each)
    if group:
        yield group


def planned_group(group: Sequence[FileSlice], outputs: int) -> ClusteringGroup:
    """File slices as a plan has them, which become so many file groups."""
    slices = tuple(
        PlannedSlice(s.partition, s.file_id, s.base.name if s.base else "", tuple(log.name for log in s.logs))
        for s in group
    )
    logs = [log for s in group for log in s.logs]
    read = sum(s.size for s in group) >> 20
    written = sum(map(_bytes, group)) >> 20
    metrics = {
        "TOTAL_LOG_FILES": float(len(logs)),
        "TOTAL_IO_READ_MB": float(read),
        "TOTAL_IO_WRITE_MB": float(written),
        "TOTAL_IO_MB": float(read + written),
        "TOTAL_LOG_FILES_SIZE": float(sum(log.size for log in logs)),
    }
    return ClusteringGroup(slices, outputs, metrics)


def _about(group: Sequence[FileSlice], target: int) -> RewriteGroup:
    files = sum(bool(s.base) + len(s.logs) for s in group)
    size = sum(s.size for s in group)
    reason = f"{counted(len(group), 'file group')} below the limit of small files"
    return RewriteGroup(group[0].partition, files, size, _outputs(group, target), size, reason)


def _outputs(group: Sequence[FileSlice], target: int) -> int:
    return -(-sum(map(_bytes, group)) // target)


def _bytes(each: FileSlice) -> int:
    return each.base.size if each.base else _NEW_FILE


def _partition(each: FileSlice) -> str:
    return each.partition


def _name(each: FileSlice) -> str:
    return f"{each.partition}/{each.file_id}" if each.partition else each.file_id


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """What one task does: the slices of a group, all of one partition. `number` is its place in the plan."""

    number: int
    slices: tuple[PlannedSlice, ...]


@dataclass(frozen=True, slots=True)
class Clusterer:
    """Writes the rows of groups into new file groups. Picklable. `file_bytes` is where a new file begins."""

    reader: SliceReader
    target: FileTarget
    order: RowOrder | None
    file_bytes: int

    def __call__(self, task: ClusterTask) -> list[WrittenFile]:
        """Write the new base files of a group. Those of a task that fails are removed with its instant."""
        batches = self.rows(task)
        if self.order is not None:
            batches = sorted_batches(batches, self.order)
        written: list[WrittenFile] = []
        writer: BaseFileWriter | None = None
        partition = task.slices[0].partition
        try:
            for batch in batches:
                if writer is not None and writer.size >= self.file_bytes:
                    written.append(writer.close(NEW_GROUP))
                    writer = None
                if writer is None:
                    writer = BaseFileWriter(self.target, partition, new_file_id(), new_token(task.number))
                writer.write(batch)
            if writer is not None:
                written.append(writer.close(NEW_GROUP))
        except BaseException:
            if writer is not None:
                writer.abort()
            raise
        return written

    def rows(self, task: ClusterTask) -> Iterator[pa.RecordBatch]:
        """The merged rows of a group, slice after slice."""
        names = [name for name in self.target.kept_schema.names if name in self.reader.table_schema.names]
        for part in task.slices:
            prefix = f"{part.partition}/" if part.partition else ""
            logs = tuple(prefix + name for name in part.logs)
            paths = SlicePaths(part.partition, part.file_id, prefix + part.base if part.base else "", logs)
            for batch in self.reader.open(paths, tuple(names)).rows():
                yield batch.select(names)
