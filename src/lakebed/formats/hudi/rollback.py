"""A table back at an older commit: every later instant is taken back, with the plan and the record of a restore.

Plan: which instants are later, and which files their rollbacks delete. That is the dry run. Do: `commit/restore.py`
puts the plan on the timeline, and takes the instants back one by one, newest first.

Rules: Hudi's `BaseHoodieWriteClient.restoreToSavepoint` and `restoreToInstant`, `RestorePlanActionExecutor`. Later is
what was requested later in table version 6 and older, and what completed later from version 8 on, as readers see the
commit. Pending writes go whenever they were requested: what they build on may go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.errors import (
    CommitConflictError,
    DataCleanedError,
    NotInHistoryError,
    UnsupportedError,
    UsageError,
    counted,
)
from lakebed.formats.hudi.archive.lock import archiver_lock
from lakebed.formats.hudi.archive.options import ARCHIVE
from lakebed.formats.hudi.codec.metadata import parse_savepoint
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.restore import finish_restores, request_restore
from lakebed.formats.hudi.commit.rollback import (
    cut_off_rollbacks,
    deleted_paths,
    end_rollbacks,
    is_failed_write,
)
from lakebed.formats.hudi.commit.undo import plan_undo
from lakebed.formats.hudi.config import load_config
from lakebed.formats.hudi.index.build import build_again
from lakebed.formats.hudi.layout import WRITES, file_path
from lakebed.formats.hudi.metadata_table.named import PARTITIONS, partitions_of
from lakebed.formats.hudi.read.plan import commit_at, needed_files
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.savepoints import check_cleans, check_version
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.formats.hudi.timeline.savepoint_names import savepoint_names
from lakebed.model.upkeep import RollbackResult
from lakebed.verbs.arguments import Position

_ATTEMPTS = 5
"""How often a plan is made again when the timeline changes under it."""


@dataclass(frozen=True, slots=True)
class _Decision:
    """A commit to go back to, the instants that go for it, newest first, and the paths of the files that they delete.

    `timeline` is the one that was looked at, `kept` the commits that stay, newest first.
    """

    timeline: Timeline
    to: Entry
    going: tuple[Entry, ...]
    kept: tuple[Entry, ...]
    files: tuple[str, ...]
    notes: tuple[str, ...]


def roll_back_to(state: Callable[[], TableState], context: WriteContext, to: Position, dry_run: bool) -> RollbackResult:
    """Restore a table. `state` gives it as it is now.

    Raises NotInHistoryError, UsageError, DataCleanedError or UnsupportedError before anything is changed, and
    CommitConflictError where other writers keep on changing the timeline.
    """
    check_version(context.store, context.config)
    if dry_run:
        return _result(_decide(state(), context, to), (), dry_run=True)
    timeline = context.timeline()
    if finish_restores(context, timeline) or cut_off_rollbacks(timeline):
        with context.locked(chooses=True) as held:
            end_rollbacks(context, context.timeline(), held)
    for _ in range(_ATTEMPTS):
        decision = _decide(state(), context, to)
        if not decision.going:
            return _result(decision, ())
        with archiver_lock(context.store, ARCHIVE.parse({})) as _, context.locked(chooses=True) as held:
            timeline = context.timeline()
            if timeline != decision.timeline:
                continue
            held()
            instant = request_restore(context, timeline, decision.to, decision.going)
        named = partitions_of(load_config(context.store), PARTITIONS)
        finish_restores(context, context.timeline())
        notes = build_again(context, state, named)
        return _result(decision, (f"restore {instant} took the later instants back", *notes))
    raise CommitConflictError(
        "the timeline changed each time a restore was planned",
        table=context.store.location,
        todo="Nothing was changed: stop the table's writers and roll back again",
    )


def _decide(state: TableState, context: WriteContext, position: Position) -> _Decision:
    """What goes for a commit to be the newest one again. Raises as `roll_back_to`."""
    timeline = state.timeline
    to = _commit(state, position)
    later = [entry for entry in timeline.commits if timeline.order(entry) > timeline.order(to)]
    pending = [entry for entry in timeline.pending if _goes(context, timeline, entry, to)]
    # As Hudi does: pending instants first, then commits by what was visible last.
    going = (
        *sorted(pending, key=lambda entry: entry.time, reverse=True),
        *sorted(later, key=lambda entry: (timeline.order(entry), entry.time), reverse=True),
    )
    if going:
        _refuse_savepoints(state, to)
        _refuse_archived(state, to)
        _check_files(state, to)
    times = {entry.time for entry in going}
    plans = [plan_undo(context, timeline, entry, times) for entry in going]
    requests = [request for plan in plans for request in plan.requests or ()]
    files = dict.fromkeys(path for request in requests for path in deleted_paths(request))
    blocks = sum(bool(request.log_blocks_to_be_deleted) for request in requests)
    notes = (f"command blocks in {counted(blocks, 'log file')} take back what was appended there",) if blocks else ()
    kept = [entry for entry in timeline.commits if entry.time not in times]
    return _Decision(timeline, to, going, tuple(sorted(kept, key=timeline.order, reverse=True)), tuple(files), notes)


def _commit(state: TableState, position: Position) -> Entry:
    """The commit that a position names; NotInHistoryError for a text that names no moment."""
    try:
        state.bound_of(position, "as_of")
    except UsageError as error:
        raise NotInHistoryError(
            f"{position!r} names no moment of the table",
            table=state.store.location,
            why=error.why or error.what,
            todo="Give a tag, an instant of its history or a timestamp",
        ) from error
    return commit_at(state, position)


def _goes(context: WriteContext, timeline: Timeline, entry: Entry, to: Entry) -> bool:
    """Whether a pending instant is taken back. A table service that was planned before the commit is visible reads
    only what stays."""
    return is_failed_write(context, entry) or entry.time > timeline.order(to)


def _refuse_savepoints(state: TableState, to: Entry) -> None:
    timeline = state.timeline
    orders = {entry.time: timeline.order(entry) for entry in timeline.commits}
    later = {time for time in timeline.savepointed if orders.get(time, time) > timeline.order(to)}
    names = sorted(name for name, time in savepoint_names(state.store, timeline).items() if time in later)
    if names:
        raise UsageError(
            f"the tag {names[0]!r} names a commit that would go",
            table=state.store.location,
            instant=to.time,
            why=f"later than {to.time} are the tags {', '.join(names)}",
            todo="Delete these tags, or go back to a later commit",
        )


def _refuse_archived(state: TableState, to: Entry) -> None:
    """UnsupportedError where a commit after the one to go back to is archived: nothing takes it back there."""
    timeline = state.timeline
    if timeline.completion_times:
        active = timeline.by_time
        orders = {time: order for time, order in (state.archived.completions() or {}).items() if time not in active}
        times = [time for time, order in orders.items() if order > timeline.order(to)]
        actions = (
            {instant.time for instant in state.archived.instants() if instant.action in WRITES} if times else set()
        )
        archived = sorted(actions.intersection(times))
    elif to.time < timeline.start:
        writes = (instant for instant in state.archived.instants() if instant.action in WRITES)
        archived = sorted({i.time for i in writes if i.time > to.time} - {*timeline.by_time})
    else:
        archived = []
    if archived:
        raise UnsupportedError(
            f"commits after {to.time} are archived",
            table=state.store.location,
            instant=archived[0],
            why="what is archived cannot be taken back",
            todo="Read the table as of that commit, and write these rows to a new table",
        )


def _check_files(state: TableState, to: Entry) -> None:
    """DataCleanedError where a file is gone, or going, that the commit needs."""
    store = state.store
    files = {partition: {*names} for partition, names in needed_files(state, to).items()}
    savepoint = next((e for e in state.timeline.entries if e.action == "savepoint" and e.time == to.time), None)
    if savepoint is not None and savepoint.done:
        saved = parse_savepoint(store.read(savepoint.file))
        for (partition, names), listing in zip(saved.items(), store.list_many([*saved]), strict=True):
            gone = sorted({*names} - {*listing.names})
            if gone:
                raise DataCleanedError(
                    "a file that the savepoint keeps is gone",
                    table=store.location,
                    instant=to.time,
                    file=file_path(partition, gone[0]),
                    todo="Restore the file from a copy, or go back to another commit",
                )
    check_cleans(store, state.timeline, to, files)


def _result(decision: _Decision, notes: tuple[str, ...], *, dry_run: bool = False) -> RollbackResult:
    return RollbackResult(
        decision.to.time,
        tuple(entry.time for entry in decision.going),
        tuple(entry.time for entry in decision.kept),
        decision.files,
        dry_run,
        (*decision.notes, *notes),
    )
