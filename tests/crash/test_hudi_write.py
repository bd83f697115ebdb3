"""A write to a Hudi table that dies at any storage call leaves the old rows or the new ones. Done again it lands once,
and nothing of the dead one stays pending."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from lakebed.verbs.write import Mode
from tests.tables.hudi.fresh import fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
FIRST = [{"dt": "ab"[n % 2], "id": n, "v": "first"} for n in range(6)]
SECOND = [{"dt": "abc"[n % 3], "id": n, "v": "second"} for n in (0, 1, 4, 10, 11)]
CRASHED, UNKNOWN = (Kind.CRASH_BEFORE, Kind.ERROR_AFTER), (Kind.CRASH_AFTER, Kind.UNKNOWN_AFTER)
CASES = [
    (6, "COPY_ON_WRITE", "insert", CRASHED),
    (6, "MERGE_ON_READ", "upsert", UNKNOWN),
    (9, "COPY_ON_WRITE", "moving upsert", UNKNOWN),
    (9, "MERGE_ON_READ", "delete", CRASHED),
]
"""Each version and type has two of the four kinds of failure at every call: a crash after one is a crash before the
next. A moving upsert takes rows from one partition to another."""
MOVES = {"hoodie.index.type": "GLOBAL_SIMPLE"}


def write(rows: list[dict[str, Any]], identifier: int, operation: str) -> Callable[[Store], None]:
    """What a restarted job runs."""

    def act(store: Store) -> None:
        table = lakebed.open(store)
        assert isinstance(table, HudiTable)
        index = MOVES if operation.startswith("moving") else {}
        options = {"hoodie.datasource.write.operation": operation.split()[-1], **index}
        sink = table.sink(Mode.APPEND, "job", options=options)
        plan = sink.plan()
        writer = plan.task_writer()
        writer.write(pa.Table.from_pylist(rows, SCHEMA))
        sink.filter_and_commit({identifier: sink.finalize(plan, writer.finish(), LocalEngine(1)).messages})

    return act


def observe(store: Store) -> tuple[list[tuple[Any, ...]], int]:
    """The rows, and the number of completed writes."""
    table = lakebed.open(store)
    rows = sorted(tuple(row.values()) for row in table.read(["dt", "id", "v"]).read_all().to_pylist())
    writes = [i for i in table.history() if i.state == "completed" and i.action not in ("rollback", "clean")]
    return rows, len(writes)


@pytest.mark.parametrize(("version", "kind", "operation", "faults"), CASES)
def test_a_write_lands_once_or_not_at_all(
    tmp_path: Path, version: int, kind: str, operation: str, faults: tuple[Kind, ...]
) -> None:
    number, original = itertools.count(), tmp_path / "original"
    logged = str(kind == "COPY_ON_WRITE").lower()
    fresh_table(original, SCHEMA, version=version, kind=kind, hoodie__table__cdc__enabled=logged)
    write(FIRST, 1, "insert")(open_store(str(original)))

    def make() -> Store:
        return open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))

    assert check_crash_safety(make, write(SECOND, 2, operation), observe, faults) > 20
    pending = [
        instant
        for copy in tmp_path.glob("copy-*")
        for instant in lakebed.open(str(copy)).history()
        if instant.state != "completed"
    ]
    assert pending == []
    for path in tmp_path.glob("copy-*/**/*.cdc"):  # of a dead write none is left
        times = {instant.time for instant in lakebed.open(str(path.parents[1])).history()}
        assert path.name.partition(".log.")[0].rpartition("_")[2] in times
