"""How long each codec was fuzzed, over all runs: `./run fuzz --record` adds to `totals.json`, and this writes the table
of it into docs/guarantees.md.

    python -m tests.fuzz.totals            writes it
    python -m tests.fuzz.totals --check    fails when the document holds another one

`totals.json` has processor minutes and inputs of each target, and in `found` what its runs found, in words, written by
whoever mended it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.pages import written_or_checked
from tests.fuzz.targets import TARGETS

TOTALS = Path(__file__).with_name("totals.json")
DOCUMENT = Path(__file__).parents[2] / "docs" / "guarantees.md"
BEGIN, END = "<!-- fuzz:begin -->", "<!-- fuzz:end -->"


@dataclass(frozen=True)
class Total:
    """What all runs of a target, or of a codec, come to."""

    minutes: float = 0.0
    inputs: int = 0
    found: tuple[str, ...] = ()

    def __add__(self, other: Total) -> Total:
        return Total(self.minutes + other.minutes, self.inputs + other.inputs, self.found + other.found)


def totals() -> dict[str, Total]:
    """The totals of all targets; of one that never ran: nothing."""
    kept = json.loads(TOTALS.read_text())
    return {name: Total(**{**each, "found": tuple(each["found"])}) for name, each in kept.items()}


def record(report: Mapping[str, Any]) -> None:
    """Add a run of a target, as `tests.fuzz.child` reports it."""
    known = totals()
    name = report["target"]
    known[name] = known.get(name, Total()) + Total(report["seconds"] / 60, report["runs"])
    kept = {
        name: {"minutes": round(each.minutes, 2), "inputs": each.inputs, "found": each.found}
        for name, each in sorted(known.items())
    }
    TOTALS.write_text(json.dumps(kept, indent=1) + "\n")


def rendered() -> str:
    """The table as Markdown, a line for each codec."""
    known = totals()
    codecs: dict[str, Total] = {}
    for target in TARGETS.values():
        codecs[target.codec] = codecs.get(target.codec, Total()) + known.get(target.name, Total())
    lines = ["| codec | processor minutes | inputs | found and mended |", "|---|---|---|---|"]
    for codec, total in codecs.items():
        found = "; ".join(total.found) or "none"
        lines.append(f"| {codec} | {total.minutes:.1f} | {total.inputs:,} | {found} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """0 when the document holds, or now holds, the table."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    return written_or_checked(DOCUMENT, f"{before}{BEGIN}\n\n{rendered()}\n{END}{rest.partition(END)[2]}", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
