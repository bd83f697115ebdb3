"""A driver on a cluster that gives executors up as soon as they are idle and asks for new ones when there is work
(`spark.dynamicAllocation`), also those that hold rows of a shuffle. It prints its results as JSON.

    python -m tests.programs.on_shrinking_cluster MASTER PYTHON FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from tests.programs.on_cluster import SCHEMA, rows_of, session
from tests.tables.leftovers import leftovers

SETTINGS = {
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
}
ROWS = 3000
FORMATS = {"iceberg": [], "paimon": ["id"], "hudi": ["id"]}
_PATIENCE = 60


def main(master: str, python: str, folder: str) -> dict[str, object]:
    """What each table held after two appends, and what was left beside its files; and how often executors came."""
    place = Path(folder)
    (place / "shrinking").mkdir()
    spark = session(master, python, place / "shrinking", SETTINGS)
    lakebed.spark.ship(spark)
    seen: dict[str, object] = {}
    for table_format, key in FORMATS.items():
        options = {"bucket": "2"} if table_format == "paimon" else {}
        location = str(place / f"{table_format}-shrinking")
        lakebed.create(location, table_format, SCHEMA, key, options=options)
        for number in range(2):
            lakebed.spark.write(rows_of(spark, ROWS, 3, ROWS * number), location)
            if not number:
                _wait_until_none_is_left(spark)
        ids = [row.id for row in lakebed.spark.read(spark, location, columns=["id"], native=False).collect()]
        left = sorted(leftovers(lakebed.open(location)))
        seen[table_format] = {"rows": len(ids), "distinct": len({*ids}), "left": left}
    spark.stop()
    events = [path.read_text("utf-8") for path in (place / "shrinking").rglob("*") if path.is_file()]
    seen["came"] = sum(text.count('"Event":"SparkListenerExecutorAdded"') for text in events)
    return seen


def _wait_until_none_is_left(spark: SparkSession) -> None:
    """Wait until all executors are gone: the status names the driver alone."""
    until = time.monotonic() + _PATIENCE
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() > 1:
        if time.monotonic() > until:
            raise TimeoutError(f"executors are still there after {_PATIENCE} s without work")
        time.sleep(0.1)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
