"""A repair of an Iceberg table: what is lost is found at each depth, and the snapshot without it is readable elsewhere.

The rows that must be left are known from how the tables were written; pyiceberg counts them again."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.errors import (
    CommitConflictError,
    CorruptError,
    LakebedError,
    OptionError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.iceberg.data_files import FileTask
from lakebed.formats.iceberg.manifests import manifests_of
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.repair import run
from lakebed.formats.iceberg.repair.change import WithoutLost
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import open_store
from lakebed.testing.faults import Fault, FaultyStore, Kind

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.string())])
PARTS = "abcd"


def rows(part: str, count: int = 10) -> pa.Table:
    start = ord(part) * 100
    return pa.table({"id": range(start, start + count), "p": [part] * count}, schema=SCHEMA)


def lived(folder: Path, version: int = 2, **options: str) -> IcebergTable:
    """A table of four partitions, one file and one commit each; two rows of b are deleted."""
    settings = {"format-version": str(version), "commit.manifest-merge.enabled": "false", **options}
    table = lakebed.create(folder, "iceberg", SCHEMA, ["id"], ["p"], settings)
    assert isinstance(table, IcebergTable)
    for part in PARTS:
        table.write(rows(part))
    if version > 1:
        table.write(rows("b", 2), mode="delete")
    return table


def file_of(table: IcebergTable, part: str, name: str = "*.parquet") -> Path:
    """The oldest file of a partition."""
    return min((Path(table.location) / "data" / f"p={part}").glob(name), key=lambda path: path.stat().st_mtime_ns)


def ids(table: Any, **how: Any) -> list[int]:
    return sorted(table.read(["id"], **how).read_all()["id"].to_pylist())


def wanted(*parts: str) -> list[int]:
    return sorted(id for part in parts for id in rows(part)["id"].to_pylist()[2 if part == "b" else 0 :])


def seen_by_pyiceberg(folder: Any) -> list[int]:
    newest = max(Path(folder).glob("metadata/v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    return sorted(StaticTable.from_metadata(str(newest)).scan().to_arrow()["id"].to_pylist())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def spoil(path: Path, at: int = 60) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("version", [2, 3])
def test_a_missing_file_goes_with_its_deletes(tmp_path: Path, version: int) -> None:
    table = lived(tmp_path / "t", version)
    before = [instant.time for instant in table.history()]
    assert table.repair(dry_run=True).lost == ()
    assert table.repair().checked == 5 and len(table.history()) == 5
    lost = file_of(table, "b")
    lost.unlink()
    planned = table.repair(dry_run=True)
    (file,) = planned.lost
    assert (file.path, file.kind, file.rows, file.partition) == (str(lost), "data", 10, "p=b")
    assert file.reason == "the file is missing" and file.snapshots == (before[1], before[2], before[3], before[4])
    assert (planned.rows, planned.checked, planned.dry_run, planned.kept) == (10, 5, True, ())
    assert len(table.history()) == 5
    done = table.repair()
    assert (done.lost, done.rows) == (planned.lost, 10)
    assert str(lost) in done.removed and len(done.removed) == 2, "its delete file or vector goes too"
    head = table.history()[-1]
    assert (head.time,) == done.instants and head.action == "delete"
    assert (head.summary["deleted-records"], head.summary["total-records"]) == ("10", "30")
    assert head.summary["total-data-files"] == "3" and head.summary.get("total-delete-files", "0") == "0"
    assert ids(table) == wanted("a", "c", "d") == seen_by_pyiceberg(table.location)
    assert table.repair().lost == ()
    table.write(rows("b"))
    assert ids(table) == sorted(wanted("a", "c", "d") + rows("b")["id"].to_pylist())


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_each_depth_finds_its_damage(tmp_path: Path, format: str) -> None:
    table = lived(tmp_path / "t", 1, **{"write.format.default": format})
    gone, short, headless, spoiled = (file_of(table, part, "*") for part in PARTS)
    gone.unlink()
    cut(short)
    data = headless.read_bytes()
    headless.write_bytes(data[:-12] + b"nonsense####" if format != "avro" else b"XXXX" + data[4:])
    spoil(spoiled, 60 if format != "avro" else len(spoiled.read_bytes()) - 30)
    finds = {"existence": 1, "length": 2, "footer": 3, "data": 4}
    for depth, count in finds.items():
        found = table.repair(dry_run=True, options={"lakebed.repair.check": depth})
        expected = sorted(map(str, [gone, short, headless, spoiled][:count]))
        paths = sorted(lost.path for lost in found.lost)
        if depth == "data" and format == "orc":  # ORC has no checksums, so damage shows where a decoder stumbles
            assert set(expected[:3]) <= set(paths) | {str(spoiled)}
            continue
        assert paths == expected, depth
    with pytest.raises(CorruptError, match=r"% of 4 files are lost.*most-lost-percent=100"):
        table.repair(options={"lakebed.repair.check": "footer"})
    assert len(table.history()) == 4
    table.repair(options={"lakebed.repair.check": "footer", "lakebed.repair.most-lost-percent": 100})
    assert Path(file_of(table, "d", "*")).exists() and len(table.history()) == 5


@pytest.mark.parametrize("version", [2, 3])
def test_a_lost_delete_file_is_the_callers_choice(tmp_path: Path, version: int) -> None:
    table = lived(tmp_path / "t", version)
    (delete,) = {each.path for task in tasks_of(table) for each in task.deletes}
    Path(delete).unlink()
    planned = table.repair(dry_run=True)
    assert [lost.kind for lost in planned.lost] == ["deletion vector" if version == 3 else "position deletes"]
    assert "would come back" in planned.kept[0].reason
    with pytest.raises(CorruptError, match="rows that were deleted would come back"):
        table.repair()
    assert len(table.history()) == 5
    shutil.copytree(tmp_path / "t", tmp_path / "kept")
    done = table.repair(options={"lakebed.repair.lost-deletes": "drop-rows"})
    assert done.rows == 10 and ids(table) == wanted("a", "c", "d") == seen_by_pyiceberg(tmp_path / "t")
    assert table.history()[-1].action == "delete"
    shutil.rmtree(tmp_path / "t")
    (tmp_path / "kept").rename(tmp_path / "t")
    done = table.repair(options={"lakebed.repair.lost-deletes": "return-rows"})
    assert done.rows == 0 and done.removed == (delete,)
    assert (
        ids(table) == sorted(wanted("a", "c", "d") + rows("b")["id"].to_pylist()) == seen_by_pyiceberg(tmp_path / "t")
    )
    assert table.history()[-1].action == "overwrite"


def tasks_of(table: IcebergTable) -> list[FileTask]:
    metadata = table.table_metadata
    return list(scan_tasks(table.operations.files, metadata, metadata.head()))


def test_a_damaged_vector_is_found_by_its_checksum(tmp_path: Path) -> None:
    table = lived(tmp_path / "t", 3)
    ((delete, offset),) = {(each.path, each.content_offset) for task in tasks_of(table) for each in task.deletes}
    spoil(Path(delete), offset + 20)
    assert table.repair(dry_run=True).lost == ()
    (lost,) = table.repair(dry_run=True, options={"lakebed.repair.check": "data"}).lost
    assert lost.kind == "deletion vector" and "checksum" in lost.reason


def test_a_lost_manifest_goes_and_the_totals_follow(tmp_path: Path) -> None:
    table = lived(tmp_path / "t", 2)
    table.write(rows("d", 3), mode="append")
    manifests = table.operations.files
    head = table.table_metadata.head()
    assert head is not None
    of_c = next(m for m in manifests_of(manifests, table.table_metadata, head) if m.sequence_number == 3)
    size = file_of(table, "c").stat().st_size
    total = int(head.summary["total-files-size"])
    spoil(Path(of_c.path), -100)
    cut(Path(of_c.path))
    (lost,) = table.repair(dry_run=True).lost
    assert (lost.kind, lost.rows, len(lost.snapshots)) == ("manifest", 10, 4)
    done = table.repair()
    assert done.removed == (of_c.path,) and done.rows == 10
    summary = table.history()[-1].summary
    assert (summary["total-data-files"], summary["total-records"]) == ("4", "33")
    assert int(summary["total-files-size"]) == total - size
    kept = sorted([*wanted("a", "b", "d"), *rows("d", 3)["id"].to_pylist()])
    assert ids(table) == kept == seen_by_pyiceberg(tmp_path / "t")


def test_lost_manifests_of_deletes_and_lists_are_refused_by_name(tmp_path: Path) -> None:
    table = lived(tmp_path / "t", 2)
    head = table.table_metadata.head()
    assert head is not None
    deletes = next(m for m in manifests_of(table.operations.files, table.table_metadata, head) if m.content)
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    Path(deletes.path).unlink()
    for choice, message in (("refuse", "would come back"), ("drop-rows", "manifest of deletes is lost")):
        with pytest.raises(CorruptError, match=message):
            table.repair(options={"lakebed.repair.lost-deletes": choice})
    Path(head.manifest_list).write_bytes(b"Obj")
    (lost,) = table.repair(dry_run=True).lost
    assert lost.kind == "manifest list" and str(head.parent_id) in lost.remedy
    with pytest.raises(CorruptError, match=r"manifest list of the branch's head is lost.*rollback"):
        table.repair()
    whole = (tmp_path / "copy" / "metadata" / Path(head.manifest_list).name).read_bytes()
    mark = whole[-16:]  # what ends the header, and each block
    Path(head.manifest_list).write_bytes(whole[: whole.index(mark) + len(mark)])
    with pytest.raises(CorruptError, match=r"names no manifest.*probably cut"):
        table.read().read_all()
    assert "probably cut" in table.repair(dry_run=True).lost[0].reason
    done = table.repair(options={"lakebed.repair.copy": str(tmp_path / "copy")})
    assert done.restored == (head.manifest_list, deletes.path), "what the list names is looked at once it is back"
    assert len(done.lost) == 2 and not done.instants
    assert ids(table) == wanted(*PARTS) and len(table.history()) == 5


def test_files_come_back_from_a_copy_if_they_are_whole_there(tmp_path: Path) -> None:
    table = lived(tmp_path / "t", 2)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "t", copy)
    first, second = file_of(table, "a"), file_of(table, "c")
    content = first.read_bytes()
    cut(first)
    second.unlink()
    cut(copy / second.relative_to(tmp_path / "t"))
    planned = table.repair(dry_run=True, options={"lakebed.repair.copy": str(copy)})
    assert [("copy" in lost.remedy) for lost in sorted(planned.lost, key=lambda lost: lost.partition)] == [True, False]
    done = table.repair(options={"lakebed.repair.copy": str(copy)})
    assert done.restored == (str(first),) and first.read_bytes() == content
    assert done.removed == (str(second),) and len(done.lost) == 2
    assert ids(table) == wanted("a", "b", "d") == seen_by_pyiceberg(tmp_path / "t")
    with pytest.raises(UsageError, match="own folder"):
        file_of(table, "d").unlink()
        table.repair(options={"lakebed.repair.copy": str(tmp_path / "t")})


def test_another_branch_gets_what_is_left(tmp_path: Path) -> None:
    table = lived(tmp_path / "t", 2)
    file_of(table, "a").unlink()
    done = table.repair(options={"lakebed.repair.to-branch": "rest"})
    assert ids(lakebed.open(tmp_path / "t", {"branch": "rest"})) == wanted("b", "c", "d")
    assert table.table_metadata.head() == table.table_metadata.snapshot(int(table.history()[-2].time))
    assert table.table_metadata.head("rest") == table.table_metadata.snapshot(int(done.instants[0]))
    with pytest.raises(UsageError, match="already a branch"):
        table.repair(options={"lakebed.repair.to-branch": "rest"})
    table.branch("other")
    work = WithoutLost(run._planned(table.operations, "main", run.opt.parsed({}), None).of_head, _checker(table), False)
    work.new_branch = "other"
    with pytest.raises(CommitConflictError, match="another writer made the branch"):
        run.commit_snapshot(table.operations, work)


def _checker(table: IcebergTable) -> Any:
    return run.Checker(table.operations.files, "footer")


def test_older_snapshots_are_named_and_their_rows(tmp_path: Path) -> None:
    table = lived(tmp_path / "t", 2)
    parent = table.history()[-1].time
    table.rewrite(options={"rewrite-all": "true"}, where="p = 'a'")
    rewritten = next(task.data.path for task in tasks_of(table) if task.data.partition == ("a",))
    old = file_of(table, "a")
    assert rewritten != str(old)
    Path(rewritten).unlink()
    (lost,) = table.repair(dry_run=True).lost
    assert lost.remedy.startswith(f"snapshot {parent} has its rows in other files")
    assert ids(table, where="p = 'a'", as_of=int(parent)) == wanted("a")
    old.unlink()
    (lost,) = table.repair(dry_run=True).lost
    assert lost.remedy == ""
    found = table.repair(dry_run=True, options={"lakebed.repair.snapshots": "all"})
    assert {each.path for each in found.lost} == {rewritten, str(old)}
    (kept,) = found.kept
    assert kept.what == str(old) and "only older snapshots name it" in kept.reason and parent in kept.reason
    done = table.repair(options={"lakebed.repair.snapshots": "all"})
    assert done.removed == (rewritten,)


def test_a_store_that_does_not_answer_loses_nothing(tmp_path: Path) -> None:
    lived(tmp_path / "t", 2)
    refused = 0
    for at in range(1, 40, 3):
        store = FaultyStore(open_store(tmp_path / "t"), Fault(at, Kind.ERROR_BEFORE, frozenset({"read", "open_input"})))
        try:
            assert lakebed.open(store).repair(options={"lakebed.repair.requests": 1}).lost == ()
        except LakebedError as error:
            assert isinstance(error, StorageError)
            refused += 1
    assert 3 < refused < 13 and len(lakebed.open(tmp_path / "t").history()) == 5


@pytest.mark.parametrize(("depth", "verb"), [("existence", "size"), ("length", "size"), ("footer", "open_input")])
def test_a_check_asks_once_per_file(tmp_path: Path, depth: str, verb: str) -> None:
    lived(tmp_path / "t", 1)
    store = FaultyStore(open_store(tmp_path / "t"))
    table = lakebed.open(store)
    before = len(store.calls)
    assert table.repair(dry_run=True, options={"lakebed.repair.check": depth}).checked == 4
    asked = Counter((call.verb, call.path.partition("/")[0]) for call in store.calls[before:])
    assert asked[verb, "data"] == 4 == sum(count for (_, folder), count in asked.items() if folder == "data")


def test_other_writers_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between plan and commit one writer drops the lost partition, another expires, a third puts a file back."""
    table = lived(tmp_path / "t", 2)
    lost, kept = file_of(table, "a"), file_of(table, "c").read_bytes()
    back = file_of(table, "c")
    lost.unlink()
    back.unlink()
    planned = run._planned

    def meanwhile(*arguments: Any) -> Any:
        work = planned(*arguments)
        monkeypatch.setattr(run, "_planned", planned)
        back.write_bytes(kept)
        other = lakebed.open(tmp_path / "t")
        other.write(rows("d", 1))
        other.expire(options={"retain-last": 1, "older-than": "2100-01-01"})
        return work

    monkeypatch.setattr(run, "_planned", meanwhile)
    done = table.repair()
    assert done.removed == (str(lost),)
    assert ids(table) == sorted([*wanted("b", "c", "d"), *rows("d", 1)["id"].to_pylist()])

    lost = file_of(table, "c")
    lost.unlink()

    def overwritten(*arguments: Any) -> Any:
        work = planned(*arguments)
        monkeypatch.setattr(run, "_LOOKS", 0)
        lakebed.open(tmp_path / "t").write(rows("c"), mode="overwrite")
        return work

    monkeypatch.setattr(run, "_planned", overwritten)
    monkeypatch.setattr(run, "_LOOKS", 0)
    done = table.repair()
    assert not done.instants and "named any more" in done.notes[0]
    assert ids(table) == sorted([*wanted("b", "c", "d"), *rows("d", 1)["id"].to_pylist()])


def test_wrong_use(tmp_path: Path, change_of_place: Callable[[Path], Path]) -> None:
    table = lived(tmp_path / "t", 1)
    with pytest.raises(OptionError, match=r"lakebed.repair.check"):
        table.repair(options={"lakebed.repair.chek": "data"})
    with pytest.raises(OptionError, match="existence"):
        table.repair(options={"lakebed.repair.check": "deep"})
    file_of(table, "a").unlink()
    moved = change_of_place(tmp_path / "t")
    copied = lakebed.open(moved)
    assert len(copied.repair(dry_run=True).lost) == 1
    with pytest.raises(UnsupportedError, match="relocate"):
        copied.repair()
    with pytest.raises(UnsupportedError, match="no repair for hudi tables"):
        lakebed.open("examples/orders_hudi").repair()


@pytest.fixture
def change_of_place(tmp_path: Path) -> Callable[[Path], Path]:
    def move(folder: Path) -> Path:
        os.rename(folder, tmp_path / "moved")
        return tmp_path / "moved"

    return move
