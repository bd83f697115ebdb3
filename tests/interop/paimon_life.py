"""One Paimon table's life with several engines: random steps, each by a random engine, and a model of the rows.

python -m tests.interop.paimon_life SEED-SEED,SEED [--steps 14] [--folder FOLDER] [--wish FIELD=VALUE ...]

It needs the variables that `./run interop` sets.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.errors import UnsupportedError
from tests.interop.conftest import PaimonJvm, Pypaimon, paimon_jvm_peer, pypaimon_peer
from tests.interop.paimon_actors import Actor, Change, Jvm, Lakebed, Python, values
from tests.interop.paimon_shape import Row, Shape

KEYS = 20
CONSUMER = "life"
Rows = dict[tuple[Any, ...], Row]


@dataclass(frozen=True)
class Column:
    """A column, and the name that the model knows it by, whatever it is called now."""

    name: str
    held: str
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True)
class State:
    """The table after a step: all rows, those that readers see, and the columns."""

    rows: Rows
    seen: Rows
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns as they are called."""
        return pa.schema([pa.field(column.name, column.type, column.nullable) for column in self.columns])

    def read(self) -> list[tuple[Any, ...]]:
        """What a reader gets."""
        return self.spelled(self.seen)

    def spelled(self, rows: Rows) -> list[tuple[Any, ...]]:
        """Rows in the order that all engines are compared in."""
        named = ({column.name: row.get(column.held) for column in self.columns} for row in rows.values())
        return sorted((values(row, self.schema) for row in named), key=repr)


