"""A compaction, a clustering, the deletion of old partitions and the end of a failed write that die at any storage call
change no row, and what they left is ended by the call that the health report names."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.hudi.fresh import fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
Rows = list[tuple[Any, ...]]
Act = Callable[[Store], object]


def table_of(folder: Path, version: int, kind: str) -> Table:
    table = fresh_table(folder, SCHEMA, version=version, kind=kind)
    for value in range(3):
        rows = [{"dt": "a", "id": n, "v": value} for n in range(value, 4)]
        mode = "append" if kind == "COPY_ON_WRITE" else "upsert"
        limit = {"hoodie.parquet.small.file.limit": 0}
        table.write(pa.Table.from_pylist(rows, SCHEMA), mode=mode, options={**QUIET, **limit})
    return table


def copies(original: Path, folder: Path) -> Callable[[], Store]:
    number = itertools.count()
    return lambda: open_store(shutil.copytree(original, folder / f"copy-{next(number)}"))


def rows_of(store: Store) -> Rows:
    table = lakebed.open(store)
    return sorted(tuple(row.values()) for row in table.read(["dt", "id", "v"]).read_all().to_pylist())


def rewriting(what: str) -> Act:
    """What someone does who knows that the run died: it runs what is pending, else a new one."""

    def act(store: Store) -> None:
        table, options = lakebed.open(store), {"lakebed.rewrite.what": what}
        pending = [i for i in table.history() if i.state != "completed"]
        for instant in pending:
            table.rewrite(options={**options, "lakebed.rewrite.instant": instant.time, "lakebed.rewrite.step": "run"})
        if not pending:
            table.rewrite(options=options)

    return act


@pytest.mark.parametrize(
    ("version", "kind", "what", "fault"),
    [
        (6, "MERGE_ON_READ", "compaction", Kind.CRASH_AFTER),
        (9, "MERGE_ON_READ", "compaction", Kind.CRASH_BEFORE),
        (9, "COPY_ON_WRITE", "clustering", Kind.CRASH_AFTER),
    ],
)
def test_a_rewrite_changes_no_row(tmp_path: Path, version: int, kind: str, what: str, fault: Kind) -> None:
    table = table_of(tmp_path / "original", version, kind)
    wanted = rows_of(table.store)

    def observe(store: Store) -> int:
        """The number of completed commits; the rows are always the same."""
        assert rows_of(store) == wanted
        return sum(i.state == "completed" and i.action.endswith("commit") for i in lakebed.open(store).history())

    assert check_crash_safety(copies(tmp_path / "original", tmp_path), rewriting(what), observe, (fault,)) > 10
    for copy in tmp_path.glob("copy-*"):
        now = lakebed.open(copy)
        assert all(instant.state == "completed" for instant in now.history())
        now.write(pa.Table.from_pylist([{"dt": "a", "id": 9, "v": 9}], SCHEMA), "upsert", options=QUIET)
        assert rows_of(now.store) == [*wanted, ("a", 9, 9)]
        break


def test_old_partitions_go_or_stay(tmp_path: Path) -> None:
    table_of(tmp_path / "original", 9, "MERGE_ON_READ")
    timeline = tmp_path / "original" / ".hoodie" / "timeline"
    year = int(lakebed.open(tmp_path / "original").history()[0].time[:4])
    for path in [*timeline.iterdir()]:
        path.rename(timeline / path.name.replace(str(year), str(year - 1)))
    for path in [*(tmp_path / "original" / "a").iterdir()]:
        path.rename(path.with_name(path.name.replace(str(year), str(year - 1))))
    for path in timeline.iterdir():
        path.write_bytes(path.read_bytes().replace(str(year).encode(), str(year - 1).encode()))
    options = {"lakebed.expire.what": "partitions", "hoodie.partition.ttl.strategy.days.retain": 30}

    def expire(store: Store) -> None:
        lakebed.open(store).expire(options=options)

    assert check_crash_safety(copies(tmp_path / "original", tmp_path), expire, rows_of, (Kind.CRASH_AFTER,)) > 5


@pytest.mark.parametrize("version", [6, 9])
def test_a_failed_write_is_ended_once(tmp_path: Path, version: int) -> None:
    table = table_of(tmp_path / "original", version, "MERGE_ON_READ")
    wanted = rows_of(table.store)
    rows = [{"dt": "a", "id": n, "v": 7} for n in range(4)]
    died = table.write(pa.Table.from_pylist(rows, SCHEMA), mode="upsert", options=QUIET).instant
    timeline = tmp_path / "original" / ".hoodie" / ("timeline" if version == 9 else "")
    for path in [*timeline.glob(f"{died}.deltacommit"), *timeline.glob(f"{died}_*.deltacommit")]:
        path.unlink()
    options = {"lakebed.expire.what": "failed-writes", "lakebed.expire.failed.after": "0 s"}

    def end(store: Store) -> None:
        lakebed.open(store).expire(options=options)

    def observe(store: Store) -> bool:
        """Whether the write is pending."""
        assert rows_of(store) == wanted
        return any(i.time == died for i in lakebed.open(store).history())

    assert check_crash_safety(copies(tmp_path / "original", tmp_path), end, observe, (Kind.CRASH_AFTER,)) > 5
    assert all(i.state == "completed" for copy in tmp_path.glob("copy-[1-9]*") for i in lakebed.open(copy).history())
