"""One Spark session for all tests of this folder, and the tables they use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
import lakebed.spark
from lakebed.spark.release import HAS_SOURCES
from lakebed.spark.session import local_session
from lakebed.spark.types import arrow_schema, conform
from tests.golden import unpack

if not hasattr(DataFrame, "toArrow"):  # PySpark 3.5

    def as_arrow(frame: DataFrame) -> pa.Table:
        """All rows, in the schema in which Spark sends them."""
        schema = arrow_schema(frame.schema)
        batches = [conform(batch, schema) for batch in frame._collect_as_arrow()]
        return pa.Table.from_batches(batches, schema)

    DataFrame.toArrow = as_arrow


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """An embedded session with the sources registered."""
    session = local_session("local[2]", app="lakebed tests", brief=True)
    if HAS_SOURCES:
        lakebed.spark.register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def hudi() -> Path:
    """A merge-on-read table of ten commits: updates, deletes, late rows, a compaction, one pending; 16 column types."""
    return unpack("hudi", "mor_v8")
