"""Plans of very many files keep columns, and make the values of files when a reader asks for them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.iceberg.read import splits as under_test
from lakebed.formats.iceberg.read.counting import counted
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.read.splits import FileSplits
from lakebed.formats.iceberg.table import IcebergTable
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
    plan = lakebed.open(folder).plan_read()
    assert not made and plan.splits[0].size and made == [1]


def test_an_empty_table_has_none(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
    assert table.plan_read().splits == () and table.read().read_all().num_rows == 0
