"""Meta columns that repeat are dictionaries on their way from one base file to the next: no value changes by that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.formats.hudi.write.place import StagingPlace
from lakebed.kernel.files.local import LocalStore
from lakebed.kernel.parquet.dictionaries import repeating_columns

GAPS = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("p", pa.string()), ("v", pa.int64()), ("w", pa.string())])
META = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name", "k", "v", "w"]


def rows(*values: tuple[str, int, int | None, str | None]) -> pa.Table:
    return pa.table([list(c) for c in zip(*((k, ts, "a", v, w) for k, ts, v, w in values), strict=True)], schema=SCHEMA)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_that_are_combined_with_older_ones_keep_their_meta_columns(tmp_path: Path, kind: str) -> None:
    table = lakebed.create(
        tmp_path / "t", "hudi", SCHEMA, primary_key=["k"], partition_by=["p"],
        options={
            "hoodie.datasource.write.table.type": kind, "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": GAPS, "hoodie.write.table.version": "6",
        },
    )  # fmt: skip
    table.write(rows(("k1", 1, 1, "x"), ("k2", 1, 2, "y"), ("k3", 1, 3, None)), mode="upsert")
    table.write(rows(("k1", 2, None, "z"), ("k4", 2, 4, "n")), mode="upsert")
    if kind == "MERGE_ON_READ":
        table.rewrite(options={"hoodie.compact.inline.max.delta.commits": 1})
    newest = max((tmp_path / "t" / "a").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    times = sorted(instant.time for instant in table.history())[:2]
    assert pq.read_table(newest, columns=META).sort_by("k").to_pylist() == [
        dict(zip(META, (times[new], "a", newest.name, *values), strict=True))
        for new, values in ((1, ("k1", 1, "z")), (0, ("k2", 2, "y")), (0, ("k3", 3, None)), (1, ("k4", 4, "n")))
    ]
    assert pq.read_schema(newest).field("_hoodie_commit_time").type == pa.string()


def test_nulls_are_no_values_that_repeat() -> None:
    numbers = np.arange(4000)
    table = pa.table(
        {"n": pa.array(numbers, mask=numbers % 4 == 0), "m": numbers % 7, "none": pa.nulls(4000, pa.int8())}
    )
    assert repeating_columns(table) == ["m", "none"]


def test_staged_bytes_of_this_machine_outlive_their_file(tmp_path: Path) -> None:
    scratch = LocalStore(str(tmp_path))
    place = StagingPlace(scratch, LocalStore(str(tmp_path / "s")), "w", local=True)
    path = place.path("f.arrow")
    with place.open_output(path) as file:
        file.write(bytes(range(200)))
    part = pa.py_buffer(place.read(path, 10, 20))
    place.delete_many([path])
    place.sweep()
    assert part.to_pybytes() == bytes(range(10, 30))
