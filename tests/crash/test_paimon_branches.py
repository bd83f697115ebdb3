"""Making, removing and following a branch may die at any storage call; the same call finishes it."""

import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CorruptError, NotInHistoryError, TableNotFoundError, UsageError
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Crash, Fault, FaultyStore, Kind

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])


def add(table: Table, number: int) -> None:
    table.write(pa.Table.from_pylist([{"id": number, "v": "x"}], SCHEMA))


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], Store]:
    """Fresh copies of a table with two schemas, a tag and a branch `b` that went another way."""
    original, number = tmp_path / "original", itertools.count()
    table = lakebed.create(original, "paimon", SCHEMA, ["id"], options={"bucket": "1", "write-only": "true"})
    add(table, 1)
    table.alter(lakebed.add_column("more", "string"))
    add(table, 2)
    table.tag("t")
    table.branch("b", "tag:t")
    add(table, 3)
    table.tag("of-main")
    branch = lakebed.open(original, {"branch": "b"})
    branch.alter(lakebed.add_column("of_branch", "string"))
    add(branch, 8)
    add(branch, 9)
    return lambda: open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))


def ids(store: Store, branch: str = "main") -> list[int]:
    return sorted(lakebed.open(store, {"branch": branch}).read(["id"]).read_all()["id"].to_pylist())


def all_files(store: Store) -> dict[str, bytes]:
    return {info.path: store.read(info.path) for info in store.walk("")}


def deaths(act: Callable[[Store], None], copies: Callable[[], Store]) -> tuple[Store, list[tuple[str, Store]]]:
    """The store after the whole act, and stores where it died at each of its calls."""
    whole = FaultyStore(copies())
    act(whole)
    died = []
    last = len(whole.calls)
    for kind, at in [*((Kind.CRASH_BEFORE, at) for at in range(1, last + 1)), (Kind.CRASH_AFTER, last)]:
        store = FaultyStore(copies(), Fault(at, kind))
        with suppress(Crash, ValueError):  # ValueError: this call cannot fail in that way
            act(store)
        died.append((f"{kind} at call {at}", store.real))
    return whole.real, died


def test_a_branch_that_is_made(copies: Callable[[], Store]) -> None:
    def make(store: Store) -> None:
        lakebed.open(store).branch("new", "tag:t")

    whole, died = deaths(make, copies)
    wanted = all_files(whole)
    for where, store in died:
        assert ids(store) == [1, 2, 3], where
        with suppress(TableNotFoundError, CorruptError):  # an older schema may be missing, and is named
            assert ids(store, "new") == [1, 2], where
        with suppress(UsageError):  # it was made whole
            make(store)
        assert all_files(store) == wanted, where


def test_a_branch_that_is_removed(copies: Callable[[], Store]) -> None:
    def remove(store: Store) -> None:
        lakebed.open(store).delete_branch("b")

    whole, died = deaths(remove, copies)
    for where, store in died:
        assert ids(store) == [1, 2, 3], where
        with suppress(NotInHistoryError):
            remove(store)
        assert all_files(store) == all_files(whole), where


def test_a_branch_that_is_followed(copies: Callable[[], Store]) -> None:
    def follow(store: Store) -> None:
        lakebed.open(store).fast_forward("b")

    whole, died = deaths(follow, copies)
    assert ids(whole) == [1, 2, 8, 9]
    for where, store in died:
        assert ids(store) in ([1, 2, 3], [1, 2], [1, 2, 8], [1, 2, 8, 9]), where
        assert ids(store, "b") == [1, 2, 8, 9], where
        for instant in lakebed.open(store).history():
            lakebed.open(store).read(as_of=instant).read_all()
        follow(store)
        assert all_files(store) == all_files(whole), where
