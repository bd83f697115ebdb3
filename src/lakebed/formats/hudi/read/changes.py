"""Net changes of a range of commits: the keys whose newest version lies in the range, and the deleted keys.

Rows are those of the table at the end of the range. A row that a commit of the range wrote is no change where it lost
by event time, or where a later commit of the range overwrote it. The file groups of the range are those that its
commits' metadata name. Each is read as of the end of the range, so the files of that state must still be there.

Deletes stand in log files, or they were folded into base files: a copy-on-write delete, a compaction and a replaced
file group leave no trace but a key that is missing. To find folded deletes we also read the slice from just before the
first delete, and compare keys. A key that moved to another file group of its partition is no delete, so one task reads
a whole partition that has folded deletes, or rows inserted after deletes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from lakebed.errors import DataCleanedError, UnsupportedError, counted
from lakebed.formats.hudi.codec.metadata import WriteStat
from lakebed.formats.hudi.layout import PARTITION_PATH, RECORD_KEY, parse_log_name
from lakebed.formats.hudi.merge.rules import check_known
from lakebed.formats.hudi.options import FALLBACK
from lakebed.formats.hudi.read.change_task import ChangesTask
from lakebed.formats.hudi.read.commit_range import CommitRange, GroupStats, just_before, stats_by_group
from lakebed.formats.hudi.read.completeness import Completeness
from lakebed.formats.hudi.read.partitions import list_named
from lakebed.formats.hudi.read.plan import plan_of, reader_of
from lakebed.formats.hudi.read.reappearing import ReappearingRows
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.split import HudiSplit, SlicePaths, split_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.slices import FileGroup, FileSlice, file_groups, live_slices, slice_of
from lakebed.formats.hudi.timeline.active import view_of
from lakebed.kernel.files import FileInfo
from lakebed.kernel.predicates.where import unread_parts
from lakebed.model.rowkind import ROW_KIND_FIELD
from lakebed.verbs.read import ReadPlan


def plan_range(state: TableState, request: ReadRequest, commit_range: CommitRange) -> ReadPlan[HudiSplit]:
    """The splits of a range's net changes.

    Raises DataCleanedError, naming the earliest readable instant, when files that the read needs were cleaned and no
    full scan was asked for.
    """
    check_has_changes(state)
    schema = state.schema()
    reader = reader_of(state, request.options, schema, commit_range.view)
    check_known(reader.rules, state.store.location, schema.names)
    planner = _Planner(state, commit_range)
    missing: tuple[str, ...] = ()
    try:
        splits = planner.splits()
        missing = planner.warnings()
    except DataCleanedError as error:
        if request.options[FALLBACK] != "full-scan":
            raise
        reader = reader_of(state, request.options, schema, state.view())
        splits = _full_scan(state, commit_range)
        missing = (f"{error.what}: rows that later commits overwrote, and deletes, are missing",)
    instants = None if commit_range.from_beginning else frozenset(commit_range.commits) - commit_range.skipped
    task = changes_task(state, request, reader, instants)
    warnings = (*commit_range.warnings(state), *missing, *unread_parts(task.predicate))
    return plan_of(state, task.schema, splits, task, warnings)


def changes_task(
    state: TableState, request: ReadRequest, reader: SliceReader, instants: frozenset[str] | None
) -> ChangesTask:
    """The task that reads the changes of some instants, None for all."""
    schema = state.schema()
    projection = request.projected(schema, state.store.location)
    return ChangesTask(
        reader,
        changes_schema(state, schema, projection.columns),
        projection.decoded,
        projection.predicate,
        instants,
        state.config.record_keys,
        state.config.key_form,
    )


def changes_schema(state: TableState, schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The columns of changes, then the row kind. Columns that deletes lack are nullable."""
    fixed = {*state.config.record_keys, RECORD_KEY, PARTITION_PATH} - {*state.config.ordering}
    fields = [schema.field(name) for name in names]
    nullable = (field if field.name in fixed else field.with_nullable(True) for field in fields)
    return pa.schema([*nullable, ROW_KIND_FIELD])


def check_has_changes(state: TableState) -> None:
    """Raise UnsupportedError for a table without meta columns."""
    if not state.config.meta_fields:
        raise UnsupportedError(
            "lakebed cannot read changes of a table without meta columns",
            table=state.store.location,
            why="hoodie.populate.meta.fields is false, so no row says which commit wrote it",
            todo="Read snapshots instead",
        )


