"""What callers hand in by mistake: each wrong kind of argument is one of lakebed's errors, never Python's own."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, SchemaError, UsageError
from lakebed.verbs.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.string())])
ROWS = pa.table({"id": [1, 2], "x": ["a", "b"]}, schema=SCHEMA)
ODD = [None, 5, 1.5, math.nan, True, "zzz", "", b"x", [], {}, [None], [5], [[1]], {"a": None}, {5: "x"}, object(),
       ROWS, SCHEMA]  # fmt: skip


@pytest.fixture(scope="module", params=["paimon", "iceberg", "hudi"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    if request.param == "hudi":
        place = tmp_path_factory.mktemp("t") / "t"  # a copy: some of the calls are served
        return lakebed.open(shutil.copytree("examples/orders_hudi", place))
    options = {"bucket": 1} if request.param == "paimon" else {}
    table = lakebed.create(tmp_path_factory.mktemp("t") / "t", request.param, SCHEMA, ["id"], options=options)
    table.write(ROWS)
    return table


def refused_or_served(call: Callable[[], Any]) -> None:
    """Whether odd values are served or refused is the tests' of each verb; here only how."""
    try:
        call()
    except LakebedError as error:
        assert "\n" not in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_the_verbs_of_a_table(table: Table, odd: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: table.read(columns=odd).read_all(),
        lambda: table.read(where=odd).read_all(),
        lambda: table.read(as_of=odd).read_all(),
        lambda: table.changes(after=odd).read_all(),
        lambda: table.changes(until=odd).read_all(),
        lambda: table.write(odd),
        lambda: table.write(ROWS, mode=odd),
        lambda: table.write(ROWS, options=odd),
        lambda: table.writer(callbacks=odd),
        lambda: table.rewrite(dry_run=True, options=odd),
        lambda: table.expire(dry_run=True, options=odd),
        lambda: table.archive(dry_run=True, options=odd),
        lambda: table.tag(odd),
        lambda: table.tag("x1", odd),
        lambda: table.delete_tag(odd),
        lambda: table.rollback(odd, dry_run=True),
        lambda: table.add_files(odd, dry_run=True),
        lambda: table.repair(dry_run=True, options=odd),
    ]
    for call in calls:
        refused_or_served(call)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_the_two_phase_writer(table: Table, odd: Any) -> None:
    if table.format == "hudi":
        return
    writer = table.writer("user")
    for call in (
        lambda: writer.write(odd),
        lambda: writer.commit(1, odd),
        lambda: writer.commit(odd, []),
        lambda: writer.filter_and_commit(odd),
        lambda: writer.abort(odd),
    ):
        refused_or_served(call)


@pytest.mark.parametrize("format", ["paimon", "iceberg"])
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_opening_and_creating(tmp_path: Path, format: str, odd: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: lakebed.create(tmp_path / "schema", format, odd),
        lambda: lakebed.create(tmp_path / "key", format, SCHEMA, primary_key=odd),
        lambda: lakebed.create(tmp_path / "partitions", format, SCHEMA, partition_by=odd),
        lambda: lakebed.create(tmp_path / "options", format, SCHEMA, options=odd),
        lambda: lakebed.create(tmp_path / "format", odd, SCHEMA),
        lambda: lakebed.open("examples/orders_hudi", options=odd),
        lambda: lakebed.open(odd),
    ]
    for call in calls:
        refused_or_served(call)


@pytest.mark.parametrize("format", ["paimon", "iceberg"])
def test_none_and_a_dict_are_understood(tmp_path: Path, format: str) -> None:
    columns = {"id": "int64", "x": pa.string(), "price": pa.decimal128(10, 2)}
    made = lakebed.create(tmp_path / "t", format, columns, primary_key=None, partition_by=None, options=None)
    assert dict(zip(made.schema.names, made.schema.types, strict=True)) == {
        "id": pa.int64(), "x": made.schema.field("x").type, "price": pa.decimal128(10, 2)
    }  # fmt: skip
    assert made.read().read_all().num_rows == 0


def test_what_the_refusals_say(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"column 'id' has the unknown type 'words'\. .*int64"):
        lakebed.create(tmp_path / "t", "iceberg", {"id": "words"})
    with pytest.raises(SchemaError, match="the schema has the type list"):
        lakebed.create(tmp_path / "t", "iceberg", ["id"])  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="primary_key has a value of type int"):
        lakebed.create(tmp_path / "t", "iceberg", SCHEMA, primary_key=[5])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="options are a list"):
        lakebed.open("examples/orders_hudi", options=["a"])  # type: ignore[arg-type]
