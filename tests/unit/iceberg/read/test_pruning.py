"""Files that are ruled out are not opened, and no row is lost. Files are counted as they are opened."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, NestedField, StringType, StructType

from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read import task
from lakebed.kernel.decoding import UNSTATED
from lakebed.kernel.predicates.where import parse_where
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "day", DateType()), NestedField(3, "name", StringType()),
    NestedField(4, "real", DoubleType()), NestedField(5, "in", StructType(NestedField(6, "x", IntegerType()))),
)  # fmt: skip
DAY = datetime.date(2024, 1, 1)


def row(number: int) -> dict[str, Any]:
    return {
        "id": number, "day": DAY + datetime.timedelta(number), "name": f"{'n' * 20}{number:04}",
        "real": float("nan") if number % 10 == 0 else number / 2, "in": {"x": number},
    }  # fmt: skip


class Opened:
    """Counts the data files that are opened, or the other files that are read."""

    def __init__(self, method: str = "open_input") -> None:
        self._method, self.paths = method, list[str]()

    def __enter__(self) -> "Opened":
        self._plain = plain = getattr(Files, self._method)
        paths = self.paths

        def counted(files: Files, url: str, *rest: Any) -> Any:
            paths.append(url)
            return plain(files, url, *rest)

        setattr(Files, self._method, counted)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(Files, self._method, self._plain)


@pytest.fixture(params=["none", "day", "bucket", "truncate"], scope="module")
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Ten files of ten rows each, and one of nulls."""
    by = {"none": [], "day": [("day", "month")], "bucket": [("id", "bucket[4]")], "truncate": [("id", "truncate[10]")]}
    made = Lake(tmp_path_factory.mktemp("pruned") / "t", SCHEMA, partition_by=by[request.param])
    for number in range(10):
        rows = [row(n) for n in range(number * 10, number * 10 + 10)]
        if request.param == "none":
            made.append(rows)
        elif request.param == "truncate":
            made.append(rows, (number * 10,))
        else:
            made.table.write(pa.Table.from_pylist(rows, made.table.schema))
    nothing = {field.name: None for field in SCHEMA.fields}
    if request.param == "none":
        made.append([nothing] * 3)
    elif request.param == "truncate":
        made.append([nothing] * 3, (None,))
    else:
        made.table.write(pa.Table.from_pylist([nothing] * 3, made.table.schema))
    return made


PREDICATES: list[tuple[Any, int]] = [
    ("id = 42", 1), ("id < 15", 2), ("id >= 95", 1), ("id between 20 and 29", 1), ("id in (3, 97)", 2),
    ("id is null", 1), ("id is not null", 10), ("not id < 15", 9), ("id <> 5", 10), ("id <=> 7", 1),
    ("day = date '2024-02-15'", 1), ("name = 'nnnnnnnnnnnnnnnnnnnn0042'", 10), ("name like 'n%'", 10),
    ("name like 'm%'", 0), ("name > 'o'", 0), ("in.x = 42", 1), ("in.x > 1000", 0), ("real > 48", 1),
    ("real > 1000", 0), ("not real < 1000", 10), ("real = 'NaN'", 10), ("id = 42 or id is null", 2),
    ("id = 42 and name like 'n%'", 1), ("id > 1000 or real > 1000", 0), ("id = 42.5", 1), ("id + 1 = 43", 11),
    (pc.field("id") == 42, 1), (pc.is_nan(pc.field("real")), 10), ("false", 0),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("predicate", "most"), PREDICATES, ids=str)
def test_files_are_ruled_out_and_no_row_is_lost(lake: Lake, predicate: Any, most: int) -> None:
    whole = lake.table.read().read_all()
    with Opened() as opened:
        found = lake.table.read(where=predicate).read_all()
    every = len(lake.tasks)
    assert len(set(opened.paths)) <= (most if every == 11 else every), f"of {every}"
    wanted = whole.filter(parse_where(predicate, lake.table.schema).to_arrow())
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, wanted.to_pylist()))


@pytest.mark.slow
def test_partitions_alone_rule_out_manifests_and_files(tmp_path: Path) -> None:
    """Partition values rule files out without any metrics, and a manifest that its summary rules out is not read."""
    off = {"write.metadata.metrics.default": "none", "commit.manifest-merge.enabled": "false"}
    lake = Lake(tmp_path / "t", SCHEMA, partition_by=[("id", "bucket[8]"), ("day", "day")], properties=off)
    for number in range(0, 40, 4):
        lake.table.write(pa.Table.from_pylist([row(n) for n in range(number, number + 4)], lake.table.schema))
    assert len(lake.tasks) == 40
    for where, most in (("id = 7", 8), ("day = date '2024-01-08'", 1), ("day < date '2024-01-03'", 2)):
        with Opened("read") as read, Opened() as opened:
            lake.table.read(where=where).read_all()
        assert len(opened.paths) <= most
        manifests = [url for url in read.paths if url.endswith(".avro") and "snap-" not in url]
        assert len(manifests) <= (1 if where.startswith("day") else 10), where


def test_row_groups_are_ruled_out(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t", SCHEMA)
    (made,) = lake.append([row(n) for n in range(100)])
    rows = pq.read_table(made.path)
    pq.write_table(rows, made.path, row_group_size=10)  # the manifest's figures stay true but for the size
    plain = pq.ParquetFile
    groups: list[list[int]] = []

    class Spy:
        def __init__(self, reader: Any) -> None:
            self._reader = reader

        def __getattr__(self, name: str) -> Any:
            return getattr(self._reader, name)

        def iter_batches(self, size: int, run: list[int], *rest: Any, **named: Any) -> Iterator[Any]:
            groups.append(run)
            yield from self._reader.iter_batches(size, run, *rest, **named)

    class File(plain):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self.reader = Spy(self.reader)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq, "ParquetFile", File)
        patch.setattr(task, "stated_of", lambda file: UNSTATED)
        found = lake.table.read(["id", "_pos"], "id in (15, 16, 77)").read_all()
    assert groups == [[1], [7]]
    assert sorted(found.to_pylist(), key=str) == [{"id": n, "_pos": n} for n in (15, 16, 77)]
