"""A separate process that streams a table into another one, and is killed after one of its commits.

    python -m tests.spark.killed_stream SOURCE SINK CHECKPOINT BATCH

Batch BATCH is committed to the table; then the process dies as by `kill -9`, before Spark's commit log knows of it.
"""

from __future__ import annotations

import os
import signal
import sys

import lakebed.spark
from lakebed.spark.stream_sink import BatchReport, StreamSink
from tests.spark.tables import changes_of


def main(source: str, sink: str, checkpoint: str, batch: str) -> None:
    keep = StreamSink._keep

    def die(task: StreamSink, report: BatchReport) -> None:
        if report.batch_id == int(batch):
            os.kill(os.getpid(), signal.SIGKILL)
        keep(task, report)

    StreamSink._keep = die
    spark = lakebed.spark.local_session("local[2]", brief=True)
    lakebed.spark.register(spark)
    frame = changes_of(spark, source)
    lakebed.spark.write_stream(frame, sink, checkpoint, trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
