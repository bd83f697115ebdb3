"""A change of a table that dies at any storage call leaves the old version of its schema or the new one, whole."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa

import lakebed
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import check_crash_safety


def test_a_crash_at_any_call(tmp_path: Path) -> None:
    numbers = itertools.count()

    def table() -> Store:
        store = open_store(tmp_path / str(next(numbers)))
        lakebed.create(store, "paimon", {"id": "int64", "v": "string"}, ["id"], options={"bucket": "1"})
        return store

    def alter(store: Store) -> None:
        lakebed.open(store).alter([lakebed.set_default("v", "x"), lakebed.set_option("num-levels", 3)])

    def look(store: Store) -> tuple[object, ...]:
        opened = lakebed.open(store)
        assert opened.read().read_all().num_rows == 0
        return opened.table_schema.id, opened.table_schema.fields, dict(opened.table_schema.options)  # type: ignore[attr-defined]

    assert check_crash_safety(table, alter, look) >= 8
    written = lakebed.open(tmp_path / "0")
    written.write(pa.table({"id": [1]}))
    assert written.read().read_all().num_rows == 1
