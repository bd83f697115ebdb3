"""A rollback that dies at any storage call leaves the table at a whole snapshot, and the next one finishes it."""

import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Crash, Fault, FaultyStore, Kind

SCHEMA = pa.schema([pa.field("dt", pa.string(), False), pa.field("id", pa.int64(), False), ("v", pa.string())])


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], Store]:
    """Fresh copies of a table with four snapshots and two tags, one of them of a snapshot that has expired."""
    original, number = tmp_path / "original", itertools.count()
    table = lakebed.create(
        original, "paimon", SCHEMA, ["dt", "id"], ["dt"],
        {"bucket": "1", "write-only": "true", "changelog-producer": "input"},
    )  # fmt: skip
    for turn in range(2):
        table.write(pa.Table.from_pylist([{"dt": "a", "id": turn, "v": "x"}]))
    table.tag("early", 1)
    table.write(pa.Table.from_pylist([{"dt": "b", "id": 7, "v": "y"}]), mode="overwrite")
    table.tag("late")
    table.write(pa.Table.from_pylist([{"dt": "b", "id": 8, "v": "z"}]))
    once = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 ms"}
    assert table.expire(options={**once, "snapshot.expire.limit": "1"}).expired == ("1",)
    table.store.write("consumer/consumer-c", b'{"nextSnapshot": 5}')
    return lambda: open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))


def rows(store: Store, as_of: Any = None) -> list[str]:
    return sorted(map(repr, lakebed.open(store).read(as_of=as_of).read_all().to_pylist()))


def all_files(store: Store) -> set[str]:
    return {info.path for info in store.walk("")}


@pytest.mark.parametrize("to", [2, "tag:early"])
def test_every_crash_is_harmless_and_finished_later(copies: Callable[[], Store], to: Any) -> None:
    def roll_back(store: Store) -> None:
        lakebed.open(store).rollback(to)

    whole = FaultyStore(copies())
    states = [rows(whole.real, number) for number in (2, 3, 4)] + [rows(whole.real, "tag:early")]
    wanted = rows(whole.real, to)
    roll_back(whole)
    assert rows(whole.real) == wanted
    left, calls = all_files(whole.real), len(whole.calls)
    for kind, at in itertools.product((Kind.CRASH_BEFORE, Kind.CRASH_AFTER), range(1, calls + 1)):
        store = FaultyStore(copies(), Fault(at, kind))
        with suppress(Crash, ValueError):  # ValueError: this call cannot fail in that way
            roll_back(store)
        assert rows(store.real) in states, f"{kind} at call {at}"
        for instant in lakebed.open(store.real).history():
            rows(store.real, int(instant.time))
        roll_back(store.real)
        assert rows(store.real) == wanted, f"{kind} at call {at}"
        assert store.real.read("consumer/consumer-c") == whole.real.read("consumer/consumer-c")
        assert all_files(store.real) == left, f"{kind} at call {at}"
