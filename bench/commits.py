"""Commits per second of 1, 2, 4 and 8 writers on one table, beside the other engines in the same run.

    ./run bench commits [--writers 1,2,4,8] [--seconds 10] [--cases lakebed-paimon,pypaimon] [--keep]

A commit appends ten rows to a table of two columns. Writers are processes, or threads of one process where a case ends
in `-threads`. A case counts what all writers committed in the seconds, the processor time of a commit, how often a
writer had to begin a commit anew by itself, the fewest commits of one writer, and the longest time that one commit
took. Afterwards the rows of the table must be those of the commits. `--keep` puts the figures into
bench/results/commits.json.

pypaimon runs in LAKEBED_INTEROP_PYTHON, Paimon's Java API with LAKEBED_PAIMON_CLASSPATH, and Iceberg's with
LAKEBED_ICEBERG_JARS and the jars of PySpark in LAKEBED_ICEBERG_JVM_PYTHON; without them a case is left out. Both Java
APIs run in threads of one JVM, on tables that lakebed creates. pyiceberg works on a SQL catalog. Hudi's own engine
commits only in a Spark session, which is too slow to be a peer here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "commits.json"
LAKEBED = ("paimon", "iceberg", "iceberg-catalog", "hudi")


def cases() -> Mapping[str, str]:
    """Each case, with the interpreter that its writers run in."""
    own = sys.executable
    found = {f"lakebed-{name}{way}": own for name in LAKEBED for way in ("", "-threads")}
    found["pyiceberg"] = own
    if os.environ.get("LAKEBED_INTEROP_PYTHON"):
        found["pypaimon"] = os.environ["LAKEBED_INTEROP_PYTHON"]
    found |= dict.fromkeys(classpaths(), "java")
    return found


def classpaths() -> Mapping[str, str]:
    """The Java cases, each with its class path."""
    found = {}
    if os.environ.get("LAKEBED_PAIMON_CLASSPATH"):
        found["paimon-java-threads"] = os.environ["LAKEBED_PAIMON_CLASSPATH"]
    python, jars = (os.environ.get(f"LAKEBED_ICEBERG_{name}") for name in ("JVM_PYTHON", "JARS"))
    if python and jars:
        spark = next(Path(python).parent.parent.glob("lib/python3*/site-packages/pyspark/jars"))
        found["iceberg-java-threads"] = f"{jars}/*:{spark}/*"
    return found


def command(case: str, python: str, folder: Path, seconds: float, threads: int) -> list[str]:
    """What runs one process of writers."""
    if python == "java" and seconds > 0:
        source = ROOT / "bench" / "commits_jvm" / f"{case.partition('-')[0].title()}Commits.java"
        return ["java", "-cp", classpaths()[case], str(source), f"{folder}/t", str(seconds), str(threads)]
    if python == "java":  # lakebed creates and checks the table
        case, python = f"lakebed-{case.partition('-')[0]}", sys.executable
    return [python, str(ROOT / "bench" / "commits_writer.py"), case, str(folder), str(seconds), str(threads)]


def run(case: str, python: str, writers: int, seconds: float) -> dict[str, Any]:
    """The figures of one case with so many writers, on a table of its own."""
    processes, threads = (1, writers) if case.endswith("-threads") else (writers, 1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        errors = None if case.startswith("lakebed") else subprocess.DEVNULL  # peers tell of each lost race
        subprocess.run(command(case, python, folder, 0, 0), check=True, env=environment())
        started = [
            subprocess.Popen(
                command(case, python, folder, seconds, threads),
                env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )
            for _ in range(processes)
        ]  # fmt: skip
        for process in started:  # each has made a first commit
            while process.stdout is not None and (line := process.stdout.readline()).strip() != "ready":
                if not line:
                    sys.exit(f"{case}: a writer ended before it was ready")
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
        wall = max(answer["seconds"] for answer in answers)
        worked = sum(answer["processor_seconds"] for answer in answers)
        commits = [count for answer in answers for count in answer["commits"]]
        if case != "pypaimon":
            checked = command(case, python, folder, -1, sum(commits) + writers)
            subprocess.run(checked, check=True, env=environment())
    return {
        "commits_per_second": round(sum(commits) / wall, 1),
        "processor_ms_per_commit": round(1000 * worked / max(sum(commits), 1), 1),
        "begun_anew": sum(answer["begun_anew"] for answer in answers),
        "fewest": min(commits),
        "longest_seconds": round(max(answer["longest"] for answer in answers), 2),
    }


def environment() -> dict[str, str]:
    """Of a process of writers: its own folder first among those of modules."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def main() -> None:
    """Run the bench as its command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", default="1,2,4,8")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--cases", help="some of " + ", ".join(cases()))
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    for case, python in cases().items():
        if args.cases and case not in args.cases.split(","):
            continue
        for writers in map(int, args.writers.split(",")):
            figures = run(case, python, writers, args.seconds)
            load = round(os.getloadavg()[0], 1)
            print(f"{case:24} {writers} writers  {figures}  load {load}", flush=True)
            if args.keep:
                keep(case, writers, {**figures, "load": load})


def keep(case: str, writers: int, figures: Mapping[str, Any]) -> None:
    """Add the figures of one case to the results."""
    before = json.loads(RESULTS.read_text())["cases"] if RESULTS.exists() else {}
    before.setdefault(case, {})[str(writers)] = figures
    RESULTS.write_text(json.dumps({"cores": os.cpu_count(), "cases": before}, indent=1) + "\n")


if __name__ == "__main__":
    main()
