"""Spark reads what `Table.read` and `Table.changes` read: by function, format and SQL, in batch and in streams."""

from __future__ import annotations

import pickle
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lakebed
import lakebed.spark
from lakebed.errors import OptionError, SchemaError, TableNotFoundError, UsageError
from lakebed.spark.failures import lakebed_error
from lakebed.spark.slow_start import despite_slow_start
from lakebed.spark.source import load
from lakebed.spark.types import spark_schema
from lakebed.verbs.read import run
from tests.pyspark_release import needs
from tests.spark.tables import as_bag


def streamed(frame: DataFrame, checkpoint: Path, name: str) -> list[tuple[int, int]]:
    """Stream what is there into the memory table `name`. Returns (batch id, rows) of each batch that has rows."""
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))

    def run() -> StreamingQuery:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    query = despite_slow_start(run)
    return [(progress.batchId, progress.numInputRows) for progress in query.recentProgress if progress.numInputRows]


def test_a_snapshot_by_function_by_format_and_by_sql(spark: SparkSession, hudi: Path) -> None:
    table = lakebed.open(hudi)
    truth = as_bag(table.read())
    fast = lakebed.spark.read(spark, str(hudi))
    assert [(f.name, f.dataType) for f in fast.schema] == [(f.name, f.dataType) for f in spark_schema(table.schema)]
    assert lakebed.spark.read(spark, str(hudi), native=False).schema == spark_schema(table.schema)
    assert as_bag(fast.toArrow()) == truth
    loaded = spark.read.format("lakebed").load(str(hudi))
    assert loaded.schema == spark_schema(table.schema)
    assert as_bag(loaded.toArrow()) == truth
    spark.sql(f"create or replace temporary view orders using lakebed options (path '{hudi}')")
    assert spark.sql("select count(*) from orders where id is not null").first()[0] == len(truth)


def test_projection_and_predicate(spark: SparkSession, hudi: Path) -> None:
    table = lakebed.open(hudi)
    truth = as_bag(table.read(columns=["ID", "dec"], where="part = 'a' or l > 5"))
    fast = lakebed.spark.read(spark, str(hudi), columns=["ID", "dec"], where="part = 'a' or l > 5")
    assert as_bag(fast.toArrow()) == truth
    reader = spark.read.format("lakebed").option("columns", "ID, dec").option("where", "part = 'a' or l > 5")
    assert as_bag(reader.load(str(hudi)).toArrow()) == truth
    assert spark.read.format("lakebed").option("columns", '["s"]').load(str(hudi)).columns == ["s"]


def test_a_range_of_changes_counts_the_same_however_it_is_asked(spark: SparkSession, hudi: Path) -> None:
    table = lakebed.open(hudi)
    after = [instant.completed for instant in table.history() if instant.state == "completed"][2]
    truth = table.changes(after=after).read_all()
    changes = spark.read.format("lakebed").option("after", after).load(str(hudi))
    assert as_bag(changes.toArrow()) == as_bag(truth)
    assert changes.count() == changes.select("id").toArrow().num_rows == truth.num_rows > 0


def test_pushed_filters_change_no_row(spark: SparkSession, hudi: Path) -> None:
    needs("4.1", "filters that Spark pushes to sources")
    condition = (
        "ts >= 100 and id > 'k0002' and id like 'k%' and l is not null and not (i = 7) and d > -1 "
        "and part in ('a', 'b') and (s is null or i > 0)"
    )
    plain = spark.createDataFrame(lakebed.open(hudi).read(columns=["id", "ts", "l", "i", "d", "part", "s"]).read_all())
    truth = as_bag(plain.where(condition).select("id").toArrow())
    key = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(key)
    try:
        for pushing in ("true", "false"):
            spark.conf.set(key, pushing)
            lakebed.spark.register(spark)
            found = spark.read.format("lakebed").load(str(hudi)).where(condition).select("id")
            assert as_bag(found.toArrow()) == truth
    finally:
        spark.conf.set(key, before)
        lakebed.spark.register(spark)


