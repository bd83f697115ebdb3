"""Values for people and for JSON."""

from __future__ import annotations

import datetime
import decimal
import json

import pyarrow as pa
import pytest

from lakebed.cli import output
from lakebed.cli.demo import checksum
from lakebed.errors import OptionError


def test_json_has_a_form_for_every_arrow_value() -> None:
    noon = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
    rows = pa.table(
        {
            "dec": [decimal.Decimal("1.50")],
            "bin": [b"\x00\xff"],
            "utc": pa.array([noon], pa.timestamp("us", "UTC")),
            "plain": pa.array([noon.replace(tzinfo=None)], pa.timestamp("ms")),
            "date": [noon.date()],
            "list": [[1, None]],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "nan": [float("nan")],
            "infinite": [float("-inf")],
        }
    )
    assert json.loads(output.to_json(output.rows_of(rows))) == [
        {
            "dec": "1.50",
            "bin": "AP8=",
            "utc": "2024-01-01T12:00:00Z",
            "plain": "2024-01-01T12:00:00",
            "date": "2024-01-01",
            "list": [1, None],
            "map": [["k", 1]],
            "nan": "NaN",
            "infinite": "-Infinity",
        }
    ]


def test_times_beyond_pythons_years_become_text() -> None:
    far = pa.table({"t": pa.array([400_000_000_000_000_000], pa.timestamp("us"))})
    assert output.rows_of(far) == [{"t": "14645-06-30 15:06:40.000000"}]


def test_an_option_given_twice_or_without_value_is_refused() -> None:
    assert output.parse_options(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(OptionError):
            output.parse_options(wrong)


def test_positions_tell_snapshot_ids_from_instants() -> None:
    assert output.parse_position("17") == 17
    assert output.parse_position("20240101000000") == "20240101000000"
    assert output.parse_position("tag:v1") == "tag:v1"
    assert output.parse_position(None) is None


def test_the_checksum_says_nothing_of_order_but_of_every_value() -> None:
    rows = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    assert checksum(rows) == checksum(rows.take([2, 0, 1]))
    assert checksum(rows) != checksum(rows.set_column(1, "b", pa.array(["x", "", "z"])))
    assert checksum(rows) != checksum(rows.slice(1))
