"""One Spark session for all tests of this folder, and the tables they use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.spark.session import local_session
from tests.golden import unpack


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """An embedded session with the sources registered."""
    session = local_session("local[2]", app="lakebed tests", brief=True)
    lakebed.spark.register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def hudi() -> Path:
    """A merge-on-read table of ten commits: updates, deletes, late rows, a compaction, one pending; 16 column types."""
    return unpack("hudi", "mor_v8")
