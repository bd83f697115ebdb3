"""Orphan files are found and removed, and no file that a state of the table has or that something pending may want."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.hudi.expire.orphans import orphan_files
from lakebed.formats.hudi.layout import outcome_file
from lakebed.formats.hudi.table import HudiTable
from lakebed.testing.conformance.rows import bag
from tests.golden import unpack
from tests.tables.hudi.fresh import fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
ORPHANS = {"lakebed.expire.what": "orphan-files"}
DAY = 86_400


def written(folder: Path, version: int, kind: str) -> HudiTable:
    table = fresh_table(folder, SCHEMA, version=version, kind=kind)
    for value in range(4):
        rows = [{"dt": "ab"[n % 2], "id": n, "v": value} for n in range(4)]
        table.write(pa.Table.from_pylist(rows, SCHEMA), mode="upsert")
        if kind == "MERGE_ON_READ" and value == 2:
            table.rewrite()
    assert isinstance(table, HudiTable)
    return table


@pytest.mark.parametrize(("version", "kind"), [(6, "MERGE_ON_READ"), (8, "MERGE_ON_READ"), (9, "COPY_ON_WRITE")])
def test_only_orphans_go_and_only_old_ones(tmp_path: Path, version: int, kind: str) -> None:
    table = written(tmp_path, version, kind)
    rows = bag(table.read())
    newest, oldest = table.history()[-1].time, table.history()[0].time
    base = next(path for path in (tmp_path / "a").glob("*.parquet"))
    file_id, _, instant = base.stem.split("_")
    gone = f"{int(oldest) + 1:017d}"  # an instant between two of the timeline
    left = [
        f"{file_id}_1-1-1_{gone}.parquet",  # of a write that was taken back
        f"{file_id}_9-9-9_{instant}.parquet",  # of an attempt that the commit did not take
        f".{file_id}_{gone}.log.1_1-1-1",
    ]
    stays = [
        f"{file_id}_1-1-1_{int(newest) + 90_000_000}.parquet",  # of a write that began since
        "somebodys.parquet",
        f"{file_id}_1-1-1_20010101000000000.parquet",  # older than the timeline: archived
    ]
    for name in [*left, *stays]:
        shutil.copy(base, tmp_path / "a" / name)
    staged = tmp_path / ".hoodie" / ".lakebed" / "lakebed-4711" / "rows.arrow"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"")
    beat = tmp_path / ".hoodie" / ".heartbeat" / gone  # of a writer that died before it requested its instant
    beat.parent.mkdir(exist_ok=True)
    beat.write_bytes(b"")
    folder = table.state().timeline.folder
    outcome = tmp_path / outcome_file(folder, gone)  # of a write that was withdrawn, and rolled back since
    outcome.write_bytes(b"withdrawn")
    (tmp_path / outcome_file(folder, newest)).write_bytes(b"stands")
    wanted = {f"a/{name}" for name in left} | {str(path.relative_to(tmp_path)) for path in (staged, beat, outcome)}
    young = table.expire(options=ORPHANS)
    assert young.deleted_files == () and {kept.what for kept in young.kept} == wanted
    assert any("orphan-files" in finding.remedy for finding in table.inspect().findings)
    before = time.time() - 2 * DAY
    for path in tmp_path.rglob("*"):
        os.utime(path, (before, before))
    assert {*table.expire(dry_run=True, options=ORPHANS).deleted_files} == wanted
    assert {*table.expire(options=ORPHANS).deleted_files} == wanted
    assert {path.name for path in (tmp_path / "a").iterdir()} >= {*stays}
    assert not staged.exists() and not any((tmp_path / "a" / name).exists() for name in left)
    assert bag(table.read()) == rows
    assert table.expire(options=ORPHANS).deleted_files == ()


def test_files_of_what_is_pending_stay(tmp_path: Path) -> None:
    table = written(tmp_path, 9, "MERGE_ON_READ")
    base = next(path for path in (tmp_path / "a").glob("*.parquet"))
    file_id = base.stem.split("_")[0]
    pending = f"{int(table.history()[0].time) + 1:017d}"
    timeline = tmp_path / ".hoodie" / "timeline"
    for state in ("requested", "inflight"):
        (timeline / f"{pending}.deltacommit.{state}").write_bytes(b"")
    for name in (f"{file_id}_1-1-1_{pending}.parquet", f".{file_id}_{pending}.log.1_1-1-1"):
        shutil.copy(base, tmp_path / "a" / name)
    assert orphan_files(table.state()) == []
    for path in timeline.glob(f"{pending}*"):
        path.unlink()
    assert len(orphan_files(table.state())) == 2
    (timeline / "20990101000000000.rollback.inflight").write_bytes(b"")
    assert table.expire(options={**ORPHANS, "lakebed.expire.orphans.after": "0 s"}).deleted_files == ()


@pytest.mark.parametrize(
    "name",
    [
        "mor_v6", "mor_v8", "mor_v9", "mor_h015", "cow_v6", "cow_v9", "cow_h015", "cdc_cow_v6", "cdc_cow_v9",
        "cdc_mor_v9", "archived_savepoint_v8", "archived_mor_v6", "mor_logonly_v8", "mor_bucket_v6", "mor_rollback_v8",
        "archived_upgraded_v9",
    ],
)  # fmt: skip
def test_what_hudi_wrote_has_no_orphans_but_those_of_its_own(name: str) -> None:
    table = lakebed.open(unpack("hudi", name))
    assert isinstance(table, HudiTable)
    assert orphan_files(table.state()) == []


def test_the_heartbeat_of_a_write_goes_though_its_savepoint_is_pending(tmp_path: Path) -> None:
    table = written(tmp_path, 9, "MERGE_ON_READ")
    newest = table.history()[-1].time
    (tmp_path / ".hoodie" / "timeline" / f"{newest}.savepoint.inflight").write_bytes(b"")
    beat = tmp_path / ".hoodie" / ".heartbeat" / newest
    beat.parent.mkdir(exist_ok=True)
    beat.write_bytes(b"")
    os.utime(beat, (time.time() - 2 * DAY,) * 2)
    assert str(beat.relative_to(tmp_path)) in table.expire(options=ORPHANS).deleted_files
