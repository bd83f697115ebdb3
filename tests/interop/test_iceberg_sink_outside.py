"""Iceberg's own engine on tables that lakebed's sink wrote: the same rows, the same partitions for every transform, and
both write in turn. pyiceberg reads the tables too."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.iceberg_ask import spark_sql

pytestmark = pytest.mark.timeout(1800)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False), ("name", pa.string()), ("day", pa.date32()), ("at", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)), ("small", pa.int32()),
    ]
)  # fmt: skip
COLUMNS = "id bigint NOT NULL, name string, day date, at timestamp_ntz, price decimal(9, 2), small int"
TABLES = {
    "plain_v2": (2, [], ""),
    "plain_v3": (3, [], ""),
    "hashed": (2, ["bucket(4, id)", "bucket(3, name)", "bucket(2, price)"],
               "bucket(4, id), bucket(3, name), bucket(2, price)"),
    "cut": (3, ["truncate(2, name)", "truncate(10, small)", "truncate(50, price)"],
            "truncate(2, name), truncate(10, small), truncate(50, price)"),
    "days": (2, ["day(at)", "small"], "days(at), small"),
    "years": (3, ["year(day)", "bucket(5, at)"], "years(day), bucket(5, at)"),
    "hours": (2, ["hour(at)", "month(day)", "bucket(2, day)"], "hours(at), months(day), bucket(2, day)"),
}  # fmt: skip
"""Format version, partitions as lakebed spells them, and as Spark does."""


def rows(ids: list[int], note: str = "") -> pa.Table:
    epoch = datetime.datetime(1969, 12, 30, 22, 30)
    found = [
        {
            "id": n, "name": None if n % 7 == 3 else f"n/{n % 5} é{note}", "small": n % 30 - 12,
            "day": None if n % 11 == 5 else datetime.date(1969, 12, 1) + datetime.timedelta(9 * n),
            "at": epoch + datetime.timedelta(hours=5 * n, microseconds=n), "price": Decimal(n * 977 - 9000) / 100,
        }
        for n in ids
    ]  # fmt: skip
    return pa.Table.from_pylist(found, SCHEMA)


def opened(folder: Path, name: str) -> IcebergTable:
    found = lakebed.open(folder / "db" / name)
    assert isinstance(found, IcebergTable)
    return found


def change(table: IcebergTable, first: int) -> None:
    table.write(rows([first, first + 1, first + 100], " new"), "upsert")
    table.write(rows([first + 2]).select(["id"]), "delete")


def held(table: IcebergTable) -> list[list[Any]]:
    return plain(table.read().read_all())


def plain(found: pa.Table) -> list[list[Any]]:
    texts = found.select(SCHEMA.names).sort_by("id").to_pylist()
    return [[row["id"], row["name"], *(str(row[key]) for key in ("day", "at", "price", "small"))] for row in texts]


def of_spark(found: list[list[Any]]) -> list[list[Any]]:
    return [[row[0], row[1], *(str(value) for value in row[2:])] for row in found]


def asked(name: str) -> str:
    return f"SELECT id, name, day, at, price, small FROM had.db.{name} ORDER BY id"


def partitions(name: str) -> str:
    """The partition of each row. A table without partitions has no such column."""
    place = "string(_partition)" if TABLES[name.removesuffix("_copy")][1] else "'none'"
    return f"SELECT id, {place} FROM had.db.{name} ORDER BY id"


Told = dict[str, Any]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Told, Told, Told]:
    """The folder of the tables, their rows by lakebed at three moments, and what Spark reports at the first two and the
    last."""
    folder = tmp_path_factory.mktemp("sink")
    ours: Told = {}
    asks = {}
    for name, (version, by, words) in TABLES.items():
        table = lakebed.create(folder / "db" / name, "iceberg", SCHEMA, ["id"], by, {"format-version": version})
        assert isinstance(table, IcebergTable)
        table.write(rows(list(range(60))))
        change(table, 10)
        ours[name] = [held(table)]
        more = f"SELECT id + 500 as id, name, day, at, price, small FROM had.db.{name} WHERE id < 3"
        asks[name] = [
            asked(name),
            f"CREATE TABLE had.db.{name}_copy ({COLUMNS}) USING iceberg {f'PARTITIONED BY ({words})' if by else ''}",
            f"INSERT INTO had.db.{name}_copy SELECT * FROM had.db.{name}",
            partitions(name),
            partitions(f"{name}_copy"),
            f"ALTER TABLE had.db.{name} SET TBLPROPERTIES ('write.update.mode'='merge-on-read')",
            f"UPDATE had.db.{name} SET name = 'by spark' WHERE id BETWEEN 20 AND 22",
            f"DELETE FROM had.db.{name} WHERE id = 23",
            f"INSERT INTO had.db.{name} {more}",
            asked(name),
        ]
    spark = spark_sql(folder, asks)
    for name in TABLES:
        ours[name].append(held(opened(folder, name)))
        change(opened(folder, name), 21)
        ours[name].append(held(opened(folder, name)))
    return folder, ours, spark, spark_sql(folder, {name: [asked(name)] for name in TABLES})


@pytest.mark.parametrize("name", TABLES)
def test_partitions_are_those_that_spark_makes(told: tuple[Path, Told, Told, Told], name: str) -> None:
    mine, theirs = told[2][name][3:5]
    assert mine == theirs and len(mine) == 60


@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_what_was_replaced_and_removed(told: tuple[Path, Told, Told, Told], name: str) -> None:
    assert of_spark(told[2][name][0]) == told[1][name][0] and len(told[1][name][0]) == 60


@pytest.mark.parametrize("name", TABLES)
def test_both_go_on_in_turn(told: tuple[Path, Told, Told, Told], name: str) -> None:
    _, before, after = told[1][name]
    assert of_spark(told[2][name][-1]) == before
    assert of_spark(told[3][name][0]) == after
    ids = [row[0] for row in after]
    assert 23 not in ids and {21, 22, 121, 500} <= set(ids)


@pytest.mark.parametrize("name", TABLES)
def test_pyiceberg_reads_the_end(told: tuple[Path, Told, Told, Told], name: str) -> None:
    location = opened(told[0], name).operations.load().location
    assert plain(StaticTable.from_metadata(location).scan().to_arrow()) == told[1][name][2]
