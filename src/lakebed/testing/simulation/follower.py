"""A job that follows a table by its stream. What it keeps outlives its processes, as a checkpoint of Spark does.

A batch is noted before it is read and is over when it is checkpointed. So a job that died reads the same batch again,
and it must have the same rows. What was told so far, put together, must be the table's rows where the job stands.
"""

from __future__ import annotations

import random
from collections import Counter

from lakebed.errors import DataCleanedError, LakebedError, NotInHistoryError
from lakebed.kernel.files import Store
from lakebed.testing.simulation.changes import Row, State, Violation, difference, ids_of
from lakebed.testing.simulation.model import Model
from lakebed.testing.simulation.subject import Subject
from lakebed.verbs.stream import KeepsProgress, Limits, StreamReader

Event = tuple[str, int, int]
"""A row's kind, id and value."""
_ADDED = ("+I", "+U")
_BEGINNINGS = 3
"""How often a job may have to begin anew when nobody else is at work."""
_AGAIN = 0.3
"""How often a batch is read twice, by another reader: a job may die behind the last call that it makes of the table."""


class Follower:
    """One job. `number` tells it from others."""

    def __init__(self, subject: Subject, model: Model, number: int) -> None:
        self._subject, self._model, self._number = subject, model, number
        self._name = f"stream {number}"
        self._position: str | None = None
        self._end: str | None = None
        """The position at which the batch that has begun ends."""
        self._events: list[Event] | None = None
        """The rows of that batch, where it was read once."""
        self._told: Counter[Row] = Counter()
        self._once: Counter[Row] = Counter()
        """How often the stream told each row as a new one since the job began anew."""
        self._went_back = 0
        self._held_since: int | None = None
        """Since when the table keeps the job's progress, in the model's ticks, so that no expiry overtakes it."""
        self._anew = False
        """Whether the job begins anew, whatever progress the table keeps."""
        self._overwrites = 0
        self.batches = 0

    def go_on(self, store: Store, chance: random.Random, batches: int) -> bool:
        """Read so many batches. Whether nothing is left to read."""
        reader = self._reader(store)
        try:
            if self._position is None:
                self._begin(reader)
            for _ in range(batches):
                position = self._position
                assert position is not None
                self._hold(reader, position)
                end = self._end or reader.latest(position, Limits(commits=chance.choice([None, 1, 2])))
                if end == position:
                    return True
                self._end = end
                self._read(reader, position, end, chance)
                if chance.random() < _AGAIN:
                    self._read(self._reader(store), position, end, chance)
                self._checkpoint(position, end)
        except (NotInHistoryError, DataCleanedError) as error:
            self._check_gone(store, error)
            self._position = self._end = self._events = self._held_since = None
            self._anew = True
        return False

    def catch_up(self, store: Store) -> None:
        """Read all that is left. Then what was told is what the table has."""
        if self._position is None and not self.batches:
            return
        chance = random.Random(0)
        if not any(self.go_on(store, chance, 1000) for _ in range(_BEGINNINGS)):
            raise Violation(f"{self._name} cannot catch up: what it reads next is gone, wherever it begins")
        self._compare(self._model.now, "at the end")

    # ---- one batch ----

    def _reader(self, store: Store) -> StreamReader:
        return self._subject.stream(store, self._number, self._anew)

    def _begin(self, reader: StreamReader) -> None:
        """Begin anew: with all rows of a snapshot, or where the table keeps the progress of the job."""
        model = self._model
        self._went_back, self._overwrites = model.went_back, model.overwrites
        position = reader.initial()
        name = self._subject.stands_at(position)
        self._told = Counter(model.every.get(name, frozenset()) if name else ())
        self._once, self._position, self._anew = Counter(), position, False

    def _hold(self, reader: StreamReader, position: str) -> None:
        """Keep the progress in the table, where the job does so."""
        if isinstance(reader, KeepsProgress) and self._subject.holds(position):
            reader.processed(position)
            if self._held_since is None:
                self._held_since = self._model.tick()

    def _read(self, reader: StreamReader, start: str, end: str, chance: random.Random) -> None:
        plan = reader.plan(start, end)
        splits = [*plan.splits]
        chance.shuffle(splits)  # tasks end in any order
        events: list[Event] = []
        for split in splits:
            for batch in plan.read(split):
                columns = (batch.column(name).to_pylist() for name in ("_row_kind", "id", "v"))
                events += zip(*columns, strict=True)
        if self._events is not None and Counter(self._events) != Counter(events):
            raise Violation(
                f"{self._name}: the batch from {start} to {end} had other rows when it was read again\n"
                f"before: {self._events}\nnow: {events}"
            )
        self._events = events

    def _checkpoint(self, start: str, end: str) -> None:
        """The batch is over: put its rows to those told before, and compare."""
        events, self._events = self._events or [], None
        names = self._subject.stands_at(start), self._subject.stands_at(end)
        for kind, key, value in events:
            if self._subject.keyed and not self._subject.tells_differences:
                self._told = Counter({row: count for row, count in self._told.items() if row[0] != key})
            if kind in _ADDED:
                self._told[key, value] += 1
                self._once[key, value] += 1
            elif self._subject.tells_differences:
                self._told[key, value] -= 1
        self._position, self._end = end, None
        self.batches += 1
        wrong = [row for row, count in self._told.items() if count not in (0, 1)]
        if wrong and self._subject.tells_differences:
            raise Violation(
                f"{self._name} told rows {wrong} twice, or took rows back that it had not told, up to {end}"
            )
        retells = self._subject.retells or self._subject.tells_differences
        twice = [row for row, count in self._once.items() if count > 1 and not retells]
        if twice:
            raise Violation(f"{self._name} told {twice} more than once, up to {end}")
        before, after = names
        known = before is not None and self._subject.tells_each(before) and not self._subject.tells_late
        if known and before is not None and after is not None:
            self._check_told(before, after)
        if names[1] in self._model.every and not self._subject.tells_late:
            self._compare(self._model.every[names[1]], f"after {names[1]}")

    def _check_told(self, start: str, end: str) -> None:
        """Each row that came between two snapshots was told, also where another one replaced it."""
        before = self._model.every.get(start, frozenset())
        for name, state in self._model.after(start, end):
            new = [row for row in state - before if not self._once[row]]
            lost = [row for row in new if not self._model.may_differ(row[0], before, state)]
            if lost:
                raise Violation(f"{self._name} was not told {sorted(lost)} of {name}, between {start} and {end}")
            before = state

    def _compare(self, wanted: State, where: str) -> None:
        """What was told is what the table has, but for rows that are told by other rules."""
        rows = frozenset(+self._told)
        overwritten = self._model.overwrites > self._overwrites and not self._subject.tells_overwritten
        wrong = {
            key
            for key in ids_of(rows ^ wanted)
            if not self._model.may_differ(key, rows, wanted)
            and not (overwritten and not any(row[0] == key for row in wanted))
        }
        if wrong:
            raise Violation(f"{self._name} told other rows than the table has {where}\n{difference(wanted, rows)}")

    # ---- told that it is gone ----

    def _check_gone(self, store: Store, error: LakebedError) -> None:
        """The error is true: what comes next has expired, or the table went back. A progress that the table keeps holds
        all that comes after it."""
        model, position = self._model, self._position
        if self._went_back != model.went_back or position is None:
            return
        name = self._subject.stands_at(position)
        if name is None:
            return
        needed = [*self._subject.needs(name, model)]
        if self._subject.tells_differences and self._end is not None:  # a batch that is read again needs its end, too
            needed += self._subject.needs(self._subject.stands_at(self._end) or "", model)
        gone = [one for one in needed if not self._subject.can_tell(store, model, one)]
        if not gone:
            raise Violation(f"{self._name} was told that what follows {name} is gone, and it is there: {error}")
        if self._held_since is not None and model.removed.get(needed[0], 0) > self._held_since:
            raise Violation(f"{self._name} keeps its progress in the table, and {needed[0]} expired: {error}")
