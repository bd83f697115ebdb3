"""The tables that the tests of this folder create, and how they compare rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakebed
from lakebed.spark.types import conform, wire_schema
from lakebed.verbs.table import Table

ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("dt", pa.string(), False),
        pa.field("amount", pa.decimal128(10, 2)),
        pa.field("at", pa.timestamp("ms")),
    ]
)
ORDERS_SQL = """
    select id, concat('d', id % 2) as dt, cast(id as decimal(10,2)) as amount,
           cast(timestamp_seconds(id) as timestamp_ntz) as at
"""


def orders(folder: Path, bucket: int = 4, keyed: bool = True) -> Table:
    """An empty Paimon table of orders, two partitions once it has rows."""
    key = ["dt", "id"] if keyed else []
    options = {"bucket": str(bucket)} if keyed else {}
    return lakebed.create(str(folder), "paimon", ORDERS, primary_key=key, partition_by=["dt"], options=options)


def as_bag(data: pa.Table | pa.RecordBatchReader | Iterable[pa.RecordBatch]) -> list[str]:
    """Rows in Spark's form, as sorted texts, since maps and nulls cannot be compared."""
    table = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
    assert isinstance(table, pa.Table)
    wire = wire_schema(table.schema)
    names = sorted(wire.names)
    rows = pa.Table.from_batches([conform(batch, wire) for batch in table.to_batches()], wire).select(names)
    return sorted(repr(row) for row in rows.to_pylist())


def changes_of(spark: SparkSession, location: str, commits: int = 1) -> DataFrame:
    """The last three commits of the golden Hudi table as a stream of orders, so many commits in a batch."""
    start = [i.time for i in lakebed.open(location).history() if i.state == "completed" and i.action == "deltacommit"]
    options = {"read.start-commit": start[-3], "read.commits.limit": str(commits)}
    source = spark.readStream.format("lakebed").options(**options).load(location)
    return source.selectExpr(
        "cast(substr(id, 2) as bigint) as id", "'d' as dt", "cast(l % 1000 as decimal(10, 2)) as amount", "_row_kind"
    )
