"""A pipeline that fails or is stopped leaves nothing that disturbs the next try, and a stopped run says so."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.errors import LakebedError, PipelineFileError
from lakebed.examples import example_path as example
from lakebed.spark import pipeline

SOURCE = example("orders_hudi")


def file_of(folder: Path, key: str = "", sql: str = "", format: str = "paimon", more: str = "") -> pipeline.Pipeline:
    file = folder / "p.toml"
    place = f"{folder}/out.db/orders"
    start = lakebed.open(SOURCE).history()[0].time
    file.write_text(f"""
        [source]
        table = "{SOURCE}"
        [source.options]
        "read.start-commit" = "{start}"
        "read.commits.limit" = "4"
        [transform]
        sql = "{sql or "select order_id, amount, dt, _row_kind from source"}"
        [sink]
        table = "{place}"
        format = "{format}"
        {key}
        {more}
        """)
    return pipeline.load(file)


KEY = 'primary_key = ["order_id"]'


@pytest.mark.parametrize("format", ["paimon", "iceberg", "hudi"])
def test_a_first_run_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """Without a key the sink cannot take deletes. With a key it can, at the same location."""
    with pytest.raises(LakebedError):
        pipeline.run(file_of(tmp_path, format=format), spark)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.toml"] or not any((tmp_path / "out.db").iterdir())
    bucket = '[sink.options]\nbucket = "2"' if format == "paimon" else ""
    done = pipeline.run(file_of(tmp_path, KEY, format=format, more=bucket), spark)
    assert done.commits == 3
    rows = lakebed.open(tmp_path / "out.db" / "orders").read(columns=["order_id"]).read_all().num_rows
    assert rows == lakebed.open(SOURCE).read(columns=["order_id"]).read_all().num_rows


def test_a_table_with_commits_stays_when_a_later_run_fails(spark: SparkSession, tmp_path: Path) -> None:
    bucket = '[sink.options]\nbucket = "2"'
    pipeline.run(file_of(tmp_path, KEY, more=bucket), spark)
    table = lakebed.open(tmp_path / "out.db" / "orders")
    before = table.read().read_all().num_rows
    with pytest.raises(LakebedError):
        pipeline.run(
            file_of(tmp_path, KEY, sql="select order_id, amount, dt, 1 as other from source", more=bucket), spark
        )
    assert table.read().read_all().num_rows == before
    assert pipeline.run(file_of(tmp_path, KEY, more=bucket), spark).commits == 0


def test_a_run_that_is_stopped_says_so_and_resumes(spark: SparkSession, tmp_path: Path) -> None:
    bucket = '[sink.options]\nbucket = "2"'
    stop = Event()
    with pytest.raises(pipeline.Interrupted) as caught:
        pipeline.run(file_of(tmp_path, KEY, more=bucket), spark, lambda report: stop.set(), stop)
    done = caught.value.result.commits
    assert 1 <= done <= 3
    assert pipeline.run(file_of(tmp_path, KEY, more=bucket), spark).commits == 3 - done
    table = lakebed.open(tmp_path / "out.db" / "orders")
    source = lakebed.open(SOURCE).read(columns=["order_id"]).read_all()
    assert table.read(columns=["order_id"]).read_all().num_rows == source.num_rows


def test_upkeep_that_a_new_sink_cannot_have_is_told_before_spark_starts(tmp_path: Path) -> None:
    more = '[sink.options]\nbucket = "4"\n[upkeep]\narchive = 5'
    with pytest.raises(PipelineFileError, match=r"upkeep\.archive is not possible for this sink"):
        pipeline.check(file_of(tmp_path, KEY, more=more))
    pipeline.check(file_of(tmp_path, KEY, more='[sink.options]\nbucket = "-2"\n[upkeep]\nrewrite = 5'))
    pipeline.check(file_of(tmp_path, KEY, format="iceberg", more="[upkeep]\nrewrite = 5\nexpire = 20"))
    assert not (tmp_path / "out.db").exists()
