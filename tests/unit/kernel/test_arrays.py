"""Columns of numpy arrays and of values, which are those that pyarrow makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakebed.kernel import arrays
from lakebed.kernel.arrays import from_numpy, from_values, to_numpy

NUMBERS = [
    np.arange(5),
    np.arange(20, dtype=np.int32)[::3],
    np.array([True] * 9 + [False]),
    np.array([1.5, float("nan"), -0.0]),
    np.array([1, 2], np.float16),
    np.empty(0, np.int8),
    np.empty(0, np.bool_),
]
VALUES = [
    ([1, None, -3], pa.int8()),
    ([2**63], pa.uint64()),
    ([True, None, False] * 4, pa.bool_()),
    (["é", None, ""], pa.string()),
    ([b"\0a", None, memoryview(b"b")], pa.binary()),
    ([["a", None], None, []], pa.list_(pa.string())),
    ([[1], [], [2, 3]], pa.list_(pa.int64())),
    ([1.5, None], pa.float64()),
    ([], pa.list_(pa.list_(pa.binary()))),
    ([None], pa.string()),
]


@pytest.mark.parametrize("values", NUMBERS, ids=lambda values: f"{values.dtype}-{len(values)}")
def test_numbers_are_the_same_there_and_back(values: np.ndarray[Any, Any]) -> None:
    column = from_numpy(values)
    column.validate(full=True)
    assert column.type == pa.array(values).type
    np.testing.assert_array_equal(column.to_numpy(zero_copy_only=False), values)
    for part in (column, column.slice(1), pa.chunked_array([column, column[:1]])):
        plain = to_numpy(part)
        assert plain.dtype == values.dtype
        np.testing.assert_array_equal(
            plain, pa.chunked_array([part]).to_numpy() if part is column else np.asarray(part)
        )
    nulls = np.arange(len(values)) % 2 == 0
    assert from_numpy(values, nulls).is_null().to_pylist() == nulls.tolist()


@pytest.mark.parametrize(
    ("values", "kind"), VALUES, ids=[f"{number}-{kind}" for number, (_, kind) in enumerate(VALUES)]
)
def test_values_are_those_that_pyarrow_makes(values: list[Any], kind: pa.DataType) -> None:
    column = from_values(values, kind)
    column.validate(full=True)
    assert column.equals(pa.array(values, kind))


def test_a_value_that_a_column_cannot_have_is_refused() -> None:
    with pytest.raises(OverflowError):
        from_values([300], pa.int8())
    with pytest.raises(OverflowError, match="do not fit one Arrow array"):
        from_values([range(2**31)], pa.list_(pa.null()))


OTHERS = [
    pa.array([1, None]),
    pa.array(["a", "b"]),
    pa.array([1, 2], pa.timestamp("us")),
    pa.chunked_array([], pa.int32()),
]


@pytest.mark.parametrize("column", OTHERS, ids=lambda column: str(column.type))
def test_other_columns_are_as_pyarrow_gives_them(column: Any) -> None:
    whole = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    np.testing.assert_array_equal(to_numpy(column), whole.to_numpy())


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.bool_(), pa.string(), pa.binary()], ids=str)
def test_few_values_are_the_array_that_many_are(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    value = {pa.string(): "é", pa.binary(): b"xy", pa.bool_(): True}.get(kind, 7)
    for count in (0, 1, 8, 9, 64):
        for missing in (0, 3, 1):
            values = [None if missing and n % missing == 0 else value for n in range(count)]
            few = from_values(values, kind)
            few.validate(full=True)
            with monkeypatch.context() as patched:
                patched.setattr(arrays, "_FEW", -1)
                assert few.equals(from_values(values, kind))
            assert few.to_pylist() == values


def test_few_values_of_another_type_are_told_as_many_are() -> None:
    for many in (1, 100):
        assert from_values([1.5] * many, pa.int64()).to_pylist() == [1] * many
        with pytest.raises(OverflowError):
            from_values([300] * many, pa.int8())
        with pytest.raises(TypeError):
            from_values([1j] * many, pa.float64())
