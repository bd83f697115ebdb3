"""Tables that enter a catalog with a snapshot or a metadata file: in every kind of catalog, and when it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import CommitUnknownError, LakebedError, RetryableError, StorageError, TableExistsError
from lakebed.formats.iceberg.catalog import creation
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import CHANGES, Crash, Fault, FaultyStore, Kind
from tests.tables.iceberg.rest_server import Failure, RestCatalog
from tests.tables.iceberg.small import ids
from tests.unit.iceberg.catalog.conftest import options_of

QUICK = {"commit.status-check.num-retries": "1", "commit.status-check.min-wait-ms": "1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for day in ("1", "2"):
        (tmp_path / "in" / f"p={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [int(day)]}), tmp_path / "in" / f"p={day}" / "a.parquet")
    return tmp_path / "in"


def opened(name: str, options: dict[str, str], folder: Path) -> IcebergTable:
    table = lakebed.open(name, {**options, "lakebed.storage.places": str(folder)})
    assert isinstance(table, IcebergTable)
    return table


def left(*places: Path) -> list[str]:
    return sorted(path.name for place in places for path in place.rglob("*.*") if path.suffix in (".avro", ".json"))


def test_every_catalog(catalog: dict[str, str], folder: Path, tmp_path: Path) -> None:
    plan = lakebed.snapshot(folder, "cat:new.snap", dry_run=True, options=catalog)
    assert (plan.rows, plan.instants) == (2, ()) and not (folder / "metadata").exists()
    assert lakebed.snapshot(folder, "cat:new.snap", options={**catalog, "format-version": "3"}).rows == 2
    table = opened("cat:new.snap", catalog, folder)
    assert ids(table) == [1, 2] and len(table.history()) == 1 and table.table_metadata.format_version == 3
    table.write(pa.table({"id": [3], "p": pa.array([3], pa.int32())}))
    assert ids(table) == [1, 2, 3]
    with pytest.raises(TableExistsError):
        lakebed.snapshot(folder, "cat:new.snap", options=catalog)
    done = lakebed.migrate(folder, "cat:new.moved", options=catalog)
    table = opened("cat:new.moved", catalog, folder)
    assert done.instants == (table.history()[0].time,) and table.location == str(folder) and ids(table) == [1, 2]
    table.write(pa.table({"id": [3], "p": pa.array([3], pa.int32())}))
    newest = table.operations.load().location
    assert lakebed.register("cat:other.again", newest, dry_run=True, options=catalog).rows == 3
    with pytest.raises(LakebedError):
        lakebed.open("cat:other.again", catalog)
    done_again = lakebed.register("cat:other.again", newest, options=catalog)
    assert (done_again.snapshot, done_again.files) == (table.history()[-1].time, 3)
    again = opened("cat:other.again", catalog, folder)
    assert ids(again) == [1, 2, 3]
    again.write(pa.table({"id": [4], "p": pa.array([4], pa.int32())}))
    assert ids(again) == [1, 2, 3, 4]
    assert [each.distinct for each in again.compute_table_stats().columns] == [4, 4]
    assert again.compute_partition_stats().partitions == 4
    assert len(again.table_metadata.statistics_files) == 2
    with pytest.raises(TableExistsError):
        lakebed.register("cat:other.again", newest, options=catalog)


@pytest.mark.parametrize("status", [500, 0])
def test_a_catalog_that_gives_no_answer(rest: RestCatalog, folder: Path, status: int) -> None:
    options = {**options_of(rest), **QUICK}
    rest.namespaces.add("db")
    rest.failures = [Failure(status, after=True)]
    lakebed.migrate(folder, "cat:db.t", options=options)
    table = opened("cat:db.t", options, folder)
    assert ids(table) == [1, 2]
    newest = table.operations.load().location
    rest.failures = [Failure(status, after=True)]
    lakebed.register("cat:db.u", newest, options=options)
    rest.failures = [Failure(status)]
    with pytest.raises(CommitUnknownError, match="Try to open it"):
        lakebed.register("cat:db.v", newest, options=options)
    assert sorted(rest.tables) == ["db.t", "db.u"]


def test_an_unknown_outcome_keeps_the_files_and_a_refusal_leaves_none(
    rest: RestCatalog, folder: Path, tmp_path: Path
) -> None:
    options = {**options_of(rest), **QUICK}
    rest.namespaces.add("db")
    rest.failures = [Failure(403)] * 2
    with pytest.raises(StorageError, match="refused"):
        lakebed.snapshot(folder, "cat:db.t", options=options)
    assert left(tmp_path) == []
    rest.failures = [Failure(503)]
    with pytest.raises(CommitUnknownError):
        lakebed.migrate(folder, "cat:db.t", options=options)
    (newest,) = (folder / "metadata").glob("*.json")
    with pytest.raises(TableExistsError, match="completes the migration"):
        lakebed.migrate(folder, "cat:db.t", options=options)
    lakebed.register("cat:db.t", newest, options=options)  # as that error says
    assert ids(opened("cat:db.t", options, folder)) == [1, 2]


def test_another_caller_is_faster(rest: RestCatalog, folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    options = {**options_of(rest), **QUICK}
    enter = creation.enter

    def late(table: Any, location: str) -> None:
        monkeypatch.setattr(creation, "enter", enter)
        lakebed.snapshot(folder, "cat:db.t", options=options)
        enter(table, location)

    monkeypatch.setattr(creation, "enter", late)
    with pytest.raises(TableExistsError):
        lakebed.snapshot(folder, "cat:db.t", options=options)
    table = opened("cat:db.t", options, folder)
    assert ids(table) == [1, 2] and len(table.history()) == 1
    assert len(left(Path(table.location))) == 3  # the metadata, the list and a manifest of the winner


def test_killed_at_any_storage_call(rest: RestCatalog, folder: Path, monkeypatch: Any) -> None:
    """A migration that is killed leaves no table, or a metadata file that registering makes one."""
    options = options_of(rest)
    rest.namespaces.add("db")
    real = creation.NewTable.__init__
    tried = 0
    for at in range(1, 20):
        stores: list[FaultyStore] = []

        def faulty(self: Any, table: Any, files: Any, document: Any, at: int = at, stores: Any = stores) -> None:
            store = FaultyStore(files.home, Fault(at, Kind.CRASH_AFTER, CHANGES))
            stores.append(store)
            real(self, table, type(files)(store, files.credentials, files.named), document)

        monkeypatch.setattr(creation.NewTable, "__init__", faulty)
        name = f"cat:db.t{at}"
        try:
            lakebed.migrate(folder, name, options=options)
        except Crash:
            tried += 1
        monkeypatch.setattr(creation.NewTable, "__init__", real)
        assert f"db.t{at}" not in rest.tables or not stores[0].crashed
        for newest in (folder / "metadata").glob("*.json"):
            if f"db.t{at}" not in rest.tables:
                lakebed.register(name, newest, options=options)
        if f"db.t{at}" not in rest.tables:
            lakebed.migrate(folder, name, options=options)
        assert ids(opened(name, options, folder)) == [1, 2]
        for file in (folder / "metadata").glob("*"):
            file.unlink()
        if not stores[0].crashed:
            break
    assert tried >= 3


def test_a_catalog_that_is_away(folder: Path, tmp_path: Path) -> None:
    away = {"lakebed.catalog.type": "rest", "lakebed.catalog.uri": "http://127.0.0.1:9"}
    with pytest.raises(RetryableError, match="did not answer"):
        lakebed.migrate(folder, "cat:db.t", options=away)
    assert left(folder) == []


def test_the_keys_that_a_catalog_hands_out_for_a_new_table(
    rest: RestCatalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of the longest prefix that fits, the caller's own win, and no other place gets them."""
    used: list[tuple[str, dict[str, str]]] = []

    def noted(location: str, options: dict[str, str]) -> Store:
        used.append((location, dict(options)))
        return open_store(location, options)

    monkeypatch.setattr("lakebed.formats.iceberg.migrate.run.open_store", noted)
    options, key = options_of(rest), "lakebed.storage.setting.aws_access_key_id"
    rest.config = {"s3.access-key-id": "KEY-TABLE", "s3.secret-access-key": "s"}
    elsewhere = {"prefix": "s3://elsewhere", "config": {"s3.access-key-id": "other", "s3.secret-access-key": "s"}}
    lakebed.snapshot(folder, "cat:db.a", options=options)
    rest.credentials = [elsewhere, {"prefix": str(rest.warehouse), "config": {"s3.access-key-id": "KEY-PREFIX"}}]
    lakebed.snapshot(folder, "cat:db.b", options=options)
    lakebed.snapshot(folder, "cat:db.c", options={**options, key: "own"})
    assert [location.rpartition("/")[2] for location, _ in used] == ["a", "b", "c"]
    assert [given[key] for _, given in used] == ["KEY-TABLE", "KEY-PREFIX", "own"]
