"""Work that is measured in a way of its own: a batch of a stream, and what a commit costs by the table's history."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import lakebed
from bench.objectstore import tables as make
from bench.objectstore.place import ROOT, Tables
from tests.objectstore.server import KEY, SECRET, StoreServer, counted_of

Figures = dict[str, Any]


_PIPELINE = """
[source]
table = "{source}"
[source.options]
{options}
"read.start-commit" = "{start}"
"read.commits.limit" = "1"
[transform]
sql = "select order_id, customer, amount, dt, _row_kind from source"
[sink]
table = "{sink}"
format = "paimon"
primary_key = ["dt", "order_id"]
partition_by = ["dt"]
[sink.options]
{options}
bucket = "4"
[run]
checkpoint = "{checkpoint}"
"""


def stream_batch(server: StoreServer, tables: Tables, latencies: Sequence[int]) -> Figures:
    """A batch of the demo's pipeline, from a Hudi source to a Paimon sink by Spark: the mean of all batches but the
    first. The checkpoint is a folder of this machine."""
    from lakebed.spark.pipeline import load, run
    from lakebed.spark.session import local_session

    figures: Figures = {"seconds": {}}
    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}  # explicit secrets don't go to workers
    session = local_session("local[2]", brief=True)
    shared = {key: value for key, value in server.options.items() if not key.endswith(("_key", "_key_id"))}
    options = "\n".join(f'"{key}" = "{value}"' for key, value in shared.items())
    start = lakebed.open(ROOT / "examples" / "orders_hudi").history()[0].time
    source = server.upload(ROOT / "examples" / "orders_hudi", server.url("orders"))
    try:
        for latency in latencies:
            file, checkpoint = tables.folder / "pipeline.toml", tables.folder / f"checkpoint-{latency}"
            sink = server.url("demo.db/orders")
            named = {"source": source, "options": options, "start": start, "sink": sink, "checkpoint": checkpoint}
            file.write_text(_PIPELINE.format(**named))
            ends: list[float] = []
            server.latency(latency / 1000)
            server.clear()
            with (tables.folder / "pipeline.log").open("a") as log, redirect_stdout(log):
                run(load(file), session, on_progress=lambda report, ends=ends: ends.append(time.monotonic()))
            requests = [entry for entry in server.requests() if ends[0] <= entry.began < ends[-1]]
            server.latency(0)
            batches = len(ends) - 1
            counted = counted_of(None, requests)
            figures["seconds"][str(latency)] = round((ends[-1] - ends[0]) / batches, 3)
            figures |= {
                "requests": round(counted.requests / batches, 1), "steps": round(counted.steps / batches, 1),
                "kinds": {kind: round(count / batches, 1) for kind, count in sorted(counted.kinds.items())},
                "at_once": counted.at_once, "bytes_out": counted.bytes_out // batches,
                "bytes_in": counted.bytes_in // batches, "log": requests,
            }  # fmt: skip
    finally:
        server.latency(0)
        session.stop()
    return figures


def commit_cost(folder: Path, format: str, commits: Sequence[int] = (100, 1000)) -> Figures:
    """Milliseconds of processor time of opening a table on this machine's disk and appending to it, by the number of
    commits before: the least of ten."""
    path = folder / "cost.db" / format
    table = lakebed.create(path, format, make.SCHEMA, options={"bucket": "-1"} if format == "paimon" else {})
    rows = make.rows(1, 0, 10)
    done, figures = 0, {}
    for count in commits:
        writer = table.writer("bench")
        while done < count:
            writer.write(rows)
            writer.commit(done, writer.prepare_commit())
            done += 1
        figures[str(count)] = round(
            1000 * min(_processor(lambda: lakebed.open(path).write(rows)) for _ in range(10)), 1
        )
        done += 10
    return figures


def _processor(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before
