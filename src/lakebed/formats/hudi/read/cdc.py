"""Full changes of a range of commits: the rows before and after each commit, in the order of the commits.

Rules: Hudi's `HoodieCDCExtractor`. It gives each commit and file group one of five cases:

    AS_IS               a change log (`.cdc`) holds operation, row before and row after
    BASE_FILE_INSERT    a new file group: all its rows are inserts
    BASE_FILE_DELETE    a file group that lost its rows
    LOG_FILE            a log file, compared with the slice from before it
    REPLACE_COMMIT      a replaced file group: all its rows are deletes

Here the last four are one case: compare the file group's slice before the commit with that after it. We also do so for
a change log in a supplemental mode that leaves rows out, and for a table that keeps no change log. Table services
change nothing. With `read.cdc.from.changelog` the log files of a merge-on-read table wait for their compaction, whose
change log brings their rows, as Flink writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from lakebed.errors import DataCleanedError, UnsupportedError
from lakebed.formats.hudi.codec.metadata import CommitMetadata, WriteStat
from lakebed.formats.hudi.merge.rules import check_known
from lakebed.formats.hudi.options import CDC_FROM_CHANGELOG
from lakebed.formats.hudi.read.cdc_task import FullChangesTask, RowChanges
from lakebed.formats.hudi.read.changes import changes_schema, check_has_changes
from lakebed.formats.hudi.read.commit_filter import waits_for_compaction
from lakebed.formats.hudi.read.commit_range import CommitRange, GroupStats, just_before, stats_by_group
from lakebed.formats.hudi.read.completeness import Completeness
from lakebed.formats.hudi.read.moved_keys import ChangeOrder, GroupChanges, Touch, group_name
from lakebed.formats.hudi.read.partitions import list_named
from lakebed.formats.hudi.read.plan import complete_slices, plan_of, reader_of
from lakebed.formats.hudi.read.reappearing import ReappearingRows
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.split import FileGroupChange, HudiSplit, SlicePaths
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import FileGroup, file_groups, slice_of
from lakebed.formats.hudi.timeline.active import View, view_of
from lakebed.kernel.files import FileInfo
from lakebed.kernel.options import Options, is_number
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import unread_parts
from lakebed.verbs.read import ReadPlan

_FULL_MODE = "data_before_after"
_PLAIN_GENERATORS = (".SimpleKeyGenerator", ".NonpartitionedKeyGenerator")
"""The key generators whose record key of one column is that column's value."""
_TEXT_KEYS = ("string", "int", "long", "short", "int32", "int64")


def plan_full_changes(state: TableState, request: ReadRequest, commit_range: CommitRange) -> ReadPlan[HudiSplit]:
    """The splits of a range's full changes: +I, -U, +U and -D rows with all columns, or all rows at the range's end as
    +I where the range gives the table as it stands.

    Three meta columns have values: commit time (that of the change), record key and partition path. Raises
    DataCleanedError when files that the read needs were cleaned.
    """
    schema = state.schema()
    projection = request.projected(schema, state.store.location)
    changes = row_changes(state, request.options, commit_range, projection.decoded)
    out = changes_schema(state, schema, projection.columns)
    task = FullChangesTask(changes, out, projection.predicate)
    return plan_with_task(state, request.options, commit_range, task)


class FullTask(Protocol):
    """Reads one split of full changes in the columns of `schema`; picklable."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its batches."""

    @property
    def predicate(self) -> Node | None:
        """The rows that it keeps, None for all."""

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The split's changes."""


def plan_with_task(
    state: TableState, options: Options, commit_range: CommitRange, task: FullTask
) -> ReadPlan[HudiSplit]:
    """The plan of full changes that a task reads: one split per file group, or per partition where keys move between
    its file groups."""
    if commit_range.as_it_stands:
        splits = iter(_standing(state, commit_range))
    else:
        splits = _Planner(state, options, commit_range).splits()
    return plan_of(state, task.schema, splits, task, (*commit_range.warnings(state), *unread_parts(task.predicate)))


def row_changes(state: TableState, options: Options, commit_range: CommitRange, decoded: tuple[str, ...]) -> RowChanges:
    """The plan of a read of a range's full changes, with the columns `decoded`."""
    check_has_changes(state)
    schema = state.schema()
    reader = reader_of(state, options, schema, commit_range.view)
    check_known(reader.rules, state.store.location, schema.names)
    return RowChanges(reader, decoded, state.config.record_keys if _has_text_keys(state) else ())


