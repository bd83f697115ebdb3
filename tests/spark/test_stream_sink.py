"""What the streaming sink takes, and the pipelines that run on it (`tests/programs/test_killed.py`: exactly once)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import PipelineFileError, UsageError
from lakebed.kernel.files import open_store
from lakebed.spark import few_rows, pipeline, stream_sink
from lakebed.spark.sink import write_files
from lakebed.spark.stream_sink import BatchReport, commit_user, reports
from tests.spark.tables import as_bag, orders

SOURCE = pa.schema([("ID", pa.int64()), ("dt", pa.string()), ("v", pa.string())])

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


def test_few_rows_are_written_without_a_shuffle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch is routed; after one with few rows the driver writes, unless a task has many after all."""
    table = lakebed.create(
        tmp_path / "t", "paimon", {"id": "int64", "dt": "string", "v": "string"}, ["dt", "id"], ["dt"], {"bucket": "3"}
    )
    given = [range(3), range(2, 6), range(500), range(7), range(600, 603), range(0), range(3)]
    source = tmp_path / "source"
    source.mkdir()
    for batch, ids in enumerate(given):
        rows = {"ID": [*ids], "dt": ["ab"[n % 2] for n in ids], "v": [f"{batch}"] * len(ids)}
        file = source / f"{batch}.parquet"
        pq.write_table(pa.table(rows, SOURCE), file)
        os.utime(file, (batch + 1, batch + 1))  # Spark takes the oldest first
    shuffled: list[int] = []

    def counted(df: DataFrame, *arguments: Any) -> Any:
        written = write_files(df, *arguments)
        shuffled.append(written.rows)
        return written

    monkeypatch.setattr(stream_sink, "write_files", counted)
    monkeypatch.setattr(stream_sink, "ROWS", 100)
    monkeypatch.setattr(few_rows, "_TASK_BYTES", 4000)
    frame = spark.readStream.schema("ID bigint, dt string, v string").option("maxFilesPerTrigger", 1)
    query = lakebed.spark.write_stream(
        frame.parquet(str(source)), table.location, str(tmp_path / "c"), trigger={"availableNow": True}
    )
    query.awaitTermination()
    assert shuffled == [3, 500, 7]
    kept = reports(open_store(tmp_path / "c"))
    assert [report.rows for report in kept] == [len(ids) for ids in given]
    last = {id: f"{batch}" for batch, ids in enumerate(given) for id in ids}
    assert as_bag(table.read()) == as_bag(
        pa.table({"id": [*last], "dt": ["ab"[n % 2] for n in last], "v": [*last.values()]})
    )


def test_a_checkpoint_has_one_user(tmp_path: Path) -> None:
    store = open_store(tmp_path / "c")
    assert commit_user(store) == commit_user(store)
    assert commit_user(store) != commit_user(open_store(tmp_path / "d"))
