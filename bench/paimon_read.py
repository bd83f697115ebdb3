"""Reading a Paimon table, beside pypaimon's native path and Paimon's Java engine, in one run on one machine.

    ./run bench paimon-read [--rows 1000000] [--runs 3] [--parts merge,stream]

merge: 1,000,000 rows x 10 columns in 4 buckets and three upserts of a tenth: four sorted runs a bucket, which no
compaction has met. Each engine gives all rows of a table that it has opened. pypaimon runs in the interpreter that
LAKEBED_INTEROP_PYTHON names, the Java engine with LAKEBED_PAIMON_CLASSPATH (`./run interop` sets both); without them
only lakebed is measured. The engines take turns, each run in a fresh process; the best counts, and the Java engine's
best once it is warm.

stream: the seconds that a stream takes a snapshot, over 100 and over 1,000 of one row each.

The parts that ran replace theirs in results/paimon_read.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.paimon_write import SCHEMA, best, child, rows, timed

RESULT = Path(__file__).parent / "results" / "paimon_read.json"
NAME = "bench.db/runs"
PYPAIMON = """
import sys, time, json, pypaimon
native = {verb + ".native.enabled": "true" for verb in ("read", "write", "commit")}
table = pypaimon.CatalogFactory.create({"warehouse": sys.argv[1]}).get_table("bench.runs").copy(native)
wall, cpu = time.perf_counter(), time.process_time()
builder = table.new_read_builder()
found = builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows
print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "rows": found}))
"""


def made(folder: str, count: int, options: dict[str, str]) -> str:
    """A table of four runs a bucket, where it is."""
    import lakebed

    table = lakebed.create(
        f"{folder}/{NAME}", "paimon", SCHEMA, ["id"], options={"bucket": "4", "write-only": "true", **options}
    )
    for turn in range(4):
        ids = np.arange(count if turn == 0 else count // 10, dtype=np.int64)
        table.write(rows(ids if turn == 0 else (ids * 10 + turn) % count, turn), "upsert")
    return table.location


def merge(given: argparse.Namespace) -> dict[str, object]:
    """Wall and processor seconds of each engine."""
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        location = made(folder, given.rows, {})
        for _ in range(given.runs):
            ours = child([sys.executable, "-m", "bench.paimon_read", "--ours", location])
            found.setdefault("lakebed", []).append(ours)
            if outside := os.environ.get("LAKEBED_INTEROP_PYTHON"):
                found.setdefault("pypaimon native", []).append(child([outside, "-c", PYPAIMON, folder]))
        if os.environ.get("LAKEBED_PAIMON_CLASSPATH"):
            found["JVM"] = jvm("count", Path(folder), [location] * (given.runs + 1))
    assert all(run.pop("rows", given.rows) == given.rows for runs in found.values() for run in runs)
    return {name: rounded(best(runs)) for name, runs in found.items()}


def jvm(verb: str, folder: Path, locations: list[str]) -> list[dict[str, float]]:
    """Wall and processor seconds of a command on each table, in one process of the Java engine."""
    from tests.interop.conftest import PaimonJvm, paimon_jvm_peer

    (folder / "jvm").mkdir(exist_ok=True)
    peer = paimon_jvm_peer(folder / "jvm", quick=False)
    engine, taken = PaimonJvm(peer, folder / "jvm"), []
    for number, location in enumerate(locations):
        wall, cpu = time.perf_counter(), processor(peer.process_group)
        engine.tell(verb, Path(location), number)
        wall, cpu = time.perf_counter() - wall, processor(peer.process_group) - cpu
        taken.append({"wall": wall, "cpu": cpu})
    peer.close()
    return taken


def processor(process: int) -> float:
    """The processor seconds of a process, in all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def rounded(seconds: dict[str, float]) -> dict[str, float]:
    """As they are reported."""
    return {name: round(value, 3) for name, value in seconds.items()}


def ours(location: str) -> dict[str, float]:
    """All rows by lakebed."""
    import lakebed

    table, seconds = lakebed.open(location), dict[str, float]()
    count = timed(seconds, "wall", lambda: table.read().read_all().num_rows)
    return {"wall": seconds["wall"], "cpu": seconds["wall cpu"], "rows": count}


def stream(given: argparse.Namespace) -> dict[str, object]:
    """Milliseconds a snapshot of a stream over few and over many."""
    import lakebed
    from lakebed.verbs.read import run
    from lakebed.verbs.stream import Limits, drain

    found: dict[str, object] = {}
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])
    for count in (100, 1000):
        with tempfile.TemporaryDirectory() as folder:
            options = {"bucket": "1", "write-only": "true"}
            table = lakebed.create(f"{folder}/t", "paimon", schema, ["id"], options=options)
            for number in range(count):
                table.write(pa.table({"id": [number], "v": ["v"]}, schema=schema))
            reader = lakebed.open(table.location, {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}).stream()
            wall, cpu, seen = time.perf_counter(), time.process_time(), 0
            for _, plan in drain(reader, None, Limits(commits=1)):
                seen += run(plan, 1).read_all().num_rows
            assert seen == count, f"{seen} rows"
            taken = {"wall ms": time.perf_counter() - wall, "cpu ms": time.process_time() - cpu}
            found[f"{count} snapshots"] = rounded({name: value * 1000 / count for name, value in taken.items()})
    return found


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, object]]] = {"merge": merge, "stream": stream}


def report(name: str, path: Path, parts: dict[str, Callable[[argparse.Namespace], dict[str, object]]]) -> None:
    """Run the parts that the command line names, and put what they measured in the place of what is there."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--parts", default=",".join(parts))
    given = parser.parse_args()
    for part in given.parts.split(","):
        found = parts[part](given)
        result = json.loads(path.read_text()) if path.exists() else {}
        result |= {"bench": name, "rows": given.rows, "unit": "seconds, best of the runs", part: found}
        result.setdefault("measured", {})[part] = {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "runs": given.runs,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end",
        }
        path.write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps({part: found}, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ours"]:
        print(json.dumps(ours(sys.argv[2])))
    else:
        report("paimon-read", RESULT, PARTS)
