"""The newest snapshot is never one whose number has expired, though a writer that was late puts it there and LATEST
names it, until the writer takes it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakebed
from lakebed.formats.paimon.commit import loop
from lakebed.formats.paimon.commit.succession import Place
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome
from lakebed.testing.faults import FaultyStore
from lakebed.testing.simulation.memory import MemoryStore
from tests.tables.paimon.small import SCHEMA, rows

FEW = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}


class Distant(MemoryStore):
    """A store at a distance."""

    @property
    def at_once(self) -> int:
        """As many requests as it may make at once."""
        return 8


def late(store: MemoryStore) -> MemoryStore:
    """A table at snapshot 4, and the file and the hint of snapshot 2, which has expired."""
    table = lakebed.create(store, "paimon", SCHEMA, ["id"], options={"bucket": "1"})
    files = {}
    for number in range(1, 5):
        table.write(rows(("a", number, "v", number)))
        files |= {number: store.files[f"snapshot/snapshot-{number}"].data}
    table.expire(options=FEW)
    store.write("snapshot/snapshot-2", files[2])
    store.write("snapshot/LATEST", b"2")
    return store


def test_a_late_snapshot_is_not_the_newest_one() -> None:
    """On a disk for one read more than without the look."""
    store = FaultyStore(late(MemoryStore("s3://simulated/newest/db.db/t", lambda: 1_800_000_000.0)))
    newest = History(store).latest()
    assert newest is not None and newest.id == 4
    assert [call.path for call in store.calls][:4] == [
        "snapshot/LATEST", "snapshot/snapshot-2", "snapshot/snapshot-3", "snapshot/EARLIEST",
    ]  # fmt: skip
    store.calls.clear()
    store.write("snapshot/LATEST", b"4")
    assert History(store).latest() == newest
    assert [call.path for call in store.calls][1:] == [
        "snapshot/LATEST", "snapshot/snapshot-4", "snapshot/snapshot-5", "snapshot/EARLIEST",
    ]  # fmt: skip


@pytest.mark.parametrize("ahead", [True, False])
def test_a_store_at_a_distance_is_asked_for_no_more(ahead: bool) -> None:
    """What EARLIEST said counts where it was read for the oldest snapshot, or ahead for that."""
    real = late(Distant("s3://simulated/newest/db.db/t", lambda: 1_800_000_000.0))
    store = FaultyStore(real)
    store.__class__ = type("Faulty", (FaultyStore,), {"at_once": property(lambda _: 8)})
    history = History(store)
    history.schema_and_hints(earliest=ahead)
    ends = history.ends()
    assert ends is not None and ends[1].id == 4
    read = [call.path for call in store.calls if call.verb == "read"]
    assert read.count("snapshot/EARLIEST") == 1 and read.count("snapshot/LATEST") == 1


@pytest.mark.parametrize("store", [MemoryStore, Distant])
def test_no_hint_names_a_snapshot_that_is_out_of_line(
    monkeypatch: pytest.MonkeyPatch, store: type[MemoryStore]
) -> None:
    """On a disk, and at a distance where its put took long."""
    named: list[int] = []

    def write_hints(_: Any, __: str, number: int, first: bool) -> None:
        named.append(number)

    def claim_snapshot(*arguments: Any) -> PutOutcome:
        seconds[0] += 10
        return claimed(*arguments)

    def out_of_line_once(*_: Any) -> Place:
        monkeypatch.setattr(loop, "place_of", really)
        return Place.OUT_OF_LINE

    seconds = [0.0]
    really: Callable[..., Place] = loop.place_of
    claimed: Callable[..., PutOutcome] = loop.claim_snapshot
    real = store("s3://simulated/newest/db.db/t", lambda: 1_800_000_000.0)
    table = lakebed.create(real, "paimon", SCHEMA, ["id"], options={"bucket": "1"})
    table.write(rows(("a", 1, "v", 1)))
    monkeypatch.setattr(loop, "write_hints", write_hints)
    monkeypatch.setattr(loop, "claim_snapshot", claim_snapshot)
    monkeypatch.setattr(loop, "place_of", out_of_line_once)
    with clock.set_clock(steady=lambda: seconds[0]):
        table.write(rows(("a", 2, "v", 2)))
    assert named == [1, 2]
