"""Every Arrow type goes to Spark and comes back, in a running session."""

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
    back = frame.toArrow()
    assert arrow_schema(frame.schema).equals(wire)
    assert back.schema.equals(wire)
    assert back.to_pylist() == sent.to_pylist() + sent.slice(1).to_pylist()
