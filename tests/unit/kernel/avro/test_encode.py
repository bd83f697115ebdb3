"""Avro records are laid out a few thousand at a time, and their bytes do not depend on how many."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakebed.kernel.avro import encode


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


def test_memory_is_that_of_the_bytes_and_of_one_piece() -> None:
    rows = pa.record_batch({"id": pa.array(np.arange(200_000)), "text": pa.array(["abcdefghij"] * 200_000)})
    tracemalloc.start()
    try:
        size = len(encode.encode_framed(rows))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * size + (16 << 20)
