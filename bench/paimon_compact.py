"""Compacting a Paimon table with a primary key, beside Paimon's Java engine, in one run on one machine.

    ./run bench paimon-compact [--rows 1000000] [--runs 2] [--parts full,lookup]

full: four sorted runs a bucket, 1,000,000 rows x 10 columns in 4 buckets and three upserts of a tenth, become one.

lookup: the same table, which has a first compaction behind it, with `changelog-producer=lookup`: the three upserts go
in, with their changelog.

Each run compacts a copy of its own. Both engines make their runs one after the other in one process: the `first` has
classes and modules to load, the best of the others is warm. The Java engine needs LAKEBED_PAIMON_CLASSPATH, as
`./run interop` sets it; without it only lakebed is measured. pypaimon does not compact. The parts that ran replace
theirs in results/paimon_compact.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from bench.paimon_read import jvm, made, report, rounded
from bench.paimon_write import SCHEMA, best, peak_mebibytes, rows, timed

RESULT = Path(__file__).parent / "results" / "paimon_compact.json"


def full(given: argparse.Namespace) -> dict[str, object]:
    """Wall and processor seconds of each engine."""
    with tempfile.TemporaryDirectory() as folder:
        return compacted(given, made(folder, given.rows, {}), Path(folder))


def lookup(given: argparse.Namespace) -> dict[str, object]:
    """The same, with the changelog of the upserts."""
    import lakebed

    options = {"bucket": "4", "write-only": "true", "changelog-producer": "lookup"}
    with tempfile.TemporaryDirectory() as folder:
        table = lakebed.create(f"{folder}/bench.db/runs", "paimon", SCHEMA, ["id"], options=options)
        table.write(rows(np.arange(given.rows, dtype=np.int64), 0), "upsert")
        table.rewrite(options={"write-only": "false"})
        for turn in range(1, 4):
            ids = np.arange(given.rows // 10, dtype=np.int64)
            table.write(rows((ids * 10 + turn) % given.rows, turn), "upsert")
        return compacted(given, table.location, Path(folder))


def compacted(given: argparse.Namespace, location: str, folder: Path) -> dict[str, object]:
    """A copy of the table for each run of each engine."""

    def copy(name: str) -> str:
        return shutil.copytree(location.removeprefix("file://"), folder / "copies.db" / name).as_posix()

    copies = [copy(f"ours{run}") for run in range(given.runs + 1)]
    process = subprocess.run(
        [sys.executable, "-m", "bench.paimon_compact", "--ours", *copies], check=True, capture_output=True, text=True
    )
    found = {"lakebed": json.loads(process.stdout)}
    if os.environ.get("LAKEBED_PAIMON_CLASSPATH"):
        found["JVM"] = jvm("compact", folder, [copy(f"jvm{run}") for run in range(given.runs + 1)])
    return {name: {"first": rounded(runs[0]), "warm": rounded(best(runs[1:]))} for name, runs in found.items()}


def ours(locations: Sequence[str]) -> list[dict[str, float]]:
    """A full compaction of each table by lakebed."""
    import lakebed

    runs = []
    for location in locations:
        seconds: dict[str, float] = {"MiB before": peak_mebibytes()}
        timed(seconds, "wall", lambda at=location: lakebed.open(at).rewrite(options={"write-only": "false"}))
        seconds["cpu"] = seconds.pop("wall cpu")
        runs.append(seconds | {"MiB at the peak": peak_mebibytes()})
    return runs


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, object]]] = {"full": full, "lookup": lookup}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ours"]:
        print(json.dumps(ours(sys.argv[2:])))
    else:
        report("paimon-compact", RESULT, PARTS)
