"""What all engines are asked after each step of a Paimon table's life, and what the model says to it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import lakebed
from tests.interop.paimon_actors import Change, Jvm, Lakebed, Python, values
from tests.interop.paimon_shape import Shape
from tests.interop.paimon_state import Rows, State

CONSUMER = "life"


class Looks:
    """A table, the engines, and the rows that must be in it."""

    shape: Shape
    path: Path
    chance: random.Random
    lakebed: Lakebed
    jvm: Jvm
    branch: str
    python: Python
    state: State
    refused: Counter[str]
    number: int
    states: dict[int, State]
    tags: dict[str, State]
    tagged: dict[str, int]
    told: Rows
    told_at: dict[int, Rows]
    heard: dict[tuple[Any, ...], tuple[Any, ...]]
    compacted: bool
    unheard: bool
    rescaled: bool

    def check(self) -> None:
        """All engines see the rows, old snapshots, tags, changes, and what a stream says."""
        state, newest = self.state, self.ids()
        ours, theirs = self.lakebed.rows(state.schema), self.jvm.rows(state.schema)
        self.equal(ours, theirs, "lakebed reads other rows than the Java engine")
        self.equal(ours, state.read(), "both read")
        if newest:
            self.states.setdefault(newest[-1], state)
            self.told_at.setdefault(newest[-1], self.told)
            self._look_by_python()
        for moment, then in [*self._some(self.states), *self._some(self.tags)]:
            schema = then.schema
            name = f"tag:{moment}" if moment in self.tags else str(moment)
            self.equal(self.lakebed.rows(schema, name), then.read(), f"lakebed reads {moment}")
            if self.branch == "main" or moment not in self.tags:  # release 1.3.1 looks for tags in the main branch
                self.equal(self.jvm.rows(schema, str(moment)), then.read(), f"the Java engine reads {moment}")
        self._look_at_changes()
        self._look_at_a_snapshot()
        if self._streams:
            self._listen()

    def _look_by_python(self) -> None:
        if self.shape.engine == "aggregation" or (self.shape.engine == "partial-update" and not self.compacted):
            return  # pypaimon 2.1 leaves parts out of sums where there is a default function, and deletes of parts
        try:
            found = self.python.rows(self.state.schema)
        except AssertionError as error:
            if "nsupported" not in str(error) and "not supported" not in str(error):
                raise
            self.refused[f"pypaimon read: {str(error)[:150]}"] += 1
            return
        if found is not None:
            self.equal(found, self.state.read(), "pypaimon reads")

    def _some(self, states: dict[Any, State]) -> list[tuple[Any, State]]:
        return [(name, states[name]) for name in self.chance.sample(sorted(states), min(1, len(states)))]

    def _look_at_changes(self) -> None:
        ids = self.ids()
        if len(ids) < 2:
            return
        after, until = sorted(self.chance.sample(ids, 2))
        if until not in self.states or self.states[until].columns != self.state.columns:
            return  # lakebed gives a range in the newest schema, the Java engine in that of its end
        for mode in ("delta", "diff", "changelog"):
            schema = self.state.schema
            if mode == "diff" and self.rescaled:
                continue  # both refuse it between different numbers of buckets
            wanted = self.jvm.changes(after, until, mode, schema)
            found = self.lakebed.changes(after, until, mode, schema)
            if mode != "diff":
                self.equal(sorted(found, key=repr), sorted(wanted, key=repr), f"{mode} ({after}, {until}]")
            elif self._plain:
                missing = sorted((Counter(map(repr, wanted)) - Counter(map(repr, found))).elements())
                self.equal([], missing, f"diff ({after}, {until}]")
            if mode == "diff" and self._plain and {after, until} <= {*self.states}:
                before = self.states[after].seen
                self.equal(
                    self._differing(found, before), self._difference(after, until), f"our diff ({after}, {until}]"
                )

    def _look_at_a_snapshot(self) -> None:
        """What a stream takes from a snapshot, or from a changelog that outlived its snapshot. It may go on to the next
        one, so none before a gap is asked for: one expiry kept changelogs there, and a later one did not."""
        kept = [int(path.name.split("-")[1]) for path in self.path.glob("changelog/changelog-*")]
        kept = kept if self.branch == "main" else []
        there = {*self.ids(), *kept}
        numbers = [n for n in sorted({*self.states, *kept}) if there >= {*range(n, max(there))}]
        if not numbers:
            return
        number = self.chance.choice(numbers)
        if self.states.get(number, self.state).columns != self.state.columns:
            return
        ours, theirs = (actor.of_snapshot(number, self.state.schema) for actor in (self.lakebed, self.jvm))
        self.equal(sorted(ours, key=repr), sorted(theirs, key=repr), f"a stream of {number}")

    def _difference(self, after: int, until: int) -> list[tuple[Any, ...]]:
        """What the model says of a range: the keys that went, and the rows that came or changed."""
        before, then = self.states[after].seen, self.states[until].seen
        now = State({}, {}, self.state.columns)
        found = {key: now.spelled({key: row})[0] for key, row in then.items()}
        same = {key for key, row in before.items() if key in found and now.spelled({key: row})[0] == found[key]}
        gone = [key for key in before if key not in then]
        return sorted([*gone, *(row for key, row in found.items() if key not in same)], key=repr)

    @property
    def _plain(self) -> bool:
        """Whether a `diff` is what the model says: files of both ends are left out of it, so it has parts of rows that
        are merged, and deletes as they were written. Release 1.3.1 leaves rows out whose sequence numbers do not grow,
        as after an overwrite."""
        odd = self.shape.engine != "deduplicate" or self.shape.sequence or self.shape.vectors != "off"
        return bool(self.shape.keys) and not odd

    def _differing(self, changes: list[Change], before: Rows) -> list[tuple[Any, ...]]:
        names = [column.held for column in self.state.columns]
        keys = [names.index(name) for name in self.shape.keys]
        came = [row for kind, row in changes if kind[0] == "+"]
        moved = {tuple(row[at] for at in keys) for row in came}
        part = names.index("part")
        gone = [(tuple(row[at] for at in keys), row[part]) for kind, row in changes if kind[0] == "-"]
        # A delete that was written before the range is none of it: its row had moved to another partition.
        gone = [(key, place) for key, place in gone if key in before and before[key]["part"] == place]
        return sorted([*(key for key, _ in gone if key not in moved), *came], key=repr)

    @property
    def _streams(self) -> bool:
        """Whether the stream of the table leads from state to state."""
        if self.unheard or (self.shape.sequence and not self.shape.told_by_compaction):
            return False
        return self.shape.told_by_compaction or self.shape.engine == "deduplicate"

    def _listen(self) -> None:
        """The stream up to now, by one engine after the other."""
        schema = self.state.schema
        newest = self.ids()[-1:]
        while newest and lakebed.paimon.consumers(self.lakebed.table).get(CONSUMER, 0) <= newest[0]:
            actor: Any = self.chance.choice((self.lakebed, self.jvm))
            before = lakebed.paimon.consumers(self.lakebed.table).get(CONSUMER, 0)
            self._hear(actor.follow(CONSUMER, schema))
            if lakebed.paimon.consumers(self.lakebed.table).get(CONSUMER, 0) <= before:
                break
        if self.shape.producer == "full-compaction" and not self.compacted:
            return
        columns = State({}, {}, self.state.columns)
        heard = sorted((self._as_now(row) for row in self.heard.values()), key=repr)
        self.equal(heard, columns.spelled(self.told), "the stream says")

    def _hear(self, changes: list[Change]) -> None:
        names = [column.held for column in self.state.columns]
        for kind, row in changes:
            held = dict(zip(names, row, strict=True))
            key = self.shape.key(held)
            if kind in ("-U", "-D"):
                if dict(self.heard.get(key, ())).get("part") == held["part"]:  # else it has moved, in another bucket
                    del self.heard[key]
            else:
                self.heard[key] = tuple(held.items())

    def _as_now(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        held = dict(row)
        return tuple(held.get(column.held) for column in self.state.columns)

    def deaf(self) -> None:
        """The stream goes on from now: what happened is no change to it."""
        self.unheard |= self.shape.producer == "full-compaction"  # which of the rows it was told nobody knows
        if not self._streams:
            lakebed.paimon.remove_consumer(self.lakebed.table, CONSUMER)
            return
        lakebed.paimon.reset_consumer(self.lakebed.table, CONSUMER, self.ids()[-1] + 1)
        spelled = zip(self.told, self.told.values(), strict=True)
        schema, columns = self.state.schema, self.state.columns
        self.heard = {
            key: tuple(
                zip(
                    [column.held for column in columns],
                    values({column.name: row.get(column.held) for column in columns}, schema),
                    strict=True,
                )
            )
            for key, row in spelled
        }

    def ids(self) -> list[int]:
        return [int(instant.time) for instant in self.lakebed.table.history()]

    def equal(self, found: list[Any], wanted: list[Any], what: str) -> None:
        if found != wanted:
            missing, more = Counter(map(repr, wanted)), Counter(map(repr, found))
            raise AssertionError(
                f"step {self.number}, {what}:\nmissing {sorted((missing - more).elements())[:3]}\n"
                f"too much {sorted((more - missing).elements())[:3]}"
            )
