"""Distinct combinations of columns."""

import pyarrow as pa
import pytest

from lakebed.kernel.keys.distinct import distinct

NULLS = pa.nulls(4, pa.list_(pa.int32()))


@pytest.mark.parametrize(
    ("columns", "codes"),
    [
        ([pa.array(["b", None, "b", "a"])], [0, 1, 0, 2]),
        ([pa.array([1, 1, 2, 1]), pa.array([0.5, 0.5, 0.5, None])], [0, 0, 2, 1]),
        ([NULLS], [0, 0, 0, 0]),
        ([NULLS, pa.array([3, 3, 4, 3])], [0, 0, 1, 0]),
    ],
)
def test_rows_with_the_same_values_have_one_code(columns: list[pa.Array], codes: list[int]) -> None:
    found, first = distinct(columns)
    assert found.tolist() == codes
    assert [codes.index(code) for code in range(max(codes) + 1)] == first.tolist()
