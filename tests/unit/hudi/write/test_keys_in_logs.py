"""A key that a log deletes, and that is written again between the plan of a compaction and its end: in a log alone."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, UsageError
from lakebed.formats.hudi.codec.metadata import WriteStat
from lakebed.formats.hudi.commit.transaction import Transaction
from lakebed.formats.hudi.slices import by_older_base
from lakebed.kernel.files import open_store
from lakebed.testing.faults import FaultyStore

VERSIONS = (6, 8, 9)
APART = {"hoodie.parquet.small.file.limit": 0}
"""New keys go to file groups of their own."""


def table(folder: Path, version: int, **options: object) -> Table:
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.write.table.version": version}
    return lakebed.create(folder / "t", "hudi", {"id": "int64", "v": "int64"}, ["id"], options={**kind, **options})


def put(table: Table, *ids: int, v: int = 1, mode: str = "upsert", options: Mapping[str, object] = {}) -> Any:
    return table.write(pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v] * len(ids))}), mode, options)


def held(table: Table) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in table.read(["id", "v"]).read_all().to_pylist())


def planned(table: Table) -> str:
    """The instant of a compaction that is planned and has not run."""
    (instant,) = table.rewrite(options={"lakebed.rewrite.step": "schedule"}).instants
    return str(instant)


def run(table: Table, instant: str) -> None:
    table.rewrite(options={"lakebed.rewrite.step": "run", "lakebed.rewrite.instant": instant})


def planned_after_a_delete(table: Table, options: Mapping[str, object] = {}) -> str:
    """The instant of a compaction that takes a log's delete of key 1; key 2 stays in the base file."""
    put(table, 1, 2, options=options)
    put(table, 1, mode="delete", options=options)
    return planned(table)


def written_beside_a_compaction(table: Table, options: Mapping[str, object] = {}) -> None:
    """Key 1, deleted by a log, written again before the compaction ran that takes the delete; key 2 in a base file."""
    instant = planned_after_a_delete(table, options)
    put(table, 1, v=2, options=options)
    run(table, instant)


@pytest.mark.parametrize(
    ("version", "index"),
    [(6, "SIMPLE"), (6, "GLOBAL_BLOOM"), (8, "BLOOM"), (8, "GLOBAL_SIMPLE"), (9, "SIMPLE"), (9, "GLOBAL_BLOOM")],
)
def test_its_next_version_is_no_second_row(version: int, index: str, tmp_path: Path) -> None:
    options = {"hoodie.index.type": index}
    orders = table(tmp_path, version)
    written_beside_a_compaction(orders, options)
    put(orders, 1, 3, v=3, options=options)
    assert held(orders) == [(1, 3), (2, 1), (3, 3)]
    instant = planned(orders)  # once more: the log of that write counts, too
    put(orders, 1, mode="delete", options=options)
    run(orders, instant)
    assert held(orders) == [(2, 1), (3, 3)]
    put(orders, 1, v=4, options=options)
    assert held(orders) == [(1, 4), (2, 1), (3, 3)]