class _Planner:
    """Finds the file slices of one range."""

    def __init__(self, state: TableState, commit_range: CommitRange) -> None:
        self._state, self._range = state, commit_range
        self._written = state.written(commit_range.view)
        self._stats = commit_range.stats_by_group()
        self._complete = Completeness(state, commit_range.view)
        self._lost: dict[str, list[str]] = {}
        self._reappearing = ReappearingRows(state, commit_range.view)

    def splits(self) -> list[HudiSplit]:
        """One split per file group, or per partition where folded deletes must be found."""
        splits: list[HudiSplit] = []
        for partition, (ids, files) in self._touched().items():
            groups = file_groups(files)
            slices = self._slices(partition, groups, ids)
            before = self._before(partition, groups, slices)
            together = bool(before) or _inserts_after_deletes(self._stats.get(partition, {}), self._range)
            hiding = self._hiding(partition, groups, slices)
            if together:
                splits.append(_partition_split(partition, list(slices.values()), before, hiding))
            else:
                splits += _group_splits(list(slices.values()), hiding)
        return splits

    def warnings(self) -> tuple[str, ...]:
        """What the splits leave out, one sentence per commit. Call it after `splits`."""
        return tuple(
            f"deletes of {instant} in {counted(len(groups), 'file group')} ({groups[0]}{', ...' if groups[1:] else ''})"
            " are left out: the files from before it were cleaned"
            for instant, groups in self._lost.items()
        )

    def _touched(self) -> dict[str, tuple[set[str] | None, tuple[FileInfo, ...]]]:
        """By partition: the file ids that the range's commits wrote or replaced (None: all), and the partition's
        files."""
        touched: dict[str, set[str]] = defaultdict(set)
        for commit in self._range.commits.values():
            for stat in commit.stats:
                if commit.operation not in ("COMPACT", "LOG_COMPACT"):
                    touched[stat.partition].add(stat.file_id)
            for partition, ids in commit.replaced.items():
                touched[partition].update(ids)
        if self._range.from_beginning:
            named = {*touched, *self._state.cleaned_groups(self._range.view.bound)}
            return {path: (None, files) for path, files in self._state.list_partitions(named).items()}
        listed = list_named(self._state.store, touched.keys())
        return {partition: (ids, listed[partition]) for partition, ids in touched.items()}

    def _slices(self, partition: str, groups: Mapping[str, FileGroup], ids: set[str] | None) -> dict[str, FileSlice]:
        """By file id the slices at the end of the range, of some file groups (None: all, those that are not listed
        too) that were not replaced.

        Raises DataCleanedError when one of them is not whole.
        """
        replaced = self._written.replaced.get(partition, frozenset())
        named = self._stats.get(partition, ())
        wanted = {*groups, *named, *self._complete.vanished(partition, groups)} if ids is None else ids
        slices: dict[str, FileSlice] = {}
        for file_id in sorted(wanted - replaced):
            group = groups.get(file_id) or FileGroup(file_id, [], [])
            if self._state.was_replaced(partition, group, self._range.view):
                continue
            file_slice = slice_of(partition, group, self._range.view, self._written)
            self._complete.check(partition, group, file_slice, self._stats_of(partition, file_id))
            if file_slice is not None:
                slices[file_id] = file_slice
        return slices

    def _before(
        self, partition: str, groups: Mapping[str, FileGroup], slices: Mapping[str, FileSlice]
    ) -> list[tuple[int, SlicePaths]]:
        """The slices from before the range's first delete that no log file of `slices` holds any more, each with its
        size in bytes."""
        earlier: list[tuple[int, SlicePaths]] = []
        for file_id, first in self._folded_deletes(partition, slices).items():
            bound = just_before(first)
            view = view_of(self._range.view.timeline, bound, archived=self._range.view.archived)
            group = groups.get(file_id) or FileGroup(file_id, [], [])
            before = slice_of(partition, group, view, self._written)
            wrote = self._known.get(partition, {}).get(file_id, ())
            if before is None or Completeness(self._state, view).is_older(before, wrote):
                if self._existed(partition, file_id, first):
                    self._report_lost(partition, file_id, first)
                continue
            earlier.append((before.size, self._paths_until(before, bound)))
        return earlier

    @cached_property
    def _known(self) -> Mapping[str, GroupStats]:
        """The files that commits of the active timeline wrote: a clean that has not ended may have removed some."""
        return stats_by_group(self._state.commits(self._range.view))

    def _paths_until(self, file_slice: FileSlice, bound: str) -> SlicePaths:
        """The files of an older slice. In table version 6 later commits append blocks to its log files."""
        return SlicePaths.of(file_slice, "" if self._state.config.completion_times else bound)

    def _hiding(
        self, partition: str, groups: Mapping[str, FileGroup], slices: Mapping[str, FileSlice]
    ) -> dict[str, SlicePaths]:
        """By file id the slice from before the range, where its log may hide keys that are back at the range's end."""
        hiding: dict[str, SlicePaths] = {}
        for file_id in () if self._range.from_beginning else slices:
            orders = [
                self._range.orders[time]
                for time, stat in self._stats_of(partition, file_id)
                if stat.is_log and not self._range.commits[time].is_service
            ]
            group = groups.get(file_id)
            bound = just_before(min(orders, default=""))
            if group is None or not orders or not self._reappearing.possible(partition, group, max(orders)):
                continue
            view = view_of(self._range.view.timeline, bound, archived=self._range.view.archived)
            before = slice_of(partition, group, view, self._written)
            if before is not None and before.logs:
                hiding[file_id] = self._paths_until(before, bound)
        return hiding

    def _folded_deletes(self, partition: str, slices: Mapping[str, FileSlice]) -> dict[str, str]:
        """By file id the order of the range's first delete that the group's slice does not hold."""
        first: dict[str, str] = {}
        completion = self._state.config.completion_times
        for file_id, stats in self._stats.get(partition, {}).items():
            now = slices.get(file_id)
            for time, stat in stats:
                if not stat.deletes or self._range.commits[time].is_service or self._is_second_copy(stat):
                    continue
                order = self._range.orders[time]
                base = now.base.instant if now and now.base else ""
                if now is None or not stat.is_log or (order if completion else time) < base:
                    first[file_id] = min(first.get(file_id, order), order)
        for time, commit in self._range.commits.items():
            if not commit.is_service and time not in self._range.skipped:
                for file_id in commit.replaced.get(partition, ()):
                    order = self._range.orders[time]
                    first[file_id] = min(first.get(file_id, order), order)
        return first

    def _is_second_copy(self, stat: WriteStat) -> bool:
        log = parse_log_name(stat.name)
        return log is not None and self._range.view.is_second_copy(log[1].instant)

    def _stats_of(self, partition: str, file_id: str) -> Sequence[tuple[str, WriteStat]]:
        return self._stats.get(partition, {}).get(file_id, ())

    def _existed(self, partition: str, file_id: str, first: str) -> bool:
        """Whether the group had rows before the commit of order `first` deleted some. False where that commit made the
        group."""
        for time, stat in self._stats_of(partition, file_id):
            if self._range.orders[time] == first and not stat.is_log:
                return stat.previous not in ("", "null")
        return True

    def _report_lost(self, partition: str, file_id: str, instant: str) -> None:
        """Report that deletes of a commit can't be found any more: an error in a stream, where they would be a gap; a
        warning in a batch, which still gives its rows."""
        if self._range.strict and not self._range.from_beginning:
            raise self._complete.error(f"{partition}/{file_id}" if partition else file_id, instant)
        self._lost.setdefault(instant, []).append(file_id)


