"""Full changes of a range of commits: for each commit the rows before and after it, in the order of the commits.

Rules: Hudi's `HoodieCDCExtractor`. It gives each commit and file group one of five cases:

    AS_IS               a change log (`.cdc`) holds operation, row before and row after
    BASE_FILE_INSERT    a new file group: all its rows are inserts
    BASE_FILE_DELETE    a file group that lost its rows
    LOG_FILE            a log file, to be held against the slice from before it
    REPLACE_COMMIT      a replaced file group: all its rows are deletes

The last four are one here: the file group's slice before the commit against that after it. So is a change log in a
supplemental mode that leaves the rows out, and a table that keeps no change log can be asked as well. Table services
change nothing. With `read.cdc.from.changelog` the log files of a merge-on-read table wait for their compaction, whose
change log brings them, as Flink writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from lakebed.errors import DataCleanedError, UnsupportedError
from lakebed.formats.hudi.codec.metadata import CommitMetadata, WriteStat
from lakebed.formats.hudi.merge.rules import check_known
from lakebed.formats.hudi.options import CDC_FROM_CHANGELOG
from lakebed.formats.hudi.read.cdc_task import FullChangesTask, RowChanges
from lakebed.formats.hudi.read.changes import (
    Range,
    changes_schema,
    check_tellable,
    fallen_behind,
    stats_by_group,
)
from lakebed.formats.hudi.read.commits import just_before, waits_for_compaction
from lakebed.formats.hudi.read.completeness import Completeness
from lakebed.formats.hudi.read.moves import Placed, Touch, group_name, joined_splits
from lakebed.formats.hudi.read.partitions import list_named, list_partitions
from lakebed.formats.hudi.read.plan import complete_slices, reader_of
from lakebed.formats.hudi.read.revived import Revivals
from lakebed.formats.hudi.read.split import FileGroupChange, HudiSplit, SlicePaths
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import FileGroup, file_groups, slice_of
from lakebed.formats.hudi.timeline.active import View, view_of
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where, columns_of, parse_where
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.table import project

_FULL_MODE = "data_before_after"
_TEXT_KEYS = ("string", "int", "long", "short", "int32", "int64")


def plan_full_changes(
    state: TableState, options: Options, columns: Sequence[str] | None, where: Where, wanted: Range
) -> ReadPlan[HudiSplit]:
    """The splits of the full changes of a range, +I, -U, +U and -D rows, all of whose columns are given.

    Of the meta columns the commit time (that of the change), record key and partition path are given. Raises
    DataCleanedError when files that it takes were cleaned.
    """
    return plan_full_range(state, options, columns, where, all_commits(state, wanted))


def all_commits(state: TableState, wanted: Range) -> Range:
    """A range from the beginning of history on with its archived commits, others as they are."""
    if not wanted.everything:
        return wanted
    commits, orders = dict(wanted.commits), dict(wanted.orders)
    for old in state.archived.commits("", wanted.view.bound):
        if old.time not in state.timeline.by_time:
            commits[old.time], orders[old.time] = old.commit, old.order
    return replace(wanted, commits=commits, orders=orders)


def plan_full_range(
    state: TableState,
    options: Options,
    columns: Sequence[str] | None,
    where: Where,
    wanted: Range,
    as_it_stands: bool = False,
) -> ReadPlan[HudiSplit]:
    """The splits of the full changes of some commits; with `as_it_stands` all rows at the range's end as inserts."""
    schema = state.schema()
    names = project(columns, schema, table=state.store.location)
    changes = row_changes(state, options, wanted, tuple(dict.fromkeys([*names, *columns_of(where, schema)])))
    task = FullChangesTask(changes, changes_schema(state, schema, names), parse_where(where, schema))
    return full_plan(state, options, wanted, task, as_it_stands)


class FullTask(Protocol):
    """Reads one split of full changes in the columns of `schema`; picklable."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its batches."""

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The split's changes."""


def full_plan(
    state: TableState, options: Options, wanted: Range, task: FullTask, as_it_stands: bool
) -> ReadPlan[HudiSplit]:
    """The plan of full changes that a task reads: one split a file group, or a partition where keys move between its
    file groups; with `as_it_stands` all rows at the range's end."""
    splits = _standing(state, wanted) if as_it_stands else _Planner(state, options, wanted).splits()
    return ReadPlan(task.schema, tuple(splits), task, fallen_behind(state, wanted))


