"""The cases of a bench of Iceberg tables, each in a process of its own, beside the same work of other engines.

A bench says how its table is made, what each case does, and which statements Iceberg's own engine runs in its place.
`main` runs them and adds the figures of that size to bench/results/NAME.json. Processor seconds are those of the whole
process with its children, the start of the libraries included; those of the JVM leave the start of its session out.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Case = Callable[[Path, int], Mapping[str, Any]]
"""Does its work on the table below a folder that was made for so many files, rows or snapshots, and returns figures of
its own."""


@dataclass(frozen=True)
class Statements:
    """What Iceberg's own engine runs: `counted` is measured, `first` goes before. The catalog `had` has the tables
    below the folder of the bench."""

    counted: Sequence[str]
    first: Sequence[str] = ()


@dataclass(frozen=True)
class Bench:
    """A bench. `unit` is what its size counts. `fresh` puts the table back before each case. `patience` is how many
    seconds a case may take before it is stopped; its figures then say so."""

    name: str
    document: str
    unit: str
    size: int
    make: Callable[[Path, int], None]
    cases: Mapping[str, Case]
    jvm: Mapping[str, Callable[[Path, int], Statements]] = field(default_factory=dict)
    fresh: Callable[[Path], None] = lambda folder: None
    patience: Mapping[str, int] = field(default_factory=dict)

    def main(self) -> None:
        """Run the bench as its command line says."""
        parser = argparse.ArgumentParser(
            description=self.document, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument(f"--{self.unit}", dest="size", type=int, default=self.size)
        parser.add_argument("--folder", type=Path, help="keeps the table there; by default it is temporary")
        parser.add_argument("--cases", help="some of " + ",".join((*self.cases, *self.jvm)))
        parser.add_argument("--case", help=argparse.SUPPRESS)
        args = parser.parse_args()
        if args.case:
            print(json.dumps(self._measured(args.case, args.folder, args.size)))
            return
        with tempfile.TemporaryDirectory() as temporary:
            folder = (args.folder or Path(temporary)).resolve()
            if not (folder / "made").exists():
                self.make(folder, args.size)
                (folder / "made").touch()
            self._run(folder, args.size, args.cases.split(",") if args.cases else None)

    def _run(self, folder: Path, size: int, chosen: Sequence[str] | None) -> None:
        figures: dict[str, Any] = {}
        peer = os.environ.get("LAKEBED_ICEBERG_JVM_PYTHON")
        for case in chosen or (*self.cases, *(self.jvm if peer else ())):
            self.fresh(folder)
            if case in self.cases:
                words = [sys.executable, "-m", f"bench.{self.name}", "--case", case, f"--{self.unit}", str(size)]
                figures[case] = self._patient(case, [*words, "--folder", str(folder)])
            else:
                if not peer:
                    sys.exit("LAKEBED_ICEBERG_JVM_PYTHON names no Python with Iceberg's own engine")
                asked = self.jvm[case](folder, size)
                given = {"warehouse": str(folder), "first": [*asked.first], "counted": [*asked.counted]}
                figures[case] = json.loads(_last_line([peer, "-m", "bench.iceberg_sql_peer", json.dumps(given)]))
            print(f"{case:18} " + "  ".join(f"{name} {value}" for name, value in figures[case].items()), flush=True)
            self._keep(size, figures)

    def _patient(self, case: str, command: Sequence[str]) -> dict[str, Any]:
        """The figures of a case, or after how many seconds it was stopped."""
        try:
            figures: dict[str, Any] = json.loads(_last_line(command, self.patience.get(case)))
        except subprocess.TimeoutExpired as error:
            return {"stopped_after_seconds": error.timeout, "load": round(os.getloadavg()[0], 1)}
        return figures

    def _keep(self, size: int, figures: Mapping[str, Any]) -> None:
        """Add figures to those of other sizes and cases."""
        results = ROOT / "bench" / "results" / f"{self.name}.json"
        before = json.loads(results.read_text()) if results.exists() else {}
        of_sizes = before.get(self.unit, {})
        of_sizes[str(size)] = {**of_sizes.get(str(size), {}), **figures}
        kept = {"cores": os.cpu_count(), self.unit: dict(sorted(of_sizes.items(), key=lambda item: int(item[0])))}
        results.write_text(json.dumps(kept, indent=1) + "\n")

    def _measured(self, case: str, folder: Path, size: int) -> dict[str, Any]:
        start = time.perf_counter()
        figures = self.cases[case](folder, size)
        seconds = time.perf_counter() - start
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        return {
            "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), "peak_mb": own.ru_maxrss >> 10,
            "load": round(os.getloadavg()[0], 1), **figures,
        }  # fmt: skip


def keep_metadata(table: Path) -> None:
    """Keep a copy of a table's metadata beside it."""
    shutil.copytree(table / "metadata", table.parent / f"{table.name}-kept")


def restore_metadata(table: Path) -> None:
    """Put a table's metadata back as it was kept. Data files that were written since stay."""
    shutil.rmtree(table / "metadata")
    shutil.copytree(table.parent / f"{table.name}-kept", table / "metadata")


def _last_line(command: Sequence[str], patience: float | None = None) -> str:
    """The last line that a command prints. TimeoutExpired when it takes longer than `patience` seconds."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True, timeout=patience)
    return done.stdout.splitlines()[-1]
