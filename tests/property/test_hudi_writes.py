"""Random writes of every operation to Hudi tables of every version and type, held against a dictionary.

The dictionary knows what each operation means: by event time a row wins unless its ordering value is lower, a delete by
key always wins, an overwrite empties the partitions that its rows are in.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.formats.hudi.layout import META_COLUMNS
from tests.tables.hudi.fresh import KINDS

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("text", pa.string()),
        ("amount", pa.decimal128(9, 2)),
        ("tags", pa.list_(pa.string())),
    ]
)
PARTS = ("a", "b", "c d/e=1")
OPERATIONS = ("upsert", "upsert", "upsert", "insert", "bulk_insert", "delete", "insert_overwrite", "kinds")
Row = dict[str, Any]

rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 11),
            "ts": st.integers(0, 3),
            "text": st.none() | st.text(max_size=3),
            "amount": st.none() | st.decimals(-1000, 1000, places=2),
            "tags": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=2),
        }
    ),
    min_size=1,
    max_size=8,
)
steps = st.lists(st.tuples(st.sampled_from(OPERATIONS), rows, st.booleans()), min_size=1, max_size=6)


def part_of(number: int) -> str:
    """The partition of a key, which never changes: keys are looked up in their own partition."""
    return PARTS[number % len(PARTS)]


def won(model: dict[int, Row], row: Row, by_event: bool) -> None:
    """What an upsert of one row does."""
    before = model.get(row["id"])
    if before is None or not by_event or row["ts"] >= before["ts"]:
        model[row["id"]] = row


def apply(model: dict[int, Row], operation: str, data: list[Row], by_event: bool) -> None:
    """What an operation does to the dictionary."""
    if operation == "delete":
        for row in data:
            model.pop(row["id"], None)
        return
    if operation == "insert_overwrite":
        gone = {part_of(row["id"]) for row in data}
        for key in [key for key in model if part_of(key) in gone]:
            del model[key]
    latest: dict[int, Row] = {}
    for row in data:
        won(latest, row, by_event)
    for row in latest.values():
        won(model, row, by_event)


@pytest.mark.parametrize("ordering", ["", "ts"])
@pytest.mark.parametrize(("version", "kind"), KINDS)
@settings(max_examples=12, deadline=None)
@given(life=steps)
def test_a_table_is_a_dictionary(version: int, kind: str, ordering: str, life: list[Any]) -> None:
    model: dict[int, Row] = {}
    deleted: set[int] = set()
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "hoodie.write.table.version": version,
            "hoodie.datasource.write.table.type": kind,
            "hoodie.table.ordering.fields": ordering,
            "hoodie.datasource.write.partitionpath.urlencode": True,
            "hoodie.table.cdc.enabled": (logged := bool(ordering) and kind == "COPY_ON_WRITE"),
        }
        table = lakebed.create(Path(folder) / "t", "hudi", SCHEMA, ["id"], ["part"], options)
        for operation, given_rows, filling in life:
            data = [{**row, "part": part_of(row["id"])} for row in given_rows]
            if operation in ("insert", "bulk_insert", "insert_overwrite"):
                data = list({row["id"]: row for row in data}.values())
            if operation in ("insert", "bulk_insert"):
                data = [row for row in data if row["id"] not in model]
            # A late row that follows a delete by key brings the base row back in a log, as with Hudi's own readers.
            data = [{**row, "ts": row["ts"] + 100 * (row["id"] in deleted)} for row in data]
            deleted |= {row["id"] for row in data} if operation == "delete" else set()
            named = {} if operation == "kinds" else {"hoodie.datasource.write.operation": operation}
            named |= {} if filling else {"hoodie.parquet.small.file.limit": "0"}
            batch = pa.Table.from_pylist(data, SCHEMA)
            if operation == "kinds":
                batch = batch.append_column("_row_kind", pa.array(["+I"] * len(data), pa.string()))
            table.write(batch, options=named)
            apply(model, "upsert" if operation == "kinds" else operation, data, bool(ordering))
            found = table.read().read_all().drop_columns(list(META_COLUMNS)).to_pylist()
            assert sorted(found, key=repr) == sorted(
                (({n: r[n] for n in SCHEMA.names}) for r in model.values()), key=repr
            )
        if logged:
            replayed: dict[int, Row] = {}
            for row in (
                lakebed.open(table.location, {"cdc.enabled": "true"}).changes(SCHEMA.names).read_all().to_pylist()
            ):
                if row.pop("_row_kind") in ("+I", "+U"):
                    replayed[row["id"]] = row
                else:
                    del replayed[row["id"]]
            assert replayed == {key: {name: row[name] for name in SCHEMA.names} for key, row in model.items()}
