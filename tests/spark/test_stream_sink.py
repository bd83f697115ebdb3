"""The streaming sink commits each batch exactly once, whatever dies at any moment. Pipelines run on it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import PipelineFileError, UsageError
from lakebed.kernel.files import open_store
from lakebed.spark import pipeline
from lakebed.spark.stream_sink import BatchReport, commit_user, reports
from tests.spark.tables import as_bag, changes_of, orders

ROOT = Path(__file__).parents[2]


def test_killed_between_the_two_commits_each_row_comes_once(spark: SparkSession, hudi: Path, tmp_path: Path) -> None:
    table, sink, checkpoint = orders(tmp_path / "t"), str(tmp_path / "t"), str(tmp_path / "checkpoint")
    command = [sys.executable, "-m", "tests.spark.killed_stream", str(hudi), sink, checkpoint, "1"]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=600, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    assert len(table.history()) == 2  # the second is not in Spark's commit log
    assert sorted(path.name for path in Path(checkpoint, "commits").glob("[0-9]*")) == ["0"]
    user, files = commit_user(open_store(checkpoint)), len(list(Path(sink).glob("**/data-*")))
    frame = changes_of(spark, str(hudi))
    query = lakebed.spark.write_stream(frame, sink, checkpoint, trigger={"availableNow": True})
    query.awaitTermination()
    done = {report.batch_id: report for report in reports(open_store(checkpoint))}
    assert (done[1].outcome, done[1].instant, done[2].outcome) == ("skipped", "", "committed")
    assert [int(snapshot.time) for snapshot in table.history()] == [1, 2, 3]
    assert commit_user(open_store(checkpoint)) == user
    whole = orders(tmp_path / "whole")
    lakebed.spark.write_stream(
        frame, whole.location, str(tmp_path / "other")[:-1], trigger={"availableNow": True}
    ).awaitTermination()
    assert as_bag(table.read()) == as_bag(whole.read())
    assert len(list(Path(sink).glob("**/data-*"))) == len(list((tmp_path / "whole").glob("**/data-*"))) > files


def test_a_batch_is_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    orders(tmp_path / "t")
    with pytest.raises(UsageError, match="does not stream"):
        lakebed.spark.write_stream(spark.range(1), str(tmp_path / "t"), str(tmp_path / "c"))


def test_a_pipeline_makes_its_sink_and_goes_on_where_it_ended(spark: SparkSession, hudi: Path, tmp_path: Path) -> None:
    instants = [i.time for i in lakebed.open(hudi).history() if i.state == "completed" and i.action == "deltacommit"]
    file = tmp_path / "p.toml"
    file.write_text(
        f"""
        [source]
        table = "{hudi}"
        options = {{ "read.start-commit" = "{instants[-3]}", "read.commits.limit" = 1 }}
        [transform]
        sql = "select id, part, l as amount, _row_kind from source"
        [sink]
        table = "{tmp_path}/out"
        format = "paimon"
        primary_key = ["part", "id"]
        partition_by = ["part"]
        options = {{ bucket = 2 }}
        """
    )
    told: list[BatchReport] = []
    plan = pipeline.load(file)
    pipeline.check(plan)
    result = pipeline.run(plan, spark, told.append)
    table = lakebed.open(tmp_path / "out")
    assert table.schema.names == ["id", "part", "amount"]
    assert (result.commits, list(result.snapshots)) == (3, ["1", "2", "3"])
    assert [snapshot.time for snapshot in table.history()] == ["1", "2", "3"]
    assert tuple(told) == result.batches
    assert result.rows_in == sum(report.rows for report in told) > table.read().read_all().num_rows
    again = pipeline.run(plan, spark)
    assert (again.rows_in, again.commits, again.snapshots) == (0, 0, ())
    with pytest.raises(PipelineFileError, match=r"transform\] sql does not fit.*nope") as caught:
        pipeline.run(pipeline.load(_changed(file, "l as amount", "nope")), spark)
    assert caught.value.key == "transform.sql"
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="the checkpoint belongs to an earlier run"):
        pipeline.run(plan, spark)


def _changed(file: Path, old: str, new: str) -> Path:
    changed = file.with_name("changed.toml")
    changed.write_text(file.read_text().replace(old, new))
    return changed


def test_a_checkpoint_has_one_user(tmp_path: Path) -> None:
    store = open_store(tmp_path / "c")
    assert commit_user(store) == commit_user(store)
    assert commit_user(store) != commit_user(open_store(tmp_path / "d"))
