"""Changes in a range of commits, exactly: the table's state at the end of the range, narrowed to keys whose newest
version lies in the range, plus deletes.

A row that a commit of the range wrote but that lost by event time is no change, nor is one that a later commit of the
range overwrote. Ranges count in completion times from table version 8 on, before that in instant times. The file groups
of the range are those that its commits' metadata name; each is read as of the end of the range, so the files of that
state must still be there.

Deletes stand in log files, or they were folded: a copy-on-write delete, a compaction, a replaced file group leave no
trace but a key that is missing. For those the slice from just before the first delete is read too, and its keys are
compared. A key moved to another file group of its partition is no delete, so a partition with folded deletes, or with
rows inserted after deletes, is read by one task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.errors import DataCleanedError, UnsupportedError
from lakebed.formats.hudi.codec.metadata import CommitMetadata, WriteStat
from lakebed.formats.hudi.layout import METADATA_BOOTSTRAP, parse_log_name
from lakebed.formats.hudi.merge.rules import check_known
from lakebed.formats.hudi.options import FALLBACK
from lakebed.formats.hudi.read.change_task import ChangesTask
from lakebed.formats.hudi.read.commits import is_skipped_overwrite, just_before
from lakebed.formats.hudi.read.completeness import Completeness
from lakebed.formats.hudi.read.partitions import list_named, list_partitions
from lakebed.formats.hudi.read.plan import reader_of
from lakebed.formats.hudi.read.revived import Revivals
from lakebed.formats.hudi.read.split import HudiSplit, SlicePaths, split_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.slices import FileGroup, FileSlice, file_groups, live_slices, slice_of
from lakebed.formats.hudi.timeline.active import View, view_of
from lakebed.kernel.files import FileInfo
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where, columns_of, parse_where
from lakebed.model.rowkind import ROW_KIND_FIELD
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.table import Position, project


@dataclass(frozen=True)
class Range:
    """The commits whose changes are wanted, by instant, with what they count in; `everything` says that there are none
    before them.

    `view` is the table at the end of the range. `commits` holds the metadata of the range's commits, table services
    included, `skipped` those of it whose rows are not wanted. `strict` makes deletes that cannot be told any more an
    error.
    """

    view: View
    commits: Mapping[str, CommitMetadata]
    orders: Mapping[str, str]
    everything: bool
    strict: bool = False
    skipped: frozenset[str] = field(default=frozenset())


def range_of(state: TableState, options: Options, after: Position, until: Position, *ends: str) -> Range:
    """The range (after, until] of a table's history; `ends` are what errors call the two, if not by these names."""
    first, last = ends or ("after", "until")
    return range_between(state, options, state.bound_of(after, first), state.bound_of(until, last))


def range_between(state: TableState, options: Options, low: str, high: str) -> Range:
    """The range (low, high] of a table's history in what ranges count in, archived commits included."""
    view = state.view(high)
    everything = low < "1971" and not _is_after_bootstrap(state, view, low)
    entries = [entry for entry in view.entries if state.timeline.order(entry) > low]
    commits = state.files.commits(entries)
    orders = {entry.time: state.timeline.order(entry) for entry in entries}
    if not everything and low < state.timeline.start:
        for archived in state.archived.commits(low, high):
            if archived.time not in state.timeline.by_time:
                commits[archived.time], orders[archived.time] = archived.commit, archived.order
    skipped = frozenset(time for time, commit in commits.items() if is_skipped_overwrite(options, commit))
    return Range(view, commits, orders, everything, skipped=skipped)


def _is_after_bootstrap(state: TableState, view: View, low: str) -> bool:
    """Whether the table was bootstrapped at or before a time that is older than any clock: bootstraps have the least
    instants of all."""
    if low < METADATA_BOOTSTRAP:
        return False
    return any(state.timeline.order(entry) <= low for entry in view.entries) or state.archived_before(low)