@pytest.mark.parametrize("version", VERSIONS)
def test_it_can_be_deleted(version: int, tmp_path: Path) -> None:
    orders = table(tmp_path, version)
    written_beside_a_compaction(orders)
    put(orders, 1, mode="delete")
    assert held(orders) == [(2, 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_insert_finds_it(version: int, tmp_path: Path) -> None:
    orders = table(tmp_path, version)
    written_beside_a_compaction(orders)
    put(orders, 1, 4, v=5, mode="append", options={"hoodie.datasource.insert.dup.policy": "drop"})
    assert held(orders) == [(1, 2), (2, 1), (4, 5)]
    with pytest.raises(UsageError):
        put(orders, 1, v=5, mode="append", options={"hoodie.datasource.insert.dup.policy": "fail"})


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_that_columns_tell(version: int, tmp_path: Path) -> None:
    orders = table(tmp_path, version, **{"hoodie.populate.meta.fields": "false"})
    options = {"hoodie.index.type": "SIMPLE"}
    written_beside_a_compaction(orders, options)
    put(orders, 1, v=3, options=options)
    assert held(orders) == [(1, 3), (2, 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_compaction_in_between(version: int, tmp_path: Path) -> None:
    orders = table(tmp_path, version)
    written_beside_a_compaction(orders)
    put(orders, 2, v=2)
    wanted = {"lakebed.rewrite.what": "log-compaction", "hoodie.log.compaction.blocks.threshold": 2}
    assert orders.rewrite(options=wanted).instants
    put(orders, 1, v=3)
    assert held(orders) == [(1, 3), (2, 2)]


@pytest.mark.parametrize("version", VERSIONS)
def test_logs_are_read_there_alone(version: int, tmp_path: Path) -> None:
    orders = table(tmp_path, version)
    put(orders, 1, 2)
    put(orders, 1, mode="delete")
    assert logs_read(orders) == 0
    run(orders, planned(orders))
    put(orders, 2, v=2)
    assert logs_read(orders) == 0  # that write saw the newer base file
    instant = planned(orders)
    put(orders, 2, v=3)
    assert logs_read(orders) == 0  # the base file is still that of its writer
    run(orders, instant)
    assert logs_read(orders) > 0


def test_what_a_dead_writer_left_is_not_read(tmp_path: Path) -> None:
    """Table version 6 tells by the blocks of a log alone that its commit was never made."""
    orders = table(tmp_path, 6)
    put(orders, 1, 2)
    put(orders, 1, v=2)
    (log,) = Path(orders.location).glob(".*.log.1_*")
    log.with_name(log.name.replace(".log.1_", ".log.2_")).write_bytes(b"")
    assert logs_read(orders) == 0


def logs_read(table: Table) -> int:
    """How many calls read log files in an upsert of a key that the table has."""
    store = FaultyStore(open_store(table.location))
    put(lakebed.open(store), 2, v=9)
    return sum(".log." in call.path for call in store.calls if "read" in call.verb or call.verb == "open_input")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_writer_that_went_by_the_older_base_file_comes_late(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have key 1: one in a log by the older base file, the other as a new key, since it saw the newer one."""
    orders = table(tmp_path, version)
    instant = planned_after_a_delete(orders)

    def between() -> None:
        run(orders, instant)
        put(orders, 1, v=3, options=APART)

    before_commit(monkeypatch, between)
    with pytest.raises(CommitConflictError, match="nothing of this write is visible"):
        put(orders, 1, v=2)
    assert held(orders) == [(1, 3), (2, 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_writer_that_saw_the_newer_base_file_comes_late(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = table(tmp_path, version)
    instant = planned_after_a_delete(orders)
    arrived, may_go = threading.Event(), threading.Event()

    def wait() -> None:
        arrived.set()
        assert may_go.wait(30)

    before_commit(monkeypatch, wait)
    first = threading.Thread(target=put, args=(orders, 1), kwargs={"v": 2})
    first.start()
    assert arrived.wait(30)
    run(orders, instant)

    def let_it_go() -> None:
        may_go.set()
        first.join(30)

    before_commit(monkeypatch, let_it_go)
    with pytest.raises(CommitConflictError, match="nothing of this write is visible"):
        put(orders, 1, v=3, options=APART)
    assert held(orders) == [(1, 2), (2, 1)]


def before_commit(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Do something once, right before the next write commits."""
    original = Transaction.commit

    def first(self: Transaction, *args: Any, **kwargs: Any) -> Any:
        if self.operation == "COMPACT":
            return original(self, *args, **kwargs)
        monkeypatch.setattr(Transaction, "commit", original)
        act()
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Transaction, "commit", first)


@pytest.mark.parametrize(
    ("base", "completed", "older"),
    [
        ("a_0-0-0_20260101000000000.parquet", None, True),
        ("a_0-0-0_20260102000000000.parquet", None, False),
        ("", None, True),
        ("", "20260103000000000", True),
        ("", "20260102120000000", False),
        ("a_0-0-0_20260102000000000.parquet", "20260103000000000", False),
        ("a_0-0-0_20260101000000000.parquet", "20260102120000000", True),
    ],
)
def test_what_the_statistics_of_a_log_tell(base: str, completed: str | None, older: bool) -> None:
    """Of a log that a delta commit of noon wrote, above the base file of midnight."""
    stat = WriteStat("a", ".a_20260102120000000.log.1_0-0-0", "", 1, 1, 0, 0, (), (), "", base)
    assert by_older_base(stat, "20260102120000000", "20260102000000000", completed) is older
