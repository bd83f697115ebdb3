"""Spark writes Paimon tables without buckets, in batch, through the DataFrame writer and in streams.

The bytes of a partition decide its number of files at any parallelism, and the input is computed once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
import lakebed.spark
from lakebed.formats.paimon.layout import STAGING_FOLDER
from lakebed.formats.paimon.write.file_maker import greatest_size
from lakebed.kernel.sizing import finalize
from lakebed.kernel.sizing.file_counts import in_bounds
from lakebed.model.upkeep import RewriteResult
from tests.spark.tables import ORDERS, as_bag

TARGET = 80_000
ORDERS_SQL = """
    select id, if(id % 10 < 7, 'd', concat('s', id % 30)) as dt, cast(id * 7919 % 99991 as decimal(10,2)) as amount,
           cast(timestamp_seconds(id * 104729 % 1000003) as timestamp_ntz) as at
"""


@pytest.fixture
def on_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little data is written by tasks of the session too, as otherwise only much data on a cluster is."""
    monkeypatch.setattr(finalize, "HERE_BYTES", 0)
    monkeypatch.setattr(finalize, "nearest", lambda engine: engine)


def table_of(folder: Path) -> lakebed.Table:
    return lakebed.create(folder, "paimon", ORDERS, (), ["dt"], {"target-file-size": str(TARGET)})


def some_orders(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    spark.range(0, count, 1, partitions).createOrReplaceTempView("numbers")
    return spark.sql(f"{ORDERS_SQL} from numbers")


def counts(table: lakebed.Table) -> dict[str, int]:
    """The number of files of each partition. Checks that it is right and that nothing staged is left."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for path in Path(table.location).glob("dt=*/bucket-0/data-*"):
        sizes[path.parent.parent.name].append(path.stat().st_size)
    for some in sizes.values():
        assert in_bounds(len(some), sum(some), TARGET, greatest_size(TARGET)), some
    assert table.store.list(STAGING_FOLDER).files == ()
    return {partition: len(some) for partition, some in sizes.items()}


@pytest.mark.usefixtures("on_tasks")
@pytest.mark.parametrize("parallelism", [2, 4, 8, 16])
def test_files_follow_the_bytes_at_any_parallelism(spark: SparkSession, tmp_path: Path, parallelism: int) -> None:
    table, frame = table_of(tmp_path / "t"), some_orders(spark, 90_000, parallelism + 3)
    lakebed.spark.write(frame, table.location, options={"sink.parallelism": parallelism})
    found = counts(table)
    assert found.pop("dt=d") > 3
    assert set(found.values()) == {1}
    assert as_bag(table.read()) == as_bag(frame.toArrow())


def test_the_dataframe_writer_keeps_the_rule_too(spark: SparkSession, tmp_path: Path) -> None:
    table, frame = table_of(tmp_path / "t"), some_orders(spark, 60_000, 6)
    frame.write.format("lakebed").mode("append").save(table.location)
    assert counts(table)["dt=d"] > 1
    assert as_bag(table.read()) == as_bag(frame.toArrow())
    some_orders(spark, 10, 2).where("dt = 'd'").write.format("paimon").mode("overwrite").save(table.location)
    assert sum(row["dt"] == "d" for row in table.read(["dt"]).read_all().to_pylist()) == 7


@pytest.mark.usefixtures("on_tasks")
def test_a_stream_keeps_the_rule_in_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    table, frame = table_of(tmp_path / "t"), some_orders(spark, 60_000, 6)
    frame.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    options = {"sink.parallelism": 5}
    query = lakebed.spark.write_stream(
        stream, table.location, str(tmp_path / "checkpoint"), options, trigger={"availableNow": True}
    )
    assert query.awaitTermination(300)
    assert len(table.history()) == 1
    assert counts(table)["dt=d"] > 1
    assert as_bag(table.read()) == as_bag(frame.toArrow())


@pytest.mark.usefixtures("on_tasks")
def test_the_input_is_computed_once(spark: SparkSession, tmp_path: Path) -> None:
    """So an input that would be different the second time is safe."""
    seen = str(tmp_path / "seen")

    def noted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open(seen, "a") as file:
            file.write("x")
        yield from batches

    table, frame = table_of(tmp_path / "t"), some_orders(spark, 30_000, 3)
    lakebed.spark.write(frame.mapInArrow(noted, frame.schema), table.location, options={"sink.parallelism": 4})
    assert Path(seen).read_text() == "xxx"
    assert table.read(["id"]).read_all().num_rows == 30_000
    assert counts(table)["dt=d"] > 1


def test_a_write_whose_task_fails_shows_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table, frame = table_of(tmp_path / "t"), some_orders(spark, 3000, 3)
    broken = frame.selectExpr("if(id = 2500, raise_error('no'), id) as id", "dt", "amount", "at")
    with pytest.raises(Exception, match="no"):
        lakebed.spark.write(broken, table.location)
    assert table.history() == []
    assert list(Path(table.location).rglob("data-*")) == []


def test_many_tables_are_compacted_as_one_job(spark: SparkSession, tmp_path: Path) -> None:
    maps: list[list[tuple[str, str]]] = []

    class Counting(lakebed.spark.SparkEngine):
        def map(self, fn: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
            given = [*tasks]
            maps.append([(task.table.database, task.table.table) for _, task in given])
            return super().map(fn, given)

    schema = pa.schema([("id", pa.int64())])
    names = ("a.db/s", "a.db/t", "b.db/t")
    for place, name in enumerate(names):
        table = lakebed.create(tmp_path / name, "paimon", schema, options={"compaction.min.file-num": "2"})
        for number in range(place + 2):
            table.write(pa.table({"id": [number]}, schema=schema))
    results = lakebed.together(
        names, lambda name, engine: lakebed.open(tmp_path / name).rewrite(engine=engine), Counting(spark)
    )
    assert [sorted(tables) for tables in maps] == [[("a", "s"), ("a", "t"), ("b", "t")]]
    for place, (name, result) in enumerate(zip(names, results, strict=True)):
        assert isinstance(result, RewriteResult) and (result.files_before, result.files_after) == (place + 2, 1)
        assert lakebed.open(tmp_path / name).read().read_all()["id"].to_pylist() == [*range(place + 2)]