def plan_range(
    state: TableState, options: Options, columns: Sequence[str] | None, where: Where, wanted: Range
) -> ReadPlan[HudiSplit]:
    """The splits of a range of commits.

    Raises DataCleanedError, naming the earliest readable instant, when files that it takes were cleaned and no full
    scan was asked for.
    """
    check_tellable(state)
    schema = state.schema()
    reader = reader_of(state, options, schema, wanted.view)
    check_known(reader.rules, state.store.location)
    planner = _Planner(state, wanted)
    missing: tuple[str, ...] = ()
    try:
        splits = planner.splits()
        missing = planner.warnings()
    except DataCleanedError as error:
        if options[FALLBACK] != "full-scan":
            raise
        reader = reader_of(state, options, schema, state.view())
        splits = full_scan(state, wanted)
        missing = (f"{error.what}: rows that later commits overwrote, and deletes, are missing",)
    instants = None if wanted.everything else frozenset(wanted.commits) - wanted.skipped
    task = changes_task(state, columns, where, reader, instants)
    return ReadPlan(task.schema, tuple(splits), task, (*fallen_behind(state, wanted), *missing))


def changes_task(
    state: TableState,
    columns: Sequence[str] | None,
    where: Where,
    reader: SliceReader,
    instants: frozenset[str] | None,
) -> ChangesTask:
    """The task that reads splits of changes of some instants, None for all."""
    schema = state.schema()
    names = project(columns, schema, table=state.store.location)
    return ChangesTask(
        reader,
        changes_schema(state, schema, names),
        tuple(dict.fromkeys([*names, *columns_of(where, schema)])),
        parse_where(where, schema),
        instants,
        state.config.record_keys,
        state.config.key_form,
    )


def fallen_behind(state: TableState, wanted: Range) -> tuple[str, ...]:
    """The warning that a range, but for the whole history, holds commits that are archived already; none otherwise."""
    archived = sum(time not in state.timeline.by_time for time in wanted.commits)
    if not archived or wanted.everything:
        return ()
    return (f"the reader has fallen behind: {archived} of {len(wanted.commits)} commits that it takes are archived",)


