"""A restore that dies at any storage call is carried on by whoever changes the table next, and no reader sees rows that
no commit left."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.hudi.fresh import fresh_table
from tests.tables.hudi.listing import listed, walked

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
Rows = list[tuple[Any, ...]]


def rows_of(store: Store) -> Rows:
    table = lakebed.open(store)
    return sorted(tuple(row.values()) for row in table.read(["dt", "id", "v"]).read_all().to_pylist())


@pytest.mark.parametrize(
    ("version", "kind", "faults"),
    [
        (6, "MERGE_ON_READ", (Kind.CRASH_AFTER,)),
        (9, "MERGE_ON_READ", (Kind.CRASH_BEFORE,)),
        (8, "COPY_ON_WRITE", (Kind.ERROR_BEFORE,)),
    ],
)
def test_a_restore_is_carried_on(tmp_path: Path, version: int, kind: str, faults: tuple[Kind, ...]) -> None:
    number, original = itertools.count(), tmp_path / "original"
    table = fresh_table(original, SCHEMA, version=version, kind=kind, metadata=version != 8)
    states, instants = [], []
    for value in range(3):
        rows = [{"dt": "a", "id": n, "v": value} for n in range(3)]
        mode = "overwrite" if value == 2 else "upsert"
        instants.append(table.write(pa.Table.from_pylist(rows, SCHEMA), mode=mode, options=QUIET).instant)
        states.append(rows_of(table.store))

    def make() -> Store:
        return open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))

    def restore(store: Store) -> None:
        lakebed.open(store).rollback(instants[0])

    def observe(store: Store) -> Rows:
        """The rows after the next change of the table."""
        assert rows_of(store) in states
        lakebed.open(store).expire(options={"lakebed.expire.what": "failed-writes"})
        assert all(instant.state == "completed" for instant in lakebed.open(store).history())
        assert version == 8 or listed(lakebed.open(store)) == walked(lakebed.open(store))
        return rows_of(store)

    assert check_crash_safety(make, restore, observe, faults) > 20
