"""A removal of a tag, and a commit that makes and removes tags, die at any change of the store: nothing that is needed
goes, and the next call finishes the work."""

import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel import clock
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import CHANGES, Crash, Fault, FaultyStore, Kind

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
AUTOMATIC = {
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "hourly",
    "tag.num-retained-max": "1",
    "sink.process-time-zone": "UTC",
}
HOUR = 3600
START = 1_700_000_000 // HOUR * HOUR


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], Store]:
    """Fresh copies of a table whose tags `a`, `b` and `2023-11-14 21` have snapshots that have expired."""
    original, number = tmp_path / "original", itertools.count()
    with clock.set_clock(lambda: START):
        table = lakebed.create(original, "paimon", SCHEMA, options={"snapshot.num-retained.min": "1"})
        for turn, name in enumerate(("a", "b", "2023-11-14 21", "newest")):
            table.write(pa.table({"id": [turn], "v": ["x"]}), mode="overwrite" if turn % 2 == 0 else "append")
            table.tag(name)
        assert len(table.expire(options={"snapshot.num-retained.max": "1"}).expired) == 3
    return lambda: open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))


def rows(store: Store, tag: str | None = None) -> list[int]:
    return sorted(lakebed.open(store).read(as_of=tag and f"tag:{tag}").read_all()["id"].to_pylist())


def names(store: Store) -> list[str]:
    return [info.name.removeprefix("tag-") for info in store.list("tag").files]


def all_files(store: Store) -> set[str]:
    return {info.path for info in store.walk("")}


def test_a_removal_that_dies_is_finished_later(copies: Callable[[], Store]) -> None:
    def remove(store: Store) -> None:
        table = lakebed.open(store)
        if "b" in names(store):
            table.delete_tag("b")
        if store.list(".lakebed/expire").files:
            table.expire()

    whole = FaultyStore(copies())
    lakebed.open(whole).delete_tag("b")
    left, calls = all_files(whole.real), len(whole.changes)
    for kind, at in itertools.product((Kind.CRASH_BEFORE, Kind.CRASH_AFTER), range(1, calls + 1)):
        store = FaultyStore(copies(), Fault(at, kind, CHANGES))
        with suppress(Crash, ValueError):  # ValueError: this call cannot fail in that way
            lakebed.open(store).delete_tag("b")
        if "b" in names(store.real):
            assert rows(store.real, "b") == [0, 1]
        remove(store.real)
        assert all_files(store.real) == left, f"{kind} at call {at}"
        for tag, wanted in {"a": [0], "2023-11-14 21": [2], "newest": [2, 3]}.items():
            assert rows(store.real, tag) == wanted


def test_a_move_that_dies_is_finished_later(copies: Callable[[], Store]) -> None:
    def move(store: Store) -> None:
        lakebed.open(store).tag("b", replace=True)

    whole = FaultyStore(copies())
    move(whole)
    left, calls = all_files(whole.real), len(whole.changes)
    assert rows(whole.real, "b") == [2, 3] and left < all_files(copies())
    for kind, at in itertools.product((Kind.CRASH_BEFORE, Kind.CRASH_AFTER), range(1, calls + 1)):
        store = FaultyStore(copies(), Fault(at, kind, CHANGES))
        with suppress(Crash, ValueError):
            move(store)
        assert rows(store.real, "b") in ([0, 1], [2, 3])
        move(store.real)
        lakebed.open(store.real).expire()
        assert all_files(store.real) == left, f"{kind} at call {at}"
        for tag, wanted in {"a": [0], "2023-11-14 21": [2], "newest": [2, 3]}.items():
            assert rows(store.real, tag) == wanted


def test_a_rename_that_dies_is_finished_later(copies: Callable[[], Store]) -> None:
    whole = FaultyStore(copies())
    lakebed.open(whole).rename_tag("b", "c")
    left, calls = all_files(whole.real), len(whole.changes)
    for kind, at in itertools.product((Kind.CRASH_BEFORE, Kind.CRASH_AFTER), range(1, calls + 1)):
        store = FaultyStore(copies(), Fault(at, kind, CHANGES))
        with suppress(Crash, ValueError):
            lakebed.open(store).rename_tag("b", "c")
        assert {rows(store.real, name) == [0, 1] for name in names(store.real) if name in "bc"} == {True}
        if "b" in names(store.real):
            lakebed.open(store.real).rename_tag("b", "c")
        assert rows(store.real, "c") == [0, 1] and all_files(store.real) == left, f"{kind} at call {at}"


def test_the_next_commit_makes_the_tag_of_one_that_died(copies: Callable[[], Store]) -> None:
    def commit(store: Store) -> None:
        lakebed.open(store, AUTOMATIC).write(pa.table({"id": [9], "v": ["y"]}))

    with clock.set_clock(lambda: START + HOUR):
        whole = FaultyStore(copies())
        commit(whole)
        assert {*names(whole.real)} == {"a", "b", "newest", "2023-11-14 22"}
        claimed = next(number for number, call in enumerate(whole.changes, 1) if "snapshot-5" in str(call))
        for kind, at in itertools.product(
            (Kind.CRASH_BEFORE, Kind.CRASH_AFTER), range(claimed, len(whole.changes) + 1)
        ):
            store = FaultyStore(copies(), Fault(at, kind, CHANGES))
            with suppress(Crash, ValueError):
                commit(store)
            commit(store.real)
            assert {*names(store.real)} - {"2023-11-14 21"} == {"a", "b", "newest", "2023-11-14 22"}, (
                f"{kind} at call {at}"
            )
            for tag, wanted in {"a": [0], "b": [0, 1], "newest": [2, 3]}.items():
                assert rows(store.real, tag) == wanted
            assert set(rows(store.real, "2023-11-14 22")) == {2, 3, 9}
