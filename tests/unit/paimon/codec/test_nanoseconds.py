"""Timestamps of nanoseconds in Parquet files, and other times beside them."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UnsupportedError

FAR = [-62_135_596_800_000_000, 253_402_300_799_999_999, -1, 0, None]
"""Microseconds of the years 1 and 9999, and about 1970."""
NEAR = [1_700_000_000_123_456_789, -(2**62), -1, 0, None]


@pytest.mark.parametrize("columns", [None, ["us"], ["ns", "ms"], ["id"], ["utc", "ns"]])
def test_times_of_any_year_beside_nanoseconds(tmp_path: Path, columns: list[str] | None) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False), ("ns", pa.timestamp("ns")), ("us", pa.timestamp("us")),
            ("utc", pa.timestamp("us", "UTC")), ("ms", pa.timestamp("ms")),
        ]
    )  # fmt: skip
    millis = [None if n is None else n // 1000 for n in FAR]
    data = pa.table(
        [
            pa.array(range(5)), pa.array(NEAR, pa.timestamp("ns")), pa.array(FAR, pa.timestamp("us")),
            pa.array(FAR, pa.timestamp("us", "UTC")), pa.array(millis, pa.timestamp("ms")),
        ],
        schema=schema,
    )  # fmt: skip
    table = lakebed.create(tmp_path / "t", "paimon", schema, ["id"], options={"bucket": "1"})
    table.write(data)
    assert table.read(columns).read_all() == (data if columns is None else data.select(columns))
    table.write(data.slice(1, 3))
    found = table.read(columns).read_all()
    assert sorted(found.to_pydict()[found.column_names[0]], key=repr) == sorted(
        data.to_pydict()[found.column_names[0]], key=repr
    )


def test_far_times_inside_nested_columns_are_refused(tmp_path: Path) -> None:
    inner = pa.list_(pa.struct([("at", pa.timestamp("us"))]))
    schema = pa.schema([pa.field("id", pa.int64(), False), ("ns", pa.timestamp("ns")), ("all", inner)])
    table = lakebed.create(tmp_path / "t", "paimon", schema, ["id"], options={"bucket": "1"})
    near = pa.table(
        [pa.array([1]), pa.array([1], pa.timestamp("ns")), pa.array([[{"at": 5}, None]], inner)], schema=schema
    )
    table.write(near)
    assert table.read().read_all() == near
    far = near.set_column(2, schema.field("all"), pa.array([[{"at": FAR[1]}]], inner))
    with pytest.raises(UnsupportedError, match="a nested column of a Parquet file"):
        table.write(far)
