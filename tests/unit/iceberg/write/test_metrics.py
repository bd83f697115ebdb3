"""Metrics modes, truncated bounds, and metrics of joined files."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DoubleType, LongType, NestedField, StringType

import lakebed
from lakebed.errors import OptionError
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import Metrics
from lakebed.formats.iceberg.write.statistics.leaves import leaves_of
from lakebed.formats.iceberg.write.statistics.metrics import merged, nan_counts, parquet_metrics
from lakebed.formats.iceberg.write.statistics.modes import metrics_modes
from tests.tables.iceberg.create import make_table

FIELDS = (
    NestedField(1, "id", LongType()),
    NestedField(2, "text", StringType()),
    NestedField(3, "raw", BinaryType()),
    NestedField(4, "real", DoubleType()),
)
LEAVES = leaves_of(FIELDS)


def figures(properties: Mapping[str, str] = {}, sorted_ids: tuple[int, ...] = (), **columns: list[Any]) -> Metrics:
    count = len(next(iter(columns.values())))
    data = {field.name: columns.get(field.name, [None] * count) for field in FIELDS}
    table = pa.table(data, arrow_schema(FIELDS))
    out = io.BytesIO()
    pq.write_table(table, out)
    nans: dict[int, int] = {}
    nan_counts(table, LEAVES, nans)
    return parquet_metrics(pq.read_metadata(out), LEAVES, metrics_modes(LEAVES, properties, sorted_ids), nans)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("a" * 16, b"a" * 16, b"a" * 16),
        ("a" * 17, b"a" * 16, b"a" * 15 + b"b"),
        ("é" * 20, "é".encode() * 16, "é".encode() * 15 + "ê".encode()),
        ("a" * 15 + "\U0010ffff" * 3, ("a" * 15 + "\U0010ffff").encode(), b"a" * 14 + b"b"),
        ("a" * 15 + "\ud7ff" + "x", ("a" * 15 + "\ud7ff").encode(), ("a" * 15 + "\ue000").encode()),
        ("\U0010ffff" * 17, ("\U0010ffff" * 16).encode(), None),
    ],
)
def test_texts_are_cut_by_characters_and_upper_bounds_rounded_up(text: str, low: bytes, high: bytes | None) -> None:
    found = figures(text=[text])
    assert (found.lower_bounds[2], found.upper_bounds.get(2)) == (low, high)


def test_bytes_are_cut_too() -> None:
    found = figures(raw=[b"\x01" * 15 + b"\xff" * 4])
    assert found.lower_bounds[3] == b"\x01" * 15 + b"\xff" and found.upper_bounds[3] == b"\x01" * 14 + b"\x02"
    assert 3 not in figures(raw=[b"\xff" * 20]).upper_bounds


def test_nan_is_counted_and_outside_of_bounds() -> None:
    found = figures(real=[float("nan"), 2.0, None, 1.0])
    assert (found.nan_value_counts, found.null_value_counts[4]) == ({4: 1}, 1)
    assert (found.lower_bounds[4], found.upper_bounds[4]) == (struct.pack("<d", 1), struct.pack("<d", 2))
    assert 4 not in figures(real=[float("nan")]).lower_bounds


def test_values_too_long_for_a_footer_have_no_bounds() -> None:
    assert 2 not in figures(text=["a", "b" * 10_000]).lower_bounds


def test_modes_are_those_of_the_table() -> None:
    given = {
        "write.metadata.metrics.default": "counts", "write.metadata.metrics.column.text": "full",
        "write.metadata.metrics.column.id": "none",
    }  # fmt: skip
    found = figures(given, (4,), id=[1], text=["x" * 40], raw=[b"r"], real=[1.0])
    assert set(found.value_counts) == {2, 3, 4} and set(found.column_sizes) == {1, 2, 3, 4}
    assert set(found.lower_bounds) == {2, 4}, "a column of the sort order has bounds"
    assert found.upper_bounds[2] == b"x" * 40


def test_a_mode_that_cannot_be_names_its_property() -> None:
    with pytest.raises(OptionError) as refused:
        metrics_modes(LEAVES, {"write.metadata.metrics.column.raw": "truncate(0)"})
    assert refused.value.key == "write.metadata.metrics.column.raw"


def test_only_the_first_hundred_columns_have_figures_that_nobody_asked_for() -> None:
    wide = leaves_of([NestedField(n, f"c{n}", LongType()) for n in range(1, 151)])
    modes = metrics_modes(wide, {}, (150,))
    assert [id for id, mode in modes.items() if mode.counts] == [*range(1, 101), 150]


def test_figures_of_joined_files_are_exact() -> None:
    one = figures(id=[-5, 300], text=["b", None], real=[float("nan"), float("nan")])
    other = figures(id=[7, 8], text=[None, None], real=[-0.0, 2.0])
    types = {leaf.id: leaf.type for leaf in LEAVES}
    found = merged([one, other], types)
    assert found.value_counts == dict.fromkeys((1, 2, 3, 4), 4) and found.null_value_counts == {1: 0, 2: 3, 3: 4, 4: 0}
    assert found.nan_value_counts == {4: 2}
    assert (found.lower_bounds[1], found.upper_bounds[1]) == (struct.pack("<q", -5), struct.pack("<q", 300))
    assert found.lower_bounds[2] == found.upper_bounds[2] == b"b", "a file of nulls alone does not count"
    assert found.upper_bounds[4] == struct.pack("<d", 2) and 3 not in found.lower_bounds
    bare = merged([one, Metrics()], types)
    assert bare == Metrics(), "what one file lacks is not known of both"


def test_bounds_of_a_widened_column_are_compared_by_value() -> None:
    old = Metrics(value_counts={1: 1}, lower_bounds={1: struct.pack("<i", -2)}, upper_bounds={1: struct.pack("<i", 9)})
    new = Metrics(
        value_counts={1: 1}, lower_bounds={1: struct.pack("<q", 1)}, upper_bounds={1: struct.pack("<q", 2**40)}
    )
    found = merged([old, new], {1: LongType()})
    assert found.lower_bounds[1] == struct.pack("<i", -2) and found.upper_bounds[1] == struct.pack("<q", 2**40)


def test_bloom_filters_are_those_that_the_table_asks_for(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "other", LongType()))
    asked = {"write.parquet.bloom-filter-enabled.column.id": "true"}
    sizes = []
    two = asked | {"write.parquet.bloom-filter-enabled.column.other": "true"}
    for name, properties in (("without", {}), ("one", asked), ("two", two)):
        make_table(tmp_path / name, schema, properties=properties).write(pa.table({"id": [1, 2], "other": [3, 4]}))
        (file,) = (tmp_path / name / "data").rglob("*.parquet")
        sizes.append(file.stat().st_size)
    assert sizes[0] < sizes[1] < sizes[2], "a filter a column"
    for share in ("none", "1.5"):
        wrong = {**asked, "write.parquet.bloom-filter-fpp.column.id": share}
        with pytest.raises(OptionError) as refused:
            make_table(tmp_path / share, schema, properties=wrong).write(pa.table({"id": [1]}))
        assert refused.value.key == "write.parquet.bloom-filter-fpp.column.id"


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_bounds_have_all_digits_of_a_decimal(format: str, tmp_path: Path) -> None:
    """Python's decimals round to 28 digits in most of what is done to them."""
    schema = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(38, 18))])
    most = Decimal("99999999999999999999.999999999999999999")
    least = most.copy_negate()
    table = lakebed.create(tmp_path / "t", "iceberg", schema, options={"write.format.default": format})
    table.write(pa.table({"id": [1], "amount": [most]}, schema))
    table.write(pa.table({"id": [2], "amount": [least]}, schema))
    found = [file["readable_metrics"]["amount"] for file in table.metadata("files").read_all().to_pylist()]
    assert {(each["lower_bound"], each["upper_bound"]) for each in found} == {(most, most), (least, least)}
    for number, amount in ((1, most), (2, least)):
        assert table.read(["id"], where=f"amount = {amount}").read_all()["id"].to_pylist() == [number]
