"""Rewriting position delete files: many small ones of a partition become few, without rows that delete nothing.

Rules: the reference engine's RewritePositionDeleteFilesSparkAction and BinPackRewritePositionDeletePlanner. Sizes,
groups and defaults are those of a rewrite of data files, around `write.delete.target-file-size-bytes`.

Format version 3 has no position delete files but those from before an upgrade. All of them become deletion vectors: a
vector hides every position delete of its data file, so none may stay behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakebed.errors import OptionError, counted
from lakebed.formats.iceberg.catalog.operations import TableOperations, refuse_writing
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import Content, DeleteFile, FileTask, delete_files
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import partition_path
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.plan import BySpec, kept_manifests, pruned_deletes, unpartitioned
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.read.task import predicate_schema
from lakebed.formats.iceberg.rewrite import options as opt
from lakebed.formats.iceberg.rewrite.new_deletes import Replacement
from lakebed.formats.iceberg.rewrite.packing import next_fit
from lakebed.formats.iceberg.rewrite.plan import PLAN_SCHEMA, Plan, PlannedGroup, plan_groups
from lakebed.formats.iceberg.rewrite.position_delete_task import PositionDeleteRunner, PositionDeleteTask
from lakebed.formats.iceberg.write.file_sizes import FileSizes
from lakebed.formats.iceberg.write.options import GRANULARITY
from lakebed.formats.iceberg.write.row_deletes import DeleteWriter
from lakebed.kernel.again import looks_again
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options, OptionSet
from lakebed.kernel.predicates.where import Where, parse_where, unread_parts
from lakebed.kernel.sizing.finalize import writers_at_once
from lakebed.model.upkeep import RewriteResult, Skipped

TABLE_TARGET = "write.delete.target-file-size-bytes"
"""The table property that holds when the call names no target."""
OPTIONS = OptionSet(
    (
        opt.TARGET, opt.MIN_SIZE, opt.MAX_SIZE, opt.MIN_INPUT_FILES, opt.MAX_GROUP_SIZE, opt.MAX_GROUP_FILES,
        opt.REWRITE_ALL, opt.MAX_FILES, opt.JOB_ORDER, opt.BRANCH, GRANULARITY,
    ),
    "a rewrite of Iceberg position delete files", prefixes=("lakebed.storage.", "lakebed.catalog."),
)  # fmt: skip
_DEFAULT_TARGET = 64 << 20
_HELD_ROWS = 32 << 20
"""How many rows of delete files a task holds at a time, unless a single file has more."""
_VECTORS = 1000
"""How many deletion vectors one Puffin file has, at most."""


@dataclass(frozen=True, slots=True)
class PositionDeleteRewrite:
    """A planned rewrite of the position delete files of one branch.

    `snapshot` is the one that was planned from, None for an empty table. `deletes` are its position delete files,
    `plan` says which groups of them are rewritten.
    """

    operations: TableOperations
    metadata: TableMetadata
    snapshot: Snapshot | None
    branch: str
    granularity: str
    rules: opt.PlanRules
    deletes: Sequence[DeleteFile]
    plan: Plan
    commit_options: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @classmethod
    @looks_again
    def planned(
        cls, operations: TableOperations, branch: str, where: Where, given: Mapping[str, object],
        commit_options: Mapping[str, str] = {},
    ) -> PositionDeleteRewrite:  # fmt: skip
        """Decide what to do; nothing is changed. `where` chooses partitions that may hold a matching row.

        `commit_options` are the table's options that say how a commit is retried. OptionError for an option that is
        unknown or out of range.
        """
        options = OPTIONS.parse(given)
        loaded = operations.load()
        refuse_writing(operations, loaded)
        metadata = loaded.metadata
        branch = options[opt.BRANCH] if options.given(opt.BRANCH) else branch
        snapshot = metadata.head(branch)
        pruning = Pruning(parse_where(where, predicate_schema(ReadContext.of(metadata))), metadata.schema)
        rules = _rules(options, metadata)
        granularity = options[GRANULARITY] or metadata.properties.get("write.delete.granularity", "partition")
        deletes = list(pruned_deletes(operations.files, metadata, snapshot, pruning, Content.POSITION_DELETES))
        deletes, alone = _without_lone_files(deletes, rules, granularity)
        plan = plan_groups(_planner_table(deletes, metadata, rules), rules)
        plan = Plan(plan.groups, (*plan.skipped, *alone))
        notes = unread_parts(pruning.predicate, filters_rows=False)
        return cls(operations, metadata, snapshot, branch, granularity, rules, deletes, plan, commit_options, notes)

    def run(self, dry_run: bool = False, engine: Engine | None = None) -> RewriteResult:
        """Rewrite the planned delete files in one REPLACE snapshot; the rows of the table stay as they are.

        The result counts delete files and their bytes. `removed_deletes` counts those that went, `plan` and `skipped`
        say why. CommitConflictError when others rewrote or removed the same delete files meanwhile.
        """
        result = self.plan.predicted(self.notes, dry_run)
        if dry_run or not self.plan.groups or self.snapshot is None:
            return result
        files = self.operations.files
        tasks = _tasks(self, self.snapshot)
        runner = PositionDeleteRunner(files, DeleteWriter.of(files, self.metadata, self.granularity), self.rules.sizes)
        removed = [delete for task in tasks for delete in task.deletes]
        replacement = Replacement(self.operations, self.snapshot.snapshot_id, self.branch, self.commit_options)
        on = _engine_for(tasks, files, engine or LocalEngine())
        instant, written = replacement.run(on, runner, tasks, removed)
        return replace(
            result,
            files_after=len(written),
            bytes_after=sum(delete.stored_bytes for delete in written),
            instants=(instant,),
            removed_deletes=len(removed),
        )

    def files(self, group: PlannedGroup) -> list[DeleteFile]:
        """The delete files of a group."""
        return [self.deletes[row] for row in group.rows.tolist()]


# ---- planning --------------------------------------------------------------------------------------------------------


def _rules(options: Options, metadata: TableMetadata) -> opt.PlanRules:
    """The planner's rules. The output spec is the planner's own: all delete files of a partition count as its files."""
    target = options[opt.TARGET]
    if target is None:
        text = metadata.properties.get(TABLE_TARGET, str(_DEFAULT_TARGET)).strip()
        if not text.isdigit() or int(text) < 1:
            raise OptionError.ill_typed(TABLE_TARGET, text, "a table property with a number of bytes above 0")
        target = int(text)
    return opt.PlanRules(
        opt.checked_sizes(FileSizes.around(target, options[opt.MIN_SIZE], options[opt.MAX_SIZE])),
        min_input_files=options[opt.MIN_INPUT_FILES],
        max_group_bytes=options[opt.MAX_GROUP_SIZE],
        max_group_files=options[opt.MAX_GROUP_FILES],
        max_files=options[opt.MAX_FILES],
        rewrite_all=options[opt.REWRITE_ALL] or metadata.format_version > 2,
        job_order=options[opt.JOB_ORDER],
    )


def _without_lone_files(
    deletes: list[DeleteFile], rules: opt.PlanRules, granularity: str
) -> tuple[list[DeleteFile], list[Skipped]]:
    """The delete files to plan, and why others are left out.

    When each data file has delete files of its own, the only one of a data file stays as it is: it would become one
    file again.
    """
    if granularity != "file" or rules.rewrite_all:
        return deletes, []
    alone = _unique(delete.referenced_data_file for delete in deletes)
    kept = [d for d in deletes if d.referenced_data_file not in alone or d.size > rules.sizes.greatest]
    if len(kept) == len(deletes):
        return deletes, []
    count = len(deletes) - len(kept)
    own = counted(
        count, "delete file is the only one of its data file", "delete files: each is the only one of its data file"
    )
    return kept, [Skipped("the table", f"{own}, as it should be")]


def _unique(names: Iterable[str | None]) -> set[str]:
    """The names that occur once."""
    counts: dict[str, int] = {}
    for name in names:
        if name is not None:
            counts[name] = counts.get(name, 0) + 1
    return {name for name, count in counts.items() if count == 1}


def _planner_table(deletes: Sequence[DeleteFile], metadata: TableMetadata, rules: opt.PlanRules) -> pa.Table:
    """The delete files as the planner's input, `PLAN_SCHEMA`."""
    rows = len(deletes)
    return pa.table(
        [
            [delete.size for delete in deletes],
            [delete.record_count for delete in deletes],
            [rules.output_spec] * rows,
            [_partition_name(metadata, delete) for delete in deletes],
            [0] * rows,
            [0] * rows,
        ],
        schema=PLAN_SCHEMA,
    )


