"""A moved or copied Iceberg table that is relocated: its metadata has no path of the old place."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.errors import LakebedError, UnsupportedError
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import FAILURES, crash_points

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("part", pa.string()), ("x", pa.string())])


def rows(start: int, x: str = "a") -> pa.Table:
    return pa.table({"id": range(start, start + 6), "part": ["p", "q"] * 3, "x": [x] * 6}, schema=SCHEMA)


def lived(folder: Path, version: int) -> IcebergTable:
    """A table with appends, updates by key, deletes, a rewrite and a tag."""
    table = lakebed.create(
        folder, "iceberg", SCHEMA, ["id"], ["part"] if version > 1 else [],
        {"format-version": version, "write.data.path": str(folder / "elsewhere")},
    )  # fmt: skip
    assert isinstance(table, IcebergTable)
    for start in (0, 6, 12):
        table.write(rows(start))
    if version > 1:
        table.write(rows(3, "b"), mode="upsert")
        table.write(rows(14).slice(0, 2), mode="delete")
    table.tag("before")
    table.rewrite(options={"rewrite-all": True})
    table.write(rows(20))
    if version > 1:
        table.write(rows(21).slice(0, 1), mode="delete")
    return table


def states(table: Any) -> list[list[dict[str, Any]]]:
    """The rows of each snapshot, oldest first."""
    return [
        sorted(table.read(as_of=int(instant.time)).read_all().to_pylist(), key=lambda row: (row["id"], row["x"]))
        for instant in table.history()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_state_is_read_without_the_old_place(tmp_path: Path, version: int) -> None:
    original = lived(tmp_path / "old", version)
    wanted = states(original)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    before = {path: path.read_bytes() for path in (tmp_path / "old").rglob("*") if path.is_file()}
    copied = lakebed.open(tmp_path / "new")
    with pytest.raises(UnsupportedError, match="relocate"):
        copied.write(rows(90))
    planned = copied.relocate(dry_run=True)
    assert planned.dry_run and planned.moved_from == str(tmp_path / "old") and planned.manifests
    with pytest.raises(UnsupportedError):
        copied.write(rows(90))
    done = copied.relocate()
    assert (done.manifests, done.delete_files) == (planned.manifests, planned.delete_files)
    assert (done.delete_files > 0) == (version > 1)
    assert {path: path.read_bytes() for path in (tmp_path / "old").rglob("*") if path.is_file()} == before
    shutil.rmtree(tmp_path / "old")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = lakebed.open(tmp_path / "new")
        assert states(table) == wanted
        assert table.read(as_of="tag:before").read_all().num_rows
    text = b"".join(
        path.read_bytes() for path in (tmp_path / "new/metadata").glob("v*.metadata.json")
    )  # older versions of the metadata stay as they were
    newest = max(
        (tmp_path / "new/metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])
    )
    assert str(tmp_path / "old").encode() in text and str(tmp_path / "old") not in newest.read_text()
    static = StaticTable.from_metadata(str(newest))
    assert sorted(static.scan().to_arrow()["id"].to_pylist()) == [row["id"] for row in wanted[-1]]
    table.write(rows(90))
    table.rewrite(options={"rewrite-all": True})
    table.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
    found = sorted(table.read().read_all()["id"].to_pylist())
    assert found == sorted([*(row["id"] for row in wanted[-1]), *range(90, 96)])
    assert table.relocate().notes  # it lies where it says


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["data", "manifest"])
def test_a_table_that_did_not_come_along_whole_is_refused_and_stays_as_it_is(tmp_path: Path, gone: str) -> None:
    lived(tmp_path / "old", 2)
    (tmp_path / "old").rename(tmp_path / "new")
    pattern = "elsewhere/**/*.parquet" if gone == "data" else "metadata/*-m0.avro"
    sorted((tmp_path / "new").glob(pattern))[0].unlink()
    files = sorted((tmp_path / "new").rglob("*"))
    with pytest.raises(UnsupportedError, match="were not copied"):
        lakebed.open(tmp_path / "new").relocate()
    assert sorted((tmp_path / "new").rglob("*")) == files


def test_formats_with_relative_paths_have_nothing_to_relocate(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="relative"):
        lakebed.create(tmp_path / "t", "paimon", SCHEMA).relocate()
    with pytest.raises(UnsupportedError, match="relative"):
        lakebed.open("examples/orders_hudi").relocate()


@pytest.mark.slow
def test_killed_at_any_change_it_is_the_old_or_the_new(tmp_path: Path) -> None:
    original = lakebed.create(tmp_path / "old", "iceberg", SCHEMA, ["id"])
    original.write(rows(0))
    original.write(rows(3, "b"), mode="upsert")
    wanted = states(original)
    number = iter(range(10_000))

    def make() -> Store:
        return open_store(shutil.copytree(tmp_path / "old", tmp_path / f"new{next(number)}"))

    tried = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for point in crash_points(lambda store: lakebed.open(store).relocate(), make, FAILURES[:2]):
            tried += 1
            table = lakebed.open(point.store)
            assert states(table)[-1] == wanted[-1], f"{point}"
            try:
                table.relocate()
            except LakebedError as error:
                raise AssertionError(f"{point}: {error}") from error
            assert states(lakebed.open(point.store)) == wanted
            shutil.rmtree(point.store.location)
    assert tried > 10
