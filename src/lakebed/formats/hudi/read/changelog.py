"""The changelog (`changelog.enabled`): every change that files hold, unmerged and in order, with its row kind.

Rules: Hudi's Flink source with `changelog.enabled`. For each commit, the rows that it wrote to base files are +I; the
rows and deletes of its log blocks come one after another, each with its row kind (`unmerged.py`). Table services bring
nothing, and no file holds what a base file or an overwrite left out. A table as it stands gives the rows of its newest
base files, then the logs beside them. A file that a commit of the range wrote must still be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.metadata import CommitMetadata, WriteStat
from lakebed.formats.hudi.layout import COMMIT_TIME, parse_log_name
from lakebed.formats.hudi.merge.log_entries import LogDeletes
from lakebed.formats.hudi.merge.rules import known_rules
from lakebed.formats.hudi.read.change_task import ChangesTask
from lakebed.formats.hudi.read.changes import changes_task, check_has_changes
from lakebed.formats.hudi.read.commit_range import CommitRange
from lakebed.formats.hudi.read.completeness import Completeness, check_lost
from lakebed.formats.hudi.read.moved_keys import GroupChanges, Touch, group_name
from lakebed.formats.hudi.read.partitions import list_named
from lakebed.formats.hudi.read.plan import complete_slices, plan_of, reader_of
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.split import FileGroupChange, HudiSplit, SlicePaths
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.read.task import written_by
from lakebed.formats.hudi.read.unmerged import row_kinds, with_operation
from lakebed.formats.hudi.timeline.active import View
from lakebed.kernel.predicates.where import unread_parts
from lakebed.model.rowkind import ROW_KIND_COLUMN, RowKind
from lakebed.verbs.read import ReadPlan


def plan_changelog(state: TableState, request: ReadRequest, commit_range: CommitRange) -> ReadPlan[HudiSplit]:
    """The splits of a range's changelog, or of the table as it stands at the range's end.

    Raises DataCleanedError when a file that one of the commits wrote is gone.
    """
    if not commit_range.as_it_stands:
        check_has_changes(state)
    reader = reader_of(state, request.options, state.schema(), commit_range.view)
    changes = changes_task(state, request, reader, None)
    splits = _standing(state, commit_range.view) if commit_range.as_it_stands else _written(state, commit_range)
    warnings = (*commit_range.warnings(state), *unread_parts(changes.predicate))
    return plan_of(state, changes.schema, splits, ChangelogTask(changes), warnings)


def _standing(state: TableState, view: View) -> Iterator[HudiSplit]:
    """One split per slice of a view."""
    written = state.written(view)
    named = {stat.partition for commit in state.commits(view).values() for stat in commit.stats}
    listed = {**dict.fromkeys(sorted(named), ()), **state.list_partitions(named)}
    slices = [
        file_slice
        for partition, files in listed.items()
        for file_slice in complete_slices(state, partition, files, view, written)
    ]
    check_lost(state, view, written, listed, slices, logs=True)
    for file_slice in slices:
        change = FileGroupChange("", file_slice.partition, after=SlicePaths.of(file_slice))
        name = group_name(file_slice.partition, file_slice.file_id)
        yield HudiSplit(name, file_slice.size, (), (), (change,))


def _written(state: TableState, commit_range: CommitRange) -> Iterator[HudiSplit]:
    """What each commit wrote to each file group. Groups that keys may have moved between share a split."""
    complete = Completeness(state, commit_range.view)
    copies = _SecondCopies(commit_range.view, {**state.commits(commit_range.view), **commit_range.commits})
    stats = commit_range.stats_by_group()
    listed = {info.path: info.size for files in list_named(state.store, stats).values() for info in files}
    changes = GroupChanges(commit_range.replaced_partitions)
    for partition, groups in sorted(stats.items()):
        for file_id, written in groups.items():
            for time in dict.fromkeys(time for time, _ in written):
                commit = commit_range.commits[time]
                files = [stat for at, stat in written if at == time and not copies.holds(stat, commit)]
                if not files or commit.is_service or time in commit_range.skipped:
                    continue
                for stat in files:
                    if stat.path not in listed:
                        gone = complete.error(stat.path, time)
                        gone.todo = "Start from a later instant"
                        raise gone
                order, deletes = commit_range.orders[time], any(stat.deletes for stat in files)
                touch = Touch(order, partition, file_id, deletes, any(stat.inserts for stat in files))
                step = 0 if any(stat.deletes and stat.is_log for stat in files) else 1
                change = FileGroupChange(time, partition, after=_paths(partition, file_id, files, listed))
                changes.add(touch, (order, time, step), change)
                changes.add_size(partition, file_id, sum(stat.size for stat in files))
    return changes.splits()


@dataclass(frozen=True)
class _SecondCopies:
    """Detects log files that hold a commit's rows a second time, for the buckets that a resize makes."""

    view: View
    commits: Mapping[str, CommitMetadata]

    def holds(self, stat: WriteStat, commit: CommitMetadata) -> bool:
        """Whether a file of a commit is a second copy.

        It is named by a clustering that does not count, or by one whose old file groups the commit wrote to as well.
        """
        log = parse_log_name(stat.name)
        if log is None:
            return False
        clustering = self.commits.get(log[1].instant)
        if clustering is None or clustering.operation != "CLUSTER":
            return self.view.is_second_copy(log[1].instant)
        old = clustering.replaced.get(stat.partition, ())
        return any(other.file_id in old and other.partition == stat.partition for other in commit.stats)