def test_a_dataframe_keeps_its_snapshot(spark: SparkSession, hudi: Path, tmp_path: Path) -> None:
    """The table goes back to an older state between two actions. Both read what was there at load."""
    copy = shutil.copytree(hudi, tmp_path / "table")
    loaded, fast = spark.read.format("lakebed").load(str(copy)), lakebed.spark.read(spark, str(copy))
    count = loaded.count()
    newest = max((copy / ".hoodie" / "timeline").glob("*.deltacommit"), key=lambda path: path.name)
    newest.unlink()
    assert as_bag(lakebed.open(copy).read()) != as_bag(loaded.toArrow())
    assert loaded.count() == fast.count() == count


def test_a_stream_commit_by_commit(spark: SparkSession, hudi: Path, tmp_path: Path) -> None:
    table = lakebed.open(hudi)
    commits = [i for i in table.history() if i.state == "completed" and i.action == "deltacommit"][-3:]  # not cleaned
    options = {"read.start-commit": commits[0].time, "read.commits.limit": "1"}
    frame = spark.readStream.format("lakebed").options(**options).load(str(hudi))
    assert frame.schema == spark_schema(table.stream().schema)
    assert frame.schema["_row_kind"].nullable is False
    batches = streamed(frame, tmp_path, "by_commit")
    assert [batch for batch, _ in batches] == list(range(len(batches)))
    assert len(batches) == len(commits)  # an upsert, a delete, an upsert
    assert {row._row_kind for row in spark.table("by_commit").select("_row_kind").distinct().collect()} == {"+I", "-D"}
    truth = table.changes(after=commits[0].completed[:-1] + "0", until=commits[0].completed).read_all()
    assert batches[0][1] == truth.num_rows


def test_the_changelog_has_kinds_in_batches_and_streams(spark: SparkSession, hudi: Path, tmp_path: Path) -> None:
    options = {"changelog.enabled": "true", "columns": "id"}
    table = lakebed.open(hudi, {"changelog.enabled": "true"})
    batch = spark.read.format("lakebed").options(**options).load(str(hudi))
    assert batch.columns == ["id", "_row_kind"]
    assert as_bag(batch.toArrow()) == as_bag(table.read(["id"]))
    newest = max(instant.time for instant in table.history() if instant.action == "deltacommit")
    ranged = {**options, "read.start-commit": newest}
    assert spark.read.format("lakebed").options(**ranged).load(str(hudi)).count() < batch.count()
    frame = spark.readStream.format("lakebed").options(**options).load(str(hudi))
    (found,) = streamed(frame, tmp_path, "changelog")
    assert found[1] > 0


def test_a_stream_without_options_is_the_newest_commit(spark: SparkSession, hudi: Path, tmp_path: Path) -> None:
    frame = spark.readStream.load(format="lakebed", path=str(hudi), columns="id")
    (batch,) = streamed(frame, tmp_path, "newest")
    reader = lakebed.open(hudi).stream(["id"])
    start = reader.initial()
    plan = reader.plan(start, reader.latest(start, lakebed.verbs.stream.Limits()))
    truth = pa.Table.from_batches([b for split in plan.splits for b in plan.read(split)], plan.schema)
    assert as_bag(spark.table("newest").toArrow()) == as_bag(truth)
    assert batch[1] == truth.num_rows


