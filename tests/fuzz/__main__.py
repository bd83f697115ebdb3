"""Fuzzes codecs: `./run fuzz --minutes M [CODEC]`. CODEC is a target of `targets.py`, or the beginning of its name.

The minutes are processor time of each codec, and its targets share them equally. Each target runs in a process of its
own, so that one that dies is found and goes on with another seed. Exits 1 when there is a fault.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.fuzz.replay import hangs
from tests.fuzz.targets import TARGETS, chosen
from tests.fuzz.totals import record

ROOT = Path(__file__).parents[2]
_DEATHS = ("crash-*", "timeout-*", "oom-*")


def fuzz(name: str, seconds: float, folder: Path, seed: int) -> dict[str, Any]:
    """The report of one target, with the deaths of its process among its faults."""
    total: dict[str, Any] = {"target": name, "seconds": 0.0, "runs": 0, "accepted": 0, "faults": {}}
    for attempt in range(20):
        left = seconds - total["seconds"]
        if left < 1:
            break
        report = folder / "report.json"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.fuzz.child", name, str(left), str(folder), str(seed + attempt)]
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        result = (
            json.loads(report.read_text())
            if report.exists()
            else {"seconds": 1.0, "runs": 0, "accepted": 0, "faults": {}}
        )
        for key in ("seconds", "runs", "accepted"):
            total[key] += result[key]
        total["faults"] |= result["faults"]
        if done.returncode == 0:
            continue
        (folder / "stderr.txt").write_text(done.stderr)
        for death in [path for pattern in _DEATHS for path in folder.glob(pattern)]:
            if death.name.startswith("timeout-") and not hangs(name, death):
                death.unlink()  # the clock on the wall went on while others had the processor
                continue
            print(f"{name}: the process died ({death.name})", flush=True)
            total["faults"][death.name] = {
                "what": done.stderr[-2000:],
                "bytes": death.stat().st_size,
                "file": death.name,
            }
            shutil.move(death, folder / "faults" / death.name)
        if not report.exists() and not total["faults"] and "Timeout" not in done.stderr:
            raise SystemExit(f"{name} cannot be run:\n{done.stderr[-3000:]}")
    return total


def main() -> int:
    """Fuzz what is asked for, and print one line per target."""
    parser = argparse.ArgumentParser(prog="./run fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="processor minutes for each codec")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="the folder that faults and corpora are left in")
    parser.add_argument("--record", action="store_true", help="add the run to totals.json, from which ./run docs tells")
    parser.add_argument("--list", action="store_true", help="only list the targets")
    parser.add_argument("codec", nargs="*", help="such as hudi-log, paimon, iceberg-puffin; none: all")
    given = parser.parse_args()
    if given.list:
        print("\n".join(TARGETS))
        return 0
    try:
        targets = list(dict.fromkeys(t for codec in given.codec or [""] for t in chosen(codec)))
    except KeyError as error:
        parser.error(f"no codec {error}; --list shows them")
    groups: dict[str, list[str]] = {}
    for target in targets:
        groups.setdefault(target.codec, []).append(target.name)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="lakebed-fuzz-"))
    faults = 0
    for names in groups.values():
        for name in names:
            done = fuzz(name, given.minutes * 60 / len(names), folder / name, given.seed)
            faults += len(done["faults"])
            if given.record:
                record(done)
            print(
                f"{name}: {done['seconds'] / 60:.1f} min, {done['runs']:,} inputs, {done['accepted']:,} decoded, "
                f"{len(done['faults'])} faults",
                flush=True,
            )
    print(f"{faults} faults; inputs in {folder}")
    return 1 if faults else 0


sys.exit(main())
