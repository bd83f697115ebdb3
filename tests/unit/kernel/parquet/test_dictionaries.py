"""Which columns get a dictionary, and which text columns are read by theirs."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.kernel.parquet.dictionaries import dictionary_texts, plain_texts, repeating_columns


@pytest.mark.parametrize("rows", [10_000, 64 << 10, 250_110, 512_000])
@pytest.mark.parametrize("distinct", [2, 125, 500, 1000])
def test_values_that_come_in_turns_repeat(rows: int, distinct: int) -> None:
    numbers = np.arange(rows)
    table = pa.table({"turns": numbers % distinct, "sorted": numbers // (rows // distinct), "distinct": numbers})
    assert repeating_columns(table) == ["turns", "sorted"]


@pytest.mark.parametrize("rows", [0, 1, 2, 511, 512, 513, 100_000])
def test_a_sample_of_any_number_of_rows(rows: int) -> None:
    table = pa.table({"n": pa.array(np.arange(rows)), "same": pa.array(np.ones(rows, np.int64))})
    assert repeating_columns(table) == (["n", "same"] if rows == 0 else ["same"] if rows > 1 else [])


def test_texts_of_dictionaries_are_found_and_read_the_same() -> None:
    count = 40_000
    columns = {
        "few": pa.array([f"name {number % 50}" if number % 7 else None for number in range(count)]),
        "gave_up": pa.array([f"{number:040d}" for number in range(count)]),
        "plain": pa.array([f"text {number % 50}" for number in range(count)]),
        "none": pa.nulls(count, pa.string()),
        "number": pa.array(np.arange(count) % 50),
        "nested": pa.array([{"few": "text"}] * count),
    }
    table, file = pa.table(columns), io.BytesIO()
    dictionaries = [name for name in columns if name not in ("plain", "nested")] + ["nested.few"]
    limit = 64 << 10  # bytes of a dictionary
    pq.write_table(table, file, row_group_size=15_000, use_dictionary=dictionaries, dictionary_pagesize_limit=limit)
    with pq.ParquetFile(file) as source:
        texts = dictionary_texts(source.metadata, source.schema_arrow, table.column_names)
        assert texts == ["few", "none"]
        assert dictionary_texts(source.metadata, source.schema_arrow, ["number", "none"]) == ["none"]
    with pq.ParquetFile(file, read_dictionary=texts) as source:
        batches = [plain_texts(batch) for batch in source.iter_batches(4_000)]
    assert pa.Table.from_batches(batches).equals(table)