def _paths(partition: str, file_id: str, stats: Sequence[WriteStat], sizes: Mapping[str, int]) -> SlicePaths:
    bases = [stat.path for stat in stats if not stat.is_log]
    logs = tuple(stat.path for stat in stats if stat.is_log)
    paths = SlicePaths(partition, file_id, bases[-1] if bases else "", logs)
    return paths._replace(sizes=tuple(sizes[path] for path in (*logs, *bases[-1:])))


@dataclass(frozen=True, slots=True)
class ChangelogTask:
    """Reads one split of a changelog. `changes` has the columns, and what is known of a delete."""

    changes: ChangesTask

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The changes of each commit, in their order."""
        with split.fetched_ahead(self.changes.reader.store):
            for change in split.changes:
                if change.after is not None:
                    yield from self._base(change, change.after)
                    if change.after.logs:
                        yield from self._log(change, change.after)

    def _base(self, change: FileGroupChange, paths: SlicePaths) -> Iterator[pa.RecordBatch]:
        """The rows of the base file, only those that the commit wrote where the change has one."""
        if not paths.base:
            return
        narrow = written_by(change.instant) if change.instant else None
        columns = (*self.changes.decoded, *((COMMIT_TIME,) if change.instant else ()))
        for batch in self.changes.reader.open(paths.without_logs(), columns, narrow=narrow).rows():
            rows = batch.filter(pc.equal(batch.column(COMMIT_TIME), change.instant)) if change.instant else batch
            yield from self.changes.out(rows, pa.repeat(pa.scalar(RowKind.INSERT.short), rows.num_rows))

    def _log(self, change: FileGroupChange, paths: SlicePaths) -> Iterator[pa.RecordBatch]:
        """The rows and deletes of the log, only those that the commit wrote where the change has one."""
        reader = self.changes.reader
        target = with_operation(reader.target(self.changes.decoded, merging=True))
        blocks = reader.log_blocks(paths, change.instant)
        entries = reader.log_reader(target, known_rules(reader.rules)).entries(blocks)
        names = list(self.changes.decoded)
        rows = _nullable(reader.filled(entries.rows.table, paths.partition, target).select(names))
        rows = rows.append_column(ROW_KIND_COLUMN, row_kinds(entries.rows))
        deletes = self._deletes(entries.deletes, paths.partition).select(names)
        kinds = pa.repeat(pa.scalar(RowKind.DELETE.short), deletes.num_rows)
        deletes = _nullable(deletes).append_column(ROW_KIND_COLUMN, kinds)
        for batch in entries.in_log_order(rows, deletes).combine_chunks().to_batches():
            yield from self.changes.out(batch.select(names), batch.column(ROW_KIND_COLUMN))

    def _deletes(self, deletes: LogDeletes, partition: str) -> pa.Table:
        """Rows of delete blocks: what is known of each delete, and its commit time."""
        with_value = pa.array(~deletes.natural)
        ordering = [pc.if_else(with_value, column, None) for column in deletes.ordering]
        rows = pa.Table.from_batches([self.changes.deleted(partition, deletes.keys, ordering)])
        if COMMIT_TIME not in rows.column_names:
            return rows
        at = rows.column_names.index(COMMIT_TIME)
        return rows.set_column(at, rows.schema.field(at), deletes.instants)


def _nullable(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))
