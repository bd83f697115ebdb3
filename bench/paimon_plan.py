"""Planning on a Paimon table of a million data files, beside pypaimon, in one run on one machine.

    ./run bench paimon-plan [--files 1000000] [--folder FOLDER]

The table has no data: its manifests name files of 10 columns with their statistics, in 1,000 partitions, as 20 commits
would; one more commit deletes a twentieth of them. Each case runs in a process of its own:

    plan       the splits of all files
    prune      the splits of one partition and half the range of a column
    pickle     the plan, and every split as the task of another machine gets it
    spark      the plan, and its tasks as Spark's driver packs them for 200 slots
    rewrite    the dry run of table.rewrite(): every partition, with reasons
    manifests  the dry run of table.rewrite() with `lakebed.rewrite.what` = manifests

pypaimon plans all files too, native and in Python, in the interpreter that LAKEBED_INTEROP_PYTHON names (`./run
interop` sets it); without it only lakebed is measured. Seconds hold the start of the libraries.
Figures go to bench/results/paimon_plan.json.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from lakebed.formats.paimon.codec.binary_row import encode_row, with_arity
from lakebed.formats.paimon.codec.manifest import DataFileMeta, SimpleStats
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.table import PaimonTable

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "paimon_plan.json"
NAME = "bench.db/million"
PARTITIONS, COMMITS, COLUMNS = 1000, 20, 10
PYPAIMON = """
import sys, time, json, resource, pypaimon
options = {verb + ".native.enabled": sys.argv[2] for verb in ("read", "write", "commit")}
wall, cpu = time.perf_counter(), time.process_time()
table = pypaimon.CatalogFactory.create({"warehouse": sys.argv[1]}).get_table("bench.million").copy(options)
splits = table.new_read_builder().new_scan().plan().splits()
print(json.dumps({"seconds": round(time.perf_counter() - wall, 2), "cpu_seconds": round(time.process_time() - cpu, 2),
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, "splits": len(splits)}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--case", choices=["write", *CASES])
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measured(args.case, args.folder, args.files)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        if not (folder / NAME).exists():
            in_a_process("write", folder, args.files)
        found: dict[str, Any] = {case: in_a_process(case, folder, args.files) for case in CASES}
        if outside := os.environ.get("LAKEBED_INTEROP_PYTHON"):
            for native in ("true", "false"):
                command = [outside, "-c", PYPAIMON, str(folder), native]
                found[f"pypaimon {'native' if native == 'true' else 'in Python'}"] = asked(command)
    for case, figures in found.items():
        print(f"{case:19} " + "  ".join(f"{name} {value}" for name, value in figures.items()))
    RESULTS.write_text(json.dumps({"files": args.files, "columns": COLUMNS, "cases": found}, indent=1) + "\n")


def in_a_process(case: str, folder: Path, files: int) -> dict[str, Any]:
    return asked(
        [sys.executable, "-m", "bench.paimon_plan", "--case", case, "--folder", str(folder), "--files", str(files)]
    )


def asked(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return {"failed": done.returncode}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(case: str, folder: Path, files: int) -> dict[str, Any]:
    path = folder / NAME
    began, cpu = time.perf_counter(), time.process_time()
    what = write(path, files) if case == "write" else CASES[case](path)
    return {
        "seconds": round(time.perf_counter() - began, 2), "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, "load": round(os.getloadavg()[0], 1),
        **what,
    }  # fmt: skip


def opened(path: Path) -> PaimonTable:
    table = lakebed.open(path)
    assert isinstance(table, PaimonTable)
    return table


def write(path: Path, files: int) -> dict[str, Any]:
    """The table: `COMMITS` commits of new files, then one that deletes some of them."""
    columns = [("p", pa.int32()), *((f"c{n}", pa.int64()) for n in range(COLUMNS - 1))]
    options = {
        "write-only": "true", "manifest.merge-min-count": "1000", "manifest.full-compaction-threshold-size": "10 gb",
        "snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000",
    }  # fmt: skip
    lakebed.create(path, "paimon", pa.schema(columns), (), ["p"], options)
    table = opened(path)
    int_type, long_type = (table.table_schema.field(name).type for name in ("p", "c0"))
    types = [int_type, *[long_type] * (COLUMNS - 1)]
    partitions = [with_arity(encode_row([number], [int_type]), 1) for number in range(PARTITIONS)]
    empty = with_arity(bytes(8), 0)
    writer = table.writer("bench")
    deleted: dict[int, list[DataFileMeta]] = {}
    each = files // COMMITS
    for commit in range(COMMITS):
        random = np.random.default_rng(commit)
        lows = random.integers(0, 1 << 30, (each, COLUMNS - 1)).tolist()
        sizes = random.integers(1 << 20, 100 << 20, each).tolist()
        of_partition: dict[int, list[DataFileMeta]] = {}
        for number in range(each):
            place = number * PARTITIONS // each
            low = with_arity(encode_row([place, *lows[number]], types), COLUMNS)
            high = with_arity(encode_row([place, *[value + 1000 for value in lows[number]]], types), COLUMNS)
            name = f"data-d2459ef0-2886-4a60-90ba-{commit:04}{number:08}-0.parquet"
            file = DataFileMeta(
                name, sizes[number], 1000, empty, empty, SimpleStats(), SimpleStats(low, high, (0,) * COLUMNS),
                number * 1000, number * 1000 + 999, 0, 0, (), 1_790_000_000_000, 0, None, 0,
            )  # fmt: skip
            of_partition.setdefault(place, []).append(file)
            if number % 20 == 0:
                deleted.setdefault(place, []).append(file)
        writer.commit(
            commit, [message(partitions[place], place, new_files=tuple(f)) for place, f in of_partition.items()]
        )
    writer.commit(COMMITS, [message(partitions[place], place, deleted_files=tuple(f)) for place, f in deleted.items()])
    size = sum(f.stat().st_size for f in (path / "manifest").iterdir())
    return {"manifest_mb": size >> 20, "manifests": len(list((path / "manifest").glob("manifest-*-*")))}


def message(partition: bytes, place: int, **files: Any) -> PaimonMessage:
    return PaimonMessage(partition, 0, -1, f"p={place}/bucket-0", **files)


def plan(path: Path) -> dict[str, Any]:
    return {"splits": len(opened(path).plan_read().splits)}


def prune(path: Path) -> dict[str, Any]:
    return {"splits": len(opened(path).plan_read(where=f"p = 7 and c0 < {1 << 29}").splits)}


def pickled(path: Path) -> dict[str, Any]:
    made = opened(path).plan_read()
    return {"splits": len(made.splits), "pickled_mb": sum(len(pickle.dumps(split)) for split in made.splits) >> 20}


def spark(path: Path) -> dict[str, Any]:
    from lakebed.spark import worker
    from lakebed.spark.read import read_tasks

    tasks = read_tasks(opened(path).plan_read(), None, 200)
    return {"tasks": len(tasks), "packed_mb": sum(len(worker.pack(task)) for task in tasks) >> 20}


def rewrite(path: Path) -> dict[str, Any]:
    result = opened(path).rewrite(dry_run=True)
    return {"groups": result.groups, "files_before": result.files_before, "files_after": result.files_after}


def manifests(path: Path) -> dict[str, Any]:
    result = opened(path).rewrite(dry_run=True, options={"lakebed.rewrite.what": "manifests"})
    return {"files_before": result.files_before, "files_after": result.files_after}


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "plan": plan, "prune": prune, "pickle": pickled, "spark": spark, "rewrite": rewrite, "manifests": manifests,
}  # fmt: skip

if __name__ == "__main__":
    main()
