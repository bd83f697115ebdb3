"""Floats as keys: NaN is one key, whatever its bits, and the two zeros of one bucket are one."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.merge import key_runs
from lakebed.formats.paimon.merge.sorted_runs import merge_sorted

NAN = float("nan")
OTHER_NAN = -np.frombuffer(np.uint64(0x7FF8000000000001).tobytes(), np.float64)[0]


def table_of(place: Path, kind: pa.DataType, bucket: str = "1", **options: str) -> lakebed.Table:
    schema = pa.schema([pa.field("k", kind, False), ("v", pa.string())])
    return lakebed.create(str(place), "paimon", schema, primary_key=["k"], options={"bucket": bucket, **options})


def put(table: Any, *rows: tuple[float, str], mode: str = "append") -> None:
    kind = table.schema.field("k").type
    keys = pa.array(np.array([key for key, _ in rows]), pa.float64()).cast(kind)
    table.write(pa.table([keys, [value for _, value in rows]], schema=table.schema), mode=mode)


def found(table: Any) -> dict[str, str]:
    rows = table.read().read_all().to_pylist()
    made = {str(row["k"]): row["v"] for row in rows}
    assert len(made) == len(rows)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("bucket", ["1", "4", "-1", "-2"])
def test_nan_is_one_key(tmp_path: Path, kind: pa.DataType, bucket: str) -> None:
    table = table_of(tmp_path / "d.db" / "t", kind, bucket)
    put(table, (NAN, "a"), (1.0, "one"), (math.inf, "inf"))
    put(table, (5.0, "five"), (OTHER_NAN, "b"), (NAN, "c"))
    put(table, (2.0, "two"), (math.inf, "inf2"))
    if bucket == "-2":
        table.rewrite()
    assert found(table) == {"nan": "c", "1.0": "one", "5.0": "five", "2.0": "two", "inf": "inf2"}
    put(table, (OTHER_NAN, ""), mode="delete")
    if bucket == "-2":
        table.rewrite()
    assert found(table) == {"1.0": "one", "5.0": "five", "2.0": "two", "inf": "inf2"}


def test_the_zeros_of_a_bucket_are_one_key(tmp_path: Path) -> None:
    table = table_of(tmp_path / "d.db" / "t", pa.float64())
    put(table, (0.0, "plus"), (-0.0, "minus"))
    assert found(table) == {"-0.0": "minus"}
    put(table, (0.0, "plus"))
    assert found(table) == {"0.0": "plus"}


def test_nan_is_merged_in_every_engine(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.float64(), False), ("n", pa.int64())])
    table = lakebed.create(
        str(tmp_path / "d.db" / "t"), "paimon", schema, primary_key=["k"],
        options={"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    )  # fmt: skip
    for keys in ([NAN, 1.0, NAN], [NAN, 1.0]):
        table.write(pa.table([keys, [1] * len(keys)], schema=schema))
    assert {str(row["k"]): row["n"] for row in table.read().read_all().to_pylist()} == {"nan": 3, "1.0": 2}


def test_where_finds_rows_beside_nan(tmp_path: Path) -> None:
    table = table_of(tmp_path / "d.db" / "t", pa.float64(), **{"file.format": "avro"})
    put(table, (1.0, "one"), (9.0, "nine"), (NAN, "nan"))
    assert [row["v"] for row in table.read(where="k > 5").read_all().to_pylist()] == ["nine"]
    assert [row["v"] for row in table.read(where="isnan(k)").read_all().to_pylist()] == ["nan"]


def test_runs_of_nan_and_zeros() -> None:
    runs = key_runs([pa.array([-1.0, -0.0, 0.0, 1.0, NAN, OTHER_NAN])])
    assert runs.starts.tolist() == [0, 1, 3, 4]


def test_sorted_runs_come_together_at_nan() -> None:
    def run(*keys: float) -> Any:
        return iter([pa.record_batch({"k": [key], "n": [0]}) for key in keys])

    pieces = list(merge_sorted([run(1.0, 3.0, NAN), run(2.0, NAN), run(NAN, NAN)], ["k"]))
    keys = [sorted(str(key) for key in piece.column("k").to_pylist()) for piece in pieces]
    assert keys[-1] == ["nan"] * 4
    assert [key for piece in keys[:-1] for key in piece] == ["1.0", "2.0", "3.0"]