def row_changes(state: TableState, options: Options, wanted: Range, decoded: tuple[str, ...]) -> RowChanges:
    """How the changes of a range are read, some columns of them."""
    check_tellable(state)
    schema = state.schema()
    reader = reader_of(state, options, schema, wanted.view)
    check_known(reader.rules, state.store.location)
    return RowChanges(reader, decoded, state.config.record_keys if _has_text_keys(state) else ())


def _has_text_keys(state: TableState) -> bool:
    """Whether record keys can be told from the key fields: a key generator for several fields may put a lone one's name
    into the key or not."""
    kinds = [str(state.schema().field(name).type) for name in state.config.record_keys if name in state.schema().names]
    generator = state.config.properties.get("hoodie.table.keygenerator.type") or state.config.properties.get(
        "hoodie.table.keygenerator.class", ""
    )
    ambiguous = len(kinds) == 1 and not (generator.upper() == "SIMPLE" or generator.endswith(".SimpleKeyGenerator"))
    known = len(kinds) == len(state.config.record_keys) and all(kind in _TEXT_KEYS for kind in kinds)
    return bool(kinds) and known and not ambiguous


def _standing(state: TableState, wanted: Range) -> list[HudiSplit]:
    written = state.written(wanted.view)
    named = {stat.partition for commit in wanted.commits.values() for stat in commit.stats}
    listed = list_partitions(state.store, {*named, *state.cleaned_groups(wanted.view.bound)})
    return [
        HudiSplit(
            group_name(partition, found.file_id),
            found.size,
            (),
            (),
            (FileGroupChange("", partition, after=SlicePaths.of(found)),),
        )
        for partition, files in listed.items()
        for found in complete_slices(state, partition, files, wanted.view, written)
    ]