def _partition_name(metadata: TableMetadata, file: DeleteFile) -> str:
    """The partition of a delete file as text; "" for the table as a whole."""
    path = partition_path(metadata.specs[file.spec_id], file.partition)
    return path if file.spec_id == metadata.default_spec_id else f"{path} (spec {file.spec_id})".strip()


def _engine_for(tasks: Sequence[PositionDeleteTask], files: Files, engine: Engine) -> Engine:
    """The engine, with more threads where it runs here and small tasks mostly wait for a store."""
    if not isinstance(engine, LocalEngine):
        return engine
    size = sum(delete.size for task in tasks for delete in task.deletes)
    threads = writers_at_once(engine.parallelism, files.home.at_once, len(tasks), size)
    return LocalEngine(threads) if threads > engine.parallelism else engine


# ---- tasks -----------------------------------------------------------------------------------------------------------


def _tasks(rewrite: PositionDeleteRewrite, snapshot: Snapshot) -> list[PositionDeleteTask]:
    """The groups as tasks, each with the data files that its deletes are about. Groups with more rows than a task can
    hold are cut.

    In format version 3 everything is one group, cut by data files. A vector takes the positions of every delete file of
    its data file, chosen or not, since it hides them all.
    """
    files, metadata = rewrite.operations.files, rewrite.metadata
    groups = [rewrite.files(group) for group in rewrite.plan.groups]
    if metadata.format_version > 2:
        chosen = [delete for group in groups for delete in group]
        paths = {delete.path for delete in chosen}
        every = list(
            pruned_deletes(files, metadata, snapshot, Pruning(None, metadata.schema), Content.POSITION_DELETES)
        )
        (data_files,) = _inputs(files, metadata, snapshot, [every])
        inputs = [file for file in data_files if any(delete.path in paths for delete in file.deletes)]
        return [
            PositionDeleteTask(() if start else tuple(chosen), tuple(inputs[start : start + _VECTORS]))
            for start in range(0, max(1, len(inputs)), _VECTORS)
        ]
    parts: list[list[DeleteFile]] = []
    for group in groups:
        counts = np.array([delete.record_count for delete in group], np.int64)
        starts = next_fit(np.zeros(len(group), np.int64), counts, _HELD_ROWS, len(group)).tolist()
        parts += [group[start:end] for start, end in zip(starts, [*starts[1:], len(group)], strict=True)]
    inputs_of_parts = _inputs(files, metadata, snapshot, parts)
    return [PositionDeleteTask(tuple(part), inputs) for part, inputs in zip(parts, inputs_of_parts, strict=True)]


