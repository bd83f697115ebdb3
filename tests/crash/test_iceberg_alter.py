"""An alteration of an Iceberg table that dies at any storage call leaves the old definition or the new one, whole."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import check_crash_safety
from tests.tables.iceberg.small import QUICK, SCHEMA


def test_a_crash_at_any_call(tmp_path: Path) -> None:
    numbers = itertools.count()

    def table() -> Store:
        store = open_store(tmp_path / str(next(numbers)))
        cleans = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
        made = lakebed.create(store, "iceberg", SCHEMA, (), "p", {**QUICK, **cleans})
        made.write(pa.table({"id": [1], "p": ["a"]}))
        return store

    def alter(store: Store) -> None:
        opened = lakebed.open(store)
        if "q" not in opened.schema.names:
            changes = [lakebed.add_column("q", "int"), lakebed.drop_partition_field("p"), lakebed.set_sort_order("id")]
            opened.alter([*changes, lakebed.set_option("format-version", 3), lakebed.set_option("a", "b")])

    def look(store: Store) -> tuple[object, ...]:
        opened = lakebed.open(store)
        assert isinstance(opened, IcebergTable)
        metadata = opened.table_metadata
        assert opened.read(columns=["id", "p"]).read_all().to_pylist() == [{"id": 1, "p": "a"}]
        return (
            metadata.format_version, metadata.schema, metadata.spec, metadata.default_sort_order_id,
            metadata.properties.get("a"),
        )  # fmt: skip

    assert check_crash_safety(table, alter, look) >= 8
    last = open_store(tmp_path / "0")
    alter(last)
    written = lakebed.open(last)
    written.write(pa.table({"id": [2], "p": ["b"], "q": pa.array([3], pa.int32())}))
    assert sorted(written.read().read_all()["id"].to_pylist()) == [1, 2]