class _Planner:
    """Finds what each commit of a range did to each file group."""

    def __init__(self, state: TableState, options: Options, wanted: Range) -> None:
        self._state, self._wanted = state, wanted
        self._compactions = waits_for_compaction(state, options)
        self._logs_are_full = (
            state.config.properties.get("hoodie.table.cdc.supplemental.logging.mode", _FULL_MODE).lower() == _FULL_MODE
        )
        self._written = state.written(wanted.view)
        self._stats = stats_by_group(wanted)
        self._views: dict[str, View] = {}
        self._moved = _moved_groups(state, wanted.view)
        self._revivals = Revivals(state, wanted.view)

    def splits(self) -> Iterator[HudiSplit]:
        """The splits of all partitions that the range's commits touched."""
        replaced = self._replaced_groups()
        found: dict[tuple[str, str], list[Placed]] = {}
        sizes: dict[tuple[str, str], int] = {}
        touches: list[Touch] = []
        for partition, files in sorted(list_named(self._state.store, {*self._stats, *replaced}).items()):
            groups = file_groups(files)
            for time, file_id in replaced.get(partition, ()):
                change = self._replaced(partition, groups.get(file_id) or FileGroup(file_id, [], []), time)
                if change is not None:
                    found.setdefault((partition, file_id), []).append((self._place(time, 0), change))
                    touches.append(Touch(self._wanted.orders[time], partition, file_id, removes=True, adds=False))
            for file_id, written in self._stats.get(partition, {}).items():
                group = groups.get(file_id) or FileGroup(file_id, [], [])
                sizes[partition, file_id] = sum(stat.size for _, stat in written)
                for time, mine in _by_commit(written).items():
                    change = self._change(partition, group, time, mine)
                    if change is not None:
                        found.setdefault((partition, file_id), []).append((self._place(time, 1), change))
                        adds = any(stat.inserts for stat in mine)
                        touches.append(Touch(self._wanted.orders[time], partition, file_id, change.deletes, adds))
        reordered = {partition for commit in self._wanted.commits.values() for partition in commit.replaced}
        return joined_splits(found, sizes, touches, reordered)

    def _replaced_groups(self) -> dict[str, list[tuple[str, str]]]:
        """By partition the file groups that commits of the range replaced, each with its instant; those of services
        moved rows only."""
        replaced: dict[str, list[tuple[str, str]]] = {}
        for time, commit in self._wanted.commits.items():
            if not commit.is_service and time not in self._wanted.skipped:
                for partition, ids in commit.replaced.items():
                    replaced.setdefault(partition, []).extend((time, file_id) for file_id in ids)
        return replaced

    def _place(self, time: str, step: int) -> tuple[str, str, int]:
        """The order of changes: by commit, in one commit what it took away first."""
        return self._wanted.orders[time], time, step

    def _replaced(self, partition: str, group: FileGroup, time: str) -> FileGroupChange | None:
        before = self._slice(partition, group, self._view_before(time))
        return FileGroupChange(time, partition, before=before, deletes=True) if before else None

    def _change(
        self, partition: str, group: FileGroup, time: str, stats: Sequence[WriteStat]
    ) -> FileGroupChange | None:
        commit = self._wanted.commits[time]
        logs = self._change_logs(partition, group, time, stats)
        if not self._brings_changes(commit, stats, bool(logs), time) or time in self._wanted.skipped:
            return None
        if self._moved.get((partition, group.file_id), "~") <= self._wanted.orders[time]:
            return None  # the rows are also in the group that a clustering made of this one
        deletes = any(stat.deletes for stat in stats)
        if commit.is_service:
            return FileGroupChange(time, partition, logs, deletes=deletes)
        try:
            before = self._slice(partition, group, self._view_before(time))
            after = self._slice(partition, group, self._view_at(self._wanted.orders[time]), stats, time)
            self._check_previous(partition, group, before, stats, time)
        except DataCleanedError as error:
            if not (logs and self._logs_are_full):
                raise
            return FileGroupChange(time, partition, logs, deletes=deletes, gone=error.file or group.file_id)
        late = bool(before and before.logs) and self._revivals.possible(partition, group, self._wanted.orders[time])
        return FileGroupChange(time, partition, logs, before, after, deletes, revives=late)

    def _brings_changes(self, commit: CommitMetadata, stats: Sequence[WriteStat], logged: bool, time: str) -> bool:
        if not commit.is_service:
            return not (self._compactions and all(stat.is_log for stat in stats))
        if commit.operation != "COMPACT" or not self._compactions:
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

    def _change_logs(self, partition: str, group: FileGroup, time: str, stats: Sequence[WriteStat]) -> tuple[str, ...]:
        """The change logs of a commit, if all are there. Archives of some releases leave their names out."""
        named = {path.rpartition("/")[2] for stat in stats for path in stat.cdc}
        found = [log for log in group.logs if log.cdc and (log.name in named if named else log.instant == time)]
        if len(found) < len(named):
            return ()
        prefix = f"{partition}/" if partition else ""
        return tuple(prefix + log.name for log in sorted(found, key=lambda log: log.version))

    def _view_at(self, order: str) -> View:
        view = self._views.get(order)
        if view is None:
            whole = self._wanted.view
            view = self._views[order] = view_of(whole.timeline, order, archived=whole.archived)
        return view

    def _view_before(self, time: str) -> View:
        return self._view_at(just_before(self._wanted.orders[time]))

    def _slice(
        self, partition: str, group: FileGroup, view: View, stats: Sequence[WriteStat] = (), time: str = ""
    ) -> SlicePaths | None:
        """The group's slice in a view; DataCleanedError when it is not whole."""
        found = slice_of(partition, group, view, self._written)
        Completeness(self._state, view).check(partition, group, found, [(time, stat) for stat in stats])
        if found is None:
            return None
        # Table version 6: later commits append blocks to log files of the same slice.
        return SlicePaths.of(found, "" if self._state.config.completion_times else view.bound)

    def _check_previous(
        self, partition: str, group: FileGroup, before: SlicePaths | None, stats: Sequence[WriteStat], time: str
    ) -> None:
        """The base file that a rewritten one says it came from is that of the slice before."""
        base = max((base.instant for base in group.bases if before and before.base.endswith(base.name)), default="")
        for stat in stats:
            if not stat.is_log and stat.previous.isdigit() and (before is None or stat.previous > base):
                if before is not None and before.logs:
                    continue
                raise Completeness(self._state, self._view_before(time)).error(
                    group_name(partition, group.file_id), time
                )


def _moved_groups(state: TableState, view: View) -> dict[tuple[str, str], str]:
    """When clusterings of the view replaced file groups, in what ranges count in, by partition and file id."""
    return {
        (partition, file_id): view.committed[time]
        for time, commit in state.commits(view).items()
        if commit.is_service
        for partition, ids in commit.replaced.items()
        for file_id in ids
    }


def _by_commit(stats: Sequence[tuple[str, WriteStat]]) -> Mapping[str, list[WriteStat]]:
    found: dict[str, list[WriteStat]] = {}
    for time, stat in stats:
        found.setdefault(time, []).append(stat)
    return found
