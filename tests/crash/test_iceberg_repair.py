"""An Iceberg repair that fails at any storage call leaves the table as it was, or repaired; a second run completes."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.iceberg import commits
from tests.tables.iceberg.small import create, data_file, ids, position_deletes


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], Store]:
    """Fresh copies of a table whose file of partition b is missing and whose file of partition c is cut; `kept` has
    the latter whole. Each copy takes the place of the one before, since metadata has absolute locations."""
    number = itertools.count()
    original, place = tmp_path / "original", tmp_path / "t"
    table = create(place)
    files = [data_file(table, [n, n + 1, n + 2], p) for n, p in ((1, "a"), (4, "b"), (7, "c"))]
    commits.append(table.operations, files)
    commits.row_delta(table.operations, (), (position_deletes(table, files[1], [0]),))
    shutil.copytree(place, tmp_path / "kept")
    (tmp_path / "kept" / Path(files[1].path).relative_to(place)).unlink()
    Path(files[1].path).unlink()
    Path(files[2].path).write_bytes(b"PAR1")
    shutil.copytree(place, original)

    def make() -> Store:
        place.rename(tmp_path / f"done-{next(number)}")
        shutil.copytree(original, place)
        return open_store(place)

    return make


def observe(store: Store) -> tuple[list[str], list[Any]]:
    """The history, and what a check says of partition b. A file that is back already is no new state: a repair that is
    started again finds it whole."""
    table: Any = lakebed.open(store)
    left = [(lost.kind, lost.reason) for lost in table.repair(dry_run=True).lost if lost.partition == "p=b"]
    return [instant.action for instant in table.history()], left


KINDS = (Kind.CRASH_AFTER, Kind.CRASH_TORN, Kind.ERROR_BEFORE, Kind.UNKNOWN_BEFORE, Kind.UNKNOWN_AFTER)


def test_every_failure_leaves_the_old_or_the_new(copies: Callable[[], Store], tmp_path: Path) -> None:
    def operation(store: Store) -> None:
        lakebed.open(store).repair(
            options={"lakebed.repair.copy": str(tmp_path / "kept"), "lakebed.repair.most-lost-percent": 100}
        )

    assert check_crash_safety(copies, operation, observe, KINDS) >= 15
    store = copies()
    operation(store)
    table: Any = lakebed.open(store)
    assert ids(table) == [1, 2, 3, 7, 8, 9] and table.repair(dry_run=True).lost == ()
