"""An expiry that dies at any storage call leaves every snapshot that is there whole, and the next one finishes it.

An expiry of partitions that dies leaves a table with all of them or without those that are too old."""

import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.layout import numbered
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Crash, Fault, FaultyStore, Kind
from lakebed.verbs.read import run
from lakebed.verbs.stream import drain

SCHEMA = pa.schema([pa.field("dt", pa.string(), False), pa.field("id", pa.int64(), False), ("v", pa.string())])
AT_ONCE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
KEEP = {**AT_ONCE, "changelog.num-retained.max": "4", "changelog.time-retained": "1 h"}
"""The changelogs 3 to 5 outlive their snapshots, and are read by streams."""


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], Store]:
    """Fresh copies of a table with six snapshots and a tag."""
    original, number = tmp_path / "original", itertools.count()
    table = lakebed.create(
        original, "paimon", SCHEMA, ["dt", "id"], ["dt"],
        {"bucket": "1", "write-only": "true", "changelog-producer": "input"},
    )  # fmt: skip
    for turn in range(3):
        table.write(pa.Table.from_pylist([{"dt": "a", "id": turn, "v": "x"}]))
        table.write(pa.Table.from_pylist([{"dt": "b", "id": turn, "v": "y"}]), mode="overwrite")
        if turn == 0:
            table.tag("kept")
    return lambda: open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))


def readable(store: Store) -> list[Any]:
    """The rows of the table, of its tag, and of every snapshot that is there."""
    table = lakebed.open(store)
    times: list[Any] = [None, "tag:kept", *(int(instant.time) for instant in table.history())]
    return [sorted(map(repr, table.read(as_of=time).read_all().to_pylist())) for time in times]


def changes(store: Store) -> list[Any]:
    """What a stream reads of the snapshots and changelogs that are there."""
    start = min([*numbered((info.name for info in store.list("changelog").files), "changelog"), 6])
    reader = lakebed.open(store, {"scan.snapshot-id": str(start)}).stream()
    return sorted(repr(row) for _, plan in drain(reader) for row in run(plan, 1).read_all().to_pylist())


def all_files(store: Store) -> set[str]:
    return {info.path for info in store.walk("")} - {"changelog/EARLIEST"}  # a hint, which a crash may leave out


@pytest.mark.parametrize("options", [AT_ONCE, KEEP], ids=["snapshots", "changelogs"])
def test_every_crash_is_harmless_and_finished_later(copies: Callable[[], Store], options: dict[str, str]) -> None:
    def expire(store: Store) -> None:
        lakebed.open(store).expire(options=options)

    whole = FaultyStore(copies())
    before = readable(whole.real)
    expire(whole)
    after, left = readable(whole.real), all_files(whole.real)
    assert after[:2] == before[:2]
    assert len(after) == 3
    calls = len(whole.changes)
    assert len(whole.calls) > 30
    kinds = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER) if options is AT_ONCE else (Kind.CRASH_BEFORE,)
    for kind, at in itertools.product(kinds, range(1, calls + 1)):
        store = FaultyStore(copies(), Fault(at, kind))
        with suppress(Crash, ValueError):  # ValueError: this call cannot fail in that way
            expire(store)
        seen = readable(store.real)
        assert seen[:2] == before[:2], f"{kind} at call {at}"
        expire(store.real)
        assert all_files(store.real) == left, f"{kind} at call {at}"
        assert readable(store.real) == after
        assert changes(store.real) == changes(whole.real)


def test_a_dead_expiry_of_partitions_dropped_all_or_none(tmp_path: Path) -> None:
    original, number = tmp_path / "original", itertools.count()
    table = lakebed.create(original, "paimon", SCHEMA, ["dt", "id"], ["dt"], {"bucket": "1", "write-only": "true"})
    table.write(pa.table({"dt": ["2024-01-01", "2024-01-02", "2099-01-01"], "id": [1, 2, 3], "v": ["x"] * 3}, SCHEMA))
    options = {"lakebed.expire.what": "partitions", "partition.expiration-time": "1 d"}

    def days(store: Store) -> list[str]:
        return sorted(lakebed.open(store).read(["dt"]).read_all()["dt"].to_pylist())

    whole = FaultyStore(open_store(shutil.copytree(original, tmp_path / "whole")))
    before = days(whole.real)
    lakebed.open(whole).expire(options=options)
    assert days(whole.real) == before[2:]
    for at in range(1, len(whole.changes) + 1):
        fault = Fault(at, Kind.CRASH_BEFORE)
        store = FaultyStore(open_store(shutil.copytree(original, tmp_path / f"{next(number)}")), fault)
        with suppress(Crash, ValueError):
            lakebed.open(store).expire(options=options)
        assert days(store.real) in (before, before[2:]), f"call {at}"
        lakebed.open(store.real).expire(options=options)
        assert days(store.real) == before[2:]
        assert len(lakebed.open(store.real).history()) == 2
