"""An abort of prepared messages that dies at any change, dies twice, or meets another writer or an expiry at any call,
in each format. No row that is committed goes, whether the messages were never committed or their commit died at any of
its changes, and in the end no file of the messages is left."""

from __future__ import annotations

import itertools
import pickle
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.hudi.write.place import STAGING
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import FaultyStore, Kind
from tests.crash.harness import Stepping, dies, spread, two_deaths
from tests.tables.leftovers import leftovers

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.string())])
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # what a table is made with, and what it is opened with
    "paimon": ({"bucket": "1"}, {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}),
    "iceberg": ({"format-version": "2", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}, {}),
    "hudi": ({}, {**QUIET, "hoodie.datasource.write.operation": "insert"}),
}
EXPIRED: dict[str, list[dict[str, Any]]] = {
    "paimon": [{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}],
    "iceberg": [{"older-than": "2100-01-01", "retain-last": 1}],
    "hudi": [{"hoodie.clean.commits.retained": 1}],
}
ENDED = {"lakebed.expire.what": "failed-writes", "lakebed.expire.failed.after": "0 s"}


def some(*ids: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": id, "v": f"v{id}"} for id in ids], SCHEMA)


@dataclass(frozen=True)
class Case:
    """A table of a format with rows 1 to 4, and prepared messages of the rows 10 to 13."""

    format: str
    copy: Callable[[], Store]
    messages: bytes

    def open(self, store: Store) -> Any:
        return lakebed.open(store, OPTIONS[self.format][1])

    def abort(self, store: Store) -> None:
        """What a process does that knows the messages alone."""
        self.open(store).writer("job").abort(pickle.loads(self.messages))

    def commit(self, store: Store) -> None:
        self.open(store).writer("job").commit(1, pickle.loads(self.messages))

    def another_writer(self, store: Store) -> None:
        self.open(store).write(some(20, 21))

    def an_expiry(self, store: Store) -> None:
        self.another_writer(store)
        for options in EXPIRED[self.format]:
            self.open(store).expire(options=options)

    def left(self, store: Store) -> set[str]:
        """Files of rows that the table does not name, staged ones too."""
        return leftovers(self.open(store)) | {info.path for info in store.walk(STAGING)}

    def rows(self, store: Store) -> list[int]:
        found: list[int] = self.open(store).read(["id", "v"]).read_all()["id"].to_pylist()
        return sorted(found)


@pytest.fixture(params=OPTIONS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    original, place, number = tmp_path / "original", tmp_path / "table", itertools.count()
    lakebed.create(place, request.param, SCHEMA, ["id"], (), OPTIONS[request.param][0])
    case = Case(request.param, lambda: copied(), b"")
    for ids in ((1, 2), (3, 4)):
        case.open(open_store(place)).write(some(*ids))
    sink = case.open(open_store(place)).sink_for(SCHEMA, commit_user="job")
    plan = sink.plan(2)
    writer = plan.task_writer()
    noise = random.Random(1).randbytes(1 << 19).hex()  # too much for the messages themselves
    size = len(noise) // 4
    texts = [noise[turn * size : (turn + 1) * size] for turn in range(4)]
    writer.write(pa.table({"id": [10, 11, 12, 13], "v": texts}, SCHEMA))
    messages = pickle.dumps(sink.finalize(plan, writer.finish(), LocalEngine(1)).messages)
    assert case.left(open_store(place)), "the messages have no files"
    shutil.copytree(place, original)

    def copied() -> Store:
        """A fresh copy. Metadata may hold absolute locations, so that it takes the place of the one before."""
        place.rename(tmp_path / f"done-{next(number)}")
        shutil.copytree(original, place)
        return open_store(place)

    return Case(request.param, copied, messages)


OLD, NEW = [1, 2, 3, 4], [1, 2, 3, 4, 10, 11, 12, 13]


def test_two_deaths_and_a_third_run(case: Case) -> None:
    for moment in two_deaths(case.abort, case.copy, 3):
        assert case.rows(moment.store) == OLD, moment.where
        if moment.ended:
            assert case.left(moment.store) == set(), moment.where


@pytest.mark.parametrize("other", ["another writer", "an expiry"])
def test_who_steps_in_at_any_call(case: Case, other: str) -> None:
    rival = case.another_writer if other == "another writer" else case.an_expiry
    for first, second, count in ((case.abort, rival, 6), (rival, case.abort, 4)):
        counted = FaultyStore(case.copy())
        first(counted)
        for at in spread(len(counted.calls), count):
            store = Stepping(case.copy(), at, second, locks=(".hoodie/.lakebed/writer.lock", ".hoodie/lock"))
            first(store)
            store.join()
            where = f"at call {at}, {store.calls[at - 1]}"
            assert store.stepped_in and store.error is None, (where, store.error)
            assert case.rows(store.real) == [*OLD, 20, 21], where
            assert case.left(store.real) == set(), where


def test_the_commit_died_at_any_change(case: Case) -> None:
    """The abort that follows dies too, and is done again: the rows are there, or they are not and no file of theirs."""
    seen = []
    for store, where in dead_commits(case):
        state = case.rows(store)
        dies(case.abort, store, 1, Kind.CRASH_AFTER)
        assert case.rows(store) == state, where
        case.abort(store)
        case.another_writer(store)
        if case.format == "hudi":
            case.open(store).expire(options=ENDED)
        assert case.rows(store) == [*state, 20, 21] and state in (OLD, NEW), where
        assert case.left(store) == set(), where
        seen.append(state)
    assert OLD in seen and NEW in seen


def dead_commits(case: Case) -> Iterator[tuple[Store, str]]:
    counted = FaultyStore(case.copy())
    case.commit(counted)
    for at in spread(len(counted.changes), 6):
        kind = Kind.CRASH_AFTER if at % 2 else Kind.CRASH_BEFORE
        yield dies(case.commit, case.copy(), at, kind), f"{kind} at {counted.changes[at - 1]}"
