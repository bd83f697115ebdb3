"""A stream into each format is killed between the commits of the table and of Spark: its next run has each row once.

One process streams into all three tables and dies, since a process with Spark is slow to start.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import CommitConflictError
from lakebed.kernel.files import open_store
from lakebed.spark.slow_start import despite_slow_start
from lakebed.spark.stream_sink import commit_user, reports
from lakebed.verbs.table import Table
from tests.spark.tables import as_bag, changes_of, orders

ROOT = Path(__file__).parents[2]
COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), False), pa.field("dt", pa.string(), False), ("amount", pa.decimal128(10, 2))]
)
FORMATS = ("paimon", "iceberg", "hudi")


def sink(folder: Path, table_format: str) -> Table:
    """An empty table."""
    if table_format == "paimon":
        return orders(folder)
    options = {"hoodie.table.type": "MERGE_ON_READ"} if table_format == "hudi" else {"format-version": 2}
    return lakebed.create(folder, table_format, COLUMNS, ["id"], ["dt"], options)


def rows(table: Table) -> list[str]:
    return as_bag(table.read(COLUMNS.names))


def data_files(table: Table) -> int:
    """How many there are, whether the table names them or not."""
    names = {"paimon": "**/data-*", "iceberg": "data/**/*.parquet", "hudi": "dt=*/*.parquet"}
    return len(list(Path(table.location).glob(names[table.format])))


@pytest.fixture(scope="module")
def killed(hudi: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A folder per format with the table and the checkpoint of a query that died after its second commit."""
    places = {table_format: tmp_path_factory.mktemp(table_format) for table_format in FORMATS}
    for table_format, place in places.items():
        sink(place / "table", table_format)
    command = [sys.executable, "-m", "tests.programs.killed_streams", str(hudi), "1", *map(str, places.values())]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=600, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    return places


@pytest.fixture(scope="module")
def whole(spark: SparkSession, hudi: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Table]:
    """What queries write that nobody disturbs."""
    tables = {}
    for table_format in ("paimon", "iceberg"):
        place = tmp_path_factory.mktemp("whole")
        tables[table_format] = sink(place / "table", table_format)
        run_to_end(spark, hudi, place)
    return tables


def run_to_end(spark: SparkSession, hudi: Path, place: Path, commits: int = 1) -> None:
    """Stream everything that is there."""

    def run() -> None:
        frame, now = changes_of(spark, str(hudi), commits), {"availableNow": True}
        lakebed.spark.write_stream(
            frame, str(place / "table"), str(place / "checkpoint"), trigger=now
        ).awaitTermination()

    despite_slow_start(run)


@pytest.mark.parametrize("table_format", FORMATS)
def test_killed_between_the_two_commits_each_row_comes_once(
    spark: SparkSession, hudi: Path, killed: Mapping[str, Path], whole: Mapping[str, Table], table_format: str
) -> None:
    place = killed[table_format]
    table, checkpoint = lakebed.open(place / "table"), open_store(place / "checkpoint")
    assert len(table.history()) == 2  # the second is not in Spark's commit log
    assert sorted(path.name for path in (place / "checkpoint" / "commits").glob("[0-9]*")) == ["0"]
    user, files = commit_user(checkpoint), data_files(table)
    older = shutil.copytree(place / "checkpoint", place / "older")
    run_to_end(spark, hudi, place)
    done = {report.batch_id: report for report in reports(checkpoint)}
    assert (done[1].outcome, done[1].instant, done[2].outcome) == ("skipped", "", "committed")
    assert commit_user(checkpoint) == user
    table = lakebed.open(place / "table")
    assert len(table.history()) == 3
    undisturbed = whole.get(table_format, whole["iceberg"])
    assert rows(table) == rows(undisturbed)
    if undisturbed.format == table_format:
        assert data_files(table) == data_files(undisturbed) > files
    if table_format == "paimon":
        check_older_checkpoint(spark, hudi, place, older)


def check_older_checkpoint(spark: SparkSession, hudi: Path, place: Path, older: Path) -> None:
    """Another run of a checkpoint that is older than the table skips what the table has, and is refused where a batch
    would have other rows."""
    table, checkpoint = lakebed.open(place / "table"), place / "checkpoint"
    there, files = rows(table), data_files(table)
    for commits in (1, 2):
        shutil.rmtree(checkpoint)
        shutil.copytree(older, checkpoint)
        (checkpoint / "offsets" / "1").unlink()  # so old that it had not planned the batch
        (checkpoint / "offsets" / ".1.crc").unlink()
        if commits == 1:
            run_to_end(spark, hudi, place)
            assert [one.outcome for one in reports(open_store(checkpoint), 0)] == ["skipped", "skipped"]
        else:
            with pytest.raises(CommitConflictError, match="the checkpoint is older than the table"):
                run_to_end(spark, hudi, place, commits)
        assert (rows(lakebed.open(place / "table")), data_files(table)) == (there, files)
