"""A condition on the bucket key opens the files of one bucket, and never leaves out a row that it keeps."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.kernel.predicates.where import parse_where

NUMBERS = [*range(-20, 20), -(2**63), 2**63 - 1, 2**53, 2**53 + 1, 2**53 + 2]


def made(folder: Path, kind: pa.DataType, values: list[object], key: bool, **options: str) -> Table:
    schema = pa.schema([pa.field("k", kind), pa.field("v", pa.string())])
    named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    own = {"bucket": "7", "metadata.stats-mode": "none", **({} if key else {"bucket-key": "k"}), **named}
    table = lakebed.create(folder, "paimon", schema, ["k"] if key else [], options=own)
    table.write(pa.table({"k": pa.array(values, kind), "v": [str(value) for value in values]}, schema))
    return table


def files(table: Table, where: str) -> int:
    return sum(len(split.files) for split in table.plan_read(where=where).splits)


@pytest.mark.parametrize("options", [{}, {"bucket__function_type": "mod"}])
def test_an_equality_opens_one_bucket(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path / "t", pa.int64(), NUMBERS, key=False, **options)
    assert files(table, "v <> 'x'") == 7
    for number in range(-20, 20):
        assert table.read(where=f"k = {number}").read_all()["k"].to_pylist() == [number]
        assert files(table, f"k = {number}") == 1
    assert files(table, "k in (1, 2)") <= 2
    assert files(table, "k = 1 or v = '3'") == 7
    assert files(table, "k <> 1") == files(table, "not k = 1") == files(table, "k is null") == 7


def test_integers_that_equal_one_number_of_floating_point_are_all_found(tmp_path: Path) -> None:
    table = made(tmp_path / "t", pa.int64(), NUMBERS, key=False)
    for where in ("k = 9007199254740993", "k = 9.007199254740994e15", "k = 9007199254740992", "k = 1.5", "k = 1.0"):
        whole = table.read().read_all()
        wanted = whole.filter(parse_where(where, whole.schema).to_arrow())["k"].to_pylist()
        assert sorted(table.read(where=where).read_all()["k"].to_pylist()) == sorted(wanted), where


@pytest.mark.parametrize(
    ("kind", "values", "literal"),
    [
        (pa.string(), ["", "a", "é" * 9, "b" * 40], "'{}'"),
        (pa.date32(), [0, 19723], "date '{}'"),
        (pa.int16(), [-5, 5], "{}"),
    ],
)
def test_texts_and_dates_of_a_primary_key(
    tmp_path: Path, kind: pa.DataType, values: list[object], literal: str
) -> None:
    table = made(tmp_path / "t", kind, values, key=True)
    for value in pa.array(values, kind).to_pylist():
        where = "k = " + literal.format(value)
        assert table.read(where=where).read_all()["k"].to_pylist() == [value]
        assert files(table, where) == 1


def test_bytes_of_a_key(tmp_path: Path) -> None:
    table = made(tmp_path / "t", pa.binary(), [b"", b"a", b"b" * 20], key=True)
    assert table.read(where=f"k = X'{b'b'.hex() * 20}'").read_all()["k"].to_pylist() == [b"b" * 20]
    assert files(table, "k = X'61'") == 1


def test_dynamic_buckets_say_nothing(tmp_path: Path) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "1"}
    table = made(tmp_path / "t", pa.int64(), [1, 2, 3], key=True, **options)
    for number in (1, 2, 3):
        assert table.read(where=f"k = {number}").read_all()["k"].to_pylist() == [number]


def test_both_zeros_of_floating_point_are_found(tmp_path: Path) -> None:
    table = made(tmp_path / "t", pa.float64(), [0.0, -0.0, 1.0], key=False)
    assert len(table.read(where="k = 0.0").read_all()) == 2
