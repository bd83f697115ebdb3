"""Rewriting position delete files: rows of the table stay, files become few, and useless rows are dropped."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType, NestedField, StringType

import lakebed
from lakebed.errors import CommitConflictError, OptionError
from lakebed.formats.iceberg.codec.updates import TableUpdate
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.rewrite import position_deletes
from lakebed.formats.iceberg.table import IcebergTable
from tests.golden import unpack
from tests.tables.iceberg import commits
from tests.tables.iceberg.lake import Lake

DELETES: dict[str, Any] = {"lakebed.rewrite.what": "position-deletes"}
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "part", StringType()))
BY_PART = [("part", "identity")]


def lake(folder: Path, deletes: int = 6, **how: Any) -> Lake:
    """Two partitions of two data files; each data file of the first has this many delete files."""
    made = Lake(folder, SCHEMA, partition_by=BY_PART, **how)
    for part in "ab":
        made.append([{"id": n, "part": part} for n in range(20)], (part,), files=2)
    paths = [task.data.path for task in made.tasks if task.data.partition == ("a",)]
    for number in range(deletes):
        made.delete_positions({path: [number] for path in paths})
    return made


def only_positions(made: Lake) -> list[Any]:
    return list(made.deletes.values())


@pytest.mark.slow
def test_many_delete_files_become_one(tmp_path: Path) -> None:
    made = lake(tmp_path / "t")
    rows, numbers = made.rows(), {one.sequence_number for one in only_positions(made)}
    planned = made.table.rewrite(dry_run=True, options=DELETES)
    assert (planned.files_before, planned.files_after, planned.groups, planned.dry_run) == (12, 1, 1, True)
    assert planned.plan[0].what == "part_0=a" and "12 under" in planned.plan[0].reason
    assert len(made.deletes) == 12
    done = made.table.rewrite(options=DELETES)
    assert (done.files_before, done.files_after, done.removed_deletes) == (12, 1, 12)
    (file,) = only_positions(made)
    assert (file.record_count, file.sequence_number, file.referenced_data_file) == (12, max(numbers), None)
    assert made.rows() == rows and len(rows) == 28
    newest = made.table.history()[-1]
    assert newest.action == "replace"
    assert newest.summary["removed-position-delete-files"] == "12" and newest.summary["total-position-deletes"] == "12"
    static = StaticTable.from_metadata(made.table.operations.load().location)
    assert static.scan().to_arrow().num_rows == 28
    again = made.table.rewrite(options=DELETES)
    assert again.files_before == 0 and "one small file alone" in again.skipped[0].reason
    made.delete_positions({made.tasks[0].data.path: [9]})
    assert len(made.rows()) == 27


@pytest.mark.slow
def test_a_data_file_keeps_delete_files_of_its_own_where_that_is_asked_for(tmp_path: Path) -> None:
    made = lake(tmp_path / "t", 3)
    rows = made.rows()
    done = made.table.rewrite(options={**DELETES, "delete-granularity": "file"})
    assert (done.files_before, done.files_after) == (6, 2)
    assert {one.referenced_data_file for one in only_positions(made)} == {
        task.data.path for task in made.tasks if task.data.partition == ("a",)
    }
    assert made.rows() == rows
    again = made.table.rewrite(options={**DELETES, "delete-granularity": "file", "min-input-files": 1})
    assert (
        again.files_before == 0 and "2 delete files: each is the only one of its data file" in again.skipped[0].reason
    )


@pytest.mark.slow
def test_rows_that_delete_nothing_go(tmp_path: Path) -> None:
    made = lake(tmp_path / "t")
    gone = next(task.data for task in made.tasks if task.data.partition == ("a",))
    commits.replace(
        made.table.operations, int(made.table.history()[-1].time), [gone], made.write([{"id": 1, "part": "a"}], ("a",))
    )  # fmt: skip
    rows = made.rows()
    made.table.rewrite(options={**DELETES, "rewrite-all": True})
    (file,) = only_positions(made)
    assert file.record_count == 6 and file.referenced_data_file != gone.path
    assert made.rows() == rows


@pytest.mark.slow
def test_targets_roll_and_partitions_can_be_chosen(tmp_path: Path) -> None:
    made = lake(tmp_path / "t")
    size = max(one.size for one in only_positions(made))
    rows = made.rows()
    assert made.table.rewrite(where="part = 'b'", options=DELETES).files_before == 0
    done = made.table.rewrite(
        where="part = 'a'", options={**DELETES, "target-file-size-bytes": size * 4, "rewrite-all": True}
    )
    assert (done.files_before, done.files_after) == (12, 3)
    assert made.rows() == rows
    assert sorted(one.record_count for one in only_positions(made)) == [4, 4, 4]


@pytest.mark.slow
def test_a_small_group_is_left_alone_and_says_so(tmp_path: Path) -> None:
    made = lake(tmp_path / "t", 2)
    done = made.table.rewrite(options=DELETES)
    assert done.files_before == 0 and "min-input-files=5" in done.skipped[0].reason
    assert made.table.rewrite(options={**DELETES, "min-input-files": 2}).files_before == 4


def test_wrong_options(tmp_path: Path) -> None:
    made = lake(tmp_path / "t", 1, properties={"write.delete.target-file-size-bytes": "much"})
    with pytest.raises(OptionError, match=r"write\.delete\.target-file-size-bytes"):
        made.table.rewrite(options=DELETES)
    with pytest.raises(OptionError, match="target-file-size-bytes"):
        made.table.rewrite(options={**DELETES, "target-file-size-byte": 1})
    with pytest.raises(OptionError, match="min-file-size-bytes"):
        made.table.rewrite(options={**DELETES, "target-file-size-bytes": 10, "min-file-size-bytes": 10})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_position_deletes_nothing_is_done(version: int, tmp_path: Path) -> None:
    made = Lake(tmp_path / "t", SCHEMA, partition_by=BY_PART, version=version)
    assert made.table.rewrite(options=DELETES).files_before == 0
    made.append([{"id": 1, "part": "a"}], ("a",))
    if version == 3:
        made.delete_positions({made.tasks[0].data.path: [0]})
    assert made.table.rewrite(options=DELETES).files_before == 0
    assert len(made.table.history()) == 1 + (version == 3)


@pytest.mark.slow
def test_an_upgraded_table_gets_deletion_vectors(tmp_path: Path) -> None:
    made = lake(tmp_path / "t", 2)
    upgrade: TableUpdate = {"action": "upgrade-format-version", "format-version": 3}
    change_metadata(made.table.operations, lambda metadata: ([], [upgrade]))
    rows = made.rows()
    hidden = next(task.data.path for task in made.tasks if task.data.partition == ("a",))
    done = made.table.rewrite(options={**DELETES, "max-files-to-rewrite": 1})
    assert (done.files_before, done.files_after) == (1, 1)  # and it has what the other file of the same data says
    assert made.rows() == rows
    made.table.rewrite(options=DELETES)
    assert all(one.is_vector for one in only_positions(made)) and len(made.deletes) == 2
    assert hidden in {one.referenced_data_file for one in only_positions(made)}
    assert made.rows() == rows
    made.delete_positions({hidden: [0, 1, 7]})
    assert len(made.rows()) == len(rows) - 1


@pytest.mark.slow
def test_another_rewrite_meanwhile_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake(tmp_path / "t")
    rows, tasks = made.rows(), position_deletes._tasks

    def raced(*args: Any) -> Any:
        monkeypatch.setattr(position_deletes, "_tasks", tasks)
        made.table.rewrite(options=DELETES)
        return tasks(*args)

    monkeypatch.setattr(position_deletes, "_tasks", raced)
    with pytest.raises(CommitConflictError, match="12 delete files to be replaced are gone"):
        made.table.rewrite(options=DELETES)
    assert made.rows() == rows
    live = set(made.deletes)
    assert {str(path) for path in (tmp_path / "t").rglob("*-deletes.parquet") if path.stat().st_mtime_ns} >= live


@pytest.mark.slow
def test_deletes_and_appends_meanwhile_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake(tmp_path / "t")
    tasks, target = position_deletes._tasks, made.tasks[0].data.path

    def raced(*args: Any) -> Any:
        made.delete_positions({target: [8]})
        made.append([{"id": 100, "part": "a"}], ("a",))
        return tasks(*args)

    monkeypatch.setattr(position_deletes, "_tasks", raced)
    made.table.rewrite(options=DELETES)
    assert len(made.rows()) == 28 and len(made.deletes) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pos_deletes", "pos_deletes_dangling", "v2_upgraded_v3", "dv_v3", "eq_deletes_part"])
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_golden_tables_keep_their_rows(name: str, granularity: str, tmp_path: Path) -> None:
    unpack("iceberg", name, into=tmp_path)
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    table = lakebed.open(f"ice:db.{name}", options)
    assert isinstance(table, IcebergTable)
    before = sorted(map(str, table.read().read_all().to_pylist()))
    count = len(table.history())
    done = table.rewrite(options={**DELETES, "rewrite-all": True, "delete-granularity": granularity})
    assert sorted(map(str, table.read().read_all().to_pylist())) == before
    assert len(table.history()) == count + bool(done.files_before)
    if name.startswith("pos_deletes"):
        assert done.files_before and done.files_after <= done.files_before
