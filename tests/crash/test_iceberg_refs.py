"""A rollback, a cherry-pick and a change of a branch or tag that fail at any storage call leave the old refs or the new
ones, and land once when they are repeated; a rival at the same version is met by another attempt."""

import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, NotInHistoryError, UsageError
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Fault, FaultyStore, Kind, check_crash_safety
from tests.crash.harness import two_deaths
from tests.tables.iceberg.small import create

KINDS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.UNKNOWN_BEFORE, Kind.UNKNOWN_AFTER)
Act = Callable[[IcebergTable], Any]


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": ["a"] * len(numbers)})


def opened(store: Store, **options: str) -> IcebergTable:
    table = lakebed.open(store, options)
    assert isinstance(table, IcebergTable)
    return table


def observe(store: Store) -> dict[str, Any]:
    """The rows at each branch and tag, the retention of each, and how many snapshots there are."""
    table = opened(store)
    refs = table.table_metadata.refs.values()
    found = {}
    for ref in refs:
        place = f"{'branch' if ref.is_branch else 'tag'}:{ref.name}"
        kept = (ref.min_snapshots_to_keep, ref.max_ref_age_ms)
        found[place] = (sorted(table.read(["id"], as_of=place).read_all()["id"].to_pylist()), kept)
    return found | {"snapshots": len(table.table_metadata.snapshots), "log": len(table.table_metadata.snapshot_log)}


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], Store]:
    """Fresh copies of a table with two snapshots, one on the branch `side`, and two staged ones; each copy takes the
    place of the one before."""
    number = itertools.count()
    original, place = tmp_path / "original", tmp_path / "t"
    table = create(place, **{"write.wap.enabled": "true", "commit.status-check.num-retries": "1"})
    table.write(rows(1))
    table.branch("side", options={"min-snapshots-to-keep": 3})
    table.tag("first")
    table.write(rows(2))
    table.write(rows(10), options={"wap.id": "next"})
    lakebed.open(place, {"branch": "side"}).write(rows(7))
    table.write(rows(11), options={"wap.id": "later"})
    lakebed.open(place).rollback("tag:first")  # so that `next` does not follow the head
    shutil.copytree(place, original)

    def make() -> Store:
        place.rename(tmp_path / f"done-{next(number)}")
        shutil.copytree(original, place)
        return open_store(place)

    return make


def there_is(table: IcebergTable, name: str) -> bool:
    return name in table.table_metadata.refs


ACTS: dict[str, Act] = {
    "any snapshot": lambda t: t.rollback("branch:side", any_snapshot=True),
    "pick": lambda t: t.publish("next"),
    "fast-forward": lambda t: t.fast_forward("side"),
    "branch": lambda t: None if there_is(t, "b") else t.branch("b", options={"max-ref-age-ms": 5}),
    "replaced": lambda t: t.branch("side", at="tag:first", replace=True),
    "tag": lambda t: t.tag("first", "branch:side", replace=True),
    "retain": lambda t: t.retain("side", {"min-snapshots-to-keep": 4}),
    "deleted": lambda t: t.delete_branch("side") if there_is(t, "side") else None,
    "staged": lambda t: None if staged(t, "mine") else t.write(rows(12), options={"wap.id": "mine"}),
    "wap branch": lambda t: None if there_is(t, "audit") else of_audit(t).write(rows(13)),
}


def staged(table: IcebergTable, name: str) -> bool:
    return any(instant.summary.get("wap.id") == name for instant in table.history())


def of_audit(table: IcebergTable) -> IcebergTable:
    return opened(table.store, **{"wap.branch": "audit"})


def again(name: str) -> Callable[[Store], None]:
    """What someone runs who does not know whether it is done."""

    def operation(store: Store) -> None:
        with suppress(UsageError if name == "pick" else ZeroDivisionError):  # repeated, the branch has it already
            ACTS[name](opened(store))

    return operation


@pytest.mark.parametrize("name", ACTS)
def test_every_failure_leaves_the_old_or_the_new(copies: Callable[[], Store], name: str) -> None:
    assert check_crash_safety(copies, again(name), observe, KINDS) >= len(KINDS)


@pytest.mark.parametrize("name", ["any snapshot", "pick", "fast-forward", "replaced", "tag", "deleted", "wap branch"])
def test_two_deaths_and_a_third_run(copies: Callable[[], Store], name: str) -> None:
    whole = copies()
    old = observe(whole)
    again(name)(whole)
    new = observe(whole)
    for moment in two_deaths(again(name), copies, 2):
        assert observe(moment.store) in ((new,) if moment.ended else (old, new)), moment.where


def rival_at_the_claim(copies: Callable[[], Store], act: Act, rival: Callable[[Store], Any]) -> tuple[Store, Any]:
    """The store after an act, whose first claim of a version a rival makes lose, and the error or result."""
    probe = FaultyStore(copies())
    act(opened(probe))
    at = [call.verb for call in probe.changes].index("put_if_absent") + 1
    real = copies()
    try:
        return real, act(opened(FaultyStore(real, Fault(at, Kind.EXISTS, rival=rival))))
    except LakebedError as error:
        return real, error


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("pick", {"branch:main": [1, 3, 10]}),
        ("any snapshot", {"branch:main": [1, 7]}),
        ("fast-forward", None),
        ("tag", {"tag:first": [1, 7], "branch:main": [1, 3]}),
        ("staged", {"branch:main": [1, 3]}),
        ("wap branch", {"branch:audit": [1, 3, 13], "branch:main": [1, 3]}),
        ("deleted", {"branch:main": [1, 3], "tag:first": [1]}),
    ],
)
def test_a_commit_of_another_writer_comes_first(
    copies: Callable[[], Store], name: str, wanted: dict[str, list[int]] | None
) -> None:
    real, done = rival_at_the_claim(copies, ACTS[name], lambda store: opened(store).write(rows(3)))
    seen = observe(real)
    if wanted is None:
        assert isinstance(done, UsageError) and seen["branch:main"][0] == [1, 3]
        return
    assert not isinstance(done, LakebedError), done
    assert {place: seen[place][0] for place in wanted} == wanted
    assert ("branch:side" in seen) is (name != "deleted")


@pytest.mark.parametrize("name", ["pick", "any snapshot", "fast-forward", "replaced", "tag", "deleted"])
def test_what_it_needs_is_deleted_and_expires_first(copies: Callable[[], Store], name: str) -> None:
    def rival(store: Store) -> None:
        table = opened(store)
        table.delete_branch("side")
        table.delete_tag("first")
        table.expire(options={"older-than": "2100-01-01"})

    real, done = rival_at_the_claim(copies, ACTS[name], rival)
    assert isinstance(done, NotInHistoryError) or name == "deleted", done  # what is gone is gone
    assert observe(real) == {"branch:main": ([1], (None, None)), "snapshots": 1, "log": 1}
    assert not opened(real).expire(options={"remove-orphan-files": True}).deleted_files
