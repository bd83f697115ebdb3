"""Record keys and partition paths of rows, as Hudi's key generators make them."""

import pyarrow as pa
import pytest

from lakebed.errors import SchemaError
from lakebed.formats.hudi.write.keys import RowKeys


def test_some_of_several_key_columns_may_be_null_or_empty() -> None:
    rows = pa.table({"a": ["x", None, ""], "b": pa.array([1, 2, None], pa.int32())})
    keys = RowKeys(("a", "b"), (), True, False, False)
    assert keys.keys(rows.slice(0, 2)).to_pylist() == ["a:x,b:1", "a:__null__,b:2"]
    with pytest.raises(SchemaError, match="without any value"):
        keys.keys(rows)


def test_encoded_partition_paths_have_special_letters_in_hex() -> None:
    rows = pa.table({"p": ["x é=1", "c/d%", "^{}[]", "a-b_c.d", None]})
    keys = RowKeys(("p",), ("p",), False, True, True)
    assert keys.partitions(rows).to_pylist() == [
        "p=x é%3D1", "p=c%2Fd%25", "p=%5E%7B}%5B%5D", "p=a-b_c.d", "p=__HIVE_DEFAULT_PARTITION__",
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["..", "../x", "x/..", "x/../y"])
def test_a_partition_path_cannot_leave_the_table(value: str) -> None:
    with pytest.raises(SchemaError, match="leave the table"):
        RowKeys(("p",), ("p",), False, False, False).partitions(pa.table({"p": [value]}))
