"""Every Arrow type survives the way to a running Spark session and back."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from lakebed.spark import worker
from lakebed.spark.engine import over_tasks
from lakebed.spark.types import arrow_schema, conform, spark_schema, wire_schema
from tests.spark.test_types import batch_of_every_type


def test_every_type_through_spark(spark: SparkSession) -> None:
    given = batch_of_every_type()
    wire = wire_schema(given.schema)
    sent = conform(given, wire)

    def twice(_: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch
        yield batch.slice(0, 0)
        yield batch.slice(1)

    frame = over_tasks(spark, twice, [worker.pack(sent)], spark_schema(given.schema))
    assert arrow_schema(frame.schema).equals(wire)
    # as a worker gets them: toArrow refuses a null struct whose fields may not be null
    seen = frame.mapInArrow(_as_bytes, "batch binary").toArrow().column("batch").to_pylist()
    back = pa.Table.from_batches([batch for one in seen for batch in pa.ipc.open_stream(one)])
    assert back.schema.equals(wire)
    assert back.to_pylist() == sent.to_pylist() + sent.slice(1).to_pylist()


def _as_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, batch.schema) as stream:
            stream.write(batch)
        yield pa.record_batch({"batch": pa.array([buffer.getvalue().to_pybytes()], pa.binary())})
