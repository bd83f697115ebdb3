"""Native scans of every golden table: Spark's own reader gives the rows that lakebed's own reader gives."""

import sys
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.spark import native_scan
from tests.golden import names, opening, unpack
from tests.spark.tables import as_bag

REFUSED = {"bootstrap_h015"}
"""Tables that lakebed refuses to read."""
FILES = {"hudi": 99, "paimon": 110, "iceberg": 325}
"""How many files of the golden tables Spark reads itself."""


@pytest.mark.parametrize("table_format", FILES)
def test_every_golden_table(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, table_format: str) -> None:
    files: dict[str, int] = {}

    def counted(*arguments: Any) -> native_scan.Choice:
        choice = native_scan.choose(*arguments)
        files[name] = len(choice.paths)
        return choice

    monkeypatch.setattr(sys.modules["lakebed.spark.read"], "choose", counted)
    for name in names(table_format):
        if name in REFUSED:
            continue
        location = unpack(table_format, name)
        frame = lakebed.spark.read(spark, str(location), options=opening(location))
        if files.get(name):
            assert as_bag(frame.toArrow()) == as_bag(lakebed.open(location, opening(location)).read()), name
    assert sum(files.values()) == FILES[table_format], files
