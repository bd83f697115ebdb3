"""Simulate tables of many seeds, shrink what fails, and say how to run it again.

python -m lakebed.testing.simulation --seeds 1000 --format paimon
python -m lakebed.testing.simulation --replay failure.json --trace
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from lakebed.kernel import clock
from lakebed.testing.simulation.run import SUBJECTS, Report, drawn, simulate
from lakebed.testing.simulation.schedule import Schedule
from lakebed.testing.simulation.shrink import shrunk


def main(arguments: list[str] | None = None) -> int:
    """Run the command. 0: every promise held. 1: one did not."""
    given = _parsed(arguments)
    if given.replay:
        return _replayed(Schedule.from_json(Path(given.replay).read_text(encoding="utf-8")), given.trace)
    formats = [given.format] if given.format else [*SUBJECTS]
    seeds, faults, calls = Counter[str](), Counter[str](), Counter[str]()
    failed: list[Report] = []
    ends = clock.steady() + given.minutes * 60 if given.minutes else None
    for seed in range(given.first, given.first + given.seeds):
        if (ends is not None and clock.steady() > ends) or len(failed) >= given.failures:
            break
        for name in formats:
            report = simulate(drawn(name, seed, given.late))
            seeds[name] += 1
            faults[name] += report.faults
            calls[name] += len(report.trace)
            if report.failure:
                failed.append(report)
                _tell(report, given)
    for name in formats:
        _say(f"{name}: {seeds[name]} seeds, {calls[name]} storage calls, {faults[name]} faults")
    _say(f"{len(failed)} failed")
    return 1 if failed else 0


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="how many seeds to run for each format")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="the first seed")
    parser.add_argument("--format", choices=[*SUBJECTS], help="one format; all of them by default")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no further seed after so many minutes")
    parser.add_argument("--failures", type=int, default=1, metavar="N", help="stop after so many failures")
    parser.add_argument("--tries", type=int, default=300, metavar="N", help="runs for shrinking a failure; 0: none")
    parser.add_argument("--late", action="store_true", help="a store that lists new names late")
    parser.add_argument("--folder", default=".cache/simulation", help="where schedules that fail are kept")
    parser.add_argument("--replay", metavar="FILE", help="run a schedule that was kept")
    parser.add_argument("--trace", action="store_true", help="with --replay: print every storage call")
    return parser.parse_args(arguments)


def _tell(report: Report, given: argparse.Namespace) -> None:
    seed = report.schedule.seed
    _say(f"\nseed {seed} failed: {report.failure}\n\nshrinking ...")
    shorter = shrunk(report, given.tries)
    path = Path(given.folder) / f"{report.schedule.format}-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(shorter.schedule.to_json(), encoding="utf-8")
    _say(f"{shorter.schedule}\n\n{shorter.failure}\n")
    _say(*shorter.outcomes)
    late = " --late" if given.late else ""
    _say(f"\nThe seed again:      ./run simulate --format {report.schedule.format} --first {seed} --seeds 1{late}")
    _say(f"The short schedule:  ./run simulate --replay {path} --trace\n")


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _replayed(schedule: Schedule, trace: bool) -> int:
    report = simulate(schedule)
    _say(str(schedule))
    if trace:
        _say(*report.trace)
    _say(*report.outcomes)
    _say(f"\n{report.details or 'every promise held'}")
    return 1 if report.failure else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # a set of names has the same order in every run
        os.execve(
            sys.executable, [sys.executable, "-m", __package__, *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    sys.exit(main())
