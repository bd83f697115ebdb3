"""Memory of a rewrite is bounded by its tasks, not by the group: nearly three times the rows, decoded far more than it
may take, has the same peak. What a sort may hold is made small, so that both tables are larger."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tests.tables.iceberg.lake import Lake

pytestmark = pytest.mark.slow

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "k", LongType()), NestedField(3, "text", StringType()))
EACH = 50_000
"""Rows of a file: 12 MB decoded."""
ENCODE = {"rewrite-all": True, "lakebed.rewrite.concat-min-row-group-bytes": 1 << 40}
WAYS: dict[str, dict[str, Any]] = {
    "bin-pack": ENCODE, "position-deletes": ENCODE, "equality-deletes": ENCODE,
    "sort": {**ENCODE, "sort-order": "k"},
    "z-order": {**ENCODE, "sort-order": "zorder(k, id)"},
}  # fmt: skip
SMALL, LARGE = 8, 22
"""Files: 100 and 260 MB decoded, more than sorts hold."""
ROOM = 60
"""MiB that the large one may take more, which the allocator keeps: less than half of what it has more."""


def some(number: int) -> pa.Table:
    """Text that takes much memory and little disk."""
    ids = np.arange(number * EACH, (number + 1) * EACH)
    keys = np.random.default_rng(number).integers(0, 1 << 40, EACH)
    texts = pa.array(["x" * 212 + str(n) for n in range(100)]).take(pa.array(keys % 100))
    return pa.table({"id": ids, "k": keys, "text": texts})


def lake(folder: Path, files: int) -> Lake:
    properties = {"write.parquet.row-group-size-bytes": str(4 << 20)}
    made = Lake(folder, SCHEMA, properties=properties)
    for number in range(files):
        made.append(some(number))
    return made


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("memory")
    for files in (SMALL, LARGE):
        lake(folder / str(files), files)
    return {files: folder / str(files) for files in (SMALL, LARGE)}


def peak(table: Path, threads: int, options: dict[str, Any]) -> int:
    """The peak memory of a rewrite, in MiB."""
    module = "tests.tables.iceberg.memory"
    command = [sys.executable, "-m", module, str(table), str(threads), json.dumps(options)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    assert found["groups"] == 1 and found["peak"] < 700, found
    return int(found["peak"] - found["before"])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
def test_the_peak_does_not_grow_with_the_group(tables: dict[int, Path], way: str) -> None:
    peaks = {}
    for files, folder in tables.items():
        made = Lake.at(str(folder))
        size = sum(task.data.size for task in made.tasks)
        if way == "position-deletes":
            made.delete_positions({task.data.path: list(range(0, task.data.record_count, 20)) for task in made.tasks})
        if way == "equality-deletes":
            made.delete_equal([{"id": id} for id in range(7, files * EACH, 20)])
        options = {**WAYS[way], "target-file-size-bytes": max(size // 4, 1 << 20)}
        peaks[files] = peak(folder, 1 if way == "sort" else 2, options)
    assert peaks[LARGE] < peaks[SMALL] + ROOM, peaks