def _full_scan(state: TableState, commit_range: CommitRange) -> list[HudiSplit]:
    """Every live slice of the newest state in the partitions that the range's commits touched."""
    view = state.view()
    written = state.written(view)
    partitions = {stat.partition for commit in commit_range.commits.values() for stat in commit.stats}
    listed = state.list_partitions(()) if commit_range.from_beginning else list_named(state.store, partitions)
    return [
        split_of(file_slice)
        for path, files in listed.items()
        for file_slice in live_slices(path, files, view, written, state.was_replaced)
    ]


def _inserts_after_deletes(groups: GroupStats, commit_range: CommitRange) -> bool:
    """Whether a key that one group of a partition deleted may live on in another.

    An index that knows of the delete can put the key anywhere.
    """
    orders = commit_range.orders
    first = sorted(
        (min(orders[time] for time, stat in stats if stat.deletes), group)
        for group, stats in groups.items()
        if any(stat.deletes for _, stat in stats)
    )[:2]
    return any(
        stat.inserts and any(other != group and orders[time] >= order for order, other in first)
        for group, stats in groups.items()
        for time, stat in stats
        if first and not commit_range.commits[time].is_service
    )


def _group_splits(slices: Sequence[FileSlice], hiding: Mapping[str, SlicePaths]) -> list[HudiSplit]:
    """One split per file group."""
    return [
        replace(split_of(file_slice), hiding=(hiding[file_slice.file_id],) if file_slice.file_id in hiding else ())
        for file_slice in slices
    ]


def _partition_split(
    partition: str,
    slices: Sequence[FileSlice],
    before: Sequence[tuple[int, SlicePaths]],
    hiding: Mapping[str, SlicePaths],
) -> HudiSplit:
    """One split for a whole partition."""
    size = sum(file_slice.size for file_slice in slices) + sum(older for older, _ in before)
    return HudiSplit(
        partition,
        size,
        tuple(map(SlicePaths.of, slices)),
        tuple(paths for _, paths in before),
        hiding=tuple(hiding.values()),
    )