def test_the_name_hudi_has_the_rows_and_keys_of_its_own_source(spark: SparkSession, hudi: Path, tmp_path: Path) -> None:
    truth = as_bag(lakebed.open(hudi).read())
    assert as_bag(spark.read.format("hudi").load(str(hudi)).toArrow()) == truth
    incremental = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "000"}
    rows = spark.read.format("hudi").options(**incremental).load(str(hudi))
    assert "_row_kind" not in rows.columns
    assert as_bag(rows.toArrow()) == truth
    stream = spark.readStream.format("hudi").load(str(hudi))
    assert "_row_kind" not in stream.columns
    streamed(stream, tmp_path, "hudi_rows")
    assert as_bag(spark.table("hudi_rows").toArrow()) == truth


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("lakebed", {"read.start-comit": "earliest"}, "Did you mean 'read.start-commit'"),
        ("lakebed", {"columns": "[1]"}, "names separated by commas"),
        ("lakebed", {"columns": " , "}, "at least one name"),
        ("lakebed", {"maxFilesPerTrigger": "many"}, "expected a whole number"),
        ("lakebed", {"maxFilesPerTrigger": "1", "read.splits.limit": "2"}, "bounds files"),
        ("lakebed", {"as-of": "1", "after": "2"}, "Give one or the other"),
        ("lakebed", {"path": ""}, "no path is given"),
        ("paimon", {}, "this is a hudi table, read as paimon"),
        ("hudi", {"owner": "root"}, "CREATE TEMPORARY VIEW name USING hudi OPTIONS (path '...')"),
        ("iceberg", {}, "this is a hudi table, read as iceberg"),
    ],
)
def test_wrong_use_is_told_in_one_line(hudi: Path, name: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load({"path": str(hudi), **options}, name, 2)
    assert words in str(caught.value)


def test_jobs_may_name_the_class_of_a_source(spark: SparkSession, hudi: Path) -> None:
    frame = spark.read.format("org.apache.hudi").load(str(hudi))
    assert "_row_kind" not in frame.columns and frame.count() == spark.read.format("hudi").load(str(hudi)).count() > 0
    with pytest.raises(Exception, match="this is a hudi table, read as iceberg"):
        spark.read.format("org.apache.iceberg.spark.source.IcebergSource").load(str(hudi))


def test_the_keys_of_hudis_own_source_are_checked_too(hudi: Path) -> None:
    with pytest.raises(OptionError, match=r"Did you mean 'hoodie\.datasource\.query\.type'"):
        load({"path": str(hudi), "hoodie.datasource.query.typ": "snapshot"}, "hudi", 2).pinned()


@pytest.mark.parametrize("name", ["lakebed", "hudi"])
def test_an_action_that_plans_again_keeps_the_instant_of_the_options(hudi: Path, name: str) -> None:
    needs("4.1", "filters that Spark pushes to sources")
    from pyspark.sql.datasource import IsNotNull

    earlier = [instant for instant in lakebed.open(hudi).history() if instant.state == "completed"][-3].time
    options = {"as.of.instant": earlier}
    rows = as_bag(lakebed.open(hudi, options).read())
    assert rows != as_bag(lakebed.open(hudi).read())
    loaded = load({"path": str(hudi), **options}, name, 2).pinned()
    plan = pickle.loads(pickle.dumps(loaded)).push([IsNotNull(("id",))])
    assert plan is not None and as_bag(run(plan, 1)) == rows


def test_a_path_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        lakebed.spark.read(spark, str(tmp_path / "none"))
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("lakebed").load(str(tmp_path / "none"))
    assert isinstance(lakebed_error(caught.value), TableNotFoundError)


def test_a_stream_that_was_not_marked_loses_no_kinds(hudi: Path) -> None:
    loaded = load({"path": str(hudi)}, "lakebed", 2)
    with pytest.raises(SchemaError, match=r"the row kinds would be lost.*lakebed\.streaming"):
        loaded.stream(loaded.spark_schema())


def test_workers_run_this_python_where_none_is_named(spark: SparkSession, hudi: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYSPARK_PYTHON")
        patch.setattr(spark.sparkContext, "pythonExec", "python3")  # Spark's default: another one, or none at all
        lakebed.spark.register(spark)
        assert spark.sparkContext.pythonExec == sys.executable
        assert spark.read.format("lakebed").load(str(hudi)).count() == lakebed.open(hudi).read().read_all().num_rows
        for act in (
            lambda: lakebed.spark.read(spark, str(hudi)),
            lambda: lakebed.spark.SparkEngine(spark),
            lambda: lakebed.spark.write(spark.range(0), str(hudi / "none")),
            lambda: lakebed.spark.write_stream(spark.readStream.format("rate").load(), str(hudi / "none"), "c"),
        ):
            patch.setattr(spark.sparkContext, "pythonExec", "python3")
            with suppress(TableNotFoundError):
                act()
            assert spark.sparkContext.pythonExec == sys.executable
        patch.setenv("PYSPARK_PYTHON", "of-the-user")
        patch.setattr(spark.sparkContext, "pythonExec", "of-the-user")
        lakebed.spark.register(spark)
        assert spark.sparkContext.pythonExec == "of-the-user"
    lakebed.spark.register(spark)
