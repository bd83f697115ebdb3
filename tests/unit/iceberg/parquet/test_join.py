"""Joined Parquet files hold the rows, page indexes and Bloom filters of their inputs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.parquet.join import NotJoinable, ParquetJoin
from lakebed.kernel.parquet.thrift import (
    I64,
    LIST,
    STRUCT,
    Struct,
    decode,
    encode,
)

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"}),
        pa.field("flag", pa.bool_(), metadata={"PARQUET:field_id": "3"}),
        pa.field("tags", pa.list_(pa.field("element", pa.string(), metadata={"PARQUET:field_id": "5"}))),
        pa.field("price", pa.decimal128(30, 4)),
    ],
)


def rows(start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    return pa.table(
        {
            "id": numbers * 3,
            "name": [None if n % 7 == 0 else f"name {n % 50}" for n in numbers],
            "flag": [bool(n % 3) for n in numbers],
            "tags": [[f"t{n}"] * (n % 4) for n in numbers],
            "price": pa.array(numbers).cast(pa.decimal128(30, 4)),
        },
        SCHEMA,
    )


def written(table: pa.Table, **how: Any) -> bytes:
    out = io.BytesIO()
    how = {"compression": "zstd", "write_page_index": True, "max_rows_per_page": 64, **how}
    pq.write_table(table, out, **how)
    return out.getvalue()


def joined(files: list[bytes], codec: str | None = None) -> tuple[bytes, ParquetJoin]:
    out = pa.BufferOutputStream()
    join = ParquetJoin(out, codec)
    for data in files:
        join.add(pa.BufferReader(data))
    size = join.finish()
    found = out.getvalue().to_pybytes()
    assert size == len(found)
    return found, join


def test_rows_in_order_and_row_groups_as_they_were() -> None:
    parts = [rows(0, 300), rows(300, 150), rows(450, 1)]
    data, join = joined([written(part, row_group_size=100) for part in parts])
    assert pq.read_table(io.BytesIO(data)).equals(pa.concat_tables(parts))
    footer = pq.read_metadata(io.BytesIO(data))
    assert footer.num_rows == join.rows == 451
    assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == [100, 100, 100, 100, 50, 1]
    starts = []
    for number in range(footer.num_row_groups):
        column = footer.row_group(number).column(0)
        starts.append(column.dictionary_page_offset or column.data_page_offset)
        assert footer.row_group(number).column(1).has_column_index
    assert join.split_offsets == starts
    assert footer.row_group(5).column(0).statistics.min == 450 * 3
    assert data.count(b"ARROW:schema") == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"compression": "snappy", "data_page_version": "2.0"}, {"use_dictionary": False}])
def test_page_indexes_and_bloom_filters_are_right(tmp_path: Path, how: dict[str, Any]) -> None:
    """DataFusion skips row groups by Bloom filters and pages by page indexes; any that is wrong loses rows."""
    blooms = {"bloom_filter_options": {"id": True, "name": True}} if _has_blooms() else {}
    parts = [rows(0, 1000), rows(1000, 1000), rows(2000, 500)]
    data, _ = joined([written(part, row_group_size=400, **how, **blooms) for part in parts])
    (tmp_path / "joined.parquet").write_bytes(data)
    config = SessionConfig(
        {
            "datafusion.execution.parquet.pushdown_filters": "true",
            "datafusion.execution.parquet.bloom_filter_on_read": "true",
            "datafusion.execution.parquet.enable_page_index": "true",
        }
    )
    context = SessionContext(config)
    context.register_parquet("joined", str(tmp_path / "joined.parquet"))
    whole = pa.concat_tables(parts)
    for number in (0, 63, 64, 999, 1000, 1399, 1400, 2499):
        found = context.sql(f"select * from joined where id = {number * 3}").to_arrow_table()
        assert found.num_rows == 1 and found["name"].to_pylist() == whole["name"].slice(number, 1).to_pylist()
        assert not context.sql(f"select * from joined where id = {number * 3 + 1}").to_arrow_table().num_rows
    between = context.sql("select count(*) as n from joined where id between 1000 and 4000").to_arrow_table()
    assert between["n"].to_pylist() == [1000]
    by_name = context.sql("select count(*) as n from joined where name = 'name 3'").to_arrow_table()
    assert by_name["n"].to_pylist() == [whole["name"].to_pylist().count("name 3")]
    if blooms:
        assert context.sql("explain analyze select * from joined where id = 7498").to_arrow_table().num_rows


def _has_blooms() -> bool:
    try:
        written(rows(0, 1), bloom_filter_options={"id": True})
    except TypeError:
        return False
    return True


def test_only_equal_metadata_pairs_stay() -> None:
    files = []
    for number in (1, 2):
        out = io.BytesIO()
        with pq.ParquetWriter(out, SCHEMA, store_schema=False) as writer:
            writer.write_table(rows(0, 5))
            writer.add_key_value_metadata({"both": "x", "one": str(number)})
        files.append(out.getvalue())
    metadata = pq.read_metadata(pa.BufferReader(joined(files)[0])).metadata
    assert metadata == {b"both": b"x"}


def test_files_that_differ_are_not_joined() -> None:
    base = written(rows(0, 5))
    for other, why in (
        (written(rows(0, 5).select(["id"])), "schemas"),
        (written(rows(0, 5), compression="snappy"), "compressed by snappy, not by zstd"),
        (written(rows(0, 5), version="1.0"), "schemas|versions"),
    ):
        with pytest.raises(NotJoinable, match=why):
            joined([base, other], "zstd")


def test_an_encrypted_file_is_not_joined() -> None:
    with pytest.raises(NotJoinable, match="encrypted"):
        joined([written(rows(0, 5))[:-4] + b"PARE"])


@pytest.mark.parametrize("keep", [0, 3, 11, 60])
def test_damage_is_named(keep: int) -> None:
    data = written(rows(0, 50))
    with pytest.raises(CorruptError):
        joined([data[-keep:] if keep else b""])


@pytest.mark.slow
def test_a_large_footer_is_read_whole() -> None:
    data = written(rows(0, 4000), row_group_size=20)
    found, join = joined([data, data])
    assert join.rows == 8000
    assert pq.read_table(io.BytesIO(found)).equals(pa.concat_tables([rows(0, 4000)] * 2))


def test_files_without_rows_add_nothing() -> None:
    data, join = joined([written(rows(0, 0)), written(rows(0, 5)), written(rows(0, 0))])
    assert join.rows == 5 and pq.read_table(io.BytesIO(data)).equals(rows(0, 5))


# ---- thrift ----------------------------------------------------------------------------------------------------------

_NUMBERS = st.integers(-(2**63), 2**63 - 1)
_STRUCTS = st.recursive(
    st.dictionaries(st.integers(1, 300), st.tuples(st.just(I64), _NUMBERS), max_size=6),
    lambda inner: st.dictionaries(
        st.integers(1, 40),
        st.one_of(
            st.tuples(st.just(I64), _NUMBERS),
            st.tuples(st.just(STRUCT), inner),
            st.tuples(st.just(LIST), st.lists(inner, max_size=20)),
        ),
        max_size=6,
    ),
    max_leaves=8,
)


def shape_of(struct: Struct) -> Any:
    """The shape that decodes everything of a struct; of a list, everything of any of its structs."""
    shape: dict[int, Any] = {}
    for number, (_, value) in struct.items():
        if isinstance(value, dict):
            shape[number] = shape_of(value)
        elif isinstance(value, list):
            shape[number] = {}
        else:
            shape[number] = None
    return shape


@pytest.mark.slow
@given(_STRUCTS)
def test_structs_of_any_shape_pass_through(struct: Struct) -> None:
    data = encode(struct)
    for shape in ({}, shape_of(struct)):
        found, end = decode(data, 0, shape)
        assert end == len(data) and encode(found) == data
    assert {n: v for n, v in found.items() if v[0] == I64} == {n: v for n, v in struct.items() if v[0] == I64}


@pytest.mark.parametrize(
    "field",
    [
        "18" "03" "616263",  # binary abc
        "19" "25" "02" "8001",  # list of two i32
        "19" "f3" "10" + "07" * 16,  # list of sixteen bytes
        "19" "31" "010201",  # list of booleans
        "1a" "17" "0011223344556677",  # set of one double
        "1b" "01" "86" "0161" "08",  # map of binary to i64
        "1b" "00",  # empty map
        "11", "12",  # booleans
        "13" "ff",  # byte
        "17" "0011223344556677",  # double
        "1c" "15" "02" "00",  # struct
        "08" "9006" "0161",  # a field id above the short form
    ],
)  # fmt: skip
def test_fields_of_every_type_are_passed_over(field: str) -> None:
    data = bytes.fromhex(field + "00")
    found, end = decode(data, 0, {})
    assert end == len(data) and len(found) == 1 and encode(found) == data


@pytest.mark.slow
@given(_STRUCTS, st.data())
def test_a_cut_struct_is_refused(struct: Struct, draw: st.DataObject) -> None:
    data = encode(struct)
    with pytest.raises(CorruptError):
        decode(data[: draw.draw(st.integers(0, len(data) - 1))], 0, shape_of(struct))


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        struct, end = decode(data, 0, {4: {1: None}, 1: None})
    except CorruptError:
        return
    assert end <= len(data) and isinstance(struct, dict)
