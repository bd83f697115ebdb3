"""Iceberg tables written from Spark: files by size at any number of tasks, changes by key."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField
from pyspark.sql import DataFrame, SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import OptionError, SchemaError
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.sizing import finalize
from lakebed.kernel.sizing.file_counts import in_bounds
from lakebed.spark.engine import SparkEngine
from lakebed.spark.sink import SinkInput, write_task
from lakebed.verbs.write import finalize_and_commit
from tests.spark.tables import as_bag
from tests.tables.iceberg.create import make_table

ORDERS = pa.schema(
    [pa.field("id", pa.int64(), False), pa.field("dt", pa.string(), False), ("amount", pa.decimal128(10, 2))]
)
TARGET = 150_000


def orders(folder: Path, version: int = 2, **options: object) -> IcebergTable:
    given = {"format-version": version, **options}
    table = lakebed.create(str(folder), "iceberg", ORDERS, ["id"], ["dt"], given)
    assert isinstance(table, IcebergTable)
    return table


def some_orders(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    """Nine in ten rows are in one partition."""
    spark.range(0, count, 1, partitions).createOrReplaceTempView("numbers")
    return spark.sql(
        "select id, if(pmod(xxhash64(id), 10) = 0, concat('d', pmod(id, 3)), 'd') as dt, "
        "cast(pmod(xxhash64(id, 1), 10000000) / 100 as decimal(10, 2)) as amount from numbers"
    )


def check_sizes(table: IcebergTable) -> dict[str, int]:
    """Check that each partition has a right number of files for its bytes, and return the numbers."""
    metadata = table.table_metadata
    sizes: dict[str, list[int]] = defaultdict(list)
    for task in scan_tasks(table.operations.files, metadata, metadata.head()):
        sizes[task.data.partition[0]].append(task.data.size)
    for found in sizes.values():
        assert in_bounds(len(found), sum(found), TARGET, int(1.4 * TARGET)), found
    assert not list(Path(table.location, "data").glob("lakebed-staging*"))
    return {partition: len(found) for partition, found in sizes.items()}


@pytest.mark.parametrize(("partitions", "parallelism"), [(5, 2), (9, 8)])
def test_files_a_bucket_follow_its_bytes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, parallelism: int
) -> None:
    monkeypatch.setattr(finalize, "HERE_BYTES", 0)  # tasks of the session write, as with much data on a cluster
    monkeypatch.setattr(finalize, "nearest", lambda engine: engine)
    table = orders(tmp_path / "t")
    frame = some_orders(spark, 120_000, partitions)
    options = {"sink.parallelism": parallelism, "target-file-size-bytes": TARGET}
    lakebed.spark.write(frame, table.location, options=options)
    counts = check_sizes(table)
    assert counts["d"] > 2 and [counts[f"d{n}"] for n in range(3)] == [1, 1, 1]
    assert as_bag(table.read()) == as_bag(frame.toArrow())


def test_much_data_is_written_here_where_the_tasks_would_run_on_this_machine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finalize, "HERE_BYTES", 0)
    monkeypatch.setattr(SparkEngine, "map", None)  # no job makes files
    table, frame = orders(tmp_path / "t"), some_orders(spark, 60_000, 3)
    lakebed.spark.write(frame, table.location, options={"target-file-size-bytes": TARGET})
    assert check_sizes(table)["d"] > 1
    assert as_bag(table.read()) == as_bag(frame.toArrow())


def test_the_dataframe_writer_keeps_the_rule_too(spark: SparkSession, tmp_path: Path) -> None:
    table = orders(tmp_path / "t", **{"write.target-file-size-bytes": TARGET})
    frame = some_orders(spark, 60_000, 6)
    frame.write.format("lakebed").mode("append").save(table.location)
    assert check_sizes(table)["d"] > 1
    assert as_bag(table.read()) == as_bag(frame.toArrow())
    spark.sql("select 1L as id, 'd0' as dt, cast(7 as decimal(10,2)) as amount").write.format("lakebed").mode(
        "overwrite"
    ).save(table.location)
    assert sum(row["dt"] == "d0" for row in table.read().read_all().to_pylist()) == 1


def test_changes_by_key(spark: SparkSession, tmp_path: Path) -> None:
    table = orders(tmp_path / "t", 3)
    lakebed.spark.write(some_orders(spark, 1000, 3), table.location)
    changes = spark.sql(
        "select id, 'moved' as dt, cast(-1 as decimal(10, 2)) as amount, "
        "if(id < 10, '-D', '+U') as _row_kind from range(0, 200)"
    )
    lakebed.spark.write(changes, table.location)
    found = {row["id"]: row for row in table.read().read_all().to_pylist()}
    assert sorted(found) == list(range(10, 1000))
    assert {row["dt"] for id, row in found.items() if id < 200} == {"moved"}
    lakebed.spark.write(changes.drop("_row_kind").where("id > 100"), table.location, "delete")
    assert table.read().read_all().num_rows == 891
    assert not list(Path(table.location, "data").glob("lakebed-staging*"))


def test_a_dataframe_brings_its_columns_along(spark: SparkSession, tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    first = spark.sql("select 1L as id, 'a' as dt, cast(1 as decimal(10, 2)) as amount, 'x' as note")
    second = spark.sql(
        "select 2L as ID, 'b' as dt, cast(2 as decimal(12, 2)) as amount, 'y' as note, named_struct('a', 5) as s"
    )
    with pytest.raises(SchemaError, match="note"):
        lakebed.spark.write(first, table.location)
    lakebed.spark.write(first, table.location, options={"merge-schema": "true"})
    second.write.format("lakebed").option("mergeSchema", "true").mode("append").save(table.location)
    assert table.schema.names == [*ORDERS.names, "note", "s"]
    assert table.schema.field("amount").type == pa.decimal128(12, 2) and not table.schema.field("id").nullable
    found = spark.read.format("lakebed").load(table.location).orderBy("id").select("id", "note", "s.a").collect()
    assert [tuple(row) for row in found] == [(1, "x", None), (2, "y", 5)] and len(table.history()) == 2


def test_columns_that_come_with_rows(tmp_path: Path) -> None:
    """How Spark's tasks take a DataFrame that brings columns along, with option keys as Spark hands them over. This
    needs no session."""
    made = orders(tmp_path / "t")
    first = {"ID": [1], "dt": ["a"], "amount": pa.array([1], pa.decimal128(10, 2)), "note": ["x"], "s": [{"a": 1}]}
    second = {**first, "note": ["y"], "s": [{"a": 2, "b": True}], "n": pa.array([5], pa.int32())}
    for key, given in (("merge-schema", first), ("mergeschema", second)):
        table = lakebed.open(made.location, options={key: "true"})
        batch = pa.table(given).to_batches()[0]
        sink = table.sink_for(batch.schema)
        taken, plan = SinkInput.of(batch.schema, sink, table.location), sink.plan()
        messages, _ = write_task(plan, iter([taken.take(batch)]))
        finalize_and_commit(sink, plan, messages, lakebed.LocalEngine(1), 1)
    assert made.schema.names == [*ORDERS.names, "note", "s", "n"]
    found = made.read(columns=["note", "s", "n"]).read_all().sort_by("note").to_pylist()
    assert found == [
        {"note": "x", "s": {"a": 1, "b": None}, "n": None}, {"note": "y", "s": {"a": 2, "b": True}, "n": 5},
    ]  # fmt: skip


def test_a_column_that_is_not_given_takes_its_default(tmp_path: Path) -> None:
    """How Spark's tasks convert a DataFrame that lacks the column. This needs no session."""
    columns = [
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "d", IntegerType(), required=False, initial_default=5, write_default=6),
    ]
    table = make_table(tmp_path / "t", Schema(*columns), version=3)
    given = pa.record_batch({"ID": pa.array([1, 2], pa.int64())})
    sink = table.sink()
    taken = SinkInput.of(given.schema, sink, table.location)
    plan = sink.plan()
    messages, rows = write_task(plan, iter([taken.take(given)]))
    assert rows == 2
    finalize_and_commit(sink, plan, messages, lakebed.LocalEngine(1), 1)
    assert table.read().read_all().to_pylist() == [{"id": 1, "d": 6}, {"id": 2, "d": 6}]


def test_a_sessions_write_audit_publish(spark: SparkSession, tmp_path: Path) -> None:
    """spark.wap.id and spark.wap.branch, for tables that have write.wap.enabled alone, as in Iceberg's own sink."""
    audited, plain = orders(tmp_path / "audited", **{"write.wap.enabled": True}), orders(tmp_path / "plain")
    rows = some_orders(spark, 10, 1)
    try:
        spark.conf.set("spark.wap.id", "nightly")
        for table in (audited, plain):
            lakebed.spark.write(rows, table.location)
        assert audited.read().read_all().num_rows == 0 and plain.read().read_all().num_rows == 10
        audited.publish("nightly")
        assert lakebed.spark.read(spark, audited.location).count() == 10
        spark.conf.unset("spark.wap.id")
        spark.conf.set("spark.wap.branch", "audit")
        lakebed.spark.write(rows, audited.location)
        assert lakebed.spark.read(spark, audited.location).count() == 20
        assert audited.read().read_all().num_rows == 10
        with pytest.raises(OptionError, match=r"branch and wap\.branch are given"):
            lakebed.spark.write(rows, audited.location, options={"branch": "main"})
    finally:
        for key in ("spark.wap.id", "spark.wap.branch"):
            spark.conf.unset(key)
