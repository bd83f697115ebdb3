"""A copy of an Iceberg table by `rewrite_table_path`: it has every state, and shares no file with the original."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.errors import CorruptError, LakebedError, NotInHistoryError, StorageError, UnsupportedError, UsageError
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import open_store
from lakebed.testing.faults import READS, Crash, Fault, FaultyStore, Kind
from tests.unit.iceberg.relocate.test_run import SCHEMA, lived, rows, states


def copied(result: Any) -> None:
    for source, to in result.copies:
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)


def prints(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_copy_has_every_state_and_shares_nothing(tmp_path: Path, version: int) -> None:
    table = lived(tmp_path / "old", version)
    wanted, before = states(table), prints(tmp_path / "old")
    planned = table.rewrite_table_path(str(tmp_path / "new"), str(tmp_path / "stage"), dry_run=True)
    assert planned.dry_run and not (tmp_path / "stage").exists()
    done = table.rewrite_table_path(str(tmp_path / "new"), str(tmp_path / "stage"))
    assert sorted(done.copies) == sorted(planned.copies) and (done.delete_files > 0) == (version > 1)
    listed = (tmp_path / "stage" / "file-list.csv").read_text().splitlines()
    assert listed == [f"{source},{to}" for source, to in done.copies]
    assert prints(tmp_path / "old") == before
    copied(done)
    shutil.move(tmp_path / "old", tmp_path / "away")
    shutil.rmtree(tmp_path / "stage")
    copy: Any = lakebed.open(tmp_path / "new")
    assert states(copy) == wanted and copy.table_metadata.location == str(tmp_path / "new")
    seen = StaticTable.from_metadata(done.metadata).scan().to_arrow()["id"].to_pylist()
    assert sorted(seen) == [row["id"] for row in wanted[-1]]
    assert str(tmp_path / "old") not in Path(done.metadata).read_text()
    assert copy.repair(dry_run=True, options={"lakebed.repair.snapshots": "all"}).lost == ()
    here = prints(tmp_path / "away")
    copy.write(rows(60))
    copy.rewrite(options={"rewrite-all": True})
    copy.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
    assert prints(tmp_path / "away") == here
    assert sorted(copy.read(["id"]).read_all()["id"].to_pylist()) == sorted([*seen, *range(60, 66)])


@pytest.mark.slow
def test_a_later_version_copies_only_what_is_new_also_from_a_moved_backup(tmp_path: Path) -> None:
    table = lived(tmp_path / "old", 2)
    first = table.rewrite_table_path(str(tmp_path / "new"), str(tmp_path / "stage"))
    copied(first)
    since = table.operations.load().location.rpartition("/")[2]
    table.write(rows(40))
    table.write(rows(41).slice(0, 1), mode="delete")
    wanted = states(table)
    shutil.move(tmp_path / "old", tmp_path / "backup")
    backup: Any = lakebed.open(tmp_path / "backup")
    with pytest.warns(Warning, match="copy or was"):
        assert backup.read().read_all().num_rows == len(wanted[-1])
    more = backup.rewrite_table_path(str(tmp_path / "new"), str(tmp_path / "stage2"), since=since)
    data = {to for source, to in more.copies if source.startswith(str(tmp_path / "backup"))}
    assert data and not data & {to for _, to in first.copies}
    copied(more)
    shutil.rmtree(tmp_path / "backup")
    copy = lakebed.open(tmp_path / "new")
    assert states(copy) == wanted
    copy.write(rows(70))
    with pytest.raises(NotInHistoryError, match="not an older metadata file"):
        copy.rewrite_table_path(str(tmp_path / "x"), str(tmp_path / "y"), since="v99.metadata.json")


def test_what_cannot_be_copied_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", SCHEMA, options={"write.data.path": str(tmp_path / "far")})
    assert isinstance(table, IcebergTable)
    table.write(rows(0))
    with pytest.raises(UnsupportedError, match="would share it"):
        table.rewrite_table_path(str(tmp_path / "new"), str(tmp_path / "stage"))
    table = lakebed.create(tmp_path / "u", "iceberg", SCHEMA)
    table.write(rows(0))
    for target, staging in (("u", "s"), ("u/x", "s"), ("new", "u/s"), ("new", "new/s"), (".", "s")):
        with pytest.raises(UsageError, match="inside"):
            table.rewrite_table_path(str(tmp_path / target), str(tmp_path / staging))
    with pytest.raises(UsageError):
        table.rewrite_table_path("", str(tmp_path / "s"))
    assert not (tmp_path / "stage").exists() and not (tmp_path / "s").exists()
    (manifest,) = (tmp_path / "u" / "metadata").glob("*-m0.avro")
    data = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(CorruptError, match=r"missing.*table.repair"):
        table.rewrite_table_path(str(tmp_path / "new"), str(tmp_path / "s"))
    manifest.write_bytes(data)
    refused = 0
    for at in range(1, 9):
        store = FaultyStore(open_store(tmp_path / "u"), Fault(at, Kind.ERROR_BEFORE, READS))
        try:
            lakebed.open(store).rewrite_table_path(str(tmp_path / "new"), str(tmp_path / f"s{at}"))
        except StorageError:
            refused += 1
            assert not [path for path in (tmp_path / f"s{at}").rglob("*") if path.is_file()]
    assert refused >= 3
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LakebedError):
        table.rewrite_table_path(str(tmp_path / "new"), str(tmp_path / "file" / "s"))
    with pytest.raises(UnsupportedError, match="no rewrite of table paths for hudi"):
        lakebed.open("examples/orders_hudi").rewrite_table_path("a", "b")


def test_killed_at_any_write_to_the_staging_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table stays as it is, the list of files comes last, and a second run makes the whole copy. After an error
    nothing of the run stays."""
    table = lakebed.create(tmp_path / "old", "iceberg", SCHEMA, ["id"])
    table.write(rows(0))
    table.write(rows(3, "b"), mode="upsert")
    wanted, before = states(table), prints(tmp_path / "old")
    whole = table.rewrite_table_path(str(tmp_path / "new"), str(tmp_path / "whole"))
    names = sorted(path.name for path in (tmp_path / "whole").rglob("*") if path.is_file())
    tried = 0
    for kind in (Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.ERROR_AFTER):
        for at in range(1, 50):
            stage = tmp_path / f"{kind.value}{at}"
            faulty: list[FaultyStore] = []

            def opened(place: Any, *more: Any, at: int = at, kind: Kind = kind, stage: Path = stage,
                       faulty: list[FaultyStore] = faulty) -> Any:  # fmt: skip
                store = open_store(place, *more)
                if str(place) != str(stage):
                    return store
                faulty.append(FaultyStore(store, Fault(at, kind)))
                return faulty[-1]

            monkeypatch.setattr("lakebed.formats.iceberg.files.open_store", opened)
            try:
                table.rewrite_table_path(str(tmp_path / "new"), str(stage))
                broke = False
            except (Crash, StorageError):
                broke = True
            monkeypatch.setattr("lakebed.formats.iceberg.files.open_store", open_store)
            assert prints(tmp_path / "old") == before
            left = sorted(path.name for path in stage.rglob("*") if path.is_file())
            if not broke:
                assert left == names
                break
            tried += 1
            if kind is Kind.CRASH_AFTER:
                assert "file-list.csv" not in left or left == names
            else:
                assert left == []
            again = table.rewrite_table_path(str(tmp_path / "new"), str(stage))
            assert [to for _, to in again.copies] == [to for _, to in whole.copies]
            assert sorted(path.name for path in stage.rglob("*") if path.is_file()) == names
    assert tried >= 15
    copied(again)
    assert states(lakebed.open(tmp_path / "new")) == wanted
