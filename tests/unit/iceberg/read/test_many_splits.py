"""Plans of very many files keep columns, and make the values of files when a reader asks for them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import RetryableError
from lakebed.formats.iceberg import manifests
from lakebed.formats.iceberg.read import plan
from lakebed.formats.iceberg.read import splits as under_test
from lakebed.formats.iceberg.read.counting import counted
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.read.splits import FileSplits
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.verbs import many_splits
from lakebed.verbs.many_splits import StreamedSplits
from tests.golden import unpack

ROWS = pa.table({"id": pa.array(range(20_000), pa.int64()), "p": ["a", "b"] * 10_000})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of two specs, some of them with equality deletes, one with a vector, one with several row groups."""
    place = tmp_path_factory.mktemp("many") / "t"
    options = {"format-version": "3", "write.parquet.row-group-size-bytes": "20000"}
    table = lakebed.create(place, "iceberg", ROWS.schema, ["id"], options=options)
    table.write(ROWS)
    table.alter(lakebed.add_partition_field("p"))
    for start in (30_000, 40_000):
        table.write(ROWS.slice(0, 100).set_column(0, "id", pa.array(range(start, start + 100), pa.int64())))
    table.write(pa.table({"id": [7, 30_001], "p": ["b", "b"]}), mode="delete")
    table.rewrite(options={"lakebed.rewrite.what": "equality-deletes"})
    table.write(pa.table({"id": [8, 40_000], "p": ["a", "a"]}), mode="delete")
    return place


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch, folder: Path) -> FileSplits:
    monkeypatch.setattr(under_test, "MANY", 0)
    splits = lakebed.open(folder, {"split-size": "20000"}).plan_read().splits
    assert isinstance(splits, FileSplits) and len(splits.files) == 2
    return splits


def test_the_splits_are_those_of_the_data_files_in_their_order(folder: Path, many: FileSplits) -> None:
    table = lakebed.open(folder)
    assert isinstance(table, IcebergTable)
    metadata = table.table_metadata
    tasks = [*scan_tasks(table.operations.files, metadata, metadata.head())]
    assert list(dict.fromkeys(split.task for split in many)) == tasks
    assert sum(bool(task.deletes) for task in tasks) >= 3 and any(not task.deletes for task in tasks)
    parts = [split for split in many if split.part is not None]
    assert len(parts) == 2 and {split.task for split in parts} == {max(tasks, key=lambda task: task.data.size)}
    assert sum(split.size for split in many) == sum(task.data.size for task in tasks)
    assert len({split.group for split in many}) == len(many) == len(list(many))


@pytest.mark.usefixtures("many")
def test_a_table_is_read_by_them(folder: Path) -> None:
    ids = lakebed.open(folder, {"split-size": "20000"}).read(["id"]).read_all()["id"].to_pylist()
    written = {*range(20_000), *range(30_000, 30_100), *range(40_000, 40_100)}
    assert sorted(ids) == sorted(written - {7, 8, 30_001, 40_000})
    assert lakebed.open(folder).read(["id"], "id >= 40000 and p = 'a'").read_all().num_rows == 49


@pytest.mark.parametrize("columns", [True, False])
def test_only_files_with_deletes_of_unknown_number_are_opened_to_count(
    monkeypatch: pytest.MonkeyPatch, folder: Path, columns: bool
) -> None:
    monkeypatch.setattr(under_test, "MANY", 0 if columns else 1 << 13)
    table = lakebed.open(folder, {"split-size": "20000"})
    assert counted(table.plan_read([]).splits) == (20_196, []) and table.count() == 20_196
    golden = lakebed.open(unpack("iceberg", "eq_deletes"))
    known, rest = counted(golden.plan_read([]).splits)
    assert known < golden.count() == len(golden.read().read_all())
    assert rest and all(split.task.deletes for split in rest)


def test_a_part_of_them_takes_no_others_along(many: FileSplits) -> None:
    places = np.array([2, 0, 1])
    some = pickle.loads(pickle.dumps(many.taken(places)))
    assert isinstance(some, FileSplits)
    assert [*some] == [many[place] for place in places.tolist()] == [many[2], *many[:2]]
    assert sum(map(len, some.files)) == 3 < sum(map(len, many.files)) and len(some.deletes) == 3 and len(some.sets) <= 4


@pytest.mark.parametrize("tasks", [1, 3, 1000])
def test_they_are_spread_evenly_over_tasks(many: FileSplits, tasks: int) -> None:
    spread = many.spread(tasks)
    assert sorted(split.group for some in spread for split in some) == sorted(split.group for split in many)
    counts = [len(some) for some in spread]
    assert len(spread) == min(tasks, len(many)) and max(counts) - min(counts) <= 1


def test_a_plan_makes_no_values_of_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """What a plan keeps per file is its columns; those with deletes are the exception."""
    made: list[int] = []
    original = under_test.data_files
    monkeypatch.setattr(under_test, "MANY", 0)
    monkeypatch.setattr(under_test, "data_files", lambda *given: made.append(1) or original(*given))
    planned = lakebed.open(folder).plan_read()
    assert not made and planned.splits[0].size and made == [1]


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> lakebed.Table:
    """The table, whose splits come while its manifests are read, one after the other."""
    monkeypatch.setattr(under_test, "MANY", 0)
    monkeypatch.setattr(many_splits, "MANY", 0)
    monkeypatch.setattr(plan, "_STREAMED_BYTES", 1)
    return lakebed.open(folder, {"split-size": "20000"})


def test_splits_that_come_piece_by_piece_are_the_same(many: FileSplits, streamed: lakebed.Table) -> None:
    splits = streamed.plan_read().splits
    assert isinstance(splits, StreamedSplits)
    assert len([*splits.pieces()]) > 1 and not splits.is_whole
    assert [*iter(splits)] == [*many] and not splits.is_whole
    assert pickle.loads(pickle.dumps(splits))[0] == many[0]
    assert splits.is_whole and len(splits) == len(many) and splits[1:3] == many[1:3] and [*splits] == [*many]


def test_rows_of_splits_that_come_piece_by_piece(streamed: lakebed.Table, folder: Path) -> None:
    rows = lakebed.open(folder).to_arrow().sort_by("id")
    assert streamed.to_arrow().sort_by("id") == rows and streamed.count() == len(rows)
    assert streamed.to_arrow(where="id >= 40000 and p = 'a'").num_rows == 49


def test_the_first_rows_need_the_first_manifests(
    streamed: lakebed.Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
    for _ in range(8):
        table.write(ROWS.slice(0, 1))
    opened: list[str] = []
    fetched = manifests.fetched
    monkeypatch.setattr(
        manifests, "fetched", lambda files, some: (opened.extend(m.path for m in some), fetched(files, some))[1]
    )
    assert lakebed.open(tmp_path / "t").head(1).num_rows == 1
    assert 1 <= len(opened) <= 3
    assert lakebed.open(tmp_path / "t").count() == 8 and len(opened) <= 11


def test_manifests_that_expire_before_they_are_read_are_told(streamed: lakebed.Table, tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
    for _ in range(3):
        table.write(ROWS.slice(0, 1))
    reader = table.read()
    splits = table.plan_read().splits
    for path in (tmp_path / "t" / "metadata").glob("*-m*.avro"):
        path.unlink()
    for act in (reader.read_all, lambda: len(splits), lambda: [*splits]):
        with pytest.raises(RetryableError, match=r"metadata of the snapshot is gone.*Read again"):
            act()


def test_an_empty_table_has_none(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
    assert table.plan_read().splits == () and table.read().read_all().num_rows == 0
