"""The life of a table, step by step, that is to be the same whatever says where the table's metadata is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.tables.iceberg.small import QUICK, SCHEMA, ids


def rows(numbers: list[int], p: str = "a") -> pa.Table:
    return pa.table({"id": numbers, "p": [p] * len(numbers)}, schema=SCHEMA)


def made(place: Any, version: int, options: dict[str, str]) -> IcebergTable:
    table = lakebed.create(
        place, "iceberg", SCHEMA, ["id"], "p",
        {"format-version": version, "commit.manifest.min-count-to-merge": "3", **QUICK, **options},
    )  # fmt: skip
    assert isinstance(table, IcebergTable)
    return table


def story(table: IcebergTable, version: int) -> list[Any]:
    """What is there after each step."""
    told: list[Any] = []

    def step() -> None:
        metadata = table.table_metadata
        told.append((sorted(map(str, table.read().read_all().to_pylist())), [i.action for i in table.history()]))
        told.append((metadata.last_sequence_number, metadata.next_row_id, sorted(metadata.refs)))

    for first, p in ((0, "a"), (10, "a"), (20, "b")):
        table.write(rows([first, first + 1, first + 2], p))
    step()
    table.tag("three")
    table.branch("side")
    if version > 1:
        table.write(rows([1, 77]), "upsert")
        table.write(rows([20]).select(["id"]), "delete")
        step()
    table.rewrite(options={"rewrite-all": True, "remove-dangling-deletes": True})
    step()
    table.write(rows([500], "b"), "overwrite")
    step()
    told.append(ids(table, as_of="tag:three"))
    table.delete_branch("side")
    table.delete_tag("three")
    gone = table.expire(options={"older-than": "2100-01-01"})
    told.append((len(gone.expired), len(gone.deleted_files)))
    step()
    return told
