"""The driver's half of a stream: which commits a batch takes, and the position after it.

Rules: Hudi's Flink source (`StreamReadMonitoringFunction`, `IncrementalInputSplits`). After a position a batch takes
everything that completed since. Without a position a stream starts at the newest commit, or at `read.start-commit`,
inclusive. `earliest` gives the table as it stands in one batch, then goes on from there.

A commit that began before the position and completed after it comes with a later batch. So does one whose writer's
clock was behind, so that it appeared with a time before the position. Neither is ever lost, and a batch that is planned
again takes the same commits. The stream reports commits that it has read and that a rollback or a restore took back:
later batches cannot take back what was read of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.errors import NotInHistoryError, counted
from lakebed.formats.hudi.codec.metadata import CommitMetadata
from lakebed.formats.hudi.options import (
    BYTES_LIMIT,
    COMMITS_LIMIT,
    END_COMMIT,
    FALLBACK,
    ROLLED_BACK,
    SPLITS_LIMIT,
    START_COMMIT,
)
from lakebed.formats.hudi.read.batch import EARLIEST, option_bounds, plan_commits
from lakebed.formats.hudi.read.commit_filter import brings_rows, is_skipped_overwrite
from lakebed.formats.hudi.read.commit_range import CommitRange, empty_range, just_before
from lakebed.formats.hudi.read.position import StreamPosition
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.split import HudiSplit
from lakebed.formats.hudi.read.state import TableState
from lakebed.kernel.again import looks_again
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import Limits


@dataclass(frozen=True, slots=True)
class _Commit:
    """A completed commit that a batch may take; `order` is what ranges count in."""

    time: str
    order: str
    metadata: CommitMetadata


class HudiStream:
    """A stream of one table's changes. `state` reads the table's metadata anew.

    What `latest` has read of the table, the plan of the batch that it ended goes on with. Only the timeline is listed
    again, since a clean that has begun meanwhile must be known before files are listed.
    """

    def __init__(self, state: Callable[[], TableState], request: ReadRequest) -> None:
        self._state, self._request, self._options = state, request, request.options
        self._known: TableState | None = None
        self._ends: frozenset[str] = frozenset()

    @property
    @looks_again
    def schema(self) -> pa.Schema:
        """The table's columns, then the row kind."""
        state = self._state()
        state.read_ahead()
        return self._plan_batch(state, empty_range(state.view())).schema

    @looks_again
    def initial(self) -> str:
        """The position before the first row that the options ask for."""
        state, start = self._state(), self._options[START_COMMIT]
        first, _ = option_bounds(state, self._options)
        if start.lower() == EARLIEST:
            return self.before_everything()
        if start:
            return StreamPosition(just_before(first)).text()
        newest = max(
            (commit.order for commit in self._commits(state, StreamPosition("")) if self._counts(state, commit)),
            default="",
        )
        return StreamPosition.of(state, just_before(newest) if newest else "").text()

    def before_everything(self) -> str:
        """The position before the first commit. The next batch is the table as it stands."""
        return StreamPosition("").text()

    @looks_again
    def after_everything(self) -> str:
        """The position after all that is completed now."""
        state = self._state()
        newest = max((state.timeline.order(entry) for entry in state.timeline.commits), default="")
        return StreamPosition.of(state, newest).text()

    @looks_again
    def after(self, instant: str) -> str:
        """The position after an instant or a time."""
        return StreamPosition(self._state().bound_of(instant, "the start")).text()

    @looks_again
    def latest(self, start: str, limits: Limits) -> str:
        """The position after the commits that the next batch takes, `start` itself when there are none.

        Raises NotInHistoryError where commits that the stream has read were taken back.
        """
        state = self._now()
        end = self._end(state, start, limits)
        self._keep(state, end)
        return end

    @looks_again
    def ends(self, start: str, limits: Limits) -> tuple[str, ...]:
        """The positions after all batches up to what is there now."""
        state, ends, position = self._now(), [], start
        while (end := self._end(state, position, limits)) != position:
            ends.append(end)
            position = end
        self._keep(state, *ends)
        return tuple(ends)

    def _end(self, state: TableState, start: str, limits: Limits) -> str:
        position = StreamPosition.parse(start)
        self._check_not_taken_back(state, position)
        position.read_ahead(state)
        commits = self._commits(state, position)
        if not any(self._counts(state, commit) for commit in commits):
            return start
        taken = commits if not position.until else self._within_limits(state, commits, limits)
        until = max(position.until, taken[-1].order)
        left = {commit.time for commit in commits[len(taken) :]}
        return StreamPosition.of(state, until, left).text()

    @looks_again
    def plan(self, start: str, end: str) -> ReadPlan[HudiSplit]:
        """The changes after `start` up to and including `end`: of the commits that completed in between, as the table
        stood at `end`."""
        state = self._state_of_batch(end)
        before, after = StreamPosition.parse(start), StreamPosition.parse(end)
        state.read_ahead(after.until, partitions=not before.until)
        warnings = self._check_not_taken_back(state, before, after)
        commits = [c for c in self._commits(state, before, after.until) if after.has(c.time, c.order)]
        unread = {e.time for e in state.timeline.commits if not after.has(e.time, state.timeline.order(e))}
        commit_range = CommitRange(
            view=state.view(after.until, frozenset(unread | set(after.pending))),
            commits={commit.time: commit.metadata for commit in commits},
            orders={commit.time: commit.order for commit in commits},
            from_beginning=not before.until,
            strict=self._options[FALLBACK] == "fail",
            skipped=frozenset(
                commit.time for commit in commits if is_skipped_overwrite(self._options, commit.metadata)
            ),
        )
        plan = self._plan_batch(state, commit_range)
        self._keep(state)
        return replace(plan, warnings=(*warnings, *plan.warnings))

    def _now(self) -> TableState:
        """The table as it is now. Where its settings and timeline are those that are known, with all that was read of
        it then."""
        known, state = self._forget(), self._state()
        same = known is not None and (known.config, known.timeline) == (state.config, state.timeline)
        return known if known is not None and same else state

    def _state_of_batch(self, end: str) -> TableState:
        """The table for the plan of a batch: a moment later than `latest` gave its end, where it has just done so."""
        if end not in self._ends:
            return self._now()
        known = self._forget()
        return known.later() if known is not None else self._state()

    def _keep(self, state: TableState, *ends: str) -> None:
        """Keep what was read of the table. The next plan goes on with it if its batch ends at one of `ends`."""
        self._known, self._ends = state, frozenset(ends)

    def _forget(self) -> TableState | None:
        """What is known of the table. It is kept again only by a call that succeeds: after one that met a file which is
        gone, all is read anew."""
        known, self._known, self._ends = self._known, None, frozenset()
        return known

    def _check_not_taken_back(self, state: TableState, *positions: StreamPosition) -> tuple[str, ...]:
        """A warning of commits that these positions have seen and that are gone.

        Raises NotInHistoryError instead, unless the options ask for the warning.
        """
        gone = sorted({time for position in positions for time in position.vanished(state)})
        if not gone:
            return ()
        read = "that this stream has read"
        what = f"{counted(len(gone), f'commit {read} was', f'commits {read} were')} rolled back: {', '.join(gone[:3])}"
        what += ", ..." if len(gone) > 3 else ""
        if self._options[ROLLED_BACK] == "warn":
            return (f"{what}; their rows were not taken back",)
        raise NotInHistoryError(
            what,
            table=state.store.location,
            instant=gone[0],
            why="a rollback or a restore removed them, but rows that you have read stay where you put them",
            todo=f"Undo their rows there, then continue with {ROLLED_BACK.key} = warn; or begin with a new checkpoint",
        )

    def _plan_batch(self, state: TableState, commit_range: CommitRange) -> ReadPlan[HudiSplit]:
        """The plan of one batch."""
        return plan_commits(state, self._request, commit_range)

    def _commits(self, state: TableState, position: StreamPosition, until: str = "") -> list[_Commit]:
        """Completed commits that a position has not read, in the order that ranges count in."""
        last = state.bound_of(self._options[END_COMMIT], END_COMMIT.key)
        high = min((bound for bound in (until, last) if bound), default="")
        entries = [
            entry
            for entry in state.timeline.commits
            for order in [state.timeline.order(entry)]
            if not position.has(entry.time, order) and (not high or order <= high)
        ]
        metadata = state.files.commits(entries)
        commits = [_Commit(entry.time, state.timeline.order(entry), metadata[entry.time]) for entry in entries]
        if position.until and position.oldest_unread < state.timeline.start:
            commits += [
                _Commit(archived.time, archived.order, archived.commit)
                for archived in state.archived.commits(position.oldest_unread, high)
                if archived.time not in state.timeline.by_time and not position.has(archived.time, archived.order)
            ]
        return sorted(commits, key=lambda commit: (commit.order, commit.time))

    def _within_limits(self, state: TableState, commits: list[_Commit], limits: Limits) -> list[_Commit]:
        """The first commits that the limits allow, at least one that brings rows. Commits that bring none are free."""
        most_commits = _least(limits.commits, self._options[COMMITS_LIMIT])
        most_files = _least(limits.files, self._options[SPLITS_LIMIT])
        most_bytes = _least(limits.bytes, self._options[BYTES_LIMIT])
        count = size = last = 0
        groups: set[tuple[str, str]] = set()
        for place, commit in enumerate(commits):
            if not self._counts(state, commit):
                continue
            groups |= {(stat.partition, stat.file_id) for stat in commit.metadata.stats}
            size += sum(stat.size for stat in commit.metadata.stats)
            too_many = (
                (most_commits is not None and count >= most_commits)
                or (most_files is not None and len(groups) > most_files)
                or (most_bytes is not None and size > most_bytes)
            )
            if count and too_many:
                break
            count, last = count + 1, place
        return commits[: last + 1]

    def _counts(self, state: TableState, commit: _Commit) -> bool:
        return brings_rows(state, self._options, commit.metadata)


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
