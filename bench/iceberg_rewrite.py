"""Rewriting an Iceberg table of many small files: processor and clock seconds, peak memory, files and bytes.

    ./run bench iceberg-rewrite [--rows 7000000] [--tasks 50] [--runs 1] [--folder FOLDER] [--cases ...]

The table: 12 columns of mixed kinds, 4 regions x bucket(2, id) = 8 partitions, 50 writing tasks, so 400 Parquet files
of about 0.8 MB (zstd, 323 MB), which become 8. Its second branch has 5 % of the rows deleted by position, one delete
file a data file. Each case runs in a process of its own on a copy of the metadata:

    encode            bin-pack by decoding and encoding
    join              bin-pack by joining row groups byte for byte
    deletes           bin-pack with position deletes, dangling ones removed
    sort              sort by (cust, ts)
    floor             pyarrow alone: read all files of a partition, write one, two threads; no table format
    decode            pyarrow alone: read
    zamboni           iceberg-zamboni in the interpreter of LAKEBED_ZAMBONI_PYTHON, plain and with deletes
    jvm               Iceberg's own engine in that of LAKEBED_ICEBERG_JVM_PYTHON with the jars in LAKEBED_ICEBERG_JARS:
                      bin-pack, with deletes, sort

Peers that the environment does not name are left out. Figures of all rows go to bench/results/iceberg_rewrite.json.
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.codec.transforms import transformed
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import open_store
from tests.tables.iceberg import commits
from tests.tables.iceberg.lake import Lake

RESULTS = Path(__file__).parent / "results" / "iceberg_rewrite.json"
OURS = ("encode", "join", "deletes", "sort")
CASES = (*OURS, "floor", "decode")
PEERS = {
    "LAKEBED_ZAMBONI_PYTHON": ("zamboni", "zamboni-deletes"),
    "LAKEBED_ICEBERG_JVM_PYTHON": ("jvm-encode", "jvm-deletes", "jvm-sort"),
}
ROWS = 7_000_000
REGIONS = ("eu", "us", "ap", "af")
KINDS = {
    "id": LongType(), "region": StringType(), "cust": IntegerType(), "qty": IntegerType(), "price": DecimalType(12, 2),
    "ratio": DoubleType(), "score": FloatType(), "flag": BooleanType(), "d": DateType(), "ts": TimestamptzType(),
    "code": StringType(), "note": StringType(),
}  # fmt: skip
SCHEMA = Schema(*(NestedField(n + 1, name, kind) for n, (name, kind) in enumerate(KINDS.items())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--folder", default="")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--options", default="{}")
    parser.add_argument("--work", nargs=2, default=(), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        print(json.dumps(measured(*given.work, json.loads(given.options))))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(given.folder or scratch)
        if not (folder / "metadata-deleted").exists():
            make(folder, given.rows, given.tasks)
        asked = given.cases.split(",")
        figures = [best(folder, case, given.runs, given.options) for case in asked]
        for name, cases in PEERS.items():
            if os.environ.get(name):
                figures += [best(folder, case, given.runs, "{}") for case in cases if case not in asked]
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    if set(CASES) <= set(asked) and given.rows == ROWS:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({"machine": machine, "rows": given.rows, "figures": figures}, indent=1) + "\n")


# ---- the table -------------------------------------------------------------------------------------------------------


def rows(start: int, count: int) -> pa.Table:
    """Rows of one task: repeatable, of the shape of an order line."""
    random = np.random.default_rng(start)
    ids = np.arange(start, start + count, dtype=np.int64)
    unscaled = np.zeros((count, 2), np.int64)
    unscaled[:, 0] = random.integers(0, 100_000_000, count)
    words = pa.array(random.integers(0, 2**63, count)).cast(pa.string())
    tails = pc.if_else(pa.array(ids % 5 == 0), pa.array(random.integers(0, 2**63, count)).cast(pa.string()), "")
    numbers = pa.array(random.integers(0, 1000, count)).cast(pa.string())
    notes = pc.binary_join_element_wise("order ", words, " note ", numbers, tails, "")
    codes = pc.binary_join_element_wise("C", pa.array(random.integers(10_000, 15_000, count)).cast(pa.string()), "")
    return pa.table(
        [
            ids, np.array(REGIONS)[random.integers(0, 4, count)], random.integers(0, 200_000, count).astype(np.int32),
            random.integers(0, 100, count).astype(np.int32),
            pa.Array.from_buffers(pa.decimal128(12, 2), count, [None, pa.py_buffer(unscaled.tobytes())]),
            random.uniform(-1, 1, count), random.uniform(-1, 1, count).astype(np.float32), ids % 3 == 0,
            pa.array((18262 + random.integers(0, 1500, count)).astype(np.int32)).cast(pa.date32()),
            pa.array(1577836800000000 + random.integers(0, 126144000000000, count)).cast(pa.timestamp("us", "UTC")),
            codes, notes,
        ],
        schema=arrow_schema(SCHEMA),
    )  # fmt: skip


def make(folder: Path, count: int, tasks: int) -> None:
    """A table of `tasks` small files in each partition; its metadata before and after the deletes is put aside."""
    lake = Lake(folder / "table", SCHEMA, partition_by=[("region", "identity"), ("id", "bucket[2]")])
    bucket = lake.table.table_metadata.spec.fields[1].transform
    made = []
    for task in range(tasks):
        data = rows(task * count // tasks, (task + 1) * count // tasks - task * count // tasks)
        buckets = transformed(bucket, data["id"].combine_chunks(), LongType()).to_numpy()
        regions = data["region"].to_numpy(zero_copy_only=False)
        for region in REGIONS:
            for number in (0, 1):
                some = data.filter(pa.array((regions == region) & (buckets == number)))
                made += lake.write(some, (region, number))
    commits.append(lake.table.operations, made)
    shutil.copytree(folder / "table" / "metadata", folder / "metadata-plain")
    random = np.random.default_rng(1)
    lake.delete_positions({one.path: np.flatnonzero(random.random(one.record_count) < 0.05).tolist() for one in made})
    shutil.copytree(folder / "table" / "metadata", folder / "metadata-deleted")


# ---- the cases -------------------------------------------------------------------------------------------------------


def best(folder: Path, case: str, runs: int, options: str) -> dict[str, Any]:
    """The run with the least processor time, each in a process of its own; what it wrote is taken away afterwards."""
    table, found = folder / "table", []
    before = {path for path in (table / "data").rglob("*") if path.is_file()}
    for _ in range(runs):
        shutil.rmtree(table / "metadata")
        shutil.copytree(folder / f"metadata-{'deleted' if 'deletes' in case else 'plain'}", table / "metadata")
        try:
            found.append(one_run(table, case, options))
        finally:
            for path in set((table / "data").rglob("*")) - before:
                if path.is_file():
                    path.unlink()
            shutil.rmtree(table / "data" / "floor", ignore_errors=True)
    line = min(found, key=lambda one: float(one["cpu_seconds"]))
    print(line, flush=True)
    return line


def one_run(source: Path, case: str, options: str) -> dict[str, Any]:
    python, script = sys.executable, ["-m", "bench.iceberg_rewrite", "--options", options, "--work", case, str(source)]
    peers = Path(__file__).parent
    if case.startswith("zamboni"):
        python, script = os.environ["LAKEBED_ZAMBONI_PYTHON"], [str(peers / "iceberg_zamboni_peer.py"), str(source)]
    if case.startswith("jvm-"):
        script = [str(peers / "iceberg_jvm_peer.py"), str(source), case.removeprefix("jvm-")]
        python = os.environ["LAKEBED_ICEBERG_JVM_PYTHON"]
    answer = subprocess.run([python, *script], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {"case": case, **json.loads(answer.strip().splitlines()[-1])}


def measured(case: str, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    """One run of one case: the seconds of the work alone, not of starting Python."""
    table = IcebergTable(open_store(folder))
    groups = list(partitions(table)) if case in ("floor", "decode") else []
    began, cpu = time.perf_counter(), time.process_time()
    if case in OURS:
        result = table.rewrite(options={**OPTIONS[case], **options})
        files, after, size = result.files_before, result.files_after, result.bytes_after
        more: dict[str, Any] = {"removed_deletes": result.removed_deletes, "notes": list(result.notes)}
    else:
        files, (after, size), more = sum(map(len, groups)), (floor if case == "floor" else decode)(groups, folder), {}
    return {
        "wall_seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "files": files, "files_after": after, "mb_after": round(size / 1e6, 1), **more,
    }  # fmt: skip


ENCODE = {"lakebed.rewrite.concat-min-row-group-bytes": 1 << 40}
OPTIONS: dict[str, dict[str, Any]] = {
    "encode": ENCODE,
    "join": {"lakebed.rewrite.concat-min-row-group-bytes": 1},
    "deletes": {**ENCODE, "remove-dangling-deletes": True, "rewrite-all": True},
    "sort": {"strategy": "sort", "sort-order": "cust, ts"},
}


def partitions(table: IcebergTable) -> Iterator[list[str]]:
    """The paths of each partition's files."""
    metadata = table.table_metadata
    found: dict[Any, list[str]] = {}
    for task in scan_tasks(table.operations.files, metadata, metadata.head()):
        found.setdefault(task.data.partition, []).append(task.data.path)
    yield from found.values()


def floor(groups: list[list[str]], folder: str) -> tuple[int, int]:
    """What decoding and encoding must cost."""
    out = Path(folder) / "data" / "floor"
    out.mkdir()

    def one(number: int, paths: list[str]) -> int:
        target = out / f"{number}.parquet"
        with pq.ParquetWriter(target, pq.read_schema(paths[0]), compression="zstd", compression_level=3) as writer:
            held: list[pa.Table] = []
            for path in paths:
                held.append(pq.read_table(path, partitioning=None, use_threads=False))
                if sum(map(len, held)) >= 500_000:
                    whole = pa.concat_tables(held)
                    writer.write_table(whole, row_group_size=len(whole))
                    held = []
            if held:
                writer.write_table(pa.concat_tables(held))
        return target.stat().st_size

    with ThreadPoolExecutor(2) as pool:
        sizes = list(pool.map(one, range(len(groups)), groups))
    return len(sizes), sum(sizes)


def decode(groups: list[list[str]], folder: str) -> tuple[int, int]:
    def one(paths: list[str]) -> int:
        return sum(pq.read_table(path, partitioning=None, use_threads=False).num_rows for path in paths)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, groups))
    return 0, 0


if __name__ == "__main__":
    main()
