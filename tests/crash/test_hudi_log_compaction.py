"""A log compaction that dies at any storage call changes no row, and its plan can be withdrawn."""

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

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
WHAT: dict[str, object] = {"lakebed.rewrite.what": "log-compaction", "hoodie.log.compaction.blocks.threshold": 3}


@pytest.mark.parametrize("version", [6, 9])
def test_a_log_compaction_changes_no_row(tmp_path: Path, version: int) -> None:
    original, number = tmp_path / "original", itertools.count()
    table = fresh_table(original, SCHEMA, version=version, kind="MERGE_ON_READ")
    for value in range(3):
        table.write(pa.table([["a"] * 2, [1, 2], [value] * 2], schema=SCHEMA), "upsert")
    table.write(pa.table([["a"], [1], [0]], schema=SCHEMA), "delete")

    def make() -> Store:
        return open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))

    def compact(store: Store) -> None:
        """What someone does who knows that the run died."""
        table = lakebed.open(store)
        for pending in [i for i in table.history() if i.state != "completed"]:
            named = {"lakebed.rewrite.instant": pending.time, "lakebed.rewrite.step": "withdraw"}
            table.rewrite(options={**WHAT, **named})
        table.rewrite(options=WHAT)

    def observe(store: Store) -> tuple[list[Any], int]:
        """The rows, and the number of completed commits."""
        table = lakebed.open(store)
        rows = table.read(["id", "v"]).read_all().to_pylist()
        return rows, sum(i.state == "completed" for i in table.history())

    assert check_crash_safety(make, compact, observe, (Kind.CRASH_BEFORE, Kind.CRASH_AFTER)) > 10
    rows = {str(observe(open_store(str(copy)))[0]) for copy in tmp_path.glob("copy-*")}
    assert rows == {"[{'id': 2, 'v': 2}]"}
