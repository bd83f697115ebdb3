"""Random schedules of all that is done to a Paimon table, against dictionaries: writes of every kind, compactions,
expiry, changes of the schema, tags, rollbacks, branches and fast-forwards, and the removal of orphan files. After each
step the table has the rows of the model. In the end so has each snapshot and tag, the difference between two snapshots
is that of the model, and a stream that kept its position across all of it has had each change once."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import DataCleanedError, NotInHistoryError
from lakebed.model.alter import Change
from lakebed.verbs.read import run
from lakebed.verbs.stream import KeepsProgress, Limits, StreamReader, drain

Row = dict[int, Any]
"""A row's values by the number of their column, which no rename changes. Column 0 is the key."""
KEYS, LONG_AGO = 6, 1_700_000_000
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [None, 0, 7, -(2**31)]),
    "long": (pa.int64(), [None, 0, 2**40]),
    "float": (pa.float32(), [None, 0.5, float("inf")]),
    "double": (pa.float64(), [None, 0.5, 1e300]),
    "text": (pa.string(), [None, "", "x", "ü" * 9]),
}
WIDER = {"int": "long", "float": "double"}


@dataclass(frozen=True)
class Column:
    number: int
    name: str
    kind: str


COLUMNS = (Column(0, "k", "int"), Column(1, "p", "text"), Column(2, "n", "long"), Column(3, "a", "int"))
"""`n` is another number in each row that is written."""


@dataclass(frozen=True)
class State:
    """The rows of one moment by key, the columns that it shows, and the keys whose row an overwrite wrote or removed
    last: no stream tells of that."""

    rows: dict[int, Row] = field(default_factory=dict)
    columns: tuple[Column, ...] = COLUMNS
    silent: frozenset[int] = frozenset()

    def shown(self, columns: tuple[Column, ...] = ()) -> dict[int, dict[str, Any]]:
        """The rows with the names of the columns: those of the moment, or others."""
        columns = columns or self.columns
        return {key: {one.name: row.get(one.number) for one in columns} for key, row in self.rows.items()}


@dataclass
class Line:
    """One branch: its table, its newest state, and those of snapshots and tags, with the numbers of the snapshots."""

    table: Any
    now: State = State()
    moments: dict[int, State] = field(default_factory=dict)
    tags: dict[str, tuple[int, State]] = field(default_factory=dict)


class Reader:
    """A stream of the main branch, which applies each change; with a consumer or without."""

    def __init__(self, life: Life) -> None:
        self.life, self.position = life, ""
        self.restart()

    def restart(self) -> None:
        """Begin with all rows of the newest snapshot."""
        self.state: dict[int, Row] = {}
        self.seen: set[tuple[str, int]] = set()
        self.lost: type[Exception] | None = None
        self.position = ""
        self.reopen()

    def reopen(self) -> None:
        """Go on with the columns of today."""
        options = {"scan.mode": "latest-full", **self.life.stream_options}
        if self.life.consumer:
            options |= {"consumer-id": "c", "consumer.ignore-progress": "true"}
        self.stream: StreamReader = lakebed.open(self.life.main.table.location, options).stream()
        self.position = self.position or self.stream.initial()
        assert isinstance(self.stream, KeepsProgress)
        self.stream.processed(self.position)

    @property
    def read(self) -> int:
        """The newest snapshot that was read."""
        place = json.loads(self.position)
        return 0 if place["next"] is None else place["next"] - 1

    def advance(self, limits: Limits) -> None:
        """Read all there is. A stream whose snapshots are gone says so, and begins again."""
        try:
            for position, plan in drain(self.stream, self.position, limits):
                for row in run(plan, 1).read_all().to_pylist():
                    self.apply(row)
                self.position = position
        except (DataCleanedError, NotInHistoryError) as error:
            assert self.lost is not None, f"the stream lost its place without cause: {error}"
            self.restart()
            self.advance(Limits())
        self.lost = None

    def apply(self, row: dict[str, Any]) -> None:
        kind, number = row.pop("_row_kind"), row["n"]
        assert (kind, number) not in self.seen or number is None, f"{kind} {row} came twice"
        self.seen.add((kind, number))
        key = row["k"]
        if kind in ("+I", "+U"):
            self.state[key] = {one.number: row[one.name] for one in self.life.main.now.columns if one.name in row}
        else:
            self.state.pop(key, None)

    def check(self) -> None:
        """The rows that streams tell of are those of the table."""
        now = self.life.main.now
        silent = frozenset[int]() if self.life.tells_overwrites else now.silent
        names = now.columns
        theirs = State(self.state, names).shown()
        for key in range(KEYS):
            if key not in silent:
                assert theirs.get(key) == now.shown().get(key), f"the stream's row of {key}"


