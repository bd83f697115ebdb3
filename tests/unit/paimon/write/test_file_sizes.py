"""A bucket's files of one write are as many as its bytes fill: ceil(bytes / target), one more or less at most.

Of tables without buckets see test_staged.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.snapshot import History

TARGET = 200_000


def table_of(folder: Path, key: bool, **options: str) -> lakebed.Table:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("x", pa.float64())])
    spelled = {"target-file-size": str(TARGET), "bucket": "1", **({} if key else {"bucket-key": "id"}), **options}
    return lakebed.create(folder, "paimon", schema, ["id"] if key else [], options=spelled)


def data(count: int) -> pa.Table:
    random = np.random.default_rng(7)
    ids = random.permutation(count)
    return pa.table({"id": ids, "text": [f"text {i % 97} {i}" for i in ids], "x": random.random(count)})


def files(table: lakebed.Table) -> list[DataFileMeta]:
    return [entry.file for entry in live_files(table.store, History(table.store).latest())]


@pytest.mark.slow
@pytest.mark.parametrize("key", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("buffer", ["256 mb", "500 kb"])
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_as_many_files_as_the_bytes_fill(tmp_path: Path, key: bool, buffer: str, file_format: str) -> None:
    table = table_of(tmp_path / "t", key, **{"write-buffer-size": buffer, "file.format": file_format})
    rows = data(60_000)
    table.write(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=5000)))
    found = files(table)
    size = sum(file.file_size for file in found)
    assert size > 4 * TARGET
    assert abs(len(found) - -(-size // TARGET)) <= 1
    full = sorted(file.file_size for file in found)[1:]
    assert all(0.95 * TARGET <= one <= 1.1 * TARGET for one in full)
    assert table.read().read_all().num_rows == 60_000


def test_bounds_of_long_texts_are_found_where_the_footer_has_none(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", True)
    texts = ["m" * 5000, "b", "z" * 5000, None]
    table.write(pa.table({"id": [1, 2, 3, 4], "text": texts, "x": [None] * 4}, table.schema))
    (path,) = (tmp_path / "t").glob("bucket-0/*.parquet")
    place = pq.ParquetFile(path).schema_arrow.get_field_index("text")
    assert not pq.ParquetFile(path).metadata.row_group(0).column(place).statistics.has_min_max
    stats = files(table)[0].value_stats
    assert b"b" in stats.min_values
    assert b"z" * 15 + b"{" in stats.max_values
    assert stats.null_counts == (0, 1, 4)


@pytest.mark.parametrize(("block_size", "row_groups"), [("128 mb", 1), ("40000", 10)])
def test_row_groups_have_the_size_that_the_option_gives(tmp_path: Path, block_size: str, row_groups: int) -> None:
    options = {"write-buffer-size": "40 kb", "target-file-size": "128 mb", "parquet.block.size": block_size}
    table = table_of(tmp_path / "t", True, **options, **{"write-only": "true"})
    for _ in range(2):
        rows = data(8000)
        table.write(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=500)))
    table.rewrite(options={"write-only": "false"})
    paths = [*(tmp_path / "t").glob("bucket-0/*.parquet")]
    assert len(paths) == 3
    for path in paths:
        footer = pq.ParquetFile(path).metadata
        assert row_groups <= footer.num_row_groups <= 3 * row_groups - 2
    assert table.read().read_all().num_rows == 8000
