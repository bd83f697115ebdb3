"""Avro records are laid out a few thousand at a time, and their bytes do not depend on how many."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import SchemaError
from lakebed.kernel.avro import encode
from lakebed.kernel.avro.encode_few import encode_few


def batch_of(rows: int) -> pa.RecordBatch:
    """Rows of every kind of column, some values null."""
    return pa.record_batch(
        {
            "number": pa.array([None if n % 7 == 0 else n * n - 50 for n in range(rows)]),
            "text": pa.array([None if n % 5 == 0 else "x" * (n % 4) for n in range(rows)]),
            "price": pa.array([None if n % 3 == 0 else Decimal(n - 40).scaleb(-2) for n in range(rows)]),
            "share": pa.array([n / 3 for n in range(rows)]),
            "flag": pa.array([None if n % 4 == 0 else n % 2 == 0 for n in range(rows)]),
            "list": pa.array([None if n % 6 == 0 else [None, n][: n % 3] for n in range(rows)]),
            "pair": pa.array([None if n % 9 == 0 else {"a": n, "b": None} for n in range(rows)]),
            "map": pa.array([[(f"k{n}", n)][: n % 2] for n in range(rows)], pa.map_(pa.string(), pa.int64())),
            "fixed": pa.array([bytes([n % 256] * 3) for n in range(rows)], pa.binary(3)),
        }
    )


@pytest.mark.parametrize("at_once", [1, 2, 7, 64])
def test_pieces_give_the_bytes_of_the_whole(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    rows = batch_of(150)
    framed, records = encode.encode_framed(rows), encode.encode_records(rows)
    monkeypatch.setattr(encode, "_ROWS_AT_ONCE", at_once)
    assert encode.encode_framed(rows) == framed
    assert encode.encode_records(rows) == records
    assert encode.encode_framed(rows.slice(10, 90)) == encode.encode_framed(pa.concat_batches([rows.slice(10, 90)]))


def test_a_few_rows_have_the_bytes_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = batch_of(40).append_column("day", pa.array(range(40), pa.date32()))
    rows = rows.append_column("at", pa.array([None, *range(39)], pa.timestamp("us")))
    rows = rows.append_column("half", pa.array([n / 7 for n in range(40)], pa.float32()))
    inner = pa.struct({"a": pa.int64(), "b": pa.bool_(), "c": pa.string()})
    records = [[{"a": n, "b": None, "c": f"é{n}"}] * (n % 3) for n in range(40)]
    left = rows.drop_columns(["price", "pair"]).append_column("records", pa.array(records, pa.list_(inner)))
    left = left.append_column("whole", pa.array([{"a": n, "b": bytes([n])} for n in range(40)]))
    assert encode_few(rows.select(["price"])) is None and encode_few(rows.select(["pair"])) is None
    for start, count in ((0, 1), (3, 2), (7, 33), (5, 0)):
        piece = left.slice(start, count)
        few = encode_few(piece)
        with monkeypatch.context() as patched:
            patched.setattr(encode, "encode_few", lambda _: None)
            assert few == encode.encode_records(piece)
    assert encode_few(pa.record_batch({"text": ["x" * 10_000]})) is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.struct([pa.field("a", pa.int64(), nullable=False)])])
def test_a_value_that_lacks_is_told_of_few_rows_too(kind: pa.DataType) -> None:
    value = [None] if kind == pa.int64() else [{"a": None}]
    schema = pa.schema([pa.field("number", kind, nullable=kind != pa.int64())])
    with pytest.raises(SchemaError, match="is null in 1 row,"):
        encode.encode_records(pa.record_batch([pa.array(value, kind)], schema))


def test_memory_is_that_of_the_bytes_and_of_one_piece() -> None:
    rows = pa.record_batch({"id": pa.array(np.arange(200_000)), "text": pa.array(["abcdefghij"] * 200_000)})
    tracemalloc.start()
    try:
        size = len(encode.encode_framed(rows))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * size + (16 << 20)
