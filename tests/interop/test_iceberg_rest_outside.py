"""Every kind of commit to the REST catalog server of Iceberg's own tests, which writes the metadata, in each format
version. Spark 4.1 continues through the same catalog, and then lakebed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.errors import NotInHistoryError, TableExistsError, TableNotFoundError
from lakebed.formats.iceberg.catalog.table import LostRaceError
from lakebed.formats.iceberg.codec.updates import ref_is
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.iceberg_ask import spark_sql
from tests.interop.iceberg_rest_server import rest_server
from tests.tables.iceberg import commits
from tests.tables.iceberg.small import SCHEMA, create, data_file, ids
from tests.tables.iceberg.steps import made, rows, story

pytestmark = pytest.mark.timeout(1800)
VERSIONS = (1, 2, 3)


@dataclass
class Told:
    """The catalog, the result of lakebed's steps per version, the same by path, and what Spark reports then."""

    options: dict[str, str]
    steps: dict[int, list[Any]]
    by_path: dict[int, list[Any]]
    keys: dict[int, list[int]]
    spark: dict[str, Any]


def opened(told: Told, version: int) -> IcebergTable:
    table = lakebed.open(f"rest:db.v{version}", told.options)
    assert isinstance(table, IcebergTable)
    return table


def statements(version: int) -> list[str]:
    table = f"rest.db.v{version}"
    lineage = ", _row_id, _last_updated_sequence_number" if version == 3 else ""
    return [
        f"SELECT id, p FROM {table} ORDER BY id, p",
        f"INSERT INTO {table} VALUES (900, 'a'), (901, 'z')",
        f"DELETE FROM {table} WHERE id = 900",
        f"CALL rest.system.rewrite_data_files(table => 'db.v{version}', options => map('rewrite-all', 'true'))",
        f"CALL rest.system.expire_snapshots(table => 'db.v{version}', older_than => TIMESTAMP '2100-01-01')",
        f"SELECT id, p{lineage} FROM {table} ORDER BY id, p",
    ]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("rest")
    with rest_server(folder) as address:
        found = Told({"lakebed.catalog.type": "rest", "lakebed.catalog.uri": address}, {}, {}, {}, {})
        for version in VERSIONS:
            table = made(f"rest:db.v{version}", version, found.options)
            found.steps[version] = story(table, version)
            found.by_path[version] = story(made(folder / "path" / f"v{version}", version, {}), version)
            found.keys[version] = ids(table)
        asked = {f"v{version}": statements(version) for version in VERSIONS}
        found.spark = spark_sql(folder, asked, "4.1", address)
        yield found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_steps_as_by_path(told: Told, version: int) -> None:
    assert told.steps[version] == told.by_path[version] and len(told.keys[version]) > 5


@pytest.mark.parametrize("version", VERSIONS)
def test_spark_goes_on_and_lakebed_after_it(told: Told, version: int) -> None:
    first, *_, last = told.spark[f"v{version}"]
    assert [row[0] for row in first] == told.keys[version]
    assert [row[0] for row in last] == [*told.keys[version], 901]
    table = opened(told, version)
    lineage = ["_row_id", "_last_updated_sequence_number"] if version == 3 else []
    ours = sorted(list(row.values()) for row in table.read(["id", "p", *lineage]).read_all().to_pylist())
    assert ours == last
    if version > 1:
        table.write(rows([901], "z"), "upsert")
    table.rewrite(options={"rewrite-all": True, "remove-dangling-deletes": True})
    table.write(rows([950]))
    assert ids(table) == [*told.keys[version], 901, 950]
    scanned: pa.Table = StaticTable.from_metadata(table.operations.load().location).scan().to_arrow()
    assert sorted(scanned["id"].to_pylist()) == ids(table)


def test_what_the_server_refuses(told: Told) -> None:
    with pytest.raises(TableNotFoundError):
        lakebed.open("rest:db.none", told.options)
    table = create("rest:db.once", 3, **told.options)
    with pytest.raises(TableExistsError):
        create("rest:db.once", 3, **told.options)
    base = table.operations.load()
    commits.append(table.operations, [data_file(table, [1])])
    with pytest.raises(LostRaceError):
        table.operations.commit(base, [ref_is("main", None)], [{"action": "set-properties", "updates": {"a": "b"}}])


