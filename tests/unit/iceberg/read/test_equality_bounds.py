"""Equality deletes that bounds rule out for a data file are not read for it, and the rows are the same."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakebed.formats.iceberg.read import equality_bounds
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "x", DoubleType())
)  # fmt: skip


def row(number: int | None) -> dict[str, Any]:
    return {"id": number, "name": None if number is None else f"n{number:05d}", "x": float(number or 0)}


def lake(tmp_path: Path) -> Lake:
    """Three data files: 0-9, 100-109 and null, 200-209."""
    made = Lake(tmp_path / "t", SCHEMA)
    made.append([row(n) for n in range(10)])
    made.append([*(row(n) for n in range(100, 110)), row(None)])
    made.append([row(n) for n in range(200, 210)])
    return made


def counts(made: Lake) -> dict[int, int]:
    """How many deletes each data file has, in the order of the commits."""
    ordered = sorted(made.tasks, key=lambda task: task.data.sequence_number or 0)
    return {place: len(task.deletes) for place, task in enumerate(ordered)}


@pytest.mark.parametrize("column", ["id", "name"])
def test_only_the_files_that_can_hold_a_key_have_the_delete(column: str, tmp_path: Path) -> None:
    made = lake(tmp_path)
    made.delete_equal([{column: row(n)[column]} for n in (102, 104)])
    assert counts(made) == {0: 0, 1: 1, 2: 0}
    ids = sorted(made.table.read(where="id >= 0").read_all()["id"].to_pylist())
    assert ids == [*range(10), 100, 101, 103, 105, 106, 107, 108, 109, *range(200, 210)]


def test_nulls_of_both_keep_a_delete(tmp_path: Path) -> None:
    made = lake(tmp_path)
    made.delete_equal([{"id": None}, {"id": 5}])
    assert counts(made) == {0: 1, 1: 1, 2: 0}
    assert made.table.read().read_all().num_rows == 29
    assert None not in made.table.read().read_all()["id"].to_pylist()


def test_floats_rule_nothing_out(tmp_path: Path) -> None:
    made = lake(tmp_path)
    made.append([{"id": 7, "name": "nan", "x": float("nan")}])
    made.delete_equal([{"x": float("nan")}, {"x": 900.0}])
    assert counts(made) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert "nan" not in made.table.read().read_all()["name"].to_pylist()


def test_any_column_apart_is_enough(tmp_path: Path) -> None:
    made = lake(tmp_path)
    made.delete_equal([{"id": 5, "name": "zzz"}])
    assert counts(made) == {0: 0, 1: 0, 2: 0}
    assert made.table.read().read_all().num_rows == 31


def test_a_few_rows_less_are_not_worth_a_set_of_their_own(tmp_path: Path) -> None:
    made = lake(tmp_path)
    made.delete_equal([{"id": n} for n in (1, 2, 3, 6, 7, 8)])
    made.delete_equal([{"id": 4}, {"id": 300}])
    made.delete_equal([{"id": 205}])
    assert counts(made) == {0: 3, 1: 1, 2: 3}  # of nine rows one stays out, then seven, then six
    assert made.table.read().read_all().num_rows == 31 - 8


def test_very_many_deletes_are_left_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality_bounds, "_MOST", 1)
    made = lake(tmp_path)
    made.delete_equal([{"id": 1}])
    assert counts(made) == {0: 1, 1: 0, 2: 0}
    made.delete_equal([{"id": 2}])
    assert counts(made) == {0: 2, 1: 2, 2: 2}
    assert made.table.read().read_all().num_rows == 29
