"""One step of lakebed for `bench/hudi_write.py`, in a process of its own.

    python -m bench.hudi_write_lakebed STEP TABLE INPUTS OPTIONS        prints its figures as one JSON line

The process has what `pip install lakebed` brings: pyarrow would load pandas wherever it finds it, which takes 38 MB.
"""

# ruff: noqa: E402, I001 - the order of imports matters here
from __future__ import annotations

import sys
from typing import Any


class WithoutPandas:
    """Finds no pandas."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ImportError(name)


sys.meta_path.insert(0, WithoutPandas)

import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

import lakebed
import lakebed.formats.hudi.table
from lakebed.errors import UnsupportedError

import pyarrow as pa
import pyarrow.parquet as pq


def measured(step: str, table: str, inputs: str, options: dict[str, Any]) -> dict[str, Any]:
    """One step, in this process, with the modules loaded as a session has them."""
    work = lakebed_step(step, Path(table), Path(inputs), options)
    began, cpu = time.perf_counter(), time.process_time()
    try:
        said = work()
    except UnsupportedError as error:
        return {"refused": str(error).partition(" [")[0]}
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "process_cpu_seconds": round(time.process_time(), 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **said,
    }


def lakebed_step(step: str, table: Path, inputs: Path, options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """What a step does."""

    def write(name: str, mode: str, operation: str) -> dict[str, Any]:
        source = pq.ParquetFile(inputs / f"{name}.parquet")
        reader = pa.RecordBatchReader.from_batches(source.schema_arrow, source.iter_batches(65_536))
        more = {"hoodie.datasource.write.operation": operation, "hoodie.index.type": "SIMPLE", **options}
        lakebed.open(table).write(reader, mode=mode, options=more)
        return {"rows": source.metadata.num_rows}

    def create_and_fill() -> dict[str, Any]:
        kind = "MERGE_ON_READ" if "_mor" in table.name else "COPY_ON_WRITE"
        lakebed.create(
            table, "hudi", pq.read_schema(inputs / "all.parquet"), primary_key=["id"], partition_by=["part"],
            options={
                "hoodie.table.name": "bench", "hoodie.datasource.write.table.type": kind,
                "hoodie.datasource.write.precombine.field": "ts",
            },
        )  # fmt: skip
        return write("all", "append", "bulk_insert")

    def read() -> dict[str, Any]:
        return {"rows": sum(batch.num_rows for batch in lakebed.open(table).read())}

    def compact() -> dict[str, Any]:
        result = lakebed.open(table).rewrite(options={"hoodie.compact.inline.max.delta.commits": 1})
        return {"files": result.files_after}

    def cluster() -> dict[str, Any]:
        limits = {"hoodie.clustering.plan.strategy.sort.columns": "i1", "lakebed.rewrite.what": "clustering"}
        result = lakebed.open(table).rewrite(options=limits)
        return {"files": result.files_after}

    def clean() -> dict[str, Any]:
        return {"files": len(lakebed.open(table).expire(options={"hoodie.clean.commits.retained": 1}).deleted_files)}

    steps = {"bulk_insert": create_and_fill, "read": read, "compact": compact, "cluster": cluster, "clean": clean}
    if step == "upsert_one":
        return lambda: write("one", "upsert", "upsert")
    return steps[step] if step in steps else lambda: write(step, "upsert", "upsert")


if __name__ == "__main__":
    chosen, folder, source, more = sys.argv[1:]
    print(json.dumps(measured(chosen, folder, source, json.loads(more))))
