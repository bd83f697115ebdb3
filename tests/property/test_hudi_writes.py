"""Random writes of every operation to Hudi tables of every version and type, with services between them, held against a
dictionary.

The dictionary knows what each operation means: by event time a row wins unless its ordering value is lower, a row of
kind -D too, a delete by key always wins, an overwrite empties the partitions that its rows are in or the whole table.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
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
REPLACES = ("insert_overwrite", "insert_overwrite_table", "delete_partition")
OPERATIONS = ("upsert", "upsert", "upsert", "insert", "bulk_insert", "delete", *REPLACES, "kinds", "kinds")
SERVICES: dict[str, dict[str, Any]] = {
    name: {"lakebed.rewrite.what": name, "hoodie.log.compaction.blocks.threshold": "2"}
    for name in ("compaction", "log-compaction", "clustering")
}
Row = dict[str, Any]

rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 11),
            "ts": st.integers(0, 3),
            "text": st.none() | st.text(max_size=3),
            "amount": st.none() | st.decimals(-1000, 1000, places=2),
            "tags": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=2),
            "kind": st.sampled_from(("+I", "+U", "-D")),
        }
    ),
    min_size=1,
    max_size=8,
)
steps = st.lists(
    st.tuples(st.sampled_from((*OPERATIONS, *SERVICES, "clean")), rows, st.booleans()), min_size=1, max_size=7
)


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
    if operation in REPLACES:
        gone = PARTS if operation == "insert_overwrite_table" else {part_of(row["id"]) for row in data}
        for key in [key for key in model if part_of(key) in gone]:
            del model[key]
    latest: dict[int, Row] = {}
    for row in data if operation != "delete_partition" else ():
        won(latest, row, by_event)
    for row in latest.values():
        won(model, row, by_event)
    for key in [key for key, row in model.items() if operation == "kinds" and row["kind"] == "-D"]:
        del model[key]


def serve(table: lakebed.Table, service: str, merge_on_read: bool, logged: bool) -> None:
    """A service of the table, where it has such a one."""
    if service == "clean":
        if not logged:  # its changes are read from the start
            table.expire(options={"hoodie.clean.commits.retained": 1})
    elif service == "clustering" or merge_on_read:
        table.rewrite(options=SERVICES[service])


@pytest.mark.parametrize("ordering", ["", "ts"])
@pytest.mark.parametrize(("version", "kind"), KINDS)
@settings(max_examples=10, deadline=None)
@given(life=steps, meta_columns=st.booleans())
def test_a_table_is_a_dictionary(version: int, kind: str, ordering: str, life: list[Any], meta_columns: bool) -> None:
    model: dict[int, Row] = {}
    deleted: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "hoodie.write.table.version": version,
            "hoodie.datasource.write.table.type": kind,
            "hoodie.table.ordering.fields": ordering,
            "hoodie.datasource.write.partitionpath.urlencode": True,
            "hoodie.table.cdc.enabled": (logged := bool(ordering) and kind == "COPY_ON_WRITE"),
            "hoodie.populate.meta.fields": meta_columns or logged,
        }
        table = lakebed.create(Path(folder) / "t", "hudi", SCHEMA, ["id"], ["part"], options)
        for operation, given_rows, filling in life:
            if operation in (*SERVICES, "clean"):
                serve(table, operation, kind == "MERGE_ON_READ", logged)
            else:
                data = [{**row, "part": part_of(row["id"])} for row in given_rows]
                if operation != "kinds":
                    data = [{**row, "kind": "+I"} for row in data]
                if operation not in ("upsert", "delete", "kinds"):
                    data = list({row["id"]: row for row in data}.values())
                if operation in ("insert", "bulk_insert"):
                    data = [row for row in data if row["id"] not in model]
                # A late row that follows a delete brings the base row back in a log, as with Hudi's own readers.
                data = [{**row, "ts": row["ts"] + 100 * deleted[row["id"]]} for row in data]
                deleted.update({row["id"] for row in data if operation == "delete" or row["kind"] == "-D"})
                write(table, operation, data, filling)
                apply(model, operation, data, bool(ordering))
            found = table.read(SCHEMA.names).read_all().to_pylist()
            assert sorted(found, key=repr) == sorted(
                (({n: r[n] for n in SCHEMA.names}) for r in model.values()), key=repr
            ), operation
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


def write(table: lakebed.Table, operation: str, data: list[Row], filling: bool) -> None:
    """One write by an operation of Hudi, or of rows with kinds. `filling` lets it fill up small files."""
    options = {} if filling else {"hoodie.parquet.small.file.limit": "0"}
    batch = pa.Table.from_pylist(data, SCHEMA)
    if operation == "kinds":
        batch = batch.append_column("_row_kind", pa.array([row["kind"] for row in data], pa.string()))
    else:
        options["hoodie.datasource.write.operation"] = operation
    if operation == "delete_partition":
        names = sorted({part_of(row["id"]).replace("/", "%2F").replace("=", "%3D") for row in data})
        options["hoodie.datasource.write.partitions.to.delete"] = ",".join(names)
        table.write(batch.slice(0, 0), "delete", options)
    else:
        table.write(batch, options=options)
