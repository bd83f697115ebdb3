"""A Hudi table back at an older commit: its rows are those of then, exactly, and the table goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, DataCleanedError, NotInHistoryError, UnsupportedError, UsageError
from lakebed.formats.hudi.codec.plans import RestoreMetadata, RestorePlan, decode
from lakebed.formats.hudi.table import HudiTable
from tests.golden import unpack
from tests.tables.hudi.fresh import KINDS, fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
Rows = list[tuple[Any, ...]]


def fresh(folder: Path, version: int, kind: str) -> HudiTable:
    table = fresh_table(folder, SCHEMA, version=version, kind=kind)
    assert isinstance(table, HudiTable)
    return table


def write(table: Table, value: int, ids: range = range(4), mode: str = "upsert", **options: Any) -> str:
    rows = [{"dt": "ab"[n % 2], "id": n, "v": value} for n in ids]
    return table.write(pa.Table.from_pylist(rows, SCHEMA), mode=mode, options={**QUIET, **options}).instant


def rows_of(table: Table, as_of: str | None = None) -> Rows:
    return sorted(tuple(row.values()) for row in table.read(["dt", "id", "v"], as_of=as_of).read_all().to_pylist())


def data_files(folder: Path) -> set[str]:
    found = (path for part in "ab" for path in (folder / part).glob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in found if "metadata" not in path.name}


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_back_over_writes_and_services(tmp_path: Path, version: int, kind: str) -> None:
    table = fresh(tmp_path, version, kind)
    states: list[tuple[str, Rows, set[str]]] = []

    def note(instant: str) -> None:
        states.append((instant, rows_of(table), data_files(tmp_path)))

    note(write(table, 0))
    note(write(table, 1))
    note(write(table, 2, range(2, 8)))
    if kind == "MERGE_ON_READ":
        table.rewrite()
        note(write(table, 3, range(3, 6)))
    table.rewrite(options={"lakebed.rewrite.what": "clustering"})
    note(write(table, 4, range(1, 2), "delete"))
    note(write(table, 5, range(6, 8), "overwrite"))
    while len(states) > 1:
        states.pop()
        instant, rows, files = states[-1]
        plan = table.rollback(instant, dry_run=True)
        before = data_files(tmp_path)
        done = table.rollback(instant)
        assert (done.removed, done.deleted_files) == (plan.removed, plan.deleted_files) and done.removed
        assert rows_of(table) == rows_of(table, instant) == rows
        left = data_files(tmp_path)
        assert left == (before - {*done.deleted_files}) | {name for name in left if "1-0-1" in name}
        assert left == files or ((version, kind) == (6, "MERGE_ON_READ") and left > files)  # blocks are taken back
        assert all(i.state == "completed" for i in table.history())
        assert not [i for i in table.history() if i.action == "rollback"]
    write(table, 9, range(3, 12))
    assert {value for *_, value in rows_of(table)} == {0, 9}


def test_what_a_restore_writes(tmp_path: Path) -> None:
    for version in (6, 9):
        folder = tmp_path / str(version)
        table = fresh(folder, version, "MERGE_ON_READ")
        first, second, third = (write(table, value) for value in range(3))
        table.rollback(first)
        timeline = folder / ".hoodie" / ("" if version == 6 else "timeline")
        (requested,) = timeline.glob("*.restore.requested")
        instant = requested.name.partition(".")[0]
        assert (timeline / f"{instant}.restore.inflight").read_bytes() == b""
        (completed,) = (*timeline.glob(f"{instant}.restore"), *timeline.glob(f"{instant}_*.restore"))
        plan = decode(RestorePlan, requested.read_bytes())
        assert plan.savepoint_to_restore_timestamp == first and plan.version == 2
        assert [(i.commit_time, i.action) for i in plan.instants_to_rollback] == [
            (third, "deltacommit"),
            (second, "deltacommit"),
        ]
        record = decode(RestoreMetadata, completed.read_bytes())
        assert record.start_restore_time == instant and record.instants_to_rollback == (third, second)
        assert {*record.rollbacks} == {third, second}
        (undone,) = record.rollbacks[third]
        assert undone is not None and undone.commits_rollback == (third,)
        parts = undone.partition_metadata.values()
        assert all(part.rollback_log_files if version == 6 else part.success_delete_files for part in parts)


@pytest.mark.parametrize(("version", "kind"), [(6, "MERGE_ON_READ"), (8, "MERGE_ON_READ"), (9, "COPY_ON_WRITE")])
def test_a_savepoint_from_before_what_cleans_kept(tmp_path: Path, version: int, kind: str) -> None:
    table = fresh(tmp_path, version, kind)
    write(table, 0)
    table.tag("before")
    then = rows_of(table)
    lost = write(table, 1)
    for value in (2, 3, 4):
        write(table, value)
        if kind == "MERGE_ON_READ":
            table.rewrite()
    table.expire(options={"hoodie.clean.commits.retained": 1})
    with pytest.raises(DataCleanedError):
        table.rollback(lost)
    assert table.rollback("tag:before").removed
    assert rows_of(table) == then
    again = write(table, 5)
    table.delete_tag("before")
    table.tag("again")  # whatever the cleans of before say
    assert rows_of(table, "tag:again") == rows_of(table, again)


def test_a_compaction_that_was_planned_before_and_run_after(tmp_path: Path) -> None:
    for version in (6, 8):
        table = fresh(tmp_path / str(version), version, "MERGE_ON_READ")
        write(table, 0)
        write(table, 1)
        (planned,) = table.rewrite(options={"lakebed.rewrite.step": "schedule"}).instants
        target = write(table, 2)
        then = rows_of(table)
        write(table, 3)
        table.rewrite(options={"lakebed.rewrite.step": "run"})
        write(table, 4)
        done = table.rollback(target)
        assert (planned in done.removed) is (version == 8)  # it completed later, and version 8 goes by that
        assert rows_of(table) == then
        table.rewrite()
        assert rows_of(table) == then


def test_pending_services(tmp_path: Path) -> None:
    for version in (6, 9):
        table = fresh(tmp_path / str(version), version, "MERGE_ON_READ")
        write(table, 0)
        first = write(table, 1)
        (before,) = table.rewrite(options={"lakebed.rewrite.step": "schedule"}).instants
        target = write(table, 2)
        then = rows_of(table)
        write(table, 3, range(8, 12))
        write(table, 4, range(8, 12))
        (after,) = table.rewrite(options={"lakebed.rewrite.step": "schedule"}).instants
        write(table, 5, range(6, 10))
        done = table.rollback(target)
        assert after in done.removed and before not in done.removed
        assert rows_of(table) == then
        assert table.rewrite(options={"lakebed.rewrite.step": "run"}).instants == (before,)
        assert rows_of(table) == then
        if version == 9:  # version 6: the older slice has no log of then
            assert before in table.rollback(target).removed
        assert rows_of(table) == then != rows_of(table, first)


def test_what_is_refused(tmp_path: Path) -> None:
    table = fresh(tmp_path, 9, "COPY_ON_WRITE")
    first, second, third = (write(table, value) for value in range(3))
    table.tag("later", second)
    with pytest.raises(UsageError, match="later"):
        table.rollback(first)
    with pytest.raises(NotInHistoryError):
        table.rollback("tag:none")
    assert table.rollback("tag:later").removed == (third,)
    restore = next(i for i in table.history() if i.action == "restore")
    with pytest.raises(UsageError, match="restore"):
        table.rollback(restore)


def test_archived_commits_cannot_be_taken_back(tmp_path: Path) -> None:
    options = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 1}
    for version in (6, 9):
        table = fresh(tmp_path / str(version), version, "COPY_ON_WRITE")
        write(table, 0)
        table.tag("island")
        for value in range(1, 6):
            write(table, value)
        table.expire(options={"hoodie.clean.commits.retained": 1})
        table.archive(options={**options, "hoodie.archive.beyond.savepoint": True})
        with pytest.raises(UnsupportedError, match="archived"):
            table.rollback("tag:island")
        assert {value for *_, value in rows_of(table)} == {5}


def test_a_clean_that_began_holds_its_files(tmp_path: Path) -> None:
    table = fresh(tmp_path, 9, "COPY_ON_WRITE")
    first = write(table, 0)
    write(table, 1)
    write(table, 2)
    table.expire(options={"hoodie.clean.commits.retained": 1})
    for path in (tmp_path / ".hoodie" / "timeline").glob("*.clean"):
        path.unlink()
    with pytest.raises((DataCleanedError, CommitConflictError)):
        table.rollback(first)


@pytest.mark.parametrize("name", ["mor_v6", "mor_v8", "mor_v9", "mor_h015", "cow_v6", "cow_v9"])
def test_what_hudi_wrote(name: str, tmp_path: Path) -> None:
    """Back at each commit of a golden table that is still whole, the rows are those that a read as of it gave."""
    folder = unpack("hudi", name, tmp_path)
    commits = [i for i in lakebed.open(folder).history() if i.action.endswith("commit") and i.state == "completed"]
    for commit in commits[-2:0:-1][:4]:
        table = lakebed.open(folder)
        try:
            then = sorted(map(repr, table.read(as_of=commit).read_all().to_pylist()))
            done = table.rollback(commit)
        except DataCleanedError:
            return
        except UsageError as error:
            assert "tag" in str(error)  # a savepoint holds what would go
            return
        assert done.kept[0] == commit.time
        assert sorted(map(repr, table.read().read_all().to_pylist())) == then


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("action", ["rollback", "restore", "clean"])
def test_what_died_before_its_plan_was_written_is_forgotten(tmp_path: Path, version: int, action: str) -> None:
    table = fresh(tmp_path, version, "MERGE_ON_READ")
    later = int(write(table, 0)) + 1
    empty = tmp_path / ".hoodie" / ("timeline" if version > 6 else "") / f"{later}.{action}.requested"
    empty.write_bytes(b"")
    write(table, 1)
    table.expire()
    assert {row[2] for row in rows_of(table)} == {1}
    assert not empty.exists()
