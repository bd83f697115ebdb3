"""Hudi tables written and maintained, side by side: lakebed, Hudi's own engine and hudi-rs, step by step.

    ./run bench hudi-write [--rows 2000000] [--folder FOLDER] [--engines lakebed,jvm,hudi-rs] [--cases cow,mor,growth]

Rows of 12 columns in 4 partitions, no metadata table, index SIMPLE. Two tables, copy-on-write and merge-on-read, each
with one bulk insert of all rows, three upserts of a tenth of them, a compaction (merge-on-read), a read of all rows, a
clustering and a clean. Every step of lakebed and of hudi-rs is a process of its own; Hudi's own engine is one Spark
session of two threads, warmed up by a small table. Seconds on the clock and of processor time are of the step alone: of
a session that runs, or of a process with its modules loaded. `process_cpu_seconds` are of the whole process, its start
included; hudi-rs has only these, as `cpu_seconds`. Peak memory is that of the process (of the JVM: the most up to
then). `growth` is lakebed alone: an upsert of the same rows into one partition, and a compaction, in tables of one size
and of four times that size.

Hudi's own engine needs LAKEBED_HUDI_JVM_PYTHON and LAKEBED_HUDI_JARS, hudi-rs a program that LAKEBED_HUDI_RS_WRITER
names (a command that takes `create|insert|upsert|compact|read TABLE [FILE]` and answers with one JSON line); an engine
that is not named is left out. Figures of all rows go to bench/results/hudi_write.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

RESULTS = Path(__file__).parent / "results" / "hudi_write.json"
BUNDLE = "hudi-spark3.5-bundle_2.12-1.1.1.jar"
ROWS, PARTS, UPSERTS = 2_000_000, 4, 3
STEPS = {
    "cow": ("bulk_insert", *(f"upsert_{n + 1}" for n in range(UPSERTS)), "read", "cluster", "clean"),
    "mor": ("bulk_insert", *(f"upsert_{n + 1}" for n in range(UPSERTS)), "read", "compact", "cluster", "clean"),
}
RS_STEPS = {"bulk_insert": "insert", "compact": "compact", "read": "read"}
GROWTH = ("bulk_insert", "upsert_one", "compact")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--folder", default="")
    parser.add_argument("--engines", default="lakebed,jvm,hudi-rs")
    parser.add_argument("--cases", default="cow,mor,growth")
    parser.add_argument("--options", default="{}", help="more options of lakebed's writes, as JSON")
    parser.add_argument("--work", nargs=3, default=(), metavar=("STEP", "TABLE", "INPUT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        step, table, source = given.work
        if step == "inputs":
            make_inputs(Path(source), given.rows)
        else:
            print(json.dumps(measured(step, table, source, json.loads(given.options))))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(given.folder or scratch)
        inputs(folder, given.rows)
        figures = []
        for engine in given.engines.split(","):
            for line in ENGINES[engine](folder, given):
                print(json.dumps(line), flush=True)
                figures.append(line)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    if given.rows == ROWS and {"lakebed", "jvm"} <= {line["engine"] for line in figures}:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({"machine": machine, "rows": given.rows, "figures": figures}, indent=1) + "\n")


# ---- the rows --------------------------------------------------------------------------------------------------------


def inputs(folder: Path, count: int) -> None:
    """Make them in a process of its own: the peak memory of a process counts what its parent had."""
    words = ["-m", "bench.hudi_write", "--rows", str(count), "--work", "inputs", "", str(folder / f"input_{count}")]
    subprocess.run([sys.executable, *words], check=True)


def make_inputs(folder: Path, count: int) -> None:
    """One Parquet file of all rows, and one for each upsert: every tenth row, others each time. `one` has rows of the
    first partition only, as many at any size of the table."""
    if (folder / "one.parquet").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows(np.arange(count), 0), folder / "all.parquet", row_group_size=100_000)
    for generation in range(1, UPSERTS + 1):
        chosen = np.random.default_rng(generation).random(count) < 0.1
        pq.write_table(rows(np.flatnonzero(chosen), generation), folder / f"upsert_{generation}.parquet")
    pq.write_table(rows(np.arange(0, 80_000, PARTS), 9), folder / "one.parquet")


def rows(keys: np.ndarray[Any, Any], generation: int) -> pa.Table:
    """The rows of some keys: repeatable, 12 columns of mixed kinds."""
    mixed = (keys.astype(np.uint64) + np.uint64(1 + generation)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (mixed ^ (mixed >> np.uint64(32))).astype(np.int64)
    cents = np.zeros((len(keys), 2), np.int64)
    cents[:, 0] = h % 100_000
    none = pa.array(h % 10 == 0)
    decimals = pa.Array.from_buffers(pa.decimal128(10, 2), len(keys), [None, pa.py_buffer(cents.tobytes())])
    texts = pc.utf8_lpad(pa.array(keys).cast(pa.string()), width=9, padding="0")
    return pa.table(
        {
            "id": pc.binary_join_element_wise("key", texts, "-"),
            "ts": pa.array(np.full(len(keys), 1000 + generation)),
            "part": pc.binary_join_element_wise("p", pa.array(keys % PARTS).cast(pa.string()), ""),
            "name": pc.binary_join_element_wise("name", pa.array(h % 100_000).cast(pa.string()), "-"),
            "i1": pa.array((h % 1000).astype(np.int32)),
            "l1": pa.array(h),
            "d1": pa.array(h / 1e9),
            "d2": pa.array((h % 7).astype(np.float64)),
            "b1": pa.array(h % 2 == 0),
            "dt": pa.array((18_262 + h % 2000).astype(np.int32)).cast(pa.date32()),
            "tm": pa.array((1_600_000_000 + h % 100_000_000) * 1_000_000).cast(pa.timestamp("us", "UTC")),
            "dec": pc.if_else(none, None, decimals),
        }
    )


# ---- lakebed ---------------------------------------------------------------------------------------------------------


def with_lakebed(folder: Path, given: Any) -> Iterator[dict[str, Any]]:
    """Each step in a process of its own."""
    for kind in (kind for kind in STEPS if kind in given.cases.split(",")):
        table = fresh(folder / f"lakebed_{kind}")
        for step in STEPS[kind]:
            yield in_own_process(kind, step, table, folder / f"input_{given.rows}", given.options)
    if "growth" in given.cases.split(","):
        for count in (given.rows // 4, given.rows):
            inputs(folder, count)
            for kind in STEPS:
                table = fresh(folder / f"growth_{kind}_{count}")
                for step in GROWTH[: 3 if kind == "mor" else 2]:
                    line = in_own_process(kind, step, table, folder / f"input_{count}", given.options)
                    yield {**line, "table_rows": count}


def fresh(table: Path) -> Path:
    shutil.rmtree(table, ignore_errors=True)
    return table


def in_own_process(kind: str, step: str, table: Path, inputs: Path, options: str) -> dict[str, Any]:
    words = ["-m", "bench.hudi_write", "--options", options, "--work", step, str(table), str(inputs)]
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=True)
    return {"engine": "lakebed", "table": kind, "step": step, **json.loads(done.stdout.splitlines()[-1])}


def measured(step: str, table: str, inputs: str, options: dict[str, Any]) -> dict[str, Any]:
    """One step of lakebed, in this process, with the modules loaded as a session has them."""
    import lakebed.formats.hudi.table  # noqa: F401
    from lakebed.errors import UnsupportedError

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
    import lakebed

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


# ---- the peers -------------------------------------------------------------------------------------------------------


def with_jvm(folder: Path, given: Any) -> Iterator[dict[str, Any]]:
    """Hudi's own engine: one session for all steps of both tables."""
    python, jars = os.environ.get("LAKEBED_HUDI_JVM_PYTHON"), os.environ.get("LAKEBED_HUDI_JARS")
    if not python or not jars:
        print("no LAKEBED_HUDI_JVM_PYTHON or LAKEBED_HUDI_JARS: Hudi's own engine is left out", file=sys.stderr)
        return
    orders = []
    for kind in (kind for kind in STEPS if kind in given.cases.split(",")):
        fresh(folder / f"jvm_{kind}")
        orders += [{"kind": kind, "step": step, "path": str(folder / f"jvm_{kind}")} for step in STEPS[kind]]
    script = str(Path(__file__).parent / "hudi_write_jvm.py")
    words = [python, script, str(Path(jars) / BUNDLE), str(folder), str(folder / f"input_{given.rows}")]
    text = "\n".join(map(json.dumps, orders)) + "\n"
    environment = {**os.environ, "TZ": "UTC", "PYSPARK_PYTHON": python}
    done = subprocess.run(words, input=text, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    for line in done.stdout.splitlines():
        if line.startswith("ANSWER "):
            yield {"engine": "jvm", **json.loads(line.removeprefix("ANSWER "))}


def with_hudi_rs(folder: Path, given: Any) -> Iterator[dict[str, Any]]:
    """hudi-rs: each step in a process of its own."""
    program = os.environ.get("LAKEBED_HUDI_RS_WRITER")
    if not program:
        print("no LAKEBED_HUDI_RS_WRITER: hudi-rs is left out", file=sys.stderr)
        return
    inputs = folder / f"input_{given.rows}"
    for kind in (kind for kind in STEPS if kind in given.cases.split(",")):
        table = fresh(folder / f"rs_{kind}")
        settings = ["--type", kind, "--version", "9", "--mdt", "false", "--index", "simple", "--stats", "false"]
        subprocess.run([program, "create", table, *settings], check=True, stdout=subprocess.DEVNULL)
        for step in STEPS[kind]:
            operation = RS_STEPS.get(step, "upsert" if step.startswith("upsert") else "")
            if operation:
                files = [] if operation in ("compact", "read") else [inputs / rs_input(step)]
                done = subprocess.run(
                    [program, operation, table, *files], check=False, stdout=subprocess.PIPE, text=True
                )
                answer = json.loads(done.stdout.splitlines()[-1])
                yield {"engine": "hudi-rs", "table": kind, "step": step, **answer}


def rs_input(step: str) -> str:
    return "all.parquet" if step == "bulk_insert" else f"{step}.parquet"


ENGINES = {"lakebed": with_lakebed, "jvm": with_jvm, "hudi-rs": with_hudi_rs}

if __name__ == "__main__":
    main()
