"""Parquet files whose pages are compressed beside Arrow's writer are what Arrow itself would have written."""

from __future__ import annotations

import datetime as dt
import gzip
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

from lakebed.kernel.parquet.gzip_pages import GzipPages, parquet_writer
from lakebed.kernel.parquet.thrift import decode

ROWS = 5000
NUMBERS = np.arange(ROWS)
TABLE = pa.table(
    {
        "id": NUMBERS,
        "text": [None if n % 7 == 0 else f"text {n % 50}" for n in range(ROWS)],
        "real": NUMBERS / 3,
        "flag": [n % 3 == 0 for n in range(ROWS)],
        "day": [dt.date(2024, 1, 1) + dt.timedelta(n % 400) for n in range(ROWS)],
        "list": [[n, None] if n % 5 else None for n in range(ROWS)],
        "struct": [{"a": n, "b": {"c": str(n)}} for n in range(ROWS)],
    }
)


def written(table: pa.Table, compression: str = "gzip", **more: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, table.schema, compression, write_page_checksum=True, **more) as writer:
        for start in range(0, len(table), 2000):
            writer.write_table(table.slice(start, 2000))
        writer.add_key_value_metadata({"made": "here"})
    return sink.getvalue().to_pybytes()


def described(data: bytes) -> tuple[pq.FileMetaData, list[Any]]:
    """The footer, and what it says of each chunk besides places and sizes."""
    footer = pq.ParquetFile(pa.BufferReader(data)).metadata
    chunks = [footer.row_group(g).column(c) for g in range(footer.num_row_groups) for c in range(footer.num_columns)]
    return footer, [
        (each.path_in_schema, each.num_values, each.encodings, each.total_uncompressed_size, _statistics(each))
        for each in chunks
    ]


def _statistics(chunk: Any) -> Any:
    return chunk.statistics and chunk.statistics.to_dict()


@pytest.mark.parametrize("more", [{}, {"use_dictionary": False}, {"data_page_size": 1000, "write_batch_size": 64}])
def test_rows_statistics_and_checksums_are_those_of_arrow(more: dict[str, Any]) -> None:
    data = written(TABLE, **more)
    assert pq.read_table(pa.BufferReader(data), page_checksum_verification=True).equals(TABLE)
    footer, chunks = described(data)
    plain, expected = described(written(TABLE, "none", **more))
    assert chunks == expected
    assert footer.metadata == plain.metadata and footer.metadata[b"made"] == b"here"
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    assert {group.column(0).compression for group in groups} == {"GZIP"}
    end = 4
    for group in groups:  # each chunk begins where the one before it ends
        for number in range(group.num_columns):
            chunk = group.column(number)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            assert start == end and (not chunk.has_dictionary_page or chunk.data_page_offset > start)
            end += chunk.total_compressed_size
    assert end == len(data) - footer.serialized_size - 8


def test_another_engine_reads_it(tmp_path: Any) -> None:
    (tmp_path / "t.parquet").write_bytes(written(TABLE))
    session = SessionContext()
    session.register_parquet("t", str(tmp_path / "t.parquet"))
    assert pa.table(session.sql("select * from t order by id")).cast(TABLE.schema).equals(TABLE)


def test_files_without_rows_and_without_a_footer(tmp_path: Any) -> None:
    empty = TABLE.schema.empty_table()
    assert pq.read_table(pa.BufferReader(written(empty))).equals(empty)
    sink = pa.BufferOutputStream()
    with pytest.raises(RuntimeError), parquet_writer(sink, TABLE.schema, "gzip") as writer:
        writer.write_table(TABLE)
        raise RuntimeError
    with pytest.raises(pa.ArrowInvalid):
        pq.ParquetFile(pa.BufferReader(sink.getvalue()))


@pytest.mark.parametrize("size", [11, 4096])
def test_bytes_may_come_in_any_pieces(size: int) -> None:
    rows = TABLE.slice(0, 200)
    plain = written(rows, "none")
    sink = pa.BufferOutputStream()
    pages = GzipPages(sink)
    for start in range(0, len(plain), size):
        pages.write(plain[start : start + size])
    assert pages.tell() == len(plain)
    pages.close()
    assert pq.read_table(pa.BufferReader(sink.getvalue())).equals(rows)


def test_pages_are_gzip_members() -> None:
    data = written(pa.table({"id": NUMBERS}), use_dictionary=False)
    start = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0).data_page_offset
    header, end = decode(data[start:], 0, {2: None, 3: None})
    assert len(gzip.decompress(data[start + end : start + end + header[3][1]])) == header[2][1]
