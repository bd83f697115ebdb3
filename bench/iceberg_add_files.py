"""Adding 10,000 Parquet files to an Iceberg table: seconds, processor time and peak memory, beside its other engines.

    ./run bench iceberg-add-files [--files 10000] [--folder FOLDER]

The files have 12 columns and 100 rows and lie in 100 partitions, in Hive's layout. Each case runs in a process of its
own on a new table:

    lakebed      table.add_files(folder)
    pyiceberg    table.add_files(paths) on a SQL catalog. It takes no values from paths, so its table has no partitions
    jvm          Iceberg's own procedure in LAKEBED_ICEBERG_JVM_PYTHON, with two threads

Peers that the environment does not name are left out. Seconds hold the start of the libraries too; those of the JVM do
not hold the session's. Figures go to bench/results/iceberg_add_files.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

import lakebed

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "iceberg_add_files.json"
PARTITIONS, ROWS = 100, 100
COLUMNS = {f"c{n}": pa.int64() if n % 2 else pa.string() for n in range(12)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measured(args.case, args.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        make(folder / "db" / "t" / "landing", args.files)
        ours = [sys.executable, "-m", "bench.iceberg_add_files", "--folder", str(folder), "--case"]
        figures = {case: json.loads(run([*ours, case])) for case in ("lakebed", "pyiceberg")}
        if os.environ.get("LAKEBED_ICEBERG_JVM_PYTHON"):
            columns = ", ".join(
                f"{name} {'bigint' if pa.types.is_integer(k) else 'string'}" for name, k in COLUMNS.items()
            )
            create = f"CREATE TABLE had.db.peer ({columns}, p int) USING iceberg PARTITIONED BY (p)"
            source = f"`parquet`.`{folder}/db/t/landing`"
            call = f"add_files(table => 'db.peer', source_table => '{source}', parallelism => 2)"
            peer = [os.environ["LAKEBED_ICEBERG_JVM_PYTHON"], "-m", "bench.iceberg_procedure_peer"]
            figures["jvm"] = json.loads(run([*peer, str(folder), call, create]))
    for case, found in figures.items():
        print(f"{case:10} " + "  ".join(f"{name} {value}" for name, value in found.items()))
    RESULTS.write_text(json.dumps({"files": args.files, "cases": figures}, indent=1) + "\n")


def run(command: list[str]) -> str:
    """The last line that a command prints."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[-1]


def make(landing: Path, files: int) -> None:
    for partition in range(PARTITIONS):
        (landing / f"p={partition}").mkdir(parents=True)
    for number in range(files):
        texts = [f"{number}-{n}" for n in range(ROWS)]
        numbers = range(number * ROWS, number * ROWS + ROWS)
        rows = pa.table({n: numbers if pa.types.is_integer(k) else texts for n, k in COLUMNS.items()})
        pq.write_table(rows, landing / f"p={number % PARTITIONS}" / f"{number:06}.parquet")


def measured(case: str, folder: Path) -> dict[str, Any]:
    place = folder / "db" / "t"
    start = time.perf_counter()
    if case == "lakebed":
        table = lakebed.create(place, "iceberg", pa.schema({**COLUMNS, "p": pa.int32()}), (), ["p"])
        files = table.add_files(place / "landing").files
    else:
        catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"{folder}/w")
        catalog.create_namespace("n")
        paths = [str(path) for path in (place / "landing").rglob("*.parquet")]
        theirs = catalog.create_table("n.t", pa.schema(COLUMNS))
        theirs.add_files(paths)
        files = len(paths)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": round(time.perf_counter() - start, 2), "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": used.ru_maxrss >> 10, "files": files,
    }  # fmt: skip


if __name__ == "__main__":
    main()
