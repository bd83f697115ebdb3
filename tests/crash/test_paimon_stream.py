"""A stream that dies at any call that writes goes on where its consumer's progress is: nothing is lost, and only the
batch under way comes again."""

import itertools
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import lakebed
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import CRASHES, Crash, Fault, FaultyStore
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.tables.paimon.small import SCHEMA, rows

OPTIONS = {"consumer-id": "c", "scan.snapshot-id": "1"}


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], Store]:
    """Fresh copies of a table with three snapshots, of one row each."""
    original, number = tmp_path / "original", itertools.count()
    table = lakebed.create(original, "paimon", SCHEMA, ["id"], options={"bucket": "1"})
    for turn in range(3):
        table.write(rows(("a", turn, "v", 1)))
    return lambda: open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))


def read(store: Store, batches: list[list[int]]) -> None:
    for _, plan in drain(lakebed.open(store, OPTIONS).stream(), limits=Limits(commits=1)):
        batches.append(run(plan, 1).read_all()["id"].to_pylist())


def test_it_goes_on_where_its_progress_is(copies: Callable[[], Store]) -> None:
    whole = FaultyStore(copies())
    read(whole, wanted := [])
    assert wanted == [[0], [1], [2]]
    assert len(whole.changes) == 4
    for kind, at in itertools.product(CRASHES, range(1, len(whole.changes) + 1)):
        store, before, after = FaultyStore(copies(), Fault(at, kind)), list[list[int]](), list[list[int]]()
        with suppress(Crash, ValueError):  # ValueError: this call cannot fail in that way
            read(store, before)
        path = Path(store.location) / "consumer" / "consumer-c"
        kept = json.loads(path.read_text())["nextSnapshot"] - 1 if path.exists() else 0
        assert len(before) - 1 <= kept <= len(before), f"{kind} at call {at}"
        read(store.real, after)
        assert before[:kept] + after == wanted, f"{kind} at call {at}"
