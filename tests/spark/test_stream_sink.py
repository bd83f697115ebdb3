"""What the streaming sink takes, and the pipelines that run on it (`tests/programs/test_killed.py`: exactly once)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import PipelineFileError, UsageError
from lakebed.kernel.files import open_store
from lakebed.spark import pipeline
from lakebed.spark.stream_sink import BatchReport, commit_user
from tests.spark.tables import orders

CANARY = "hUsHcAnArY0123456789"
"""A secret that is handed in with permission to travel to tasks."""


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
        [sink.options]
        bucket = 2
        "lakebed.storage.setting.aws_access_key_id" = "{CANARY}"
        "lakebed.storage.setting.azure_storage_account_key" = "{CANARY}"
        "lakebed.storage.ship-secrets" = true
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
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
    assert any(path.parent.name == "offsets" for path in kept)  # the checkpoint is among them
    assert all(CANARY.encode() not in path.read_bytes() for path in kept)
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
