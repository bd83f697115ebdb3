"""Hudi tables written and maintained, side by side: lakebed, Hudi's own engine and hudi-rs, step by step.

    ./run bench hudi-write [--rows 2000000] [--folder FOLDER] [--engines lakebed,lakebed-zstd,jvm,hudi-rs]
        [--cases cow,mor,growth]

Rows of 12 columns in 4 partitions, no metadata table, index SIMPLE. Two tables, copy-on-write and merge-on-read, each
with one bulk insert of all rows, three upserts of a tenth of them, a compaction (merge-on-read), a read of all rows, a
clustering and a clean. Every step of lakebed and of hudi-rs is a process of its own; Hudi's own engine is one Spark
session of two threads, warmed up by a small table. Seconds on the clock and of processor time are of the step alone: of
a session that runs, or of a process with its modules loaded. `process_cpu_seconds` are of the whole process, its start
included; hudi-rs has only these, as `cpu_seconds`. Peak memory is that of the process (of the JVM: the most up to
then). `lakebed-zstd` is lakebed with Zstandard, which hudi-rs writes, in place of Hudi's default, gzip. lakebed and
hudi-rs also read the table that the other one wrote (`of`). `growth` is lakebed alone: an upsert of the same rows into
one partition, and a compaction, in tables of one size and of four times that size.

Hudi's own engine needs LAKEBED_HUDI_JVM_PYTHON and LAKEBED_HUDI_JARS, hudi-rs a program that LAKEBED_HUDI_RS_WRITER
names (a command that takes `create|insert|upsert|compact|read TABLE [FILE]` and answers with one JSON line); an engine
that is not named is left out. Figures of all rows go to bench/results/hudi_write.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

RESULTS = Path(__file__).parent / "results" / "hudi_write.json"
BUNDLE = "hudi-spark3.5-bundle_2.12-1.1.1.jar"
CODEC = "hoodie.parquet.compression.codec"
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
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--cases", default="cow,mor,growth")
    parser.add_argument("--options", default="{}", help="more options of lakebed's writes, as JSON")
    parser.add_argument("--work", default="", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        make_inputs(Path(given.work), given.rows)
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
    words = ["-m", "bench.hudi_write", "--rows", str(count), "--work", str(folder / f"input_{count}")]
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
            if step == "read" and (program := os.environ.get("LAKEBED_HUDI_RS_WRITER")):
                yield {**answer_of_hudi_rs(program, "read", table), "table": kind, "step": "read", "of": "lakebed"}
    if "growth" in given.cases.split(","):
        for count in (given.rows // 4, given.rows):
            inputs(folder, count)
            for kind in STEPS:
                table = fresh(folder / f"growth_{kind}_{count}")
                for step in GROWTH[: 3 if kind == "mor" else 2]:
                    line = in_own_process(kind, step, table, folder / f"input_{count}", given.options)
                    yield {**line, "table_rows": count}


def with_lakebed_zstd(folder: Path, given: Any) -> Iterator[dict[str, Any]]:
    """The writes of both tables with Zstandard, which hudi-rs takes where Hudi's default is gzip."""
    options = json.dumps({**json.loads(given.options), CODEC: "zstd"})
    for kind in (kind for kind in STEPS if kind in given.cases.split(",")):
        table = fresh(folder / f"lakebed_zstd_{kind}")
        for step in STEPS[kind][: 1 + UPSERTS]:
            line = in_own_process(kind, step, table, folder / f"input_{given.rows}", options)
            yield {**line, "engine": "lakebed-zstd"}


def fresh(table: Path) -> Path:
    shutil.rmtree(table, ignore_errors=True)
    return table


def in_own_process(kind: str, step: str, table: Path, inputs: Path, options: str) -> dict[str, Any]:
    words = ["-m", "bench.hudi_write_lakebed", step, str(table), str(inputs), options]
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=True)
    return {"engine": "lakebed", "table": kind, "step": step, **json.loads(done.stdout.splitlines()[-1])}


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
                yield {**answer_of_hudi_rs(program, operation, table, *files), "table": kind, "step": step}
                if step == "read" and "lakebed" in given.engines:
                    yield {**in_own_process(kind, step, table, inputs, "{}"), "of": "hudi-rs"}


def answer_of_hudi_rs(program: str, operation: str, table: Path, *files: Path) -> dict[str, Any]:
    """What hudi-rs says of one operation."""
    done = subprocess.run([program, operation, table, *files], check=False, stdout=subprocess.PIPE, text=True)
    return {"engine": "hudi-rs", **json.loads(done.stdout.splitlines()[-1])}


def rs_input(step: str) -> str:
    return "all.parquet" if step == "bulk_insert" else f"{step}.parquet"


ENGINES = {"lakebed": with_lakebed, "lakebed-zstd": with_lakebed_zstd, "jvm": with_jvm, "hudi-rs": with_hudi_rs}

if __name__ == "__main__":
    main()
