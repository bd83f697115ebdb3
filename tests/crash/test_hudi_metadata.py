"""A write that dies at any storage call: the metadata table lists what the table has once the write is done again."""

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

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
OPTIONS = {"hoodie.clean.automatic": False, "hoodie.metadata.compact.max.delta.commits": 3}


def rows(value: str) -> pa.Table:
    return pa.Table.from_pylist([{"dt": "ab"[n % 2], "id": n, "v": value} for n in range(4)], SCHEMA)


def write(store: Store) -> None:
    """What a restarted job runs."""
    lakebed.open(store).write(rows("new"), mode="upsert", options=OPTIONS)


@pytest.mark.parametrize(("version", "before", "kind"), [(6, 3, Kind.CRASH_AFTER), (9, 0, Kind.CRASH_BEFORE)])
def test_a_write_that_died_is_not_listed(tmp_path: Path, version: int, before: int, kind: Kind) -> None:
    number, original = itertools.count(), tmp_path / "original"
    table = fresh_table(original, SCHEMA, version=version, kind="MERGE_ON_READ", metadata=True)
    for value in range(before):
        table.write(rows(str(value)), mode="upsert", options=OPTIONS)

    def make() -> Store:
        return open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))

    def observe(store: Store) -> list[tuple[Any, ...]]:
        read = lakebed.open(store).read(["dt", "id", "v"]).read_all().to_pylist()
        return sorted(tuple(row.values()) for row in read)

    assert check_crash_safety(make, write, observe, (kind,)) > 20
    for path in tmp_path.glob("copy-*"):
        copy = lakebed.open(str(path))
        copy.write(rows("newer"), mode="upsert", options=OPTIONS)
        assert listed(copy) == walked(copy), path
