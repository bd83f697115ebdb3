"""Rewriting position delete files: many small ones of a partition become few, without rows that delete nothing.

Rules: the reference engine's RewritePositionDeleteFilesSparkAction and BinPackRewritePositionDeletePlanner: the sizes,
groups and defaults of a rewrite of data files around `write.delete.target-file-size-bytes`. A row is kept where its
delete file applies to a live data file of that path; a new file gets the greatest data sequence number of its group.

Format version 3 has no position delete files but those from before an upgrade: all of them become deletion vectors, for
a vector hides every position delete of its data file, so none may stay behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lakebed.errors import CommitUnknownError, LakebedError, OptionError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.manifest import COLUMNS
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.commit import kinds
from lakebed.formats.iceberg.data_files import Content, DeleteFile, FileTask, delete_files, partition_key
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import partition_path
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.deletes import deleted_positions, positions_by_path
from lakebed.formats.iceberg.read.plan import BySpec, kept_manifests, unpartitioned
from lakebed.formats.iceberg.read.pruning import STATS_USED, Pruning
from lakebed.formats.iceberg.read.task import predicate_schema
from lakebed.formats.iceberg.rewrite import options as opt
from lakebed.formats.iceberg.rewrite.plan import PLAN_SCHEMA, Plan, PlannedGroup, plan_groups
from lakebed.formats.iceberg.write.file_sizes import FileSizes
from lakebed.formats.iceberg.write.options import GRANULARITY
from lakebed.formats.iceberg.write.row_deletes import DeleteWriter
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options, OptionSet
from lakebed.kernel.packing import next_fit
from lakebed.kernel.predicates.where import Where, parse_where
from lakebed.model.upkeep import RewriteResult, Skipped

TABLE_TARGET = "write.delete.target-file-size-bytes"
"""The table property that holds where the call names no target."""
OPTIONS = OptionSet(
    (
        opt.TARGET, opt.MIN_SIZE, opt.MAX_SIZE, opt.MIN_INPUT_FILES, opt.MAX_GROUP_SIZE, opt.MAX_GROUP_FILES,
        opt.REWRITE_ALL, opt.MAX_FILES, opt.JOB_ORDER, opt.BRANCH, GRANULARITY,
    ),
    "a rewrite of Iceberg position delete files", prefixes=("lakebed.storage.", "lakebed.catalog."),
)  # fmt: skip
_DEFAULT_TARGET = 64 << 20
_HELD_ROWS = 32 << 20
"""Rows of delete files that a task holds at a time, but for a single file of more."""
_VECTORS = 1000
"""Deletion vectors of one Puffin file, at most."""


def rewrite_position_deletes(
    operations: TableOperations, branch: str, where: Where, given: Mapping[str, object],
    commit_options: Mapping[str, str], dry_run: bool, engine: Engine | None,
) -> RewriteResult:  # fmt: skip
    """Rewrite the position delete files of a branch in one REPLACE snapshot; the rows of the table stay as they are.

    `where` chooses partitions that may hold a matching row. The result counts delete files and their bytes;
    `removed_deletes` are those that went, `plan` and `skipped` say why. OptionError for an option that is unknown or
    out of range, CommitConflictError when others rewrote or removed the same delete files meanwhile.
    """
    options = OPTIONS.parse(given)
    metadata = operations.load().metadata
    branch = options[opt.BRANCH] if options.given(opt.BRANCH) else branch
    snapshot = metadata.head(branch)
    pruning = Pruning.of(parse_where(where, predicate_schema(ReadContext.of(metadata))), metadata.schema)
    rules = _rules(options, metadata)
    granularity = options[GRANULARITY] or metadata.properties.get("write.delete.granularity", "partition")
    deletes = list(_position_deletes(operations.files, metadata, snapshot, pruning))
    planned = _planned(deletes, metadata, rules, granularity)
    result = _predicted(planned, dry_run)
    if dry_run or not planned.plan.groups or snapshot is None:
        return result
    tasks = _tasks(operations.files, metadata, snapshot, planned)
    runner = _Runner(operations.files, DeleteWriter.of(operations.files, metadata, granularity), rules.sizes)
    made: list[DeleteFile] = []
    try:
        for done in (engine or LocalEngine()).map(runner, tasks):
            made += done.files
            if done.error is not None:
                raise done.error
    except BaseException:
        _remove(operations.files, made)
        raise
    removed = [file for task in tasks for file in task.deletes]
    try:
        instant = kinds.replace(
            operations, snapshot.snapshot_id, removed, (), added_deletes=made, branch=branch, options=commit_options
        ).instant
    except CommitUnknownError:
        raise
    except Exception:  # an interrupt says nothing of the outcome: the files are left to orphan removal then
        _remove(operations.files, made)
        raise
    return replace(
        result, files_after=len(made), bytes_after=sum(map(_bytes, made)), instants=(instant,),
        removed_deletes=len(removed),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Planned:
    """The position delete files of a snapshot, and which groups of them are rewritten."""

    deletes: Sequence[DeleteFile]
    plan: Plan

    def files(self, group: PlannedGroup) -> list[DeleteFile]:
        """The delete files of a group."""
        return [self.deletes[row] for row in group.rows.tolist()]


@dataclass(frozen=True, slots=True)
class _Task:
    """Delete files that are rewritten together, and the live data files, each with those of them that apply to it."""

    deletes: tuple[DeleteFile, ...]
    inputs: tuple[FileTask, ...]


@dataclass(frozen=True, slots=True)
class _Done:
    """The new delete files of a task; with an error there are none."""

    files: list[DeleteFile] = field(default_factory=list)
    error: Exception | None = None


def _rules(options: Options, metadata: TableMetadata) -> opt.PlanRules:
    """The planner's rules; all delete files of one partition are of the planner's own spec."""
    target = options[opt.TARGET]
    if target is None:
        text = metadata.properties.get(TABLE_TARGET, str(_DEFAULT_TARGET)).strip()
        if not text.isdigit() or int(text) < 1:
            raise OptionError.ill_typed(TABLE_TARGET, text, "a table property with a number of bytes above 0")
        target = int(text)
    return opt.PlanRules(
        opt.checked_sizes(FileSizes.around(target, options[opt.MIN_SIZE], options[opt.MAX_SIZE])),
        min_input_files=options[opt.MIN_INPUT_FILES], max_group_bytes=options[opt.MAX_GROUP_SIZE],
        max_group_files=options[opt.MAX_GROUP_FILES], max_files=options[opt.MAX_FILES],
        rewrite_all=options[opt.REWRITE_ALL] or metadata.format_version > 2, job_order=options[opt.JOB_ORDER],
    )  # fmt: skip


def _position_deletes(
    files: Files, metadata: TableMetadata, snapshot: Snapshot | None, pruning: Pruning
) -> Iterator[DeleteFile]:
    """The live position delete files (no vectors) of the partitions that pruning leaves."""
    if snapshot is None:
        return
    _, found = kept_manifests(metadata, manifests_of(files, metadata, snapshot), pruning)
    for spec_id, manifests in found.items():
        for entries in iter_entries(files, metadata, manifests, (*COLUMNS, *STATS_USED)):
            wanted = pruning.entries(entries, metadata.specs[spec_id])
            content, kind = entries["content"].to_numpy(), np.array(entries["file_format"].to_pylist(), object)
            wanted &= (content == Content.POSITION_DELETES) & (kind != "PUFFIN")
            yield from delete_files(entries.filter(pa.array(wanted)))


def _planned(
    deletes: Sequence[DeleteFile], metadata: TableMetadata, rules: opt.PlanRules, granularity: str
) -> _Planned:
    """The groups. Where each data file has delete files of its own, one alone is left as it is: it would become one
    again."""
    lone: list[Skipped] = []
    if granularity == "file" and not rules.rewrite_all:
        alone = _once(one.referenced_data_file for one in deletes)
        kept = [one for one in deletes if one.referenced_data_file not in alone or one.size > rules.sizes.greatest]
        if len(kept) < len(deletes):
            left = len(deletes) - len(kept)
            lone = [Skipped("the table", f"{left} delete files are the only one of their data file, as they shall be")]
        deletes = kept
    keys = [_name(metadata, one) for one in deletes]
    rows = len(deletes)
    table = pa.table(
        [
            [one.size for one in deletes], [one.record_count for one in deletes], [rules.output_spec] * rows, keys,
            [0] * rows, [0] * rows,
        ],
        schema=PLAN_SCHEMA,
    )  # fmt: skip
    plan = plan_groups(table, rules)
    return _Planned(deletes, Plan(plan.groups, (*plan.skipped, *lone)))


def _name(metadata: TableMetadata, file: DeleteFile) -> str:
    """The partition of a delete file; "" for the table as a whole."""
    path = partition_path(metadata.specs[file.spec_id], file.partition)
    return path if file.spec_id == metadata.default_spec_id else f"{path} (spec {file.spec_id})".strip()


def _once(names: Iterable[str | None]) -> set[str]:
    """The names that are there once."""
    seen: dict[str, int] = {}
    for name in names:
        if name is not None:
            seen[name] = seen.get(name, 0) + 1
    return {name for name, count in seen.items() if count == 1}


def _predicted(planned: _Planned, dry_run: bool) -> RewriteResult:
    about = [group.about for group in planned.plan.groups]
    return RewriteResult(
        sum(one.files for one in about), sum(one.files_after for one in about), sum(one.size for one in about),
        sum(one.size_after for one in about), len(about), planned.plan.skipped, dry_run, tuple(about),
    )  # fmt: skip


def _tasks(files: Files, metadata: TableMetadata, snapshot: Snapshot, planned: _Planned) -> list[_Task]:
    """The groups, cut where their rows would be too many to hold, each with the data files that it is about.

    In format version 3 all is one group, cut by data files, and a vector takes the positions of every delete file of
    its data file, chosen or not, for it hides them.
    """
    groups = [planned.files(group) for group in planned.plan.groups]
    if metadata.format_version > 2:
        together = [file for group in groups for file in group]
        chosen = {file.path for file in together}
        every = list(_position_deletes(files, metadata, snapshot, Pruning.of(None, metadata.schema)))
        found = _inputs(files, metadata, snapshot, [every])[0]
        inputs = [one for one in found if any(delete.path in chosen for delete in one.deletes)]
        starts = range(0, max(1, len(inputs)), _VECTORS)
        return [_Task(() if start else tuple(together), tuple(inputs[start : start + _VECTORS])) for start in starts]
    cut: list[list[DeleteFile]] = []
    for group in groups:
        counts = np.array([file.record_count for file in group], np.int64)
        starts = next_fit(np.zeros(len(group), np.int64), counts, _HELD_ROWS, len(group)).tolist()
        cut += [group[start:end] for start, end in zip(starts, [*starts[1:], len(group)], strict=True)]
    applying = _inputs(files, metadata, snapshot, cut)
    return [_Task(tuple(group), inputs) for group, inputs in zip(cut, applying, strict=True)]


def _inputs(
    files: Files, metadata: TableMetadata, snapshot: Snapshot, groups: Sequence[Sequence[DeleteFile]]
) -> list[tuple[FileTask, ...]]:
    """For each group the live data files to which a delete file of it applies, each with those of the group."""
    specs = unpartitioned(metadata)
    indices = [DeleteIndex(group, specs) for group in groups]
    found: list[list[FileTask]] = [[] for _ in groups]
    data, others = kept_manifests(metadata, manifests_of(files, metadata, snapshot), None)
    hidden = _with_vectors(files, metadata, others) if metadata.format_version > 2 else set()
    for manifests in data.values():
        for entries in iter_entries(files, metadata, manifests):
            for index, inputs in zip(indices, found, strict=True):
                tasks = index.tasks(entries, index.touched(entries))
                inputs += [task for task in tasks if task.deletes and task.data.path not in hidden]
    return [tuple(inputs) for inputs in found]


def _with_vectors(files: Files, metadata: TableMetadata, manifests: BySpec) -> set[str]:
    """The data files that have a deletion vector: position deletes say nothing of them any more."""
    found: set[str] = set()
    for some in manifests.values():
        for entries in iter_entries(files, metadata, some):
            found |= {one.referenced_data_file or "" for one in delete_files(entries) if one.is_vector}
    return found


@dataclass(frozen=True, slots=True)
class _Runner:
    """The function that runs tasks on an engine. Picklable."""

    files: Files
    writer: DeleteWriter
    sizes: FileSizes

    def __call__(self, task: _Task) -> _Done:
        """The new delete files of a task; after an error none stays."""
        made: list[DeleteFile] = []
        try:
            for one in self._vectors(task) if self.writer.vectors else self._files(task):
                made.append(one)
        except Exception as error:  # noqa: BLE001  # told to the caller, who cleans up after all tasks
            _remove(self.files, made)
            return _Done(error=error)
        return _Done(made)

    def _vectors(self, task: _Task) -> Iterable[DeleteFile]:
        found = []
        numbers = {}
        for one in task.inputs:
            positions = deleted_positions(self.files, one)
            if positions is not None:
                found.append((replace(one, deletes=()), positions))
                numbers[one.data.path] = max(delete.sequence_number or 0 for delete in one.deletes)
        for file in self.writer.write(found).added:
            yield replace(file, sequence_number=numbers[file.referenced_data_file or ""])

    def _files(self, task: _Task) -> Iterable[DeleteFile]:
        number = max(file.sequence_number or 0 for file in task.deletes)
        size, rows = sum(file.size for file in task.deletes), sum(file.record_count for file in task.deletes)
        places: dict[object, list[tuple[FileTask, Int64s]]] = {}
        for one, positions in self._positions(task):
            place = (one.data.spec_id, partition_key(one.data.partition))
            key = (place, one.data.path) if not self.writer.by_partition else place
            places.setdefault(key, []).append((one, positions))
        for found in places.values():
            kept = sum(len(positions) for _, positions in found)
            for part in _runs(found, self.sizes.expected(size * kept // max(1, rows))):
                yield replace(self.writer.position_file(part), sequence_number=number)

    def _positions(self, task: _Task) -> list[tuple[FileTask, Int64s]]:
        """The positions that really delete rows, by data file in the order of paths."""
        inputs = {one.data.path: one for one in task.inputs}
        applying = {(one.data.path, delete.path) for one in task.inputs for delete in one.deletes}
        found: dict[str, list[Int64s]] = {}
        for delete in task.deletes:
            for path, positions in positions_by_path(self.files, delete, delete.referenced_data_file).items():
                if (path, delete.path) in applying:
                    found.setdefault(path, []).append(positions)
        return [(inputs[path], np.unique(np.concatenate(found[path]))) for path in sorted(found)]


def _runs(found: Sequence[tuple[FileTask, Int64s]], count: int) -> Iterator[list[tuple[FileTask, Int64s]]]:
    """Int64s in `count` runs of about as many rows each; a data file may be in several."""
    rows = sum(len(positions) for _, positions in found)
    ends = [rows * (place + 1) // count for place in range(count)]
    run: list[tuple[FileTask, Int64s]] = []
    at = 0
    for task, positions in found:
        while len(positions):
            some = positions[: ends[0] - at]
            if len(some):
                run.append((task, some))
            at, positions = at + len(some), positions[len(some) :]
            if at == ends[0]:
                if run:
                    yield run
                ends, run = ends[1:], []


def _bytes(file: DeleteFile) -> int:
    """What a delete file takes; of a Puffin file with several vectors its own part."""
    return file.content_size if file.is_vector and file.content_size is not None else file.size


def _remove(files: Files, made: Sequence[DeleteFile]) -> None:
    """Remove new delete files, as far as the store lets us; what stays, orphan removal finds."""
    try:
        files.delete_many({file.path for file in made})
    except (LakebedError, OSError):
        return
