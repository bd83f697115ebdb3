"""Archival of a Hudi timeline: what a run costs, in seconds on the clock and of processor time, and in peak memory.

    ./run bench hudi-archive [--instants 20000] [--folder FOLDER]

Each case makes a table of timeline files alone and archives it in a process of its own:

    like-jvm-v6, -v8   182 of 202 commits, as the peer figures of Hudi's JVM were taken (2 to 3 s inside Spark)
    many-v6, -v8       20,000 commits (60,000 state files), 145 stay
    large-v6, -v8      20 commits with 20 MB of metadata each
    old-v6             one run of 5 commits on a table with 200 archive files of 15 MB each

Opening, planning (a dry run) and archiving (which plans again) are timed apart. Processor seconds are those of the
user and of the system together. Figures go to bench/results/hudi_archive.json.

With LAKEBED_HUDI_JVM_PYTHON and LAKEBED_HUDI_JARS set (`./run setup interop` makes both) Hudi's own engine archives the
tables of the first two cases too, so that its share can be told from Spark's: what the session takes to start, and the
call of the archiver alone, cold, warm, and without Spark's tasks (one instead of a hundred to delete state files).
Without them the figures of the last such run are kept, as are those of cases that `--cases` leaves out.
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
from pathlib import Path
from typing import Any

import lakebed
from tests.tables.hudi.timelines import FREE, Lake, commit_metadata

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "hudi_archive.json"
JVM = {
    "like-jvm-v6": {
        "seconds": 2.0,
        "what": "Hudi 1.0.2: an upsert that archives, 4.9 s, less one without, 2.9 s",
    },
    "like-jvm-v8": {"seconds": 3.0, "what": "Hudi 1.0.2: `call archive_commits`, the call itself included; 5.5 s cold"},
}
"""182 of 202 commits as a user of Spark meets them, the second run in a warm session of two cores; Spark's own share is
in these."""
JVM_RELEASE = "1.0.2"
JVM_TASKS = (100, 100, 1)
"""The runs of Hudi's engine on each layout, in this order: the first is cold, the last without Spark's tasks."""
REPEATS = {"like-jvm-v6": 5, "like-jvm-v8": 5, "many-v6": 3, "many-v8": 3}
"""Cases that are measured so often; the run of the least processor time is taken."""
CASES = ("like-jvm-v6", "like-jvm-v8", "many-v6", "many-v8", "large-v6", "large-v8", "old-v6")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instants", type=int, default=20_000)
    parser.add_argument("--folder", default="")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--work", nargs=2, default=(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(measure(*options.work)))
        return
    last: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known = {one["case"]: one for one in last.get("figures", ())}
    jvm = jvm_figures(options.folder) or last.get("jvm", [])
    print(*jvm, sep="\n", flush=True)
    for case in options.cases.split(","):
        lines = [run(case, options.folder, options.instants) for _ in range(REPEATS.get(case, 1))]
        line = min(lines, key=lambda one: one["cpu_seconds"])
        if case in JVM:
            line["jvm"] = JVM[case]
            line["jvm_takes_times_as_long"] = round(float(JVM[case]["seconds"]) / line["archive_seconds"], 1)
            line |= beside(line, [one for one in jvm if one.get("version") == int(case[-1])])
        print(line, flush=True)
        known[case] = {**line, "load": os.getloadavg()[0]}
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    figures = [known[case] for case in CASES if case in known]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "jvm": jvm, "figures": figures}, indent=1) + "\n")


def jvm_figures(folder: str) -> list[dict[str, Any]]:
    """The session's line and one for each of its runs; none where there is no such engine here."""
    python, jars = os.environ.get("LAKEBED_HUDI_JVM_PYTHON"), os.environ.get("LAKEBED_HUDI_JARS")
    if not python or not jars:
        return []
    with tempfile.TemporaryDirectory(dir=folder or None) as scratch:
        asked = []
        for number, tasks in enumerate(JVM_TASKS):
            for version in (6, 8):
                table = Path(scratch, f"v{version}-{number}")
                make(f"like-jvm-v{version}", table, 0)
                asked.append({"path": str(table), "version": version, "tasks": tasks, "least": 20, "most": 30})
        jar = f"{jars}/hudi-spark3.5-bundle_2.12-{JVM_RELEASE}.jar"
        done = subprocess.run(
            [python, str(ROOT / "bench" / "hudi_archive_jvm.py"), jar, scratch],
            input="".join(json.dumps(one) + "\n" for one in asked), stdout=subprocess.PIPE, text=True, check=True,
            env={**os.environ, "TZ": "UTC", "PYSPARK_PYTHON": python},
        )  # fmt: skip
        left = {len([*(Path(one["path"]) / ".hoodie").rglob("*.commit")]) for one in asked}
        assert left == {20}, f"Hudi left {left} commits"
    lines = [json.loads(one.removeprefix("ANSWER ")) for one in done.stdout.splitlines() if one.startswith("ANSWER ")]
    return [{"release": JVM_RELEASE, "load": os.getloadavg()[0], **lines[0]}, *lines[1:]]


