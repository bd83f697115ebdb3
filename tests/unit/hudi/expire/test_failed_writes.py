"""Pending writes whose writers have died are rolled back on demand, and named before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lakebed
from lakebed import Table
from lakebed.formats.hudi.codec.plans import InstantInfo, RollbackPlan, RollbackRequest, encode
from tests.golden import unpack

WHAT = {"lakebed.expire.what": "failed-writes"}
TABLES = ("mor_rollback_v6", "mor_rollback_h015", "mor_rollback_v8", "mor_rollback_v9")


def rows(table: Table) -> list[str]:
    return sorted(map(str, table.read().read_all().to_pylist()))


def pending(table: Table) -> list[str]:
    return [instant.time for instant in table.history() if instant.state != "completed"]


@pytest.mark.parametrize("name", TABLES)
def test_a_write_that_died_is_named_and_rolled_back(name: str, tmp_path: Path) -> None:
    table = lakebed.open(unpack("hudi", name, tmp_path))
    before, (failed,) = rows(table), pending(table)
    files = {path for path in Path(table.location).rglob("*") if path.is_file()}
    plan = table.expire(dry_run=True, options=WHAT)
    assert plan.expired == (failed,) and plan.dry_run
    assert {path for path in Path(table.location).rglob("*") if path.is_file()} == files
    done = table.expire(options=WHAT)
    assert (done.expired, done.deleted_files) == (plan.expired, plan.deleted_files)
    assert pending(table) == [] and rows(table) == before
    assert table.history()[-1].action == "rollback"
    assert table.expire(options=WHAT).expired == ()


def test_a_rollback_that_was_cut_off_is_carried_on(tmp_path: Path) -> None:
    folder = unpack("hudi", "mor_rollback_v9", tmp_path)
    table = lakebed.open(folder)
    before, (failed,) = rows(table), pending(table)
    logs = [*folder.glob(f"*/.*_{failed}.log.*")]
    requests = tuple(
        RollbackRequest(partition_path=log.parent.name, files_to_be_deleted=(f"file:/elsewhere/{log.name}",))
        for log in logs
    )
    plan = RollbackPlan(instant_to_rollback=InstantInfo(commit_time=failed, action="deltacommit"), requests=requests)
    cut = f"{int(failed) + 1}"
    (folder / ".hoodie" / "timeline" / f"{cut}.rollback.requested").write_bytes(encode(plan))
    assert cut in table.expire(dry_run=True, options=WHAT).notes[0] and all(log.exists() for log in logs)
    assert table.expire(options=WHAT).expired == (failed,)
    assert pending(table) == [] and not any(log.exists() for log in logs) and rows(table) == before


def test_a_write_that_may_be_under_way_stays(tmp_path: Path) -> None:
    table = lakebed.open(unpack("hudi", "mor_rollback_v8", tmp_path))
    (failed,) = pending(table)
    young = table.expire(options=WHAT | {"lakebed.expire.failed.after": "9999 d"})
    assert young.expired == () and "may be at work" in young.kept[0].reason
    beat = Path(table.location) / ".hoodie" / ".heartbeat" / failed
    beat.parent.mkdir(exist_ok=True)
    beat.write_bytes(b"")
    alive = table.expire(options=WHAT)
    assert alive.expired == () and "heartbeat" in alive.kept[0].reason
    os.utime(beat, (0, 0))
    assert table.expire(options=WHAT).expired == (failed,)


def test_markers_that_nothing_needs_go(tmp_path: Path) -> None:
    table = lakebed.open(unpack("hudi", "mor_v8", tmp_path))
    done = next(instant.time for instant in table.history() if instant.action == "deltacommit")
    marker = Path(table.location) / ".hoodie" / ".temp" / done / "a" / "x.parquet.marker.CREATE"
    marker.parent.mkdir(parents=True)
    marker.write_bytes(b"")
    before = rows(table)
    assert done in table.expire(dry_run=True, options=WHAT).notes[0] and marker.exists()
    table.expire(options=WHAT)
    assert not marker.exists() and rows(table) == before
