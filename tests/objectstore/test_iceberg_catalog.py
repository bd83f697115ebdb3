"""What a table in a SQL catalog asks of the object store where its files lie."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from tests.objectstore.server import StoreServer

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def row(number: int) -> pa.Table:
    return pa.table({"id": [number], "v": [number]}, SCHEMA)


@pytest.fixture
def options(store_server: StoreServer, tmp_path: Path) -> dict[str, str]:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": store_server.url("warehouse")}
    return {**store_server.options, **{f"lakebed.catalog.{key}": value for key, value in catalog.items()}}


@pytest.fixture
def table(options: dict[str, str]) -> Any:
    table = lakebed.create("counted:db.t", "iceberg", SCHEMA, options=options)
    for number in range(6):
        table.write(row(number))
    return table


def test_each_metadata_file_is_read_once(store_server: StoreServer, table: Any, options: dict[str, str]) -> None:
    counted = store_server.measure(lambda: lakebed.open("counted:db.t", options), enough=1)
    assert (counted.steps, counted.kinds) == (1, {"GET": 1})
    opened = counted.result
    assert store_server.measure(opened.history, enough=0).requests == 0
    plan = store_server.measure(opened.plan_read, enough=1)
    assert plan.steps <= 2 and not any("metadata.json" in entry.target for entry in plan.log)
    table.write(row(6))
    assert len(opened.history()) == len(table.history()) == 7


def test_a_commit_reads_no_metadata_that_the_table_has_read(store_server: StoreServer, table: Any) -> None:
    numbers = iter(range(100, 200))
    counted = store_server.measure(lambda: table.write(row(next(numbers))), enough=4)
    assert counted.steps <= 5
    assert {entry.method for entry in counted.log if "metadata.json" in entry.target} == {"PUT"}


def test_old_snapshots_are_not_lost(table: Any, options: dict[str, str]) -> None:
    for opened in (table, lakebed.open("counted:db.t", options)):
        assert [snapshot.summary["added-records"] for snapshot in opened.history()] == ["1"] * 6
        oldest = opened.history()[0]
        assert opened.read(as_of=oldest).read_all().num_rows == 1
    assert len(table.operations.catalog.load_table("db.t").metadata.snapshots) == 1


def test_it_travels_without_what_it_has_read(table: Any) -> None:
    io = pickle.loads(pickle.dumps(table.operations.catalog.load_table("db.t").io))
    location = table.operations.load().location
    assert len(io.new_input(location).open().read()) > 0
