"""How Spark cuts rows into Arrow batches on their way to Python: by their number alone.

Since release 4.1 Spark asks after each row how many bytes the batch has by now, and each time it walks all columns. On
a write of twelve columns that is a quarter of the JVM's processor time. The greatest number of bytes that the setting
takes turns it off. What then bounds a batch is its number of rows. We take a quarter of what Spark's own Parquet
reader holds of each column at once (4,096).

Batches that small would cost Python more calls, so tasks put them together again (`joined`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from pyspark.sql import SparkSession

from lakebed.spark.release import parsed

ROWS = 1_000
"""The rows of a batch on its way from Spark to Python."""
JOINED_BYTES = 8 << 20
"""About so many bytes of Arrow data come to a writer at once."""
_ROWS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
_SETTINGS = {_BYTES_SETTING: f"{(1 << 31) - 1}b", _ROWS_SETTING: str(ROWS)}
_SINCE = (4, 1)


@contextmanager
def batches_by_rows(spark: SparkSession) -> Iterator[None]:
    """Within the block, batches that queries of the session hand to Python end by rows. A session that has one of the
    two settings, or refuses them, keeps its own."""
    changed: list[str] = []
    if parsed(spark.version) >= _SINCE:
        with suppress(Exception):  # a platform may refuse settings, with an error of its own
            if all(spark.conf.get(key, None) is None for key in _SETTINGS):
                for key, value in _SETTINGS.items():
                    changed.append(key)  # before, since a warning about a setting that was taken may be an error
                    spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in changed:
            with suppress(Exception):  # over Connect the session may be gone; the block's own error is the one to see
                if spark.conf.get(key, None) == _SETTINGS[key]:
                    spark.conf.unset(key)


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about `JOINED_BYTES`. None is empty."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= JOINED_BYTES:
            yield _one(held)
            held, size = [], 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
