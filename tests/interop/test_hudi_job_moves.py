"""A streaming job of Hudi's own sink goes on with lakebed: same source, options and checkpoint, and each row once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
import lakebed.spark
from lakebed.spark.session import local_session
from tests.interop.conftest import named
from tests.interop.hudi_ask import ask

pytestmark = pytest.mark.timeout(300)

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.streaming.checkpoint.identifier": "orders-job",
    "hoodie.metadata.enable": "true",
    "hoodie.embed.timeline.server": "false",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.datasource.compaction.async.enable": "false",
}
"""What the job gives, to the one sink and to the other."""


def put(source: Path, number: int) -> None:
    """One more file of the source, which is one batch of the stream."""
    rows = {"id": [f"{number}-{n}" for n in range(3)], "dt": ["a", "b", "a"], "ts": [number] * 3}
    pq.write_table(pa.table(rows), source / f"{number}.parquet")


def test_a_stream_moves_with_its_checkpoint(tmp_path: Path) -> None:
    source, path, checkpoint = (tmp_path / name for name in ("source", "t", "checkpoint"))
    source.mkdir()
    for number in range(3):
        put(source, number)
    order = {"source": str(source), "schema": "id string, dt string, ts long", "path": str(path), "options": OPTIONS}
    jar = f"{named('LAKEBED_HUDI_JARS')}/hudi-spark3.5-bundle_2.12-1.1.1.jar"
    lines = [json.dumps({**order, "checkpoint": str(checkpoint)})]
    assert ask("LAKEBED_HUDI_JVM_PYTHON", "hudi_stream_peer.py", [jar, str(tmp_path)], lines) == [9]
    for file in [*(checkpoint / "commits").glob("*2*")]:  # the last batch is in the table, and Spark was not told
        file.unlink()
    put(source, 3)

    spark = local_session("local[2]", brief=True)
    lakebed.spark.register(spark)
    frame = spark.readStream.schema(order["schema"]).option("maxFilesPerTrigger", 1).parquet(str(source))
    query = lakebed.spark.write_stream(frame, str(path), str(checkpoint), OPTIONS, trigger={"availableNow": True})
    query.awaitTermination()
    rows = lakebed.open(path).read(["id"]).read_all()["id"].to_pylist()
    assert Counter(rows) == Counter(f"{number}-{n}" for number in range(4) for n in range(3))
    spark.stop()
