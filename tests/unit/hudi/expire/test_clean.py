"""A clean deletes what nothing retained needs, and nothing else."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import DataCleanedError, LakebedError, OptionError
from lakebed.formats.hudi.codec.plans import CleanerPlan, CleanFileInfo, CleanMetadata, decode, encode
from lakebed.kernel.files import Listing
from lakebed.kernel.files.local import LocalStore

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
SHAPES = [(kind, version) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ") for version in (6, 8, 9)]


def create(folder: Path, kind: str, version: int) -> Table:
    options = {"hoodie.datasource.write.table.type": kind, "hoodie.write.table.version": version}
    return lakebed.create(folder, "hudi", SCHEMA, primary_key=["id"], partition_by=["part"], options=options)


def rows(ids: range, value: int, part: str = "a") -> pa.Table:
    return pa.table({"id": [*ids], "part": [part] * len(ids), "v": [value] * len(ids)}, SCHEMA)


def content(table: Table, as_of: str | None = None) -> list[tuple[int, int]]:
    read = table.read(["id", "v"], as_of=as_of).read_all()
    return sorted(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


def data_files(folder: Path) -> set[str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and ".hoodie" not in path.parts)
    return {
        p.relative_to(folder).as_posix() for p in paths if "partition_metadata" not in p.name and ".crc" not in p.name
    }


def written(folder: Path, kind: str, version: int, commits: int = 6) -> tuple[Table, list[str]]:
    table = create(folder, kind, version)
    times = []
    for value in range(commits):
        times.append(table.write(rows(range(value, value + 3), value), mode="upsert").instant)
        if kind == "MERGE_ON_READ" and value in (2, 4):
            times += table.rewrite().instants
    return table, times


@pytest.mark.parametrize(("kind", "version"), SHAPES)
def test_retained_commits_read_as_before(tmp_path: Path, kind: str, version: int) -> None:
    table, times = written(tmp_path / "table", kind, version)
    before = {time: content(table, time) for time in times}
    files = data_files(tmp_path / "table")
    options = {"hoodie.clean.commits.retained": 2}
    dry = table.expire(dry_run=True, options=options)
    assert dry.dry_run and data_files(tmp_path / "table") == files
    done = table.expire(options=options)
    assert done.deleted_files == dry.deleted_files and done.deleted_files
    assert files - data_files(tmp_path / "table") == set(done.deleted_files)
    assert done.expired == tuple(times[:-2])
    for time in times[-2:]:
        assert content(table, time) == before[time]
    with pytest.raises(DataCleanedError):
        content(table, times[0])
    again = table.expire(options=options)
    assert (again.deleted_files, again.expired) == ((), ())


@pytest.mark.parametrize(("kind", "version"), [("COPY_ON_WRITE", 6), ("MERGE_ON_READ", 9)])
def test_what_a_clean_writes_on_the_timeline(tmp_path: Path, kind: str, version: int) -> None:
    table, times = written(tmp_path / "table", kind, version)
    done = table.expire(options={"hoodie.cleaner.commits.retained": 2})
    (clean,) = (instant for instant in table.history() if instant.action == "clean")
    folder = tmp_path / "table" / ".hoodie" / ("" if version == 6 else "timeline")
    plan = decode(CleanerPlan, (folder / f"{clean.time}.clean.requested").read_bytes())
    (completed,) = folder.glob(f"{clean.time}*.clean")
    metadata = decode(CleanMetadata, completed.read_bytes())
    assert plan.earliest_instant_to_retain is not None
    assert plan.earliest_instant_to_retain.timestamp == metadata.earliest_commit_to_retain == times[-2]
    assert metadata.total_files_deleted == len(done.deleted_files)
    assert {f"a/{name}" for name in metadata.partition_metadata["a"].success_delete_files} == set(done.deleted_files)
    inflight = (folder / f"{clean.time}.clean.inflight").read_bytes()
    assert inflight == (b"" if version == 9 else (folder / f"{clean.time}.clean.requested").read_bytes())


def test_file_versions(tmp_path: Path) -> None:
    table, times = written(tmp_path / "table", "COPY_ON_WRITE", 9)
    options = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 2}
    before = content(table, times[-2])
    table.expire(options=options)
    assert len(data_files(tmp_path / "table")) == 2
    assert content(table, times[-2]) == before


def test_hours_keep_young_commits(tmp_path: Path) -> None:
    table, _ = written(tmp_path / "table", "COPY_ON_WRITE", 9)
    done = table.expire(options={"hoodie.cleaner.policy": "KEEP_LATEST_BY_HOURS"})
    assert done.deleted_files == () and "24 hours" in done.kept[0].reason


def test_replaced_groups_go_once_no_retained_commit_needs_them(tmp_path: Path) -> None:
    table = create(tmp_path / "table", "COPY_ON_WRITE", 9)
    table.write(rows(range(3), 0))
    table.write(rows(range(3), 1), mode="overwrite")
    options = {"hoodie.clean.commits.retained": 1}
    first = data_files(tmp_path / "table")
    assert table.expire(options=options).deleted_files == ()  # the overwrite is the earliest retained commit itself
    table.write(rows(range(3), 2), mode="upsert")
    table.write(rows(range(3), 3), mode="upsert")
    gone = set(table.expire(options=options).deleted_files)
    assert gone & first and content(table) == [(id, 3) for id in range(3)]


def test_a_pending_write_holds_what_it_may_read(tmp_path: Path) -> None:
    table, times = written(tmp_path / "table", "COPY_ON_WRITE", 9)
    timeline = tmp_path / "table" / ".hoodie" / "timeline"
    following = str(int(times[3]) + 1)
    (timeline / f"{following}.commit.requested").write_bytes(b"")
    done = table.expire(options={"hoodie.clean.commits.retained": 1})
    assert following in done.kept[-1].reason
    assert done.expired == tuple(times[:3])


def test_a_clean_that_stopped_half_way_is_carried_on(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    table, times = written(folder, "COPY_ON_WRITE", 9)
    shutil.copytree(folder, tmp_path / "copy")
    expected = table.expire(options={"hoodie.clean.commits.retained": 2})
    (clean,) = (instant for instant in table.history() if instant.action == "clean")
    plan = folder / ".hoodie" / "timeline" / f"{clean.time}.clean.requested"
    shutil.copy(plan, tmp_path / "copy" / ".hoodie" / "timeline" / plan.name)  # of a table that lies elsewhere
    copy = lakebed.open(tmp_path / "copy")
    done = copy.expire(options={"hoodie.clean.commits.retained": 2})
    assert set(done.deleted_files) == set(expected.deleted_files)
    assert any("half way" in note for note in done.notes)
    assert data_files(tmp_path / "copy") == data_files(folder)
    assert [i.state for i in copy.history() if i.action == "clean"] == ["completed"]
    assert content(copy, times[-2]) == content(table, times[-2])


def test_a_plan_of_the_past_takes_nothing_that_is_live(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    table, _ = written(folder, "COPY_ON_WRITE", 9, commits=3)
    before, newest = content(table), max(data_files(folder), key=lambda name: name.rpartition("_")[2])
    table.expire(options={"hoodie.clean.commits.retained": 1})
    (clean,) = (instant for instant in table.history() if instant.action == "clean")
    timeline = folder / ".hoodie" / "timeline"
    plan = decode(CleanerPlan, (timeline / f"{clean.time}.clean.requested").read_bytes())
    for path in timeline.glob(f"{clean.time}*"):
        path.unlink()
    hostile = {"a": (CleanFileInfo(file_path=f"file:/elsewhere/a/{newest.rpartition('/')[2]}"),)}
    forged = msgspec.structs.replace(plan, file_paths_to_be_deleted_per_partition=hostile)
    (timeline / f"{clean.time}.clean.requested").write_bytes(encode(forged))
    assert table.expire(options={"hoodie.clean.commits.retained": 1}).deleted_files == ()
    assert content(table) == before


def test_a_misspelt_option_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path / "table", "COPY_ON_WRITE", 9)
    with pytest.raises(OptionError, match=r"commits\.retained"):
        table.expire(options={"hoodie.clean.commit.retained": 2})
    with pytest.raises(LakebedError):
        table.expire(options={"hoodie.clean.commits.retained": 0})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "version"), [("COPY_ON_WRITE", 6), ("MERGE_ON_READ", 8), ("COPY_ON_WRITE", 9)])
def test_an_incremental_clean_finds_what_a_full_one_finds(tmp_path: Path, kind: str, version: int, seed: int) -> None:
    chance, folder = random.Random(seed), tmp_path / "table"
    table = create(folder, kind, version)
    quiet, tagged = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}, list[str]()
    for value in range(14):
        part, mode = chance.choice("abc"), chance.choice(("upsert", "upsert", "append", "overwrite"))
        table.write(rows(range(chance.randrange(4), 6), value, part), mode=mode, options=quiet)
        step = chance.random()
        if step < 0.2 and kind == "MERGE_ON_READ":
            table.rewrite()
        elif step < 0.35 and not tagged:
            table.tag("kept")
            tagged.append("kept")
        elif step < 0.5 and tagged:
            table.delete_tag(tagged.pop())
        if chance.random() < 0.7:
            retained = {"hoodie.clean.commits.retained": chance.choice((1, 2, 2, 3))}
            full = table.expire(dry_run=True, options={**retained, "hoodie.cleaner.incremental.mode": False})
            done = table.expire(options=retained)
            assert set(done.deleted_files) == set(full.deleted_files)


def test_a_clean_after_a_clean_lists_only_what_was_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, listed = create(tmp_path / "table", "COPY_ON_WRITE", 9), list[str]()
    for part in "abcdefgh":
        table.write(rows(range(3), 0, part))
    for value in range(4):
        table.write(rows(range(3), value, "a"), mode="upsert", options={"hoodie.clean.commits.retained": 2})
    list_many = LocalStore.list_many

    def noted(self: LocalStore, folders: Sequence[str]) -> Sequence[Listing]:
        listed.extend(folders)
        return list_many(self, folders)

    monkeypatch.setattr(LocalStore, "list_many", noted)
    table.write(rows(range(3), 5, "a"), mode="upsert", options={"hoodie.clean.commits.retained": 2})
    assert [i.action for i in table.history()][-1] == "clean"
    assert set(listed) == {"a"}
