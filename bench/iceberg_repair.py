"""Checking an Iceberg table of 100,000 data files for lost ones: seconds, processor time, peak memory, and store calls.

    ./run bench iceberg-repair [--files 100000] [--folder FOLDER]

The table has 100,000 small Parquet files in 1,000 partitions (links to one file), of which 100 are gone. Each case runs
in a process of its own:

    existence, length, footer, data    the dry run of table.repair() at each depth
    repair                             table.repair(): the check at depth `length`, and the commit without the 100
    pyiceberg                          its plan of all files, and `exists` of its FileIO for each, in 16 threads: what
                                       scripts do today
    jvm                                Iceberg's own `rewrite_manifests` in LAKEBED_ICEBERG_JVM_PYTHON: no engine checks
                                       files, and this reads and writes the same manifests

Peers that the environment does not name are left out. Seconds hold the start of the libraries too; those of the JVM do
not hold the session's. Figures go to bench/results/iceberg_repair.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

import lakebed
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import DataFile
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import open_store
from lakebed.testing.faults import FaultyStore
from tests.tables.iceberg import commits

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "iceberg_repair.json"
DEPTHS = ("existence", "length", "footer", "data")
CASES = (*DEPTHS, "repair", "pyiceberg")
PARTITIONS, LOST, COMMITS = 1000, 100, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measured(args.case, args.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        make(folder / "db" / "t", args.files)
        figures = {case: in_a_process([sys.executable, "-m", "bench.iceberg_repair"], case, folder) for case in CASES}
        if os.environ.get("LAKEBED_ICEBERG_JVM_PYTHON"):
            remake(folder / "db" / "t")
            peer = [os.environ["LAKEBED_ICEBERG_JVM_PYTHON"], "-m", "bench.iceberg_procedure_peer"]
            call = "rewrite_manifests(table => 'db.t', use_caching => false)"
            figures["jvm"] = json.loads(run([*peer, str(folder), call]))
    for case, found in figures.items():
        print(f"{case:10} " + "  ".join(f"{name} {value}" for name, value in found.items()))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"files": args.files, "lost": LOST, "cases": figures}, indent=1) + "\n")


def run(command: list[str]) -> str:
    """The last line that a command prints."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[-1]


def in_a_process(command: list[str], case: str, folder: Path) -> dict[str, Any]:
    if case in ("repair", "pyiceberg"):
        remake(folder / "db" / "t")
    found: dict[str, Any] = json.loads(run([*command, "--case", case, "--folder", str(folder)]))
    return found


def make(folder: Path, files: int) -> None:
    """The table, of which the first `LOST` files are gone; its metadata is kept beside it."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32())])
    table = lakebed.create(folder, "iceberg", schema, (), ["p"])
    assert isinstance(table, IcebergTable)
    source = folder / "data" / "source.parquet"
    source.parent.mkdir(parents=True)
    rows = pa.table({"id": range(100), "p": [0] * 100}, schema=arrow_schema(table.table_metadata.schema, ids=True))
    pq.write_table(rows, source)
    size = source.stat().st_size
    made: list[DataFile] = []
    for number in range(files):
        place = folder / "data" / f"p={number % PARTITIONS}" / f"{number:08}.parquet"
        if number < PARTITIONS:
            place.parent.mkdir()
        if number % 10_000 == 0:  # a disk allows some ten thousand links to a file
            source = Path(shutil.copyfile(source, source.with_name(f"source-{number}.parquet")))
        if number >= LOST:
            os.link(source, place)
        made.append(DataFile(str(place), "PARQUET", 0, (number % PARTITIONS,), 100, size, split_offsets=(4,)))
    for start in range(0, files, files // COMMITS):
        commits.append(table.operations, made[start : start + files // COMMITS])
    shutil.copytree(folder / "metadata", folder.parent / "kept")


def remake(folder: Path) -> None:
    """The metadata as it was made."""
    shutil.rmtree(folder / "metadata")
    shutil.copytree(folder.parent / "kept", folder / "metadata")


def measured(case: str, folder: Path) -> dict[str, Any]:
    place = folder / "db" / "t"
    start = time.perf_counter()
    if case == "pyiceberg":
        lost, calls = checked_by_pyiceberg(place), Counter[str]()
    else:
        store = FaultyStore(open_store(place))
        depth = "length" if case == "repair" else case
        options = {"lakebed.repair.check": depth}
        lost = len(lakebed.open(store).repair(dry_run=case != "repair", options=options).lost)
        calls = Counter(call.verb for call in store.calls)
    assert lost == LOST
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": round(time.perf_counter() - start, 2), "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": used.ru_maxrss >> 10, "calls": dict(calls),
    }  # fmt: skip


def checked_by_pyiceberg(place: Path) -> int:
    newest = max((place / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    table = StaticTable.from_metadata(str(newest))
    paths = [task.file.file_path for task in table.scan().plan_files()]
    with ThreadPoolExecutor(16) as pool:
        return sum(not there for there in pool.map(lambda path: table.io.new_input(path).exists(), paths))


if __name__ == "__main__":
    main()