def _inputs(
    files: Files, metadata: TableMetadata, snapshot: Snapshot, groups: Sequence[Sequence[DeleteFile]]
) -> list[tuple[FileTask, ...]]:
    """For each group the live data files to which one of its delete files applies, with the applying ones."""
    specs = unpartitioned(metadata)
    indices = [DeleteIndex(group, specs) for group in groups]
    inputs: list[list[FileTask]] = [[] for _ in groups]
    data, delete_manifests = kept_manifests(metadata, manifests_of(files, metadata, snapshot), None)
    with_vector = _paths_with_vector(files, metadata, delete_manifests) if metadata.format_version > 2 else set()
    for manifests in data.values():
        for entries in iter_entries(files, metadata, manifests):
            for index, of_group in zip(indices, inputs, strict=True):
                tasks = index.tasks(entries, index.touched(entries))
                of_group += [task for task in tasks if task.deletes and task.data.path not in with_vector]
    return [tuple(of_group) for of_group in inputs]


def _paths_with_vector(files: Files, metadata: TableMetadata, manifests: BySpec) -> set[str]:
    """The data files that have a deletion vector: position deletes no longer apply to them."""
    paths: set[str] = set()
    for of_spec in manifests.values():
        for entries in iter_entries(files, metadata, of_spec):
            paths |= {delete.referenced_data_file or "" for delete in delete_files(entries) if delete.is_vector}
    return paths
