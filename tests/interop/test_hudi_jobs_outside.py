"""Jobs of Hudi's own Spark sink that move to lakebed and back as they are: batches of each operation, and a stream with
its checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.spark.session import local_session
from tests.interop.hudi_actors import Release, release_of

pytestmark = pytest.mark.timeout(300)

QUICK_START = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.insert.shuffle.parallelism": "2",
    "hoodie.embed.timeline.server": "false",
}
"""What Hudi's quick start gives its sink."""
STREAM = {
    **QUICK_START,
    "hoodie.datasource.write.operation": "insert",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.streaming.checkpoint.identifier": "trips-job",
    "hoodie.datasource.compaction.async.enable": "false",
}
SCHEMA = "uuid string, city string, ts long, fare double"
OPERATION, GOING = "hoodie.datasource.write.operation", "hoodie.datasource.write.partitions.to.delete"
Trips = dict[str, tuple[str, float]]


@pytest.fixture(scope="module")
def release() -> Release:
    return release_of("1.1.1")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session that knows lakebed and no bundle."""
    session = local_session("local[2]", brief=True)
    lakebed.spark.register(session)
    yield session
    session.stop()


def trips(path: Path) -> Trips:
    """The rows that lakebed reads, by key; each is there once."""
    rows = lakebed.open(path).read(["uuid", "city", "fare"]).read_all().to_pylist()
    held = {row["uuid"]: (row["city"], row["fare"]) for row in rows}
    assert len(held) == len(rows)
    return held


def by_release(release: Release, path: Path) -> Trips:
    """The rows that the release reads, by key."""
    rows = release.order(do="read", path=str(path), columns=["uuid", "city", "fare"], options={})
    assert len(rows) == len({row[0] for row in rows})
    return {uuid: (city, float(fare)) for uuid, city, fare in rows}


def test_a_batch_job_of_each_operation_runs_unchanged(release: Release, spark: SparkSession, tmp_path: Path) -> None:
    path, file = tmp_path / "trips", tmp_path / "rows.parquet"
    held: Trips = {}
    clock = 0

    def run(who: str, operation: str, rows: Sequence[tuple[str, str]], mode: str = "append", **more: str) -> None:
        nonlocal clock
        clock += 1
        columns: dict[str, Any] = {
            "uuid": [uuid for uuid, _ in rows],
            "city": [city for _, city in rows],
            "ts": pa.array([clock] * len(rows), pa.int64()),
            "fare": [clock + 0.25] * len(rows),
        }
        pq.write_table(pa.table(columns), file)
        given = {**QUICK_START, OPERATION: operation, **more}
        if who == "release":
            release.order(do="write", path=str(path), rows=str(file), options=given, mode=mode)
        else:
            spark.read.parquet(str(file)).write.format("hudi").options(**given).mode(mode).save(str(path))
        cities = {city for _, city in rows}
        if operation in ("insert_overwrite_table", "insert_overwrite", "delete_partition"):
            gone = {"x"} if GOING in more else cities
            whole = operation == "insert_overwrite_table"
            for uuid in [uuid for uuid, (city, _) in held.items() if whole or city in gone]:
                del held[uuid]
        if operation == "delete":
            for uuid, _ in rows:
                held.pop(uuid, None)
        elif operation != "delete_partition":
            held.update({uuid: (city, clock + 0.25) for uuid, city in rows})
        assert trips(path) == held, (who, operation)
        if who == "lakebed":
            assert by_release(release, path) == held, operation

    run("release", "insert", [("1", "x"), ("2", "y"), ("3", "x")], "overwrite")
    for who, letter in (("release", "r"), ("lakebed", "l")):
        run(who, "insert", [(f"{letter}4", "x"), (f"{letter}5", "y")])
        run(who, "bulk_insert", [(f"{letter}6", "x"), (f"{letter}7", "z")])
        run(who, "upsert", [("1", "x"), (f"{letter}7", "z"), (f"{letter}8", "y")])
        run(who, "delete", [("2", "y"), (f"{letter}6", "x")])
        run(who, "insert_overwrite", [(f"{letter}9", "y"), (f"{letter}10", "y")])
        run(who, "delete_partition", [("0", "x")], **{GOING: "city=x"})
        run(who, "upsert", [("1", "x"), (f"{letter}9", "y")])
    run("release", "insert_overwrite_table", [("1", "x"), ("4", "y")])
    run("lakebed", "insert_overwrite_table", [("1", "x"), ("2", "y")])
    run("release", "upsert", [("1", "x"), ("3", "z")])
    assert by_release(release, path) == held


def put(source: Path, number: int) -> None:
    """One more file of the source, which is one batch of the stream."""
    rows = {"uuid": [f"{number}-{n}" for n in range(3)], "city": ["x", "y", "x"], "ts": [number] * 3, "fare": [0.5] * 3}
    pq.write_table(pa.table(rows), source / f"{number}.parquet")


def forget(checkpoint: Path, batch: int) -> None:
    """The batch is in the table, and Spark was not told."""
    for file in [checkpoint / "commits" / str(batch), checkpoint / "commits" / f".{batch}.crc"]:
        file.unlink()


def test_a_stream_moves_with_its_checkpoint(release: Release, spark: SparkSession, tmp_path: Path) -> None:
    source, path, checkpoint = (tmp_path / name for name in ("source", "t", "checkpoint"))
    source.mkdir()
    order = {"source": str(source), "schema": SCHEMA, "path": str(path), "checkpoint": str(checkpoint)}

    def keys(files: int) -> None:
        found = Counter(lakebed.open(path).read(["uuid"]).read_all()["uuid"].to_pylist())
        assert found == Counter(f"{number}-{n}" for number in range(files) for n in range(3))
        assert {*by_release(release, path)} == {*found}
        writes = [i for i in lakebed.open(path).history() if i.action in ("commit", "deltacommit")]
        assert len(writes) == files

    for number in range(2):
        put(source, number)
    release.order(do="stream", options=STREAM, **order)
    keys(2)
    for number, who in ((2, "lakebed"), (3, "release")):
        forget(checkpoint, number - 1)
        put(source, number)
        if who == "release":
            release.order(do="stream", options=STREAM, **order)
        else:
            frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
            lakebed.spark.write_stream(
                frame, str(path), str(checkpoint), STREAM, trigger={"availableNow": True}
            ).awaitTermination()
        keys(number + 1)
