"""What one task holds in memory and costs the processor, by the size of its data: reads, writes and rewrites of each
format.

    ./run bench task-sizes [--rows 1000000,4000000,8000000]

Each case runs in a process of its own with one thread, which is what a Spark executor gives one task. The rows have ten
columns, about 90 bytes in memory, and no order. Cases:

    write      all rows as one write, batch by batch
    read       all rows of the table, batch by batch
    rewrite    the table's compaction: of eight files into one (Iceberg, Paimon without a key), of two sorted runs
               (Paimon with a key), of a base file with a log of a tenth of its keys (Hudi)

Memory is the process's peak, less what it held once the table was open. Seconds are of the processor. The result goes
to results/task_sizes.json; docs/sizing.md tells what follows from it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import lakebed

RESULT = Path(__file__).parent / "results" / "task_sizes.json"
BATCH = 65_536
LARGE = str(4 << 30)
"""Bytes of a file that holds all rows."""
TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "Hudi": ("hudi", {"hoodie.table.type": "MERGE_ON_READ"}),
    "Paimon with a key": ("paimon", {"bucket": "1", "target-file-size": LARGE, "write-only": "true"}),
    "Paimon without a key": ("paimon", {"bucket": "-1", "target-file-size": LARGE, "write-only": "true"}),
    "Iceberg": ("iceberg", {"write.target-file-size-bytes": LARGE}),
}
"""Format and options of each table. One task has all of it: a bucket, a file group, a large file."""
KEYED = ("Hudi", "Paimon with a key")
WRITES = {"hudi": {"hoodie.parquet.max.file.size": LARGE, "hoodie.datasource.write.operation": "bulk_insert"}}
REWRITES = {"hudi": {"hoodie.compact.inline.max.delta.commits": "1"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,4000000,8000000")
    parser.add_argument("--case", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        name, verb, rows, place = given.case
        print(json.dumps(one(name, verb, int(rows), place)))
        return
    figures: list[dict[str, object]] = []
    for rows in given.rows.split(","):
        for name in TABLES:
            with tempfile.TemporaryDirectory() as folder:
                place = str(Path(folder, "db.db", "t"))
                create(name, place)
                for verb in ("write", "change", "read", "rewrite"):
                    figure = apart(name, verb, rows, place)
                    if verb != "change":
                        figures.append({"table": name, "verb": verb, "rows": int(rows), **figure})
                        print(f"{rows:>9} rows, {name:20} {verb:8} {figure}")
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": round(os.getloadavg()[0], 1)}
    RESULT.write_text(json.dumps({"machine": machine, "figures": figures}, indent=1) + "\n")


def apart(name: str, verb: str, rows: str, place: str) -> dict[str, float]:
    """A case in a process of its own."""
    command = [sys.executable, __file__, "--case", name, verb, rows, place]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}, {verb}:\n{done.stderr[-3000:]}")
    figure: dict[str, float] = json.loads(done.stdout)
    return figure


def one(name: str, verb: str, rows: int, place: str) -> dict[str, float]:
    """Run a case, and tell what it took."""
    pa.set_cpu_count(1)
    format = TABLES[name][0]
    engine = lakebed.LocalEngine(threads=1)
    table = lakebed.open(place)
    before, began = peak_mb(), time.process_time()
    if verb == "write":
        table.write(batches(0, rows), options=WRITES.get(format, {}))
    elif verb == "change":
        change(table, name, rows)
    elif verb == "read":
        assert sum(batch.num_rows for batch in table.read()) == rows
    else:
        result = table.rewrite(engine=engine, options=REWRITES.get(format, {}))
        assert result.files_before > result.files_after > 0, result
    seconds = time.process_time() - began
    stored = sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file())
    return {"mb": peak_mb() - before, "cpu_seconds": round(seconds, 2), "stored_mb": stored >> 20}


def create(name: str, place: str) -> None:
    format, options = TABLES[name]
    lakebed.create(place, format, schema(), primary_key=["id"] if name in KEYED else [], options=options)


def change(table: lakebed.Table, name: str, rows: int) -> None:
    """What makes the table one that is worth a rewrite: a tenth of the keys again, or its rows in eight files."""
    if name in KEYED:
        table.write(batches(0, rows // 10), "upsert")
        return
    table.write(batches(0, rows // 8), "overwrite")
    for part in range(1, 8):
        table.write(batches(part * (rows // 8), (part + 1) * (rows // 8)))


def schema() -> pa.Schema:
    return next(rows_of(0, 1)).schema


def batches(start: int, end: int) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema(), rows_of(start, end))


def rows_of(start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Rows with the ids from `start` on, without an order."""
    for first in range(start, end, BATCH):
        ids = np.arange(first, min(first + BATCH, end), dtype=np.int64)
        numbers = ids * 0x9E3779B1 % (1 << 40)
        yield pa.record_batch(
            {
                "id": numbers, "customer": numbers % 100_000, "quantity": (numbers % 50).astype(np.int32),
                "amount": numbers / 977.0, "ratio": (numbers % 9973) / 9973.0,
                "score": (numbers % 1009).astype(np.float32),
                "day": pa.array((numbers % 3000).astype(np.int32)).cast(pa.date32()),
                "at": pa.array(numbers, pa.timestamp("us")), "code": pa.array(numbers % 5000).cast(pa.string()),
                "note": pa.array(numbers).cast(pa.string()),
            }
        )  # fmt: skip


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


if __name__ == "__main__":
    main()
