"""DuckDB and pyiceberg on an Iceberg table after each of its changes: the rows that lakebed reads."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.hudi_ask import ask

pytestmark = pytest.mark.timeout(600)
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32(), False), pa.field("name", pa.string()), pa.field("price", pa.decimal128(5, 2)),
        pa.field("f", pa.float32()), pa.field("s", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
    ]
)  # fmt: skip
STEPS: list[Any] = [
    [lakebed.widen("id", "long"), lakebed.widen("price", "decimal(9, 2)"), lakebed.widen("f", "double")],
    [lakebed.rename_column("name", "title"), lakebed.add_column("name", "int", first=True)],
    [lakebed.add_column("s.z", "string", before="y"), lakebed.drop_column("s.x"), lakebed.widen("s.y", "long")],
    [lakebed.replace_partition_field("bucket(2, id)", "truncate(1, title)"), lakebed.set_sort_order("id desc")],
    [lakebed.drop_partition_field("title_trunc_1"), lakebed.drop_column("title"), lakebed.move_column("f", first=True)],
    lakebed.set_option("format-version", 3),
    lakebed.add_column("five", "int", default=5, nullable=False),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[list[Any], list[Any], list[Any]]]:
    """The rows after each step, by lakebed, DuckDB and pyiceberg."""
    folder = tmp_path_factory.mktemp("states")
    table = lakebed.create(folder / "t", "iceberg", COLUMNS, (), ["bucket(2, id)"])
    assert isinstance(table, IcebergTable)
    ours, requests, theirs = [], [], []
    for number, change in enumerate([None, *STEPS]):
        if change is not None:
            table.alter(change)
        row = {"id": number, "name": None, "price": Decimal(number), "f": 0.5, "s": {"y": number}}
        names = [field.name for field in table.schema if field.name in row and field.name != "name"]
        data = pa.Table.from_pylist([row], pa.schema([table.schema.field(name) for name in names]))
        if number == 0:
            data = pa.Table.from_pylist([{**row, "name": "n", "s": {"x": 1, "y": 2}}], COLUMNS)
        table.write(data.drop_columns(["s"]) if number > 2 else data)
        ours.append(sorted_rows(table.read().read_all()))
        location = table.operations.load().location
        requests.append({"name": str(number), "metadata": location, "to": str(folder / f"{number}.arrow")})
        scan = StaticTable.from_metadata(location).scan()
        theirs.append([] if change is STEPS[-1] else sorted_rows(scan.to_arrow()))
    answers = ask("LAKEBED_INTEROP_PYTHON", "duckdb_peer.py", [], [json.dumps(request) for request in requests])
    assert [answer["error"] for answer in answers] == [""] * len(requests)
    duck = []
    for request in requests:
        with pa.OSFile(request["to"]) as source:
            duck.append(sorted_rows(pa.ipc.open_stream(source).read_all()))
    return list(zip(ours, duck, theirs, strict=True))


def sorted_rows(found: pa.Table) -> list[Any]:
    return sorted(found.to_pylist(), key=lambda row: int(row["id"]))


def test_each_state_is_read_alike(told: list[tuple[list[Any], list[Any], list[Any]]]) -> None:
    for number, (ours, duck, theirs) in enumerate(told):
        assert len(ours) == number + 1
        assert duck == ours, number
        assert theirs == ours or number == len(STEPS), number  # pyiceberg 0.12 reads no defaults in older files