def changes_schema(state: TableState, schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The columns of changes: nullable but for those that deletes have too, then the row kind."""
    fixed = {*state.config.record_keys, *_KEPT} - {*state.config.ordering}
    out = [schema.field(name) for name in names]
    return pa.schema([*(item if item.name in fixed else item.with_nullable(True) for item in out), ROW_KIND_FIELD])


_KEPT = ("_hoodie_record_key", "_hoodie_partition_path")


def check_tellable(state: TableState) -> None:
    """Raise UnsupportedError where changes cannot be told: without meta columns."""
    if not state.config.meta_fields:
        raise UnsupportedError(
            "changes of a table without meta columns cannot be told",
            table=state.store.location,
            why="hoodie.populate.meta.fields is false, so no row says which commit wrote it",
            todo="Read snapshots instead",
        )


class _Planner:
    """Finds the file slices of one range."""

    def __init__(self, state: TableState, wanted: Range) -> None:
        self._state, self._wanted = state, wanted
        self._written = state.written(wanted.view)
        self._stats = stats_by_group(wanted)
        self._complete = Completeness(state, wanted.view)
        self._lost: dict[str, list[str]] = {}
        self._revivals = Revivals(state, wanted.view)

    def splits(self) -> list[HudiSplit]:
        """One split a file group, or a partition where folded deletes must be found."""
        splits: list[HudiSplit] = []
        for partition, (ids, files) in self._touched().items():
            groups = file_groups(files)
            replaced = self._written.replaced.get(partition, frozenset())
            slices: dict[str, FileSlice] = {}
            wanted = {*groups, *self._complete.vanished(partition, groups)} if ids is None else ids
            for file_id in sorted(wanted - replaced):
                group = groups.get(file_id) or FileGroup(file_id, [], [])
                if self._state.was_replaced(partition, group, self._wanted.view):
                    continue
                found = slice_of(partition, group, self._wanted.view, self._written)
                self._complete.check(partition, group, found, self._stats_of(partition, file_id))
                if found is not None:
                    slices[file_id] = found
            before = self._before(partition, groups, slices)
            together = bool(before) or inserts_after_deletes(self._stats.get(partition, {}), self._wanted)
            revived = self._revived(partition, groups, slices)
            splits += _splits_of(partition, list(slices.values()), before, together, revived)
        return splits

    def warnings(self) -> tuple[str, ...]:
        """What the splits leave out, one sentence a commit; call it after `splits`."""
        return tuple(
            f"deletes of {instant} in {len(groups)} file groups ({groups[0]}{', ...' if groups[1:] else ''}) are left "
            "out: the files from before it were cleaned"
            for instant, groups in self._lost.items()
        )

    def _touched(self) -> dict[str, tuple[set[str] | None, tuple[FileInfo, ...]]]:
        """By partition the file ids that the range's commits wrote or replaced, None for all, and the partition's
        files."""
        found: dict[str, set[str]] = defaultdict(set)
        for commit in self._wanted.commits.values():
            for stat in commit.stats:
                if commit.operation not in ("COMPACT", "LOG_COMPACT"):
                    found[stat.partition].add(stat.file_id)
            for partition, ids in commit.replaced.items():
                found[partition].update(ids)
        if self._wanted.everything:
            named = {*found, *self._state.cleaned_groups(self._wanted.view.bound)}
            return {path: (None, files) for path, files in list_partitions(self._state.store, named).items()}
        listed = list_named(self._state.store, found.keys())
        return {partition: (ids, listed[partition]) for partition, ids in found.items()}

    def _before(
        self, partition: str, groups: Mapping[str, FileGroup], slices: Mapping[str, FileSlice]
    ) -> list[tuple[FileSlice, str]]:
        """The slices from before the first delete of the range that no log file of `slices` holds any more, each with
        the instant after which its log blocks do not count."""
        found: list[tuple[FileSlice, str]] = []
        for file_id, first in self._folded(partition, slices).items():
            bound = just_before(first)
            view = view_of(self._wanted.view.timeline, bound, archived=self._wanted.view.archived)
            group = groups.get(file_id) or FileGroup(file_id, [], [])
            before = slice_of(partition, group, view, self._written)
            if before is None or Completeness(self._state, view).is_older(before, self._stats_of(partition, file_id)):
                if self._existed(partition, file_id, first):
                    self._lost_deletes(partition, file_id, first)
                continue
            # Table version 6: later commits append blocks to log files of the same slice.
            found.append((before, "" if self._state.config.completion_times else bound))
        return found

    def _revived(
        self, partition: str, groups: Mapping[str, FileGroup], slices: Mapping[str, FileSlice]
    ) -> dict[str, SlicePaths]:
        """By file id the slice from before the range, where its log may delete keys that are back at its end."""
        found: dict[str, SlicePaths] = {}
        for file_id in () if self._wanted.everything else slices:
            orders = [
                self._wanted.orders[time]
                for time, stat in self._stats_of(partition, file_id)
                if stat.is_log and not self._wanted.commits[time].is_service
            ]
            group = groups.get(file_id)
            bound = just_before(min(orders, default=""))
            if group is None or not orders or not self._revivals.possible(partition, group, max(orders)):
                continue
            view = view_of(self._wanted.view.timeline, bound, archived=self._wanted.view.archived)
            before = slice_of(partition, group, view, self._written)
            if before is not None and before.logs:
                found[file_id] = SlicePaths.of(before, "" if self._state.config.completion_times else bound)
        return found

    def _folded(self, partition: str, slices: Mapping[str, FileSlice]) -> dict[str, str]:
        """By file id when the range's first delete was that the group's slice does not hold, in the range's count."""
        found: dict[str, str] = {}
        completion = self._state.config.completion_times
        for file_id, stats in self._stats.get(partition, {}).items():
            now = slices.get(file_id)
            for time, stat in stats:
                if not stat.deletes or self._wanted.commits[time].is_service or self._is_second_copy(stat):
                    continue
                order = self._wanted.orders[time]
                base = now.base.instant if now and now.base else ""
                if now is None or not stat.is_log or (order if completion else time) < base:
                    found[file_id] = min(found.get(file_id, order), order)
        for time, commit in self._wanted.commits.items():
            if not commit.is_service and time not in self._wanted.skipped:
                for file_id in commit.replaced.get(partition, ()):
                    order = self._wanted.orders[time]
                    found[file_id] = min(found.get(file_id, order), order)
        return found

    def _is_second_copy(self, stat: WriteStat) -> bool:
        log = parse_log_name(stat.name)
        return log is not None and self._wanted.view.is_second_copy(log[1].instant)

    def _stats_of(self, partition: str, file_id: str) -> Sequence[tuple[str, WriteStat]]:
        return self._stats.get(partition, {}).get(file_id, ())

    def _existed(self, partition: str, file_id: str, first: str) -> bool:
        """Whether the group had rows before a commit that deleted some: false where that commit made it."""
        for time, stat in self._stats_of(partition, file_id):
            if self._wanted.orders[time] == first and not stat.is_log:
                return stat.previous not in ("", "null")
        return True

    def _lost_deletes(self, partition: str, file_id: str, instant: str) -> None:
        """Deletes of a commit can be told no more: for a stream that is a gap; a batch gets its rows, and a warning."""
        if self._wanted.strict and not self._wanted.everything:
            raise self._complete.error(f"{partition}/{file_id}" if partition else file_id, instant)
        self._lost.setdefault(instant, []).append(file_id)


def full_scan(state: TableState, wanted: Range) -> list[HudiSplit]:
    """Every live slice of the newest state in the partitions that the range's commits touched, to be filtered by the
    range."""
    view = state.view()
    written = state.written(view)
    partitions = {stat.partition for commit in wanted.commits.values() for stat in commit.stats}
    listed = list_partitions(state.store, ()) if wanted.everything else list_named(state.store, partitions)
    return [
        split_of(s)
        for path, files in listed.items()
        for s in live_slices(path, files, view, written, state.was_replaced)
    ]


GroupStats = Mapping[str, Sequence[tuple[str, WriteStat]]]
"""What commits wrote to the file groups of one partition, by file id: (instant, file)."""


def inserts_after_deletes(groups: GroupStats, wanted: Range) -> bool:
    """Whether a key that one group of a partition deleted may live on in another: an index that knows of the delete
    puts it anywhere."""
    orders = wanted.orders
    first = sorted(
        (min(orders[time] for time, stat in stats if stat.deletes), group)
        for group, stats in groups.items()
        if any(stat.deletes for _, stat in stats)
    )[:2]
    return any(
        stat.inserts and any(other != group and orders[time] >= order for order, other in first)
        for group, stats in groups.items()
        for time, stat in stats
        if first and not wanted.commits[time].is_service
    )


def stats_by_group(wanted: Range) -> dict[str, dict[str, list[tuple[str, WriteStat]]]]:
    """What the range's commits wrote, by partition and file id: (instant, file)."""
    found: dict[str, dict[str, list[tuple[str, WriteStat]]]] = {}
    for time, commit in wanted.commits.items():
        for stat in commit.stats:
            found.setdefault(stat.partition, {}).setdefault(stat.file_id, []).append((time, stat))
    return found


def _splits_of(
    partition: str,
    slices: list[FileSlice],
    before: list[tuple[FileSlice, str]],
    together: bool,
    revived: Mapping[str, SlicePaths],
) -> list[HudiSplit]:
    if not together:
        return [
            replace(split_of(file_slice), revived=tuple(revived[i] for i in (file_slice.file_id,) if i in revived))
            for file_slice in slices
        ]
    size = sum(file_slice.size for file_slice in (*slices, *(older for older, _ in before)))
    older = tuple(SlicePaths.of(file_slice, until) for file_slice, until in before)
    return [HudiSplit(partition, size, tuple(map(SlicePaths.of, slices)), older, revived=tuple(revived.values()))]
