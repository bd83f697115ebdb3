"""The life of a Hudi table of several partitions and file groups against a dictionary: upserts as new base files and as
logs, new groups, overwritten and dropped partitions, clusterings, compactions, columns added and widened; every
snapshot, every pair of instants, full changes, streams, and predicates."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.tables.hudi.writing import HudiFolder, t

NAMES = ("id", "p", "ts", "x", "n")
OLD = {"id": "string", "p": "string", "ts": "long", "x": "string", "n": "int"}
WIDE = {**OLD, "n": "long", "more": "string"}
Row = dict[str, Any]
State = dict[str, Row]


class Life:
    """A table, and the rows of each group as its files have them: by key, deletes gone. `commits` holds the instant
    that last wrote a row."""

    def __init__(self, folder: Path, version: int, chance: random.Random) -> None:
        how = {"record__merge__mode": "COMMIT_TIME_ORDERING"} if version >= 8 else {}
        old = {"compaction__payload__class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"}
        self.table = HudiFolder(folder, version, OLD, table__partition__fields="p", **(how or old))
        (folder / ".hoodie_partition_metadata").unlink()
        self.version, self.chance, self.columns, self.clock, self.made = version, chance, OLD, 0, 0
        self.groups: dict[tuple[str, str], State] = {}
        self.slices: dict[tuple[str, str], int] = {}
        self.logs = 0
        self.states: dict[int, State] = {}
        self.insert()

    def step(self) -> None:
        steps: list[Callable[[], None]] = [self.insert, self.widen, self.services, self.overwrite]
        if self.groups:
            steps += [self.rebase, self.log, self.log, self.log]
        self.chance.choice(steps)()

    # ---- commits -----------------------------------------------------------------------------------------------------

    def insert(self) -> None:
        """A new group with new keys, of a base file or of a log alone."""
        self.tick()
        at = self.new_group()
        rows = {row["id"]: row for row in (self.row(at[0], f"{at[1]}{n}") for n in range(self.chance.randrange(1, 4)))}
        self.groups[at] = rows
        self.commit([self.base(at)], "deltacommit" if self.chance.random() < 0.5 else "commit", inserts=len(rows))

    def rebase(self) -> None:
        """Copy-on-write: a new base file with some rows changed, some gone and one added."""
        self.tick()
        at = self.any_group()
        rows, changed, gone = self.mixed(at)
        self.groups[at] = {key: row for key, row in (self.groups[at] | rows).items() if key not in gone}
        self.commit([self.base(at)], "commit", deletes=len(gone), inserts=len(rows) - changed)

    def log(self) -> None:
        """A log with a data block, a delete block or both."""
        self.tick()
        at = self.any_group()
        rows, _, gone = self.mixed(at)
        if not rows and not gone:
            return
        content = self.table.data(self.clock, rows.values(), at[0], self.columns) if rows else b""
        content += self.table.deletes(self.clock, dict.fromkeys(gone), at[0]) if gone else b""
        self.groups[at] = {key: row for key, row in (self.groups[at] | rows).items() if key not in gone}
        self.logs += 1
        instant = self.clock if self.version >= 8 else self.slices[at]
        self.commit([self.table.log(at[1], instant, content, self.logs, at[0])], "deltacommit", deletes=len(gone))

    def overwrite(self) -> None:
        """All groups of a partition go; rows may come instead, some of them with keys that were there."""
        self.tick()
        partition = self.chance.choice(["a", "b"])
        replaced = {at: rows for at, rows in self.groups.items() if at[0] == partition}
        paths, operation = [], "DELETE_PARTITION"
        for at in replaced:
            del self.groups[at], self.slices[at]
        if self.chance.random() < 0.7:
            known = [key for rows in replaced.values() for key in rows]
            at = self.new_group(partition)
            keys = {*self.chance.sample(known, self.chance.randrange(len(known) + 1)), f"{at[1]}0"}
            self.groups[at] = {key: self.row(partition, key) for key in sorted(keys)}
            paths, operation = [self.base(at)], "INSERT_OVERWRITE"
        gone = {partition: [group for _, group in replaced]} if replaced else {}
        self.commit(paths, "replacecommit", operation, replaced=gone, inserts=1)

    def services(self) -> None:
        """A clustering or a compaction: no row changes."""
        self.tick()
        if not self.groups:
            return
        at = self.any_group()
        if self.chance.random() < 0.5:
            new = self.new_group(at[0])
            self.groups[new] = self.groups.pop(at)
            del self.slices[at]
            self.commit([self.base(new)], "replacecommit", "CLUSTER", replaced={at[0]: [at[1]]})
        else:
            self.commit([self.base(at)], "commit", "COMPACT")

    def widen(self) -> None:
        """From the next commit on an int is a long, and there is one more column."""
        self.columns = WIDE

    # ---- their parts -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        self.clock += 1

    def mixed(self, at: tuple[str, str]) -> tuple[State, int, list[str]]:
        known = sorted(self.groups[at])
        changed = self.chance.sample(known, self.chance.randrange(len(known) + 1))
        gone = self.chance.sample(known, self.chance.randrange(len(known) + 1))
        keys = [key for key in changed if key not in gone]
        new = [f"{at[1]}{self.clock}new"] if self.chance.random() < 0.4 else []
        return {key: self.row(at[0], key) for key in [*keys, *new]}, len(keys), gone

    def row(self, partition: str, key: str) -> Row:
        chance = self.chance
        writer = {"id": key, "p": partition, "ts": chance.randrange(5), "x": chance.choice([None, "", "é", "x"])}
        if self.columns is WIDE:
            writer |= {"n": chance.choice([None, 1 << 40, -3]), "more": chance.choice([None, "m"])}
        else:
            writer |= {"n": chance.choice([None, 7, -3])}
        return {**writer, "_hoodie_commit_time": t(self.clock)}

    def base(self, at: tuple[str, str]) -> str:
        self.slices[at] = self.clock
        return self.table.base(at[1], self.clock, self.groups[at].values(), at[0], columns=self.columns)

    def new_group(self, partition: str = "") -> tuple[str, str]:
        self.made += 1
        at = partition or self.chance.choice(["a", "b"]), f"g{self.made}"
        folder = self.table.folder / at[0]
        folder.mkdir(exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
        return at

    def any_group(self) -> tuple[str, str]:
        return self.chance.choice(sorted(self.groups))

    def commit(self, paths: list[str], action: str, operation: str = "UPSERT", **how: Any) -> None:
        self.table.done(self.clock, paths, action, operation=operation, columns=self.columns, **how)
        self.states[self.clock] = {
            key: {name: row.get(name) for name in NAMES} for rows in self.groups.values() for key, row in rows.items()
        }


def _applied(state: State, changes: list[Row]) -> State:
    """Net changes, in any order: a key has one. A key that came and went in between may be reported as deleted."""
    assert len(changes) == len({row["id"] for row in changes}), changes
    state = dict(state)
    for row in changes:
        kind = row.pop("_row_kind")
        if kind == "-D":
            state.pop(row["id"], None)
        else:
            state[row["id"]] = row
    return state


def _chained(state: State, changes: list[Row]) -> State:
    """Full changes, each of which starts from the row that was there."""
    state = dict(state)
    for row in changes:
        if row.pop("_row_kind") in ("-U", "-D"):
            assert state.pop(row["id"]) == row
        else:
            assert row["id"] not in state
            state[row["id"]] = row
    return state


@pytest.mark.parametrize("version", [6, 8])
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 9))
def test_whatever_is_done_to_a_table_its_rows_are_those_of_the_dictionary(version: int, seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), version, random.Random(seed))
        for _ in range(steps):
            life.step()
        table, times = life.table.open(), sorted(life.states)
        newest = life.states[times[-1]]
        assert _rows(table.read(NAMES)) == newest
        moments = {number: t(number + 0.5) if version >= 8 else t(number) for number in times}
        for number in times:
            assert _rows(table.read(NAMES, as_of=moments[number])) == life.states[number]
        _check_predicates(table)
        full = life.table.open(**{"cdc.enabled": True})
        for low, high in [*itertools.pairwise(times), *itertools.combinations(times[:: max(1, len(times) // 3)], 2)]:
            ends = {"after": moments[low], "until": moments[high]}
            changes = table.changes(NAMES, **ends).read_all().to_pylist()
            assert _applied(life.states[low], changes) == life.states[high]
            assert _chained(life.states[low], full.changes(NAMES, **ends).read_all().to_pylist()) == life.states[high]
        stream = life.table.open(**{"read__start-commit": t(1), "read__commits__limit": 1}).stream(NAMES)
        state: State = {}
        for _, plan in drain(stream, limits=Limits(commits=1)):
            state = _applied(state, run(plan, 1).read_all().to_pylist())
        assert state == newest


def _rows(reader: Any) -> State:
    actual = reader.read_all().to_pylist()
    assert len(actual) == len({row["id"] for row in actual})
    return {row["id"]: row for row in actual}


def _check_predicates(table: Any) -> None:
    """On snapshots; and on changes, whose removed rows have nulls but for keys."""
    whole, changes = table.read().read_all(), table.changes().read_all()
    for name in ("p", "x", "n", "ts", "_hoodie_commit_time"):
        values = sorted({value for value in whole[name].to_pylist() if value is not None})
        for predicate in [
            *(pc.field(name) == value for value in values[:2]), *(pc.field(name) > value for value in values[:2]),
            *(~(pc.field(name) <= value) for value in values[:1]), pc.field(name).is_null(),
        ]:  # fmt: skip
            for actual, all_rows in (
                (table.read(["id"], predicate), whole),
                (table.changes(["id"], predicate), changes),
            ):
                assert sorted(actual.read_all()["id"].to_pylist()) == sorted(
                    all_rows.filter(predicate)["id"].to_pylist()
                )
