"""Iceberg tables rewritten by tasks of a Spark session: as many files per partition at any parallelism."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import SparkSession

import lakebed.spark
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "region", StringType()), NestedField(3, "n", LongType())
)
WEIGHTS = {"large": 24_000, "middle": 6_000, "small": 300}
TARGET = 100_000


def lake(folder: Path) -> Lake:
    """Three partitions of four files, with rows deleted from the first file of each. Each call makes the same bytes."""
    made = Lake(folder, SCHEMA, partition_by=[("region", "identity")])
    random = np.random.default_rng(7)
    for region, count in WEIGHTS.items():
        values = [random.integers(0, 1 << 60, count), [region] * count, np.arange(count)]
        table = pa.table(dict(zip(("id", "region", "n"), values, strict=True)))
        made.delete_positions({made.append(table, (region,), files=4)[0].path: [0, 7]})
    return made


def shape(found: Lake) -> dict[Any, int]:
    return dict(Counter(task.data.partition[0] for task in found.tasks))


@pytest.mark.parametrize("options", [{}, {"sort-order": "id"}], ids=["binpack", "sort"])
def test_files_a_partition_are_the_same_at_any_parallelism(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    given = {"rewrite-all": True, "target-file-size-bytes": TARGET, **options}
    here = lake(tmp_path / "here")
    before = here.rows()
    here.table.rewrite(options=given)
    for parallelism in (2, 4, 8):
        there = lake(tmp_path / str(parallelism))
        result = there.table.rewrite(engine=lakebed.spark.SparkEngine(spark, parallelism), options=given)
        assert there.rows() == before and len(before) == sum(WEIGHTS.values()) - 6
        assert shape(there) == shape(here) and result.files_after == len(there.tasks)
        assert not there.deletes and not there.orphans
        if options:
            for task in there.tasks:
                ids = pq.read_table(task.data.path, columns=["id"], partitioning=None)["id"].to_numpy()
                assert (ids[1:] >= ids[:-1]).all()
    assert shape(here)["large"] > 1 and shape(here)["small"] == 1