def _has_text_keys(state: TableState) -> bool:
    """Whether the key fields' values make the record key for certain.

    A key generator for several fields may put the name of a lone field into the key or leave it out.
    """
    kinds = [str(state.schema().field(name).type) for name in state.config.record_keys if name in state.schema().names]
    generator = state.config.properties.get("hoodie.table.keygenerator.type") or state.config.properties.get(
        "hoodie.table.keygenerator.class", ""
    )
    plain = generator.upper() in ("SIMPLE", "NON_PARTITION") or generator.endswith(_PLAIN_GENERATORS)
    ambiguous = len(kinds) == 1 and not plain
    has_text = len(kinds) == len(state.config.record_keys) and all(kind in _TEXT_KEYS for kind in kinds)
    return bool(kinds) and has_text and not ambiguous


def _standing(state: TableState, commit_range: CommitRange) -> list[HudiSplit]:
    """One split per file slice at the end of the range."""
    view = commit_range.view
    written = state.written(view)
    named = {stat.partition for commit in commit_range.commits.values() for stat in commit.stats}
    listed = state.list_partitions({*named, *state.cleaned_groups(view.bound)})
    return [
        HudiSplit(
            group_name(partition, file_slice.file_id),
            file_slice.size,
            (),
            (),
            (FileGroupChange("", partition, after=SlicePaths.of(file_slice)),),
        )
        for partition, files in listed.items()
        for file_slice in complete_slices(state, partition, files, view, written)
    ]


