"""What a table should hold, and the checks of it: the model sees the table anew at each change that publishes one.

A row is an id and a value that no other row has, so a row that comes twice, or belongs to nobody, shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakebed.testing.simulation.branches import Branches
from lakebed.testing.simulation.changes import Change, Row, State, Violation, difference, ids_of, state_of
from lakebed.testing.simulation.columns import Cells, Columns
from lakebed.testing.simulation.row_ids import Numbers, RowIds
from lakebed.testing.simulation.waiting import WaitingFile, covered, outcomes

if TYPE_CHECKING:
    from lakebed.testing.simulation.staging import StagedWrite

_AHEAD_SECONDS = 60.0
"""A partition may expire by a clock that is so far ahead of the store's."""


@dataclass(frozen=True, slots=True)
class Head:
    """A branch as it is: its rows, and its snapshot, "" where that is not in the history of the table."""

    rows: Sequence[Row]
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A table as it is: its newest rows, the newest snapshot, all entries of its history, oldest first, and the other
    branches."""

    rows: Sequence[Row]
    newest: str
    line: tuple[str, ...]
    branches: Mapping[str, Head] = field(default_factory=dict)
    cells: Cells | None = None
    """What the newest rows have in each column beside `id`, `p` and `v`. None: nobody looked."""
    shown: Sequence[Row] | None = None
    """The rows that readers see, where `rows` has others too, which wait for a compaction. None: all of them."""
    waiting: Sequence[WaitingFile] = ()
    numbers: Mapping[int, Numbers] | None = None
    """The numbers of the newest rows, by their `v`, where the table gives rows some."""


class Model:
    """The states that a table had, one after the other, and those of the snapshots that it has now."""

    def __init__(
        self, by_sequence: bool = False, keeps_all: bool = False, keeps_order: bool = True, keeps_newest: bool = True,
        misses_new: bool = False,
    ) -> None:  # fmt: skip
        self.keeps_all, self.keeps_order = keeps_all, keeps_order
        """Whether the history loses no entry at all, and whether new entries come last: Hudi's has the archive, and is
        in the order in which instants were requested."""
        self.keeps_newest = keeps_newest
        """Whether the newest entry names the rows of now for good. Of a history without order no other entry is known
        to; below table version 8 of Hudi not even that, since an instant that was requested before may complete."""
        self.by_sequence = by_sequence
        """Whether of two writes at once either may win a row, whichever is committed first: Paimon orders the rows of
        a key by numbers that a writer draws before it commits."""
        self.misses_new = misses_new
        """Whether a delete may miss a row that comes while it runs, as if it had been the first."""
        self.changes: list[Change] = []
        self._ticks = 0
        self.states: list[State] = [frozenset()]
        self.shown = self.states
        """What readers see of them: fewer rows where some wait for a compaction."""
        self.waiting: Sequence[WaitingFile] = ()
        self.covered: set[Row] = set()
        """The rows that did not count when they came, since a waiting file was created later by the clock of its
        writer. They count again where that one is compacted first."""
        self.branches = Branches()
        self.columns, self.row_ids = Columns(), RowIds()
        self.snapshots: dict[str, State] = {}
        self.tags: dict[str, State] = {}
        self.tagged: dict[str, str] = {}
        """The snapshots of tags."""
        self.staged: list[StagedWrite] = []
        """Writes that are in the table and that nobody sees."""
        self.lost: dict[str, frozenset[int]] = {}
        """The files that the table has lost, each with the `v` of the rows that were in it."""
        self.tag_made: dict[str, tuple[int, int]] = {}
        """When the steps began and ended that made tags, in ticks."""
        self.cut_expiries: list[tuple[int, int]] = []
        """When expiries began and ended that a fault hit, in ticks."""
        self.line: tuple[str, ...] = ()
        self.newest = ""
        """The entry that the table's rows are of. After an Iceberg rollback, newer ones stay until they expire."""
        self.every: dict[str, State] = {}
        """The rows of each entry when it was the newest, in this order; of those that expired too, but not of those
        that a rollback took away."""
        self.removed: dict[str, int] = {}
        """When the step began that removed an entry, in ticks."""
        self.time: Callable[[], float] = lambda: 0.0
        """The time of now, in seconds since 1970, by a clock that is right."""
        self.clocks_differ: Callable[[], bool] = lambda: False
        self.dues: Mapping[str, float] = {}
        """From when on partitions may expire by their values."""
        self.parts: Mapping[int, str] | None = None
        """The partitions that any commit may take out of the table once they are due; None: none."""
        self.went_back = self.overwrites = 0
        """The number of states that rollbacks led to, and of overwrites that landed."""

    @property
    def now(self) -> State:
        """The newest state."""
        return self.states[-1]

    def tick(self) -> int:
        """A moment later than all before."""
        self._ticks += 1
        return self._ticks

    def begin(self, change: Change) -> Change:
        """A step begins to change rows."""
        change.began = self.tick()
        self.changes.append(change)
        return change

    def end(self, change: Change) -> None:
        """A step that changed rows is over."""
        change.ended = self.tick()

    def publish(
        self, seen: Seen, change: Change | None, who: str, began: int = 0, others: Sequence[Change] = ()
    ) -> None:
        """The table was published anew by an actor that was doing a change, or no change of rows. Its step began at the
        tick `began`; `others` are more changes that it commits, one after the other."""
        new = state_of(seen.rows, f"after a change of {who}")
        heads = {
            name: state_of(head.rows, f"in branch {name}, after a change of {who}")
            for name, head in seen.branches.items()
        }
        self.covered |= covered(seen.waiting)
        open_ones = [one for one in others if not one.landed or one.taken_back]
        came = self._came(seen)
        if open_ones:
            waits = next((one for one in open_ones if one.rows & came), None)
            change = waits or next((one for one in open_ones if self._fits(one, self.now, new)), open_ones[0])
            if new != self.now and self._is_swap(self.now, new):
                # other rows of the same numbers win now, as a compaction lets them: not for a commit without a row here
                change = change if change.rows & (new | came) else None
        self.advance(self.states, new, change if change is None or not change.branch else None, who)
        if change is not None and not change.landed and change.rows & came:  # others with its keys count
            self._land(change, len(self.states), who)
        self.branches.publish(heads, change, who, began, self)
        shown = new if seen.shown is None else self._show(state_of(seen.shown, "in its files"), seen, change, who)
        back = change is not None and change.goes_back
        self.went_back += back
        for one in self.changes if back else ():
            one.taken_back = one.landed > 0 and one.ended is None
        self._lengthen(seen, new, shown, who, back, began)
        for name, head in seen.branches.items():
            if head.snapshot:
                self._keep(head.snapshot, heads[name], who)
        if seen.numbers is not None and (wrong := self.row_ids.wrong(seen.numbers, seen.newest, back)):
            raise Violation(f"{who}: {wrong}")
        if seen.cells is not None:
            self._see_columns(seen.cells, change, who)

    def advance(self, states: list[State], new: State, change: Change | None, who: str) -> None:
        """The rows of the table, or of a branch, are those of before or what the change makes of them."""
        old = states[-1]
        if new == old:
            return
        if change is not None and (change.goes_back or change.leads_to is not None):
            if new not in (change.leads_to() if change.leads_to is not None else states):
                raise Violation(f"{who}: {change.text} led to a state that never was\n{difference(old, new)}")
            if change.follows is not None and old not in change.follows():
                raise Violation(f"{who}: {change.text} lost rows that are not there\n{difference(old, new)}")
            change.landed = len(states)
            self.overwrites += change.replaces
        elif change is not None and (not change.landed or change.taken_back) and self._fits(change, old, new):
            self._land(change, len(states), who)
        elif self.parts is not None and new in self.without_due(old, self.parts):
            self.overwrites += 1
        elif not self._is_swap(old, new):
            raise Violation(self._wrong(change, old, new, who))
        states.append(new)

    def _land(self, change: Change, place: int, who: str) -> None:
        """A change is in the table now."""
        if change.over:
            raise Violation(f"{who}: {change.text} landed after an error that said that it did not happen")
        change.landed, change.taken_back = place, False
        self.overwrites += change.replaces

    def _came(self, seen: Seen) -> set[Row]:
        """The rows that wait now and did not before."""
        before = {one.name for one in self.waiting}
        new = (one for one in seen.waiting if one.name not in before)
        return {(key, value) for one in new for _, key, value in one.events}

    def _show(self, new: State, seen: Seen, change: Change | None, who: str) -> State:
        """Readers see what they saw before and what does not wait any more: rows of files that a compaction took, in
        the order in which these were created. An overwrite removes rows, and shows none of its own yet."""
        if self.shown is self.states:
            self.shown = [frozenset()]
        old, there = self.shown[-1], {one.name for one in seen.waiting}
        if change is not None and change.goes_back:
            wrong = new not in self.shown
        elif change is not None and change.replaces and new <= old:
            wrong = False
        else:
            moved = [one for one in self.waiting if one.name not in there]
            before, after = dict(old), dict(new)
            ids = {*before, *after}
            wrong = any(after.get(key) not in (outcomes(key, moved) or {before.get(key)}) for key in ids)
        if wrong:
            raise Violation(f"{who}: readers see other rows than were compacted\n{difference(old, new)}")
        self.waiting = seen.waiting
        if new != old:
            self.shown.append(new)
        return new

    def _see_columns(self, cells: Cells, change: Change | None, who: str) -> None:
        """The columns are those of before or what the change makes of them, and a row keeps what it has in each."""
        if cells.keys() != self.columns.numbers.keys():
            alteration = change.alteration if change is not None else None
            if change is None or alteration is None or change.landed or change.over:
                raise Violation(f"{who} changed the columns {[*self.columns.numbers]} to {[*cells]}")
            if self.columns.after(alteration).keys() != cells.keys():
                raise Violation(f"{who}: {change.text} made of the columns {[*self.columns.numbers]} {[*cells]}")
            self.columns.alter(alteration)
            change.landed = 1
        given = {value: one.columns for one in self.changes if one.columns for _, value in one.rows}
        if wrong := self.columns.wrong(cells, given):
            raise Violation(f"{who}: {wrong}")

    def altered_since(self, tick: int) -> bool:
        """Whether somebody was altering the table at a tick, or did so later."""
        altering = (one for one in self.changes if one.alteration is not None)
        return any(one.ended is None or one.ended > tick for one in altering)

    def was_made_in_a_cut_expiry(self, tag: str) -> bool:
        """Whether a tag was made while an expiry was at work that a fault hit."""
        began, ended = self.tag_made.get(tag, (0, 0))
        return any(begun < ended and over > began for begun, over in self.cut_expiries)

    def _wrong(self, change: Change | None, old: State, new: State, who: str) -> str:
        if change is None:
            return f"{who} changed rows without writing any\n{difference(old, new)}"
        if change.landed:
            return f"{who}: {change.text} landed twice\n{difference(old, new)}"
        return f"{who}: {change.text} did something else\n{difference(change.apply(old), new)}\nold: {sorted(old)}"

    def _fits(self, change: Change, old: State, new: State) -> bool:
        """Whether a state is what a change makes of another, but for rows that it lost to changes at the same time."""
        wanted = change.apply(old)
        changed = ids_of(old ^ new)
        return all(
            self._swapped(key, old, new) if key in changed else self._may_miss(change, key, old)
            for key in ids_of(wanted ^ new)
        )

    def _may_miss(self, change: Change, key: int, old: State) -> bool:
        """Whether a change may leave a row as it is that it should have changed."""
        if self.misses_new and change.removes:
            return any(one.overlaps(change) for one in self._writers(key, old))
        return self._lost(change, key)

    def _lost(self, change: Change, key: int) -> bool:
        """Whether another change may have won the row of an id, whichever came last."""
        is_covered = any(row in self.covered for row in change.rows if row[0] == key)
        return is_covered or (self.by_sequence and self._raced(change, key))

    def without_old(self, parts: Mapping[int, str], before: float) -> list[State]:
        """The newest state, and what an expiry of partitions may make of it: all rows of a partition go, or of several,
        and none whose writer began at a time or later. `parts` gives the partition of an id's remainder."""
        fresh = {row for one in self.changes if one.time >= before for row in one.rows}
        return _without_some(self.now, parts, lambda _, going: not going & fresh)

    def without_due(self, state: State, parts: Mapping[int, str]) -> list[State]:
        """A state, and what an expiry of partitions by their values may make of it: all rows of those go that are too
        old now, or of some of these."""
        due = self.due(_AHEAD_SECONDS if self.clocks_differ() else 0)
        return _without_some(state, parts, lambda part, _: part in due)

    def without_lost(self) -> list[State]:
        """The newest state, and what a repair may make of it: all rows of a file that is lost go, or of several."""
        states = [self.now]
        for values in self.lost.values():
            states += [frozenset(row for row in each if row[1] not in values) for each in states]
        return states

    @property
    def lost_names(self) -> set[str]:
        """The names of the files that the table has lost."""
        return {path.rpartition("/")[2] for path in self.lost}

    def due(self, ahead: float = 0) -> set[str]:
        """The partitions whose values are too old, by a clock that is ahead by some seconds."""
        return {part for part, time in self.dues.items() if time < self.time() + ahead}

    def is_written_since(self, row: Row, tick: int) -> bool:
        """Whether a row came, or may have come, after a tick."""
        return any(one.ended is None or one.ended > tick for one in self.changes if row in one.rows)

    def after(self, start: str, end: str) -> list[tuple[str, State]]:
        """The entries after one up to another, in the order in which they were the newest, with their rows."""
        names = [*self.every]
        first = names.index(start) + 1 if start in self.every else 0
        last = names.index(end) + 1 if end in self.every else 0
        return [(name, self.every[name]) for name in names[first:last]]

    def may_differ(self, key: int, one: State, other: State) -> bool:
        """Whether two states may differ in a row, because of changes at once either may have won it."""
        return self._swapped(key, one, other)

    def _is_swap(self, old: State, new: State) -> bool:
        """Whether states differ only in rows that two changes at once may each have won."""
        return all(self._swapped(key, old, new) for key in ids_of(old ^ new))

    def _swapped(self, key: int, old: State, new: State) -> bool:
        """Whether states differ in a row only by which of two changes at once won it: both may have drawn the same
        number, and which file counts as the newer one depends on its level."""
        before, after = self._writers(key, old), self._writers(key, new)
        if any(row in self.covered for one in (*before, *after) for row in one.rows if row[0] == key):
            return True
        return self.by_sequence and any(one.overlaps(other) for one in before for other in after)

    def _writers(self, key: int, state: State) -> list[Change]:
        """The changes that may have made the row of an id what it is; those that remove it where there is none."""
        row = next((row for row in state if row[0] == key), None)
        return [one for one in self.changes if (one.removes and key in one.ids if row is None else row in one.rows)]

    def _raced(self, change: Change, key: int) -> bool:
        """Whether another change of an id was under way at the same time."""
        return any(one.overlaps(change) for one in self.changes if key in one.ids)

    def _lengthen(self, seen: Seen, new: State, shown: State, who: str, may_shrink: bool, began: int) -> None:
        """The history goes on as one line: what it had before is there in the same order, but for what expired and,
        after a rollback, for what was newer. Of the rows of a snapshot readers see those `shown`."""
        twice = [name for name, count in Counter(seen.line).items() if count > 1]
        if twice:
            raise Violation(f"{who}: the history has {twice} twice")
        known, now = set(self.line), set(seen.line)
        lost = [name for name in self.line if name not in now]
        if lost and self.keeps_all and not may_shrink:
            raise Violation(f"{who}: the history lost {lost}")
        if not may_shrink and self.newest in lost:
            raise Violation(f"{who}: the history lost its newest entry\nbefore: {self.line}\nnow: {seen.line}")
        if self.keeps_order and [n for n in self.line if n in now] != [n for n in seen.line if n in known]:
            raise Violation(f"{who}: the history has another order\nbefore: {self.line}\nnow: {seen.line}")
        self.removed |= dict.fromkeys(lost, began)
        if may_shrink:  # a fast-forward may give the name of an entry that expired to another one
            again = now - known
            self.every = {name: state for name, state in self.every.items() if name not in {*lost, *again}}
        if seen.newest and (seen.newest not in known if may_shrink else seen.newest != self.newest):
            self.every.pop(seen.newest, None)
            self.every[seen.newest] = new
            self.removed.pop(seen.newest, None)
        self.line, self.newest = seen.line, seen.newest
        self.snapshots = {name: state for name, state in self.snapshots.items() if name in now}
        if self.keeps_order and seen.newest:
            self._keep(seen.newest, shown, who)
        if not self.keeps_order and self.keeps_newest and seen.newest:
            self.snapshots = {seen.newest: shown}

    def _keep(self, snapshot: str, state: State, who: str) -> None:
        """Remember the rows of a snapshot, which never change."""
        if self.snapshots.setdefault(snapshot, state) != state:
            raise Violation(
                f"{who}: {snapshot} has other rows than before\n{difference(self.snapshots[snapshot], state)}"
            )

    def acknowledge(self, change: Change, who: str) -> None:
        """The step ended well, so its change is there."""
        lost = change.ids and all(self._lost(change, key) for key in change.ids)
        if not change.landed and change.certain and not lost:
            raise Violation(f"{who}: {change.text} was acknowledged and is not there")

    def refuse(self, change: Change, who: str, error: BaseException) -> None:
        """The step ended with an error that says that nothing of it is visible."""
        if change.landed and not change.goes_back:
            raise Violation(f"{who}: {change.text} is there, though it ended with {type(error).__name__}: {error}")
        change.over = True

    def check_read(self, rows: Iterable[Row], since: int, who: str, states: Sequence[State] | None = None) -> None:
        """A read that began when `states[since]` was the newest gave one of the states from then on. `states` are those
        of a branch; None: what the table shows."""
        states = self.shown if states is None else states
        state = state_of(rows, f"in a read of {who}")
        if state not in states[since:]:
            raise Violation(f"{who} read a state that was not\n{difference(states[since], state)}")

    def check_snapshot(self, name: str, wanted: State, rows: Iterable[Row], who: str) -> None:
        """A snapshot that was read later has the rows that it had."""
        state = state_of(rows, f"in snapshot {name}")
        if state != wanted:
            raise Violation(f"{who}: {name} has other rows than it had\n{difference(wanted, state)}")


def _without_some(state: State, parts: Mapping[int, str], may_go: Callable[[str, frozenset[Row]], bool]) -> list[State]:
    """A state, and the same without the rows of partitions that may go, of one or of several."""
    states = [state]
    for part in sorted({*parts.values()}):
        going = frozenset(row for row in state if parts[row[0] % len(parts)] == part)
        if may_go(part, going):
            states += [each - going for each in states]
    return states
