"""The changelog (`changelog.enabled`): every change that files hold, unmerged and in order, with its kind.

Rules: Hudi's Flink source with `changelog.enabled`. Of each commit the rows that it wrote to base files are +I; the
rows and deletes of its log blocks come one after another, each with its kind (`unmerged.py`). Table services bring
nothing; what a base file or an overwrite left out is told nowhere. A table as it stands gives the rows of its newest
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
from lakebed.formats.hudi.read.changes import Range, changes_task, check_tellable, fallen_behind, stats_by_group
from lakebed.formats.hudi.read.completeness import Completeness, check_lost
from lakebed.formats.hudi.read.moves import Placed, Touch, group_name, joined_splits
from lakebed.formats.hudi.read.partitions import list_named, list_partitions
from lakebed.formats.hudi.read.plan import complete_slices, reader_of
from lakebed.formats.hudi.read.split import FileGroupChange, HudiSplit, SlicePaths
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.read.unmerged import row_kinds, with_operation
from lakebed.formats.hudi.timeline.active import View
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where
from lakebed.model.rowkind import ROW_KIND_COLUMN, RowKind
from lakebed.verbs.read import ReadPlan


def plan_changelog(
    state: TableState,
    options: Options,
    columns: Sequence[str] | None,
    where: Where,
    wanted: Range,
    as_it_stands: bool = False,
) -> ReadPlan[HudiSplit]:
    """The splits of the changelog of some commits, with `as_it_stands` of the table at the range's end.

    Raises DataCleanedError when a file that one of the commits wrote is gone.
    """
    if not as_it_stands:
        check_tellable(state)
    changes = changes_task(state, columns, where, reader_of(state, options, state.schema(), wanted.view), None)
    splits = _standing(state, wanted) if as_it_stands else _written(state, wanted)
    return ReadPlan(changes.schema, tuple(splits), ChangelogTask(changes), fallen_behind(state, wanted))


def _standing(state: TableState, wanted: Range) -> Iterator[HudiSplit]:
    written = state.written(wanted.view)
    named = {stat.partition for commit in state.commits(wanted.view).values() for stat in commit.stats}
    listed = {**dict.fromkeys(named, ()), **list_partitions(state.store, named)}
    slices = [
        found
        for partition, files in listed.items()
        for found in complete_slices(state, partition, files, wanted.view, written)
    ]
    check_lost(state, wanted.view, written, listed, slices, logs=True)
    for found in slices:
        change = FileGroupChange("", found.partition, after=SlicePaths.of(found))
        yield HudiSplit(group_name(found.partition, found.file_id), found.size, (), (), (change,))


def _written(state: TableState, wanted: Range) -> Iterator[HudiSplit]:
    """What each commit wrote to each file group, the groups that keys may have moved between together."""
    complete = Completeness(state, wanted.view)
    copies = _SecondCopies(wanted.view, {**state.commits(wanted.view), **wanted.commits})
    stats = stats_by_group(wanted)
    there = {(partition, info.name) for partition, files in list_named(state.store, stats).items() for info in files}
    found: dict[tuple[str, str], list[Placed]] = {}
    sizes: dict[tuple[str, str], int] = {}
    touches: list[Touch] = []
    for partition, groups in sorted(stats.items()):
        for file_id, written in groups.items():
            for time in dict.fromkeys(time for time, _ in written):
                mine = [stat for at, stat in written if at == time and not copies.holds(stat, wanted.commits[time])]
                if not mine or wanted.commits[time].is_service or time in wanted.skipped:
                    continue
                for stat in mine:
                    if (partition, stat.name) not in there:
                        gone = complete.error(stat.path, time)
                        gone.todo = "Start from a later instant"
                        raise gone
                order, deletes = wanted.orders[time], any(stat.deletes for stat in mine)
                change = FileGroupChange(time, partition, after=_paths(partition, file_id, mine))
                place = (order, time, 0 if any(stat.deletes and stat.is_log for stat in mine) else 1)
                found.setdefault((partition, file_id), []).append((place, change))
                sizes[partition, file_id] = sizes.get((partition, file_id), 0) + sum(stat.size for stat in mine)
                touches.append(Touch(order, partition, file_id, deletes, any(stat.inserts for stat in mine)))
    reordered = {partition for commit in wanted.commits.values() for partition in commit.replaced}
    return joined_splits(found, sizes, touches, reordered)


@dataclass(frozen=True)
class _SecondCopies:
    """Tells log files that hold a commit's rows a second time, for the buckets that a resize makes."""

    view: View
    commits: Mapping[str, CommitMetadata]

    def holds(self, stat: WriteStat, commit: CommitMetadata) -> bool:
        """Whether a file of a commit is one: named by a clustering that does not count, or by one whose old file groups
        the commit wrote to as well."""
        log = parse_log_name(stat.name)
        if log is None:
            return False
        clustering = self.commits.get(log[1].instant)
        if clustering is None or clustering.operation != "CLUSTER":
            return self.view.is_second_copy(log[1].instant)
        old = clustering.replaced.get(stat.partition, ())
        return any(other.file_id in old and other.partition == stat.partition for other in commit.stats)


def _paths(partition: str, file_id: str, stats: Sequence[WriteStat]) -> SlicePaths:
    bases = [stat.path for stat in stats if not stat.is_log]
    logs = tuple(stat.path for stat in stats if stat.is_log)
    return SlicePaths(partition, file_id, bases[-1] if bases else "", logs)


@dataclass(frozen=True, slots=True)
class ChangelogTask:
    """Reads one split of a changelog; `changes` says which columns, and what is known of a delete."""

    changes: ChangesTask

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The changes of each commit, in their order."""
        for change in split.changes:
            if change.after is not None:
                yield from self._base(change, change.after)
                if change.after.logs:
                    yield from self._log(change, change.after)

    def _base(self, change: FileGroupChange, paths: SlicePaths) -> Iterator[pa.RecordBatch]:
        """The rows of the base file, of a commit those that it wrote."""
        if not paths.base:
            return
        narrow = pc.field(COMMIT_TIME) == change.instant if change.instant else None
        columns = (*self.changes.decoded, *((COMMIT_TIME,) if change.instant else ()))
        for batch in self.changes.reader.open(paths._replace(logs=()), columns, narrow=narrow).rows():
            mine = batch.filter(pc.equal(batch.column(COMMIT_TIME), change.instant)) if change.instant else batch
            yield from self.changes.out(mine, pa.repeat(pa.scalar(RowKind.INSERT.short), mine.num_rows))

    def _log(self, change: FileGroupChange, paths: SlicePaths) -> Iterator[pa.RecordBatch]:
        """The rows and deletes of the log, of a commit those that it wrote."""
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
        """Rows of delete blocks with what is known of a delete, and the commit times of the deletes."""
        with_value = pa.array(~deletes.natural)
        ordering = [pc.if_else(with_value, column, None) for column in deletes.ordering]
        rows = pa.Table.from_batches([self.changes.deleted(partition, deletes.keys, ordering)])
        if COMMIT_TIME not in rows.column_names:
            return rows
        at = rows.column_names.index(COMMIT_TIME)
        return rows.set_column(at, rows.schema.field(at), deletes.instants)


def _nullable(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))
