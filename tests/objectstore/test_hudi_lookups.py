"""What looking keys up in a Hudi table asks of an object store, as the table grows: it grows with the files that have
the keys, not with the others."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.hudi.metadata_table import opened
from tests.objectstore.server import Counted, StoreServer

ROWS = 200
SMALL = {"hoodie.index.bloom.num_entries": str(ROWS), "hoodie.parquet.small.file.limit": "0"}
BUILT = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.column.list": "id",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.copyonwrite.insert.split.size": str(ROWS),
}


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": [f"k{number:06d}" for number in range(first, first + count)], "part": ["p"] * count})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Path]:
    """Merge-on-read tables of one partition with so many base files, each with the keys of a range."""
    found = {}
    for files in (4, 20):
        found[files] = tmp_path_factory.mktemp("lookups") / "t"
        kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
        table = lakebed.create(found[files], "hudi", rows(0, 1).schema, ["id"], ["part"], kind)
        table.write(rows(0, ROWS * files), options={**SMALL, **BUILT})
        assert len([*(found[files] / "p").glob("*.parquet")]) == files
    return found


def base_files(counted: Counted) -> set[str]:
    """The base files that were read."""
    return {entry.target for entry in counted.log if entry.method == "GET" and entry.target.endswith(".parquet")}


@pytest.mark.parametrize(
    "index",
    [
        {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true"},
        {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.bloom.index.use.metadata": "true"},
        {"hoodie.index.type": "RECORD_INDEX"},
    ],
    ids=lambda index: index["hoodie.index.type"],
)
def test_an_upsert_asks_the_same_however_many_files_the_table_has(
    store_server: StoreServer,
    folders: Mapping[int, Path],
    monkeypatch: pytest.MonkeyPatch,
    index: Mapping[str, str],
) -> None:
    monkeypatch.setattr(opened, "_AT_ONCE", 4096)  # as if the metadata table had files of many megabytes

    def upsert(files: int, index: Mapping[str, str], requests: int | None = None) -> Counted:
        return store_server.measure(
            lambda url: lakebed.open(url, store_server.options).write(rows(ROWS + 9, 3), "upsert", {**SMALL, **index}),
            lambda: store_server.upload(folders[files]),
            tries=1 if requests is None else 3,
            enough=1000,
            requests=requests,
        )

    few = upsert(4, index)
    many = upsert(20, index, few.requests + 2)
    assert many.requests <= few.requests + 2
    assert many.bytes_out <= few.bytes_out * 1.25
    assert len(base_files(many)) == (0 if index["hoodie.index.type"] == "RECORD_INDEX" else 1)
    if index["hoodie.index.type"] == "BLOOM":  # without the metadata table each file's footer is read
        assert len(base_files(upsert(20, {"hoodie.index.type": "BLOOM"}))) == 20


def test_an_upsert_by_buckets_asks_the_same_however_many_there_are(store_server: StoreServer, tmp_path: Path) -> None:
    asked: list[Counted] = []
    for buckets in (4, 20):
        options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": str(buckets)}
        kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
        folder = tmp_path / str(buckets)
        table = lakebed.create(folder, "hudi", rows(0, 1).schema, ["id"], ["part"], {**kind, **options})
        table.write(rows(0, ROWS), options={**options, "hoodie.datasource.write.operation": "bulk_insert"})
        assert len([*(folder / "p").glob("*.parquet")]) == buckets
        counted = store_server.measure(
            lambda url, options=options: lakebed.open(url, store_server.options).write(rows(9, 1), "upsert", options),
            lambda folder=folder: store_server.upload(folder),
            tries=3 if asked else 1,
            enough=1000,
            requests=asked[0].requests if asked else None,
        )
        asked.append(counted)
    few, many = asked
    assert many.requests <= few.requests
    assert many.bytes_out <= few.bytes_out + 16 * 1000  # names of the other files, in the metadata table