class Life:
    """A table, its branches, its reader, and what all of them should hold."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.count, self.columns = folder, 0, len(COLUMNS)
        self.producer = chance.choice(["none", "input", "lookup", "full-compaction"])
        self.vectors = self.producer in ("none", "lookup") and chance.random() < 0.3
        self.parted, self.consumer = chance.random() < 0.5, chance.random() < 0.5
        bucket = chance.choice(["1", "2", "-1"])
        self.lazy = not self.vectors and chance.random() < 0.4
        self.stream_options = {}
        self.tells_overwrites = self.producer in ("none", "input") and chance.random() < 0.5
        if self.tells_overwrites:
            self.stream_options = {"streaming-read-overwrite": "true"}
        options = {
            "bucket": bucket, "changelog-producer": self.producer, "num-levels": "3",
            "num-sorted-run.compaction-trigger": "2", "deletion-vectors.enabled": str(self.vectors).lower(),
            "write-only": str(self.lazy).lower(), "snapshot.num-retained.min": "1000", "target-file-size": "1 kb",
            "file.format": chance.choice(["parquet", "orc", "avro"]), "snapshot.num-retained.max": "1000",
            "dynamic-bucket.target-row-num": "2", **self.stream_options,
        }  # fmt: skip
        schema = pa.schema([pa.field(one.name, TYPES[one.kind][0], one.number > 1) for one in COLUMNS])
        key = ["k", "p"] if self.parted else ["k"]
        table = lakebed.create(folder, "paimon", schema, key, ["p"] if self.parted else [], options=options)
        self.main, self.branch_name = Line(table), ""
        self.branch: Line | None = None
        self.line = self.main
        self.reader = Reader(self)

    # ---- steps ----

    def step(self, name: str, chance: random.Random) -> None:
        """One step, on the branch where there is one and chance says so."""
        self.line = self.branch if self.branch is not None and chance.random() < 0.5 else self.main
        getattr(self, name)(chance)
        if (newest := self.line.table.newest()) is not None:
            self.line.moments.setdefault(int(newest.time), self.line.now)  # a later schema is none of its
        for line in (self.main, self.branch):
            if line is not None:
                found = line.table.read().read_all().to_pylist()
                assert {row["k"]: row for row in found} == line.now.shown()
                assert len(found) == len(line.now.rows)

    def write(self, chance: random.Random) -> None:
        rows = self.rows(chance)
        kinds = [chance.choice(["+I", "+U", "+U", "-D", "-U"]) for _ in rows]
        mode = chance.choice(["append", "upsert"])
        data = self.data(rows).append_column("_row_kind", pa.array(kinds))
        self.line.table.write(data, mode=mode)
        for row, kind in zip(rows, kinds, strict=True):
            self.put(row, kind)

    def delete(self, chance: random.Random) -> None:
        rows = self.rows(chance)
        self.line.table.write(self.data(rows), mode="delete")
        for row in rows:
            self.put(row, "-D")

    def overwrite(self, chance: random.Random) -> None:
        rows = list({row[0]: row for row in self.rows(chance)}.values())
        whole = not self.parted or chance.random() < 0.3
        options = {"dynamic-partition-overwrite": "false"} if whole else {}
        self.line.table.write(self.data(rows), mode="overwrite", options=options)
        now, parts = self.line.now, {row[1] for row in rows}
        gone = {key for key, row in now.rows.items() if whole or row[1] in parts}
        left = {key: row for key, row in now.rows.items() if key not in gone}
        silent = now.silent | gone | {row[0] for row in rows}
        if self.producer in ("lookup", "full-compaction"):  # what no compaction has told of goes untold
            silent |= {key for key in range(KEYS) if whole or "xyz"[key % 2] in parts}
        self.line.now = replace(now, rows={**left, **{row[0]: row for row in rows}}, silent=silent)

    def compact(self, chance: random.Random) -> None:
        self.line.table.rewrite(options={"compact_strategy": chance.choice(["minor", "full"]), "write-only": "false"})

    def expire(self, chance: random.Random) -> None:
        kept = str(chance.randrange(1, 4))
        few = {"snapshot.num-retained.min": kept, "snapshot.num-retained.max": kept, "snapshot.time-retained": "1 ms"}
        self.line.table.expire(options=few)
        left = {int(instant.time) for instant in self.line.table.history()}
        self.line.moments = {number: state for number, state in self.line.moments.items() if number in left}
        ahead = min(left) - self.reader.read if self.line is self.main and left else 0
        if ahead > 1:
            assert not self.consumer or self.reader.lost, "what the consumer has not read expired"
            self.reader.lost = DataCleanedError
        elif ahead == 1 and self.tells_overwrites and not self.consumer:  # one that comes next has files of before
            self.reader.lost = DataCleanedError

    def orphans(self, chance: random.Random) -> None:
        """Everything is old, so nothing but its use spares a file."""
        for path in self.folder.rglob("*"):
            os.utime(path, (LONG_AGO, LONG_AGO))
        self.line.table.expire(options={"lakebed.expire.what": "orphan-files"})

    def alter(self, chance: random.Random) -> None:
        columns, what = list(self.line.now.columns), chance.choice(["add", "drop", "rename", "widen", "move"])
        change: Change
        place = chance.randrange(3, len(columns)) if len(columns) > 3 else 0
        one = columns[place]
        if what == "add":
            self.columns += 1
            kind = chance.choice([*TYPES])
            name = chance.choice([f"c{self.columns}", "a", "b"])
            if name in [other.name for other in columns]:
                return
            columns.append(Column(self.columns, name, kind))
            change = lakebed.add_column(name, TYPES[kind][0])
        elif not place:
            return
        elif what == "drop":
            del columns[place]
            change = lakebed.drop_column(one.name)
        elif what == "rename":
            self.columns += 1
            columns[place] = replace(one, name=f"r{self.columns}")
            change = lakebed.rename_column(one.name, columns[place].name)
        elif what == "move":
            columns.insert(3, columns.pop(place))
            change = lakebed.move_column(one.name, after=columns[2].name)
        elif one.kind in WIDER:
            columns[place] = replace(one, kind=WIDER[one.kind])
            change = lakebed.widen(one.name, TYPES[WIDER[one.kind]][0])
        else:
            return
        if self.line is self.main:
            self.reader.advance(Limits())
        self.line.table.alter(change)
        self.line.now = replace(self.line.now, columns=tuple(columns))
        if self.line is self.main:
            self.reader.reopen()

    def tag(self, chance: random.Random) -> None:
        if self.line.moments:
            self.count += 1
            number = chance.choice([*self.line.moments])
            self.line.table.tag(f"t{self.count}", number)
            self.line.tags[f"t{self.count}"] = number, self.line.moments[number]

    def untag(self, chance: random.Random) -> None:
        if self.line.tags:
            name = chance.choice([*self.line.tags])
            self.line.table.delete_tag(name)
            del self.line.tags[name]

    def rollback(self, chance: random.Random) -> None:
        """To a snapshot or a tag. The schema stays."""
        line = self.line
        places: dict[str | int, tuple[int, State]] = {f"tag:{name}": place for name, place in line.tags.items()}
        places |= {number: (number, state) for number, state in line.moments.items()}
        if not places:
            return
        to = chance.choice([*places])
        number, state = places[to]
        line.table.rollback(to)
        line.now = replace(state, columns=line.now.columns)
        line.moments = {one: known for one, known in line.moments.items() if one < number} | {number: state}
        line.tags = {name: place for name, place in line.tags.items() if place[0] <= number}
        if line is self.main and self.reader.read > number:
            self.reader.lost = NotInHistoryError

    def fork(self, chance: random.Random) -> None:
        """Make a branch of a tag."""
        if self.branch is None and self.main.tags:
            self.count += 1
            name, tag = f"b{self.count}", chance.choice([*self.main.tags])
            self.main.table.branch(name, f"tag:{tag}")
            number, state = self.main.tags[tag]
            table = lakebed.open(self.main.table.location, {"branch": name})
            self.branch_name = name
            self.branch = Line(table, state, {number: state}, {tag: (number, state)})

    def unfork(self, chance: random.Random) -> None:
        if self.branch is not None:
            self.main.table.delete_branch(self.branch_name)
            self.branch = None
        self.line = self.main

    def forward(self, chance: random.Random) -> None:
        """Put the main branch where the branch is. Snapshots that both have stay."""
        self.line, branch = self.main, self.branch
        if branch is None:
            return
        main, oldest = self.main, int(branch.table.history()[0].time)
        ours = {int(one.time): (one.summary["commit_user"], one.completed) for one in main.table.history()}
        theirs = {int(one.time): (one.summary["commit_user"], one.completed) for one in branch.table.history()}
        shared = max((one for one in theirs if ours.get(one) == theirs[one]), default=0)
        main.table.fast_forward(self.branch_name)
        main.moments = {one: state for one, state in main.moments.items() if one < oldest} | branch.moments
        main.tags = {name: place for name, place in main.tags.items() if place[0] < oldest} | branch.tags
        main.now = branch.now
        if self.reader.read > shared or not shared:
            self.reader.lost = NotInHistoryError
        self.reader.reopen()

    def follow(self, chance: random.Random) -> None:
        self.reader.advance(Limits(commits=chance.choice([1, 2, None])))

    # ---- rows ----

    def rows(self, chance: random.Random) -> list[Row]:
        found = []
        for _ in range(chance.randrange(1, 5)):
            self.count += 1
            key = chance.randrange(KEYS)
            row: Row = {0: key, 1: "xyz"[key % 2], 2: self.count}
            row |= {one.number: chance.choice(TYPES[one.kind][1]) for one in self.line.now.columns[3:]}
            found.append(row)
        return found

    def data(self, rows: list[Row]) -> pa.Table:
        columns = self.line.now.columns
        schema = pa.schema([pa.field(one.name, TYPES[one.kind][0], one.number > 1) for one in columns])
        return pa.Table.from_pylist([{one.name: row[one.number] for one in columns} for row in rows], schema=schema)

    def put(self, row: Row, kind: str) -> None:
        now, key = self.line.now, row[0]
        rows = {other: known for other, known in now.rows.items() if other != key}
        live = kind in ("+I", "+U")
        silent = now.silent - {key} if self.producer in ("none", "input") else now.silent  # others tell of net changes
        self.line.now = replace(now, rows={**rows, key: row} if live else rows, silent=silent)

    # ---- in the end ----

    def finish(self, chance: random.Random) -> None:
        """Hold every snapshot and tag, the difference of two, and what the stream has had, against the model."""
        self.line = self.main
        if self.main.moments:
            self.main.table.rewrite(options={"write-only": "false"})
        self.reader.advance(Limits())
        self.reader.check()
        for line in (self.main, self.branch):
            if line is None:
                continue
            for number, state in line.moments.items():
                assert by_key(line.table.read(as_of=number)) == state.shown(), f"snapshot {number}"
            for name, (_, state) in line.tags.items():
                assert by_key(line.table.read(as_of=f"tag:{name}")) == state.shown(), f"tag {name}"
        if len(self.main.moments) > 1:
            self.differ(*sorted(chance.sample([*self.main.moments], 2)))

    def differ(self, first: int, second: int) -> None:
        """The difference between two snapshots leads from one to the other. A key that both lack may be told as gone.
        One that only a deletion vector hides is not told of: files of both snapshots are left out, as in Paimon.
        """
        table, columns = self.main.table, self.main.now.columns
        compared = lakebed.open(table.location, {"incremental-between-scan-mode": "diff"})
        before, after = (self.main.moments[one].shown(columns) for one in (first, second))
        changes = compared.changes(after=first, until=second).read_all().to_pylist()
        kinds = [row.pop("_row_kind") for row in changes]
        for kind, row in sorted(zip(kinds, changes, strict=True), key=lambda change: change[0] in ("+I", "+U")):
            if kind in ("+I", "+U"):
                before[row["k"]] = row
            else:
                before.pop(row["k"], None)  # before the row of a key that an overwrite moved to another bucket
        assert {key: row for key, row in before.items() if not self.vectors or key in after} == after


def by_key(reader: pa.RecordBatchReader) -> dict[int, dict[str, Any]]:
    rows = reader.read_all().to_pylist()
    found = {row["k"]: row for row in rows}
    assert len(found) == len(rows), "a key twice"
    return found


STEPS = [
    "write", "write", "write", "delete", "overwrite", "compact", "expire", "orphans", "alter", "alter", "tag", "tag",
    "untag", "rollback", "fork", "fork", "unfork", "forward", "follow", "follow",
]  # fmt: skip


seeds = st.integers(0, 2**16)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seeds, st.lists(st.tuples(st.sampled_from(STEPS), seeds), min_size=4, max_size=14))
def test_any_schedule(seed: int, schedule: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        life = Life(Path(folder) / "t", random.Random(seed))
        for name, number in schedule:
            life.step(name, random.Random(number))
        life.finish(random.Random(seed))
