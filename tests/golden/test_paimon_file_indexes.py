"""File indexes as Paimon's engine writes them: lakebed writes the same bytes, and reads from them what they hold.
tests/interop/jvm/FileIndexVectors.java prints `file_index_vectors.jsonl`; an interop test compares the two."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakebed.formats.paimon.codec.file_index.keys import KeyKind
from lakebed.formats.paimon.codec.file_index.kinds import BITMAP, IndexRule, read_index, takes
from lakebed.formats.paimon.codec.types import DataType, arrow_type, type_from_json

VECTORS = Path(__file__).parent / "paimon" / "file_index_vectors.jsonl"
LINES = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]


def column(values: list[Any], kind: DataType) -> pa.Array:
    """The values of a line as a column of their type."""
    arrow = arrow_type(kind)
    match kind.root:
        case "FLOAT" | "DOUBLE":
            bits = np.array([value or 0 for value in values], np.int32 if kind.root == "FLOAT" else np.int64)
            return pa.array(bits.view(f"f{bits.itemsize}"), mask=np.array([value is None for value in values]))
        case "DECIMAL":
            digits = pa.array(values, pa.int64())
            return pa.array(
                [
                    None if v is None else pa.scalar(v).cast(pa.decimal128(38, 0)).as_py().scaleb(-kind.scale)
                    for v in digits.to_pylist()
                ],
                arrow,
            )
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            per = {"ms": 10**6, "us": 10**3, "ns": 1}[arrow.unit]
            return pa.array([None if value is None else value // per for value in values], pa.int64()).cast(arrow)
        case "VARBINARY":
            return pa.array([None if value is None else bytes.fromhex(value) for value in values], arrow)
    integers = {"DATE": pa.int32(), "TIME": pa.int32()}.get(kind.root)
    return pa.array(values, integers).cast(arrow) if integers else pa.array(values, arrow)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['type']}-{line['index']}-{len(line['values'])}")
def test_vector(line: dict[str, Any]) -> None:
    kind, data = type_from_json(line["type"]), bytes.fromhex(line["bytes"])
    assert takes(line["index"], kind)
    values = column(line["values"], kind)
    rule = IndexRule(line["index"], line["options"])
    builder = rule.builder(kind)
    builder.add(values[:2])
    builder.add(values[2:])
    ours = builder.to_bytes()
    if line["index"] != BITMAP:  # the order of whose bitmaps is that of a hash table
        assert ours.hex() == line["bytes"]
    assert len(ours) == len(data)
    keys = KeyKind.of(kind)
    assert keys is not None
    present = sorted(set(keys.stored(keys.keys(values)).to_pylist()))
    in_order = [keys.read(key, 0)[0] for key in present]
    in_order.sort()
    for index in (read_index(line["index"], kind, data), read_index(line["index"], kind, ours)):
        assert index is not None
        assert all(index.may_equal([key]) for key in in_order)
        if index.rows is None:
            continue
        assert (index.rows, index.may_have_nulls) == (len(values), values.null_count > 0)
        assert index.may_have_values == bool(in_order)
        for number, key in enumerate(in_order):
            assert index.may_be_less(key, False) == (number > 0)
            assert index.may_be_greater(key, False) == (number < len(in_order) - 1)
            assert index.may_be_less(key, True) and index.may_be_greater(key, True)
            assert index.may_differ([key]) == (len(in_order) > 1)
            other = key + 1 if isinstance(key, int) else key + b"\0"
            assert index.may_equal([other]) == (other in in_order)
        assert not index.may_differ(in_order)
