"""A separate process that streams a table into others, and is killed when each of them has one commit too many.

    python -m tests.programs.killed_streams SOURCE BATCH FOLDER...

FOLDER/table is a sink and FOLDER/checkpoint the folder of its query. Each query commits batch BATCH to its table and
then waits. When all of them wait, the process dies as by `kill -9`, before Spark's commit logs know of these batches.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import lakebed.spark
from lakebed.kernel.files import Store
from lakebed.spark.slow_start import despite_slow_start
from lakebed.spark.stream_sink import BatchReport, StreamSink
from tests.spark.tables import changes_of


def main(source: str, batch: str, *folders: str) -> None:
    keep, committed = StreamSink._keep, threading.Semaphore(0)

    def wait(task: StreamSink, checkpoint: Store, report: BatchReport) -> None:
        if report.batch_id == int(batch):
            committed.release()
            threading.Event().wait()
        keep(task, checkpoint, report)

    StreamSink._keep = wait
    spark = lakebed.spark.local_session("local[2]", brief=True)
    lakebed.spark.register(spark)
    for folder in folders:

        def start(folder: str = folder) -> None:
            frame, now = changes_of(spark, source), {"availableNow": True}
            query = lakebed.spark.write_stream(frame, f"{folder}/table", f"{folder}/checkpoint", trigger=now)
            while not committed.acquire(timeout=0.2):
                if not query.isActive:
                    query.awaitTermination()  # raises what it failed at
                    raise AssertionError(f"the query ended before batch {batch}")

        despite_slow_start(start)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