class _Planner:
    """Finds what each commit of a range did to each file group."""

    def __init__(self, state: TableState, options: Options, commit_range: CommitRange) -> None:
        self._state, self._range = state, commit_range
        self._waits_for_compaction = waits_for_compaction(state, options)
        self._logs_are_full = (
            state.config.properties.get("hoodie.table.cdc.supplemental.logging.mode", _FULL_MODE).lower() == _FULL_MODE
        )
        self._written = state.written(commit_range.view)
        self._stats = commit_range.stats_by_group()
        self._views: dict[str, View] = {}
        self._clustered = _clustered_groups(state, commit_range.view)
        self._reappearing = ReappearingRows(state, commit_range.view)

    def splits(self) -> Iterator[HudiSplit]:
        """The splits of all partitions that the range's commits touched."""
        replaced = self._replaced_groups()
        changes = GroupChanges(self._range.replaced_partitions)
        for partition, files in sorted(list_named(self._state.store, {*self._stats, *replaced}).items()):
            groups = file_groups(files)
            for time, file_id in replaced.get(partition, ()):
                gone = self._replaced(partition, groups.get(file_id) or FileGroup(file_id, [], []), time)
                if gone is not None:
                    touch = Touch(self._range.orders[time], partition, file_id, removes=True, adds=False)
                    changes.add(touch, self._place(time, 0), gone)
            for file_id, written in self._stats.get(partition, {}).items():
                group = groups.get(file_id) or FileGroup(file_id, [], [])
                changes.add_size(partition, file_id, sum(stat.size for _, stat in written))
                for time, stats in _by_commit(written).items():
                    change = self._change(partition, group, time, stats)
                    if change is not None:
                        adds = any(stat.inserts for stat in stats)
                        touch = Touch(self._range.orders[time], partition, file_id, change.deletes, adds)
                        changes.add(touch, self._place(time, 1), change)
        return changes.splits()

    def _replaced_groups(self) -> dict[str, list[tuple[str, str]]]:
        """By partition: the file groups that commits of the range replaced, as (instant, file id).

        Table services are left out: they only moved rows.
        """
        replaced: dict[str, list[tuple[str, str]]] = {}
        for time, commit in self._range.commits.items():
            if not commit.is_service and time not in self._range.skipped:
                for partition, ids in commit.replaced.items():
                    replaced.setdefault(partition, []).extend((time, file_id) for file_id in ids)
        return replaced

    def _place(self, time: str, step: int) -> ChangeOrder:
        return self._range.orders[time], time, step

    def _replaced(self, partition: str, group: FileGroup, time: str) -> FileGroupChange | None:
        """The deletes of a file group that a commit replaced, None where nobody had begun it. A clean that has not
        ended may have removed its files, so what commits say that they wrote to it must be there; DataCleanedError
        where it is not."""
        view = self._view_before(time)
        wrote = self._known.get(partition, {}).get(group.file_id, ())
        before = self._slice(partition, group, view, [(t, stat) for t, stat in wrote if view.order(t) is not None])
        if before is None and not Completeness(self._state, view).was_begun(partition, group.file_id):
            return None
        if before is None:
            raise Completeness(self._state, view).error(group_name(partition, group.file_id), time)
        return FileGroupChange(time, partition, before=before, deletes=True)

    @cached_property
    def _known(self) -> Mapping[str, GroupStats]:
        """The files that commits of the active timeline wrote."""
        return stats_by_group(self._state.commits(self._range.view))

    def _change(
        self, partition: str, group: FileGroup, time: str, stats: Sequence[WriteStat]
    ) -> FileGroupChange | None:
        """How a commit changed a file group; None if it changed no rows."""
        commit = self._range.commits[time]
        logs = self._change_logs(partition, group, time, stats)
        if not self._brings_changes(commit, stats, bool(logs), time) or time in self._range.skipped:
            return None
        if self._clustered.get((partition, group.file_id), "~") <= self._range.orders[time]:
            return None  # the rows are also in the group that a clustering made of this one
        deletes = any(stat.deletes for stat in stats)
        if commit.is_service:
            return FileGroupChange(time, partition, logs, deletes=deletes)
        try:
            before = self._slice(partition, group, self._view_before(time))
            wrote = [(time, stat) for stat in stats]
            after = self._slice(partition, group, self._view_at(self._range.orders[time]), wrote)
            self._check_previous(partition, group, before, stats, time)
        except DataCleanedError as error:
            if not (logs and self._logs_are_full):
                raise
            return FileGroupChange(time, partition, logs, deletes=deletes, gone=error.file or group.file_id)
        late = bool(before and before.logs) and self._reappearing.possible(partition, group, self._range.orders[time])
        return FileGroupChange(time, partition, logs, before, after, deletes, may_reappear=late)

    def _brings_changes(self, commit: CommitMetadata, stats: Sequence[WriteStat], logged: bool, time: str) -> bool:
        if not commit.is_service:
            return not (self._waits_for_compaction and all(stat.is_log for stat in stats))
        if commit.operation != "COMPACT" or not self._waits_for_compaction:
            return False
        if not logged or not self._logs_are_full:
            raise UnsupportedError(
                "a compaction wrote no change log that has its rows",
                table=self._state.store.location,
                instant=time,
                why=f"{CDC_FROM_CHANGELOG.key} asks for the changes of compactions",
                todo=f"Set {CDC_FROM_CHANGELOG.key} = false: changes then come with the commits that made them",
            )
        return True

    def _change_logs(
        self, partition: str, group: FileGroup, time: str, stats: Sequence[WriteStat]
    ) -> tuple[FileInfo, ...]:
        """The change logs of a commit, none where one is missing. Archives of some releases leave their names out."""
        named = {path.rpartition("/")[2] for stat in stats for path in stat.cdc}
        logs = [log for log in group.logs if log.cdc and (log.name in named if named else log.instant == time)]
        if len(logs) < len(named):
            return ()
        prefix = f"{partition}/" if partition else ""
        return tuple(FileInfo(prefix + log.name, log.size) for log in sorted(logs, key=lambda log: log.version))

    def _view_at(self, order: str) -> View:
        view = self._views.get(order)
        if view is None:
            end = self._range.view
            view = self._views[order] = view_of(end.timeline, order, archived=end.archived)
        return view

    def _view_before(self, time: str) -> View:
        return self._view_at(just_before(self._range.orders[time]))

    def _slice(
        self, partition: str, group: FileGroup, view: View, stats: Sequence[tuple[str, WriteStat]] = ()
    ) -> SlicePaths | None:
        """The group's slice in a view. Raises DataCleanedError when it is not whole: `stats` are files that commits of
        the view wrote to it."""
        file_slice = slice_of(partition, group, view, self._written)
        Completeness(self._state, view).check(partition, group, file_slice, stats)
        if file_slice is None:
            return None
        # In table version 6 later commits append blocks to log files of the same slice.
        return SlicePaths.of(file_slice, "" if self._state.config.completion_times else view.bound)

    def _check_previous(
        self, partition: str, group: FileGroup, before: SlicePaths | None, stats: Sequence[WriteStat], time: str
    ) -> None:
        """Raise DataCleanedError where a rewritten base file names another one as its origin than the slice before
        has."""
        base = max((base.instant for base in group.bases if before and before.base.endswith(base.name)), default="")
        for stat in stats:
            if not stat.is_log and is_number(stat.previous) and (before is None or stat.previous > base):
                if before is not None and before.logs:
                    continue
                raise Completeness(self._state, self._view_before(time)).error(
                    group_name(partition, group.file_id), time
                )


def _clustered_groups(state: TableState, view: View) -> dict[tuple[str, str], str]:
    """The order in which clusterings of the view replaced file groups, by partition and file id."""
    return {
        (partition, file_id): view.committed[time]
        for time, commit in state.commits(view).items()
        if commit.is_service
        for partition, ids in commit.replaced.items()
        for file_id in ids
    }


def _by_commit(stats: Sequence[tuple[str, WriteStat]]) -> Mapping[str, list[WriteStat]]:
    commits: dict[str, list[WriteStat]] = {}
    for time, stat in stats:
        commits.setdefault(time, []).append(stat)
    return commits