class Life:
    """A table, the engines, and the rows that must be in it."""

    def __init__(
        self, shape: Shape, path: Path, seed: int, jvm: PaimonJvm, pypaimon: Pypaimon, log: Any = None
    ) -> None:
        self.shape, self.path, self.log = shape, path, log
        self.chance = random.Random(seed)
        lakebed.create(path, "paimon", shape.schema, shape.keys, ["part"], shape.options)
        self.lakebed, self.jvm = Lakebed(shape, path), Jvm(shape, path, jvm)
        self.python = Python(shape, path, pypaimon)
        columns = tuple(Column(field.name, field.name, field.type, field.nullable) for field in shape.schema)
        self.state = State({}, {}, columns)
        self.refused: Counter[str] = Counter()
        self._states: dict[int, State] = {}
        self._tags: dict[str, State] = {}
        self._tagged: dict[str, int] = {}
        self._told: Rows = {}
        self._heard: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._number = self._fresh = 0
        self._told_at: dict[int, Rows] = {}
        self._compacted = self._unheard = False
        self._who = ""

    # ---- steps ----

    def live(self, steps: int) -> None:
        """So many steps, and a look by every engine after each of them."""
        for _ in range(steps):
            choices: list[tuple[float, Callable[[], None]]] = [
                (4, self._upsert), (2, self._insert), (2, self._delete), (1, self._overwrite), (2, self._compact),
                (0.7, self._expire), (0.7, self._tag), (0.4, self._untag), (0.6, self._rollback), (1, self._alter),
            ]  # fmt: skip
            weights, found = zip(*choices if self._number else [(1, self._insert)], strict=True)
            self._step(self.chance.choices(found, weights)[0])

    def play(self, script: str) -> None:
        """The steps that a script names, each by the engine named before it: `lakebed insert, jvm compact`. What that
        engine cannot do, another does."""
        for line in script.split(","):
            self._who, name = line.split()
            self._step(getattr(self, f"_{name}"))

    def _step(self, step: Callable[[], None]) -> None:
        self._number += 1
        self._compacted = False
        step()
        self.check()

    def _by(self, what: str, do: Callable[[Actor], None]) -> str:
        """The name of the engine that did it; empty where none can."""
        actors: list[Actor] = [self.lakebed, self.jvm, self.python]
        self.chance.shuffle(actors)
        actors.sort(key=lambda actor: actor.name != self._who)
        for actor in actors:
            began = time.monotonic()
            try:
                do(actor)
            except UnsupportedError as error:
                self.refused[f"{actor.name} {what.split()[0]}: {error}"] += 1
                continue
            except Exception as error:
                error.add_note(f"step {self._number}: {actor.name} {what}")
                raise
            self._note(f"{self._number} {actor.name} {what} {time.monotonic() - began:.1f}s")
            return actor.name
        return ""

    def _note(self, line: str) -> None:
        if self.log:
            print(line, file=self.log, flush=True)

    # ---- writes ----

    def _upsert(self) -> None:
        if not self.shape.keys:
            return self._insert()
        known = [row["id"] for row in self.state.rows.values()]
        ids = self.chance.sample(sorted({*known, *range(KEYS)}), self.chance.randrange(3, 10))
        rows = [self._row(number) for number in ids]
        if self.shape.sequence and self._number > 2:
            held = {key[-1] for key in self.state.rows}
            late = [row for row in rows if row["id"] in held and self.chance.random() < 0.4]
            for row in late:
                row["ts"] -= 25
        return self._write("upsert", rows, ["+I" if self.chance.random() < 0.7 else "+U" for _ in rows])

    def _insert(self) -> None:
        count = self.chance.randrange(3, 9) if self._number > 1 else 14
        first = 0 if self._number == 1 else KEYS + self._fresh
        self._fresh += count
        rows = [self._row(number) for number in range(first, first + count)]
        self._write("insert", rows, ["+I"] * count)

    def _delete(self) -> None:
        if not self.shape.deletes or not self.state.rows:
            return self._insert()
        gone = self.chance.sample(sorted(self.state.rows), min(len(self.state.rows), self.chance.randrange(1, 6)))
        rows = [self._named(self.state.rows[key]) | {"ts": self._number * 10} for key in gone]
        return self._write("delete", rows, ["-D"] * len(rows))

    def _row(self, number: int) -> Row:
        return self.shape.row(self.chance, number, self._number * 10 + self.chance.randrange(3), self.state.schema)

    def _named(self, row: Row) -> Row:
        return {column.name: row.get(column.held) for column in self.state.columns}

    def _write(self, what: str, rows: list[Row], kinds: list[str]) -> None:
        name = self._by(f"{what} of {len(rows)}", lambda actor: actor.write(rows, kinds, self.state.schema))
        if not name:
            return
        after = dict(self.state.rows)
        for row, kind in zip(rows, kinds, strict=True):
            held = {column.held: row[column.name] for column in self.state.columns}
            key = self.shape.key(held)
            if kind == "-D":
                after.pop(key, None)
            else:
                after[key] = self.shape.merged(after.get(key), held)
        waits = self.shape.waits and (self.shape.write_only or self.shape.mode == "postponed")
        self._now(after, self.state.seen if waits else after)
        if name == "pypaimon" and (self.shape.waits or self.shape.told_by_compaction):
            self._compact()

    def _overwrite(self) -> None:
        rows = [self._row(number) for number in range(0, 2 * self.chance.randrange(1, 5), 2)]
        if not self.shape.keys:
            rows = [row | {"id": row["id"] + 1000 * self._number} for row in rows]
        if self.shape.mode in ("crossing", "postponed"):
            return self._insert()
        if not self._by(f"overwrite with {len(rows)}", lambda actor: actor.overwrite(rows, self.state.schema)):
            return None
        parts = {row["part"] for row in rows}
        written = {self.shape.key(row): row for row in [self._held(row) for row in rows]}
        left, seen = (
            {key: row for key, row in some.items() if row["part"] not in parts}
            for some in (self.state.rows, self.state.seen)
        )
        after = left | written
        self._told = {key: row for key, row in self._told.items() if row["part"] not in parts}
        self._now(after, seen if self.shape.waits and self.shape.write_only else after)
        return self._deaf()

    def _held(self, row: Row) -> Row:
        return {column.held: row[column.name] for column in self.state.columns}

    def _compact(self) -> None:
        if not self._by("compact", lambda actor: actor.compact()):
            return
        self._compacted = True
        self._now(self.state.rows, self.state.rows)

    def _now(self, rows: Rows, seen: Rows) -> None:
        self.state = State(rows, seen, self.state.columns)
        if not self.shape.told_by_compaction or not self.shape.write_only or self._compacted:
            self._told = rows

    # ---- upkeep ----

    def _expire(self) -> None:
        keep = self.chance.randrange(1, 6)
        if self._by(f"expire but {keep}", lambda actor: actor.expire(keep)):
            left = self._ids()
            assert len(left) <= keep, f"{left} are left, for {lakebed.paimon.consumers(self.lakebed.table)}"
            self._states = {number: state for number, state in self._states.items() if number in left}

    def _tag(self) -> None:
        number = self.chance.choice(sorted(self._states))
        name = f"t{self._number}"
        if self._by(f"tag {number}", lambda actor: actor.tag(name, number)):
            self._tags[name], self._tagged[name] = self._states[number], number

    def _untag(self) -> None:
        if self._tags:
            name = self.chance.choice(sorted(self._tags))
            if self._by(f"untag {name}", lambda actor: actor.untag(name)):
                del self._tags[name], self._tagged[name]

    def _rollback(self) -> None:
        number = self.chance.choice(sorted(self._states)[-4:])
        if not self._by(f"rollback to {number}", lambda actor: actor.rollback(number)):
            return
        then = self._states[number]
        self._states = {one: state for one, state in self._states.items() if one <= number}
        self._told_at = {one: told for one, told in self._told_at.items() if one <= number}
        self._tagged = {name: one for name, one in self._tagged.items() if one <= number}
        self._tags = {name: self._tags[name] for name in self._tagged}
        self.state = State(then.rows, then.seen, self.state.columns)
        self._told = self._told_at[number]
        self._deaf()

    def _alter(self) -> None:
        own = [column for column in self.state.columns if column.held.startswith("c")]
        change = self.chance.choice(("add", "rename", "drop", "retype"))
        wide = self.state.schema.field("n").type == pa.int64()
        if (change == "retype" and wide) or (change in ("rename", "drop") and not own):
            change = "add"
        column = self.chance.choice(own) if own else None
        name, more = f"c{self._number}", "int"
        columns = list(self.state.columns)
        if change == "add":
            columns.append(Column(name, name, pa.int32()))
        elif change == "retype":
            name, more = "n", "bigint"
            columns = [Column("n", "n", pa.int64()) if one.held == "n" else one for one in columns]
        else:
            assert column is not None
            more = f"r{self._number}" if change == "rename" else ""
            renamed = [Column(more, column.held, column.type)] if change == "rename" else []
            at = columns.index(column)
            columns, name = [*columns[:at], *renamed, *columns[at + 1 :]], column.name
        if self._by(f"{change} {name}", lambda actor: actor.alter(change, name, more)):
            self.state = State(self.state.rows, self.state.seen, tuple(columns))

    # ---- looks ----

    def check(self) -> None:
        """All engines see the rows, old snapshots, tags, changes, and what a stream says."""
        state, newest = self.state, self._ids()
        ours, theirs = self.lakebed.rows(state.schema), self.jvm.rows(state.schema)
        self._equal(ours, theirs, "lakebed reads other rows than the Java engine")
        self._equal(ours, state.read(), "both read")
        if newest:
            self._states.setdefault(newest[-1], state)
            self._told_at.setdefault(newest[-1], self._told)
            self._look_by_python()
        for moment, then in [*self._some(self._states), *self._some(self._tags)]:
            schema = then.schema
            name = f"tag:{moment}" if moment in self._tags else str(moment)
            self._equal(self.lakebed.rows(schema, name), then.read(), f"lakebed reads {moment}")
            self._equal(self.jvm.rows(schema, str(moment)), then.read(), f"the Java engine reads {moment}")
        self._look_at_changes()
        if self._streams:
            self._listen()

    def _look_by_python(self) -> None:
        if self.shape.engine == "aggregation":
            return  # pypaimon 2.1 leaves parts out of sums where there is a default function
        try:
            found = self.python.rows(self.state.schema)
        except AssertionError as error:
            if "nsupported" not in str(error) and "not supported" not in str(error):
                raise
            self.refused[f"pypaimon read: {str(error)[:150]}"] += 1
            return
        self._equal(found, self.state.read(), "pypaimon reads")

    def _some(self, states: dict[Any, State]) -> list[tuple[Any, State]]:
        return [(name, states[name]) for name in self.chance.sample(sorted(states), min(1, len(states)))]

    def _look_at_changes(self) -> None:
        ids = self._ids()
        if len(ids) < 2:
            return
        after, until = sorted(self.chance.sample(ids, 2))
        if until not in self._states or self._states[until].columns != self.state.columns:
            return  # lakebed gives a range in the newest schema, the Java engine in that of its end
        for mode in ("delta", "diff", "changelog"):
            schema = self.state.schema
            wanted = self.jvm.changes(after, until, mode, schema)
            found = self.lakebed.changes(after, until, mode, schema)
            if mode != "diff":
                self._equal(sorted(found, key=repr), sorted(wanted, key=repr), f"{mode} ({after}, {until}]")
            elif self._plain:
                missing = sorted((Counter(map(repr, wanted)) - Counter(map(repr, found))).elements())
                self._equal([], missing, f"diff ({after}, {until}]")
            if mode == "diff" and self._plain and {after, until} <= {*self._states}:
                before = self._states[after].seen
                self._equal(
                    self._differing(found, before), self._difference(after, until), f"our diff ({after}, {until}]"
                )

    def _difference(self, after: int, until: int) -> list[tuple[Any, ...]]:
        """What the model says of a range: the keys that went, and the rows that came or changed."""
        before, then = self._states[after].seen, self._states[until].seen
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
        gone = [tuple(row[at] for at in keys) for kind, row in changes if kind[0] == "-"]
        return sorted([*(key for key in gone if key not in moved and key in before), *came], key=repr)

    @property
    def _streams(self) -> bool:
        """Whether the stream of the table leads from state to state."""
        if self._unheard or (self.shape.sequence and not self.shape.told_by_compaction):
            return False
        return self.shape.told_by_compaction or self.shape.engine == "deduplicate"

    def _listen(self) -> None:
        """The stream up to now, by one engine after the other."""
        schema = self.state.schema
        newest = self._ids()[-1:]
        while newest and lakebed.paimon.consumers(self.lakebed.table).get(CONSUMER, 0) <= newest[0]:
            actor: Any = self.chance.choice((self.lakebed, self.jvm))
            before = lakebed.paimon.consumers(self.lakebed.table).get(CONSUMER, 0)
            self._hear(actor.follow(CONSUMER, schema))
            if lakebed.paimon.consumers(self.lakebed.table).get(CONSUMER, 0) <= before:
                break
        if self.shape.producer == "full-compaction" and not self._compacted:
            return
        columns = State({}, {}, self.state.columns)
        heard = sorted((self._as_now(row) for row in self._heard.values()), key=repr)
        self._equal(heard, columns.spelled(self._told), "the stream says")

    def _hear(self, changes: list[Change]) -> None:
        names = [column.held for column in self.state.columns]
        for kind, row in changes:
            held = dict(zip(names, row, strict=True))
            key = self.shape.key(held)
            if kind in ("-U", "-D"):
                if dict(self._heard.get(key, ())).get("part") == held["part"]:  # else it has moved, in another bucket
                    del self._heard[key]
            else:
                self._heard[key] = tuple(held.items())

    def _as_now(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        held = dict(row)
        return tuple(held.get(column.held) for column in self.state.columns)

    def _deaf(self) -> None:
        """The stream goes on from now: what happened is no change to it."""
        self._unheard |= self.shape.producer == "full-compaction"  # which of the rows it was told nobody knows
        if not self._streams:
            lakebed.paimon.remove_consumer(self.lakebed.table, CONSUMER)
            return
        lakebed.paimon.reset_consumer(self.lakebed.table, CONSUMER, self._ids()[-1] + 1)
        spelled = zip(self._told, self._told.values(), strict=True)
        schema, columns = self.state.schema, self.state.columns
        self._heard = {
            key: tuple(
                zip(
                    [column.held for column in columns],
                    values({column.name: row.get(column.held) for column in columns}, schema),
                    strict=True,
                )
            )
            for key, row in spelled
        }

    def _ids(self) -> list[int]:
        return [int(instant.time) for instant in self.lakebed.table.history()]

    def _equal(self, found: list[Any], wanted: list[Any], what: str) -> None:
        if found != wanted:
            missing, more = Counter(map(repr, wanted)), Counter(map(repr, found))
            raise AssertionError(
                f"step {self._number}, {what}:\nmissing {sorted((missing - more).elements())[:3]}\n"
                f"too much {sorted((more - missing).elements())[:3]}"
            )


@contextmanager
def engines(folder: Path) -> Iterator[tuple[PaimonJvm, Pypaimon]]:
    """A process of each outside engine."""
    places = [folder / name for name in ("jvm", "pypaimon")]
    for place in places:
        place.mkdir(parents=True)
    jvm, python = paimon_jvm_peer(places[0]), pypaimon_peer(places[1])
    try:
        yield PaimonJvm(jvm, places[0]), Pypaimon(python, places[1])
    finally:
        jvm.close()
        python.close()


def main() -> None:
    """Lives by seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds")
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--play", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--wish", nargs="*", default=[])
    parser.add_argument("--quiet", action="store_true")
    given = parser.parse_args()
    wanted = {
        name: {"True": True, "False": False}.get(value, value) for name, value in (w.split("=") for w in given.wish)
    }
    seeds = [
        seed for part in given.seeds.split(",") for first, _, last in [part.partition("-")]
        for seed in range(int(first), int(last or first) + 1)
    ]  # fmt: skip
    failed, refused = [], Counter[str]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        with engines(folder / "engines") as (jvm, pypaimon):
            for seed in seeds:
                shape = Shape.drawn(random.Random(seed), wanted)
                began = time.monotonic()
                print(f"== {seed} {shape}", flush=True)
                life = Life(
                    shape, folder / "db.db" / f"life{seed}", seed, jvm, pypaimon, None if given.quiet else sys.stdout
                )
                try:
                    life.play(given.play) if given.play else life.live(given.steps)
                except Exception as error:
                    failed.append(seed)
                    print(f"-- {seed} failed: " + "".join(traceback.format_exception(error)[-5:]), flush=True)
                refused += life.refused
                print(f"   {time.monotonic() - began:.1f} s", flush=True)
    for what, count in refused.most_common():
        print(f"refused {count} x {what[:220]}")
    print(f"failed: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