def beside(line: dict[str, Any], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """How many times lakebed's processor time Hudi's archiver took by itself: warm, and warm without Spark's tasks."""
    own = line["cpu_seconds"] - line["plan_cpu_seconds"]
    found = {}
    for name, some in (
        ("jvm_alone", [one for one in runs[1:] if one["tasks"] > 1]),
        ("jvm_alone_without_tasks", [one for one in runs if one["tasks"] == 1]),
    ):
        if some:
            best = min(some, key=lambda one: one["archive_cpu_seconds"])
            found[f"{name}_cpu_seconds"] = best["archive_cpu_seconds"]
            found[f"{name}_seconds"] = best["archive_seconds"]
            found[f"{name}_takes_times_the_cpu"] = round(best["archive_cpu_seconds"] / own, 1)
    return found


def run(case: str, folder: str, instants: int) -> dict[str, Any]:
    """One run of a case, on a table of its own and in a process of its own."""
    with tempfile.TemporaryDirectory(dir=folder or None) as table:
        make(case, Path(table), instants)
        command = [sys.executable, "-m", "bench.hudi_archive", "--work", case, table]
        line: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return line


def make(case: str, folder: Path, instants: int) -> None:
    """The table of a case, before the run that is measured."""
    kind, _, version = case.rpartition("-v")
    lake = Lake(folder, int(version))
    real = commit_metadata(size=2800)
    if kind == "large":
        lake.commit(*range(1, 21), data=commit_metadata(size=20 << 20))
        lake.commit(21, 22)
    elif kind == "old":
        lake.commit(1, 2, 3)
        lake.archive(1, 2)
        (first,) = (folder / ".hoodie/archived").iterdir()
        block = first.read_bytes()
        for number in range(2, 202):
            with (folder / f".hoodie/archived/.commits_.archive.{number}_1-0-1").open("wb") as file:
                for _ in range((15 << 20) // len(block)):
                    file.write(block)
        lake.commit(*range(4, 10))
    else:
        _many(lake, instants if kind == "many" else 202, real)


def _many(lake: Lake, count: int, data: bytes) -> None:
    """So many commits, each with its three files; hundreds of days of one a minute."""
    for number in range(count):
        time_ = f"2026{number // 100_000 + 1:02d}{number // 1440 + 1:02d}{number // 60 % 24:02d}{number % 60:02d}00000"
        completed = f"_{time_[:12]}30000" if lake.version >= 8 else ""
        (lake.timeline / f"{time_}.commit.requested").touch()
        (lake.timeline / f"{time_}.inflight").write_bytes(data)
        (lake.timeline / f"{time_}{completed}.commit").write_bytes(data)


def measure(case: str, folder: str) -> dict[str, Any]:
    """One run."""
    bounds = {"like": (20, 30), "many": (145, 150), "larg": (2, 3), "old-": (1, 2)}[case[:4]]
    options = {**FREE, "hoodie.keep.min.commits": bounds[0], "hoodie.keep.max.commits": bounds[1]}
    began = time.perf_counter()
    table = lakebed.open(folder)
    opened = time.perf_counter() - began
    base = _peak()
    began, cpu = time.perf_counter(), time.process_time()
    planned = table.archive(dry_run=True, options=options)
    plan = time.perf_counter() - began
    plan_cpu = time.process_time() - cpu
    began = time.perf_counter()
    result = table.archive(options=options)
    assert result.archived == planned.archived and result.archived
    return {
        "case": case,
        "archived": len(result.archived),
        "open_seconds": round(opened, 2),
        "plan_seconds": round(plan, 2),
        "archive_seconds": round(time.perf_counter() - began, 2),
        "plan_cpu_seconds": round(plan_cpu, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "peak_mb": round(_peak()),
        "peak_above_start_mb": round(_peak() - base),
        "archive_files": sum(1 for path in Path(folder).rglob("*") if "archive" in path.name or "history" in str(path)),
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