def test_writers_at_the_same_time(told: Told) -> None:
    table = create("rest:db.busy", 3, **told.options, **{"commit.retry.num-retries": "60"})
    files = [data_file(table, [number]) for number in range(6)]
    failures: list[Exception] = []

    def write(number: int) -> None:
        try:
            commits.append(table.operations, [files[number]])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and ids(table) == list(range(6)) and table.table_metadata.next_row_id == 6
    assert Path(table.operations.load().location).exists() and table.schema.names == SCHEMA.names


def test_the_slower_of_two_branches_is_made_anew(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers 400 then: the sequence number is taken, though no requirement is broken."""
    table = create("rest:db.raced", 2, **told.options)
    commits.append(table.operations, [data_file(table, [1])])
    table.branch("side")
    publish = table.operations.commit

    def late(*args: Any, **named: Any) -> Any:
        monkeypatch.undo()
        commits.append(table.operations, [data_file(table, [2])], branch="side")
        return publish(*args, **named)

    monkeypatch.setattr(table.operations, "commit", late)
    commits.append(table.operations, [data_file(table, [3])])
    side = lakebed.open("rest:db.raced", {**told.options, "branch": "side"})
    assert isinstance(side, IcebergTable) and ids(table) == [1, 3] and ids(side) == [1, 2]


def test_a_staged_write_is_published_only_while_it_is_there(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers 400 where an expiry came in between, since the changes name the staged snapshot."""
    table = create("rest:db.staged", 2, **told.options, **{"write.wap.enabled": "true"})
    commits.append(table.operations, [data_file(table, [1])])
    for number in (2, 3):
        table.write(rows([number]), options={"wap.id": f"wap {number}"})
    commits.append(table.operations, [data_file(table, [4])])
    assert table.publish("wap 2").dry_run is False
    assert ids(table) == [1, 2, 4] and [ref.name for ref in table.refs()] == ["main"]
    publish = table.operations.commit

    def late(*args: Any, **named: Any) -> Any:
        monkeypatch.undo()
        other = lakebed.open("rest:db.staged", told.options)
        assert other.expire(options={"older-than": "2100-01-01", "retain-last": 1}).expired
        return publish(*args, **named)

    monkeypatch.setattr(table.operations, "commit", late)
    with pytest.raises(NotInHistoryError):
        table.publish("wap 3")
    assert ids(table) == [1, 2, 4]


def test_tables_that_enter_the_catalog_whole(told: Told, tmp_path: Path) -> None:
    """The server says where a snapshot of a folder lies, takes in its metadata file, and a registered one."""
    folder = tmp_path / "in"
    for day in ("1", "2"):
        (folder / f"p={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [int(day)]}), folder / f"p={day}" / "a.parquet")
    places = {**told.options, "lakebed.storage.places": str(folder)}
    assert lakebed.snapshot(folder, "rest:new.trial", options={**told.options, "format-version": "3"}).rows == 2
    trial = lakebed.open("rest:new.trial", places)
    trial.write(pa.table({"id": [3], "p": pa.array([3], pa.int32())}))
    assert [each.distinct for each in trial.compute_table_stats().columns] == [3, 3]
    assert trial.compute_partition_stats().partitions == 3
    assert isinstance(trial, IcebergTable)
    assert ids(trial) == [1, 2, 3] and len(trial.table_metadata.statistics_files) == 2
    lakebed.migrate(folder, "rest:new.moved", options=told.options)
    moved = lakebed.open("rest:new.moved", told.options)
    assert isinstance(moved, IcebergTable) and ids(moved) == [1, 2]
    with pytest.raises(TableExistsError):
        lakebed.snapshot(folder, "rest:new.trial", options=told.options)
    with pytest.raises(TableExistsError):
        lakebed.register("rest:new.moved", moved.operations.load().location, options=told.options)
    lakebed.register("rest:other.name", moved.operations.load().location, options=told.options)
    named = lakebed.open("rest:other.name", told.options)
    assert isinstance(named, IcebergTable) and ids(named) == [1, 2]
