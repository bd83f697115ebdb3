"""Keys encoded, hashed and routed as by the reference engine's own classes: every line of hash_vectors.jsonl."""

import datetime
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakebed.formats.paimon.codec.binary_row import decode_row, encode_row, with_arity
from lakebed.formats.paimon.codec.row_columns import encode_rows, hash_rows
from lakebed.formats.paimon.codec.types import DataType, arrow_type, timestamp_unit, type_from_json
from lakebed.formats.paimon.write.routing import absolute_mod, start_channels
from tests.golden import HERE

VECTORS = [json.loads(line) for line in (HERE / "paimon" / "hash_vectors.jsonl").read_text("utf-8").splitlines()]


def plain_value(text: Any, kind: DataType) -> Any:
    """A value of a vector as a plain value of the codec."""
    if text is None:
        return None
    match kind.root:
        case "FLOAT" | "DOUBLE":
            return float(text)
        case "DECIMAL":
            return Decimal(text)
        case "DATE":
            return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days
        case "BINARY" | "VARBINARY":
            return bytes.fromhex(text[2:])
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            moment, fraction = text.rstrip("Z").split(".")
            seconds = (datetime.datetime.fromisoformat(moment) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(
                0, 1
            )
            return (seconds * 10**9 + int(fraction)) // {"ms": 10**6, "us": 10**3, "ns": 1}[timestamp_unit(kind)]
    return text


def column(value: Any, kind: DataType) -> pa.Array:
    """Three rows (the value, null, the value) sliced from a longer array, so that offsets matter."""
    arrow = arrow_type(kind)
    stored = arrow
    if pa.types.is_temporal(arrow):
        stored = pa.int32() if arrow.bit_width == 32 else pa.int64()
    return pa.array([None, value, None, value, None], stored).cast(arrow).slice(1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{','.join(v['types'])[:30]}={str(v['values'])[:30]}")
def test_vector(vector: dict[str, Any]) -> None:
    types = [type_from_json(text) for text in vector["types"]]
    assert [str(kind) for kind in types] == vector["types"]
    values = [plain_value(value, kind) for value, kind in zip(vector["values"], types, strict=True)]

    row = encode_row(values, types)
    assert row.hex() == vector["binaryrow"]
    assert with_arity(row, len(types)).hex() == vector["serialized"]
    assert repr(decode_row(row, types)) == repr(tuple(values))

    columns = [column(value, kind) for value, kind in zip(values, types, strict=True)]
    rows = encode_rows(columns, types, 3)
    assert rows[0] == rows[2] == row
    assert rows[1] == encode_row([None] * len(types), types)
    hashes = hash_rows(columns, types, 3)
    assert hashes[0] == hashes[2] == vector["hash"]

    for count, bucket in vector["bucket"].items():
        assert absolute_mod(hashes[:1], int(count))[0] == bucket
    for name, channel in vector["channel_select_as_partition"].items():
        channels, bucket = (int(part.partition("=")[2]) for part in name.split(","))
        assert (start_channels(hashes[:1], channels)[0] + bucket) % channels == channel


def test_long_columns_hash_as_single_rows() -> None:
    types = [type_from_json(text) for text in ("STRING", "BIGINT", "DECIMAL(20, 4)", "TIMESTAMP(6)")]
    rng = np.random.default_rng(7)
    texts = ["x" * int(n) for n in rng.integers(0, 40, 5000)]
    numbers = rng.integers(-(2**62), 2**62, 5000)
    decimals = [Decimal(int(n)).scaleb(-4) for n in rng.integers(-(2**62), 2**62, 5000)]
    columns = [
        pa.array([None if i % 7 == 0 else text for i, text in enumerate(texts)]),
        pa.array(numbers),
        pa.array([None if i % 5 == 0 else d for i, d in enumerate(decimals)], pa.decimal128(20, 4)),
        pa.array(numbers // 2**12, pa.int64()).cast(pa.timestamp("us")),
    ]
    rows = encode_rows(columns, types)
    for i in range(0, 5000, 61):
        values = [columns[0][i].as_py(), columns[1][i].as_py(), columns[2][i].as_py(), columns[3][i].value]
        assert rows[i] == encode_row(values, types)
