"""Turning equality deletes into position deletes (format version 2) or deletion vectors (version 3).

A read compares every row of a data file with all equality deletes that apply to it, at each read anew. Here the rows
are compared once more, and their positions are written; then the equality delete files go, in one REPLACE snapshot. No
data file is rewritten. The reference engine has this as a Flink job alone (ConvertEqualityDeletes).

Any part of the equality delete files can be turned at a time: what one of them removes does not depend on the others. A
data file that a commit brought meanwhile with an old sequence number, as a rewrite does, may still need them: that is a
conflict. All other data files that are new are younger than these deletes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lakebed.errors import UnsupportedError, counted
from lakebed.formats.iceberg.catalog.operations import TableOperations, refuse_writing
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import Content, DeleteFile, FileTask, stored_files
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import partition_path
from lakebed.formats.iceberg.manifests import manifests_of
from lakebed.formats.iceberg.read.context import DELETE_MEMORY, ReadContext
from lakebed.formats.iceberg.read.deletes import deleted_positions
from lakebed.formats.iceberg.read.equality_bounds import EqualityBounds
from lakebed.formats.iceberg.read.plan import (
    chosen_entries,
    kept_manifests,
    live_deletes,
    pruned_deletes,
    unpartitioned,
)
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.read.task import live_positions, predicate_schema
from lakebed.formats.iceberg.rewrite import options as opt
from lakebed.formats.iceberg.rewrite.new_deletes import NewDeletes, Replacement, remove_delete_files
from lakebed.formats.iceberg.rewrite.packing import next_fit
from lakebed.formats.iceberg.write.options import GRANULARITY
from lakebed.formats.iceberg.write.row_deletes import DeleteWriter
from lakebed.kernel.again import looks_again
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import OptionSet
from lakebed.kernel.predicates.where import Where, parse_where, unread_parts
from lakebed.model.upkeep import RewriteGroup, RewriteResult, Skipped

OPTIONS = OptionSet(
    (opt.MAX_FILES, opt.BRANCH, GRANULARITY),
    "a rewrite of Iceberg equality delete files", prefixes=("lakebed.storage.", "lakebed.catalog."),
)  # fmt: skip
_TASK_BYTES = 512 << 20
"""How many bytes of data files a task reads the keys of, unless a single file has more."""
_TASK_FILES = 1000
"""How many data files a task has, at most; in format version 3 so many vectors share a Puffin file."""
_HELD_POSITIONS = 32 << 20
"""With more positions than this a task writes what it has."""
_BYTES_OF_POSITION = 2
"""About what a position takes in a file, for the prediction of a dry run."""


@dataclass(frozen=True, slots=True)
class EqualityDeleteRewrite:
    """A planned rewrite of equality delete files of one branch.

    `snapshot` is the one that was planned from, None for an empty table. `chosen` are the equality delete files that
    go, `inputs` the data files that one of them may apply to, each with all of its position deletes.
    """

    operations: TableOperations
    metadata: TableMetadata
    snapshot: Snapshot | None
    branch: str
    granularity: str
    context: ReadContext
    chosen: Sequence[DeleteFile]
    inputs: Sequence[FileTask]
    result: RewriteResult
    commit_options: Mapping[str, str]

    @classmethod
    @looks_again
    def planned(
        cls, operations: TableOperations, branch: str, where: Where, given: Mapping[str, object],
        commit_options: Mapping[str, str] = {}, delete_memory: int = DELETE_MEMORY,
    ) -> EqualityDeleteRewrite:  # fmt: skip
        """Decide what to do; nothing is changed.

        `where` chooses equality delete files that may hold a matching key, `max-files-to-rewrite` the oldest of them.
        `commit_options` are the table's options that say how a commit is retried, `delete_memory` is how many bytes the
        equality deletes of one data file may hold at a time. OptionError for an option that is unknown or out of range.
        """
        options = OPTIONS.parse(given)
        loaded = operations.load()
        refuse_writing(operations, loaded)
        metadata, files = loaded.metadata, operations.files
        branch = options[opt.BRANCH] if options.given(opt.BRANCH) else branch
        snapshot = metadata.head(branch)
        context = ReadContext.of(metadata, delete_memory=delete_memory)
        pruning = Pruning(parse_where(where, predicate_schema(context)), metadata.schema)
        deletes = sorted(pruned_deletes(files, metadata, snapshot, pruning, Content.EQUALITY_DELETES), key=_age)
        chosen = deletes[: options[opt.MAX_FILES]]
        inputs = list(_inputs(files, metadata, snapshot, chosen)) if chosen and snapshot is not None else []
        granularity = options[GRANULARITY] or metadata.properties.get("write.delete.granularity", "partition")
        left = len(deletes) - len(chosen)
        skipped = [Skipped("the table", f"max-files-to-rewrite={len(chosen)} leaves {left} newer ones")] if left else []
        writer = DeleteWriter.of(files, metadata, granularity)
        result = _predicted(metadata, chosen, inputs, writer, skipped, unread_parts(pruning.predicate, False))
        return cls(operations, metadata, snapshot, branch, granularity, context, chosen, inputs, result, commit_options)

    def run(self, dry_run: bool = False, engine: Engine | None = None) -> RewriteResult:
        """Write the positions, and remove the equality delete files, in one REPLACE snapshot. Rows stay as they are.

        The result counts delete files and their bytes. CommitConflictError when others removed one of the delete files
        meanwhile, deleted rows of the same data file by a vector, or brought a data file that the deletes apply to.
        """
        if dry_run or not self.chosen or self.snapshot is None:
            return replace(self.result, dry_run=dry_run)
        files = self.operations.files
        writer = DeleteWriter.of(files, self.metadata, self.granularity)
        replacement = Replacement(self.operations, self.snapshot.snapshot_id, self.branch, self.commit_options)
        runner = _Runner(files, self.context, writer)
        instant, written = replacement.run(engine or LocalEngine(), runner, self._tasks(writer), self.chosen)
        return replace(
            self.result,
            files_after=len(written),
            bytes_after=sum(delete.stored_bytes for delete in written),
            instants=(instant,),
            removed_deletes=len(self.chosen),
        )

    def _tasks(self, writer: DeleteWriter) -> list[tuple[FileTask, ...]]:
        """The data files in parts for one task each. Those whose deletes go into one file come together."""
        by_place: dict[object, list[FileTask]] = {}
        for task in self.inputs:
            by_place.setdefault(writer.place(task), []).append(task)
        ordered = [task for group in by_place.values() for task in group]
        place = np.repeat(np.arange(len(by_place)), [len(group) for group in by_place.values()])
        sizes = np.array([task.data.size for task in ordered], np.int64)
        if writer.vectors or not writer.by_partition:
            place[:] = 0
        starts = next_fit(place, sizes, _TASK_BYTES, _TASK_FILES)
        ends = np.append(starts[1:], len(ordered))[: len(starts)]
        return [tuple(ordered[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _age(delete: DeleteFile) -> tuple[int, str]:
    return delete.sequence_number or 0, delete.path


# ---- planning --------------------------------------------------------------------------------------------------------


def _inputs(
    files: Files, metadata: TableMetadata, snapshot: Snapshot, chosen: Sequence[DeleteFile]
) -> Iterator[FileTask]:
    """The live data files to which one of the chosen deletes may apply, each with these and its position deletes."""
    data, delete_manifests = kept_manifests(metadata, manifests_of(files, metadata, snapshot), None)
    others = [
        delete
        for delete in live_deletes(files, metadata, delete_manifests)
        if delete.content is not Content.EQUALITY_DELETES
    ]
    index = DeleteIndex([*chosen, *others], unpartitioned(metadata))
    bounds = EqualityBounds.of(chosen, metadata.schema)
    for spec_id, manifests in data.items():
        for entries in chosen_entries(files, metadata, manifests, metadata.specs[spec_id], None, bool(bounds.ranges)):
            for task in bounds.tasks(entries, index):
                if any(delete.content is Content.EQUALITY_DELETES for delete in task.deletes):
                    yield task


@dataclass(slots=True)
class _Place:
    """The equality delete files of one partition, and the data files that they apply to."""

    deletes: list[DeleteFile] = field(default_factory=list)
    data: dict[str, int] = field(default_factory=dict)


def _predicted(
    metadata: TableMetadata, chosen: Sequence[DeleteFile], inputs: Sequence[FileTask], writer: DeleteWriter,
    skipped: Sequence[Skipped], notes: Sequence[str],
) -> RewriteResult:  # fmt: skip
    """What a run would do, by partition of the delete files, and what reads do until then."""
    places: dict[str, _Place] = {}
    name_of: dict[str, str] = {}
    for delete in chosen:
        name = partition_path(metadata.specs[delete.spec_id], delete.partition) or "the table"
        name_of[delete.path] = name
        places.setdefault(name, _Place()).deletes.append(delete)
    for task in inputs:
        for delete in task.deletes:
            if delete.path in name_of:
                places[name_of[delete.path]].data[task.data.path] = max(0, task.data.record_count)
    plan = []
    for name, place in places.items():
        keys, rows = sum(delete.record_count for delete in place.deletes), sum(place.data.values())
        count = len(place.data) if writer.vectors or not writer.by_partition else min(1, len(place.data))
        compared = f"{counted(rows, 'row')} of {counted(len(place.data), 'data file')}"
        reason = f"each read compares {compared} with up to {counted(keys, 'key')}"
        if not place.data:
            reason = "no data file is as old as they are"
        size = sum(delete.size for delete in place.deletes)
        plan.append(RewriteGroup(name, len(place.deletes), size, count, min(keys, rows) * _BYTES_OF_POSITION, reason))
    return RewriteResult(
        len(chosen), sum(group.files_after for group in plan), sum(group.size for group in plan),
        sum(group.size_after for group in plan), len(plan), tuple(skipped), plan=tuple(plan), notes=tuple(notes),
    )  # fmt: skip


# ---- tasks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Runner:
    """The function that runs tasks on an engine. Picklable."""

    files: Files
    context: ReadContext
    writer: DeleteWriter

    def __call__(self, tasks: Sequence[FileTask]) -> NewDeletes:
        """Find the rows that equality deletes remove, and write their positions; after an error none of it stays."""
        done = NewDeletes()
        try:
            with self.files.fetching(stored_files(tasks)):
                for part in self._found(tasks):
                    number = max(delete.sequence_number or 0 for task, _ in part for delete in task.deletes)
                    of_part = self.writer.write(part)
                    done.files.extend(replace(delete, sequence_number=number) for delete in of_part.added)
                    done.replaced.extend(of_part.replaced)
        except Exception as error:  # noqa: BLE001  # reported to the caller, who cleans up after all tasks
            remove_delete_files(self.files, done.files)
            return NewDeletes(error=error)
        return done

    def _found(self, tasks: Sequence[FileTask]) -> Iterator[list[tuple[FileTask, Int64s]]]:
        """The positions to delete in each data file, in parts of bounded size. A vector has the earlier ones too."""
        part: list[tuple[FileTask, Int64s]] = []
        held = 0
        for task in tasks:
            positions = self._positions(task)
            if len(positions):
                part.append((task, positions))
                held += len(positions)
            if held > _HELD_POSITIONS:
                yield part
                part, held = [], 0
        if part:
            yield part

    def _positions(self, task: FileTask) -> Int64s:
        """The positions that equality deletes remove, without those that are deleted already; in format version 3 with
        them. None at all where equality deletes remove no more."""
        rows = task.data.record_count
        if rows < 0:
            raise UnsupportedError("a data file's entry does not say how many rows it has", file=task.data.path)
        live = live_positions(self.files, self.context, task)
        gone = np.ones(rows, np.bool_)
        gone[live] = False
        before = deleted_positions(self.files, task)
        if before is None:
            return np.flatnonzero(gone)
        if np.count_nonzero(gone) == len(before):
            return np.empty(0, np.int64)
        if not self.writer.vectors:
            gone[before] = False
        return np.flatnonzero(gone)
