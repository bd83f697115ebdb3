"""Reads of tables whose scans a REST catalog plans, by the planner of Iceberg's own engine: the rows are those that
lakebed finds where it plans the same scan itself."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UnsupportedError
from tests.interop.iceberg_equality import delete_equal
from tests.interop.iceberg_planning_server import planning_server, requests
from tests.interop.iceberg_state import Column

DAY = datetime.date(2024, 1, 1)
SCHEMA = pa.schema([
    pa.field("id", pa.int64(), False), ("part", pa.string()), ("day", pa.date32()), ("price", pa.decimal128(9, 2)),
    ("at", pa.timestamp("us", "UTC")),
])  # fmt: skip
SPECS: dict[str, tuple[str, ...]] = {
    "parts_2": ("part",), "later_1": ("month(day)", "bucket(3, id)"), "days_9": ("day(at)", "truncate(2, part)"),
    "plain_3": (), "later_3": ("day", "price"),
}  # fmt: skip
"""Tables by name: the server submits the plans of some, and answers with so many files at a time."""


def rows(first: int) -> pa.Table:
    numbers = range(first, first + 8)
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    return pa.table({
        "id": numbers, "part": ["xyz"[n % 3] * 3 if n % 5 else None for n in numbers],
        "day": [DAY + datetime.timedelta(20 * (n % 4)) if n % 7 else None for n in numbers],
        "price": [Decimal(n % 3) for n in numbers], "at": [moment + datetime.timedelta(n % 4) for n in numbers],
    }).cast(SCHEMA)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("planning")
    for name, spec in SPECS.items():
        options = {**direct(folder), "format-version": "2" if name.startswith("p") else "3"}
        table: Any = lakebed.create(f"ice:db.{name}", "iceberg", SCHEMA, ["id"], list(spec), options)
        for first in (0, 8, 16):
            table.write(rows(first))
        table.tag("early")
        gone = pa.table({"id": [1, 9, 17]}, schema=pa.schema([SCHEMA.field("id")]))
        table.write(gone, "delete", {"upsert.keys": "id"})
        if not spec:
            delete_equal(table, table.operations.load().location, [{"id": 2}], [Column("id", "id", "bigint")], 0)
        table.alter([lakebed.rename_column("price", "cost"), lakebed.add_column("more", pa.int32())])
        later = rows(24).rename_columns(["id", "part", "day", "cost", "at"])
        table.write(later.append_column("more", pa.array(range(8), pa.int32())))
        table.alter([lakebed.rename_column("cost", "amount"), lakebed.add_column("newest", pa.string())])
    with planning_server(folder) as address:
        yield folder, address


def direct(folder: Path) -> dict[str, str]:
    return {f"lakebed.catalog.{key}": value for key, value in {
        "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder), "init_catalog_tables": "true",
    }.items()}  # fmt: skip


def served(address: str) -> dict[str, str]:
    return {"lakebed.catalog.type": "rest", "lakebed.catalog.uri": address}


WHERES = (
    None, "id > 20", "part = 'xxx' and id < 12", "part is null or id = 3", "day >= date '2024-01-21'", "day is null",
    "part in ('yyy', 'zzz')", "at < timestamp '2024-01-03 00:00:00+00:00'", "amount = 1", "not (part = 'xxx')",
    "more > 3", "part like 'x%' and id <> 6",
)  # fmt: skip


@pytest.mark.parametrize("name", SPECS)
def test_the_rows_of_a_served_plan(place: tuple[Path, str], name: str) -> None:
    folder, address = place
    own: Any = lakebed.open(f"ice:db.{name}", direct(folder))
    theirs: Any = lakebed.open(f"ice:db.{name}", served(address))
    for number, where in enumerate(WHERES):
        columns = (None, ["newest", "amount"], ["_file", "_pos", "part"])[number % 3]
        wanted = own.read(columns, where).read_all()
        found = theirs.read(columns, where).read_all()
        assert found.schema == wanted.schema and ordered(found) == ordered(wanted), where
    assert ordered(theirs.read(as_of="tag:early").read_all()) == ordered(own.read(as_of="tag:early").read_all())
    first = own.history()[0].time
    assert ordered(theirs.read(as_of=int(first)).read_all()) == ordered(rows(0))
    assert len(theirs.plan_read(where="id < 8").splits) == len(own.plan_read(where="id < 8").splits)
    asked = [line.split(" ", 2) for line in requests(address) if f"/{name}/" in line]
    later = [path for verb, path, _ in asked if verb == "GET"]
    assert bool(later) is name.startswith("later")
    assert any(path.endswith("/tasks") for _, path, _ in asked)
    filters = [json.loads(body)["filter"] for _, path, body in asked if path.endswith("/plan") and "filter" in body]
    assert {"type": "gt", "term": "id", "value": 20} in filters


def ordered(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


def test_what_is_not_served_says_so(place: tuple[Path, str]) -> None:
    _, address = place
    table: Any = lakebed.open("ice:db.later_1", served(address))
    assert (
        len(table.history()) == 5 and table.schema.names[-1] == "newest" and {"early"} <= {r.name for r in table.refs()}
    )
    for use in (
        lambda: table.write(table.schema.empty_table()), table.rewrite, table.expire, table.inspect, table.repair,
        lambda: table.changes().read_all(), lambda: table.metadata("files").read_all(), lambda: table.tag("x"),
        lambda: table.alter(lakebed.set_option("a", "b")), lambda: table.read(["_last_updated_sequence_number"]),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match="plans the scans of this table"):
            use()
