"""Writes docs/first-hour.md: what came of each command and block of the documents on a bare machine, and when.

python -m tests.conformance.first_hour            writes it
python -m tests.conformance.first_hour --check    fails when the page is not what bench/results/newcomer.json says

`./run bench newcomer` runs them anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.pages import written_or_checked

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "first-hour.md"
RESULTS = ROOT / "bench" / "results" / "newcomer.json"
BEGIN = """\
# The first hour

What a newcomer meets: each command of the README, each shell line and each block of the docs, run as printed on a bare
machine. `./run bench newcomer` does it anew: it clones the repository into an empty folder that is also HOME, keeps of
the environment nothing but PATH, calls `./run` in the clone, and runs the rest in an environment made by
`pip install '.[spark]'`. Seconds are of a clock, downloads included. A page's first block that needs Spark starts it.

| | |
|---|---|
"""
STATES = {"ran": "", "failed": "**failed**: ", "left out": "not run: "}


def main(arguments: list[str]) -> int:
    """0 when the page holds, or now holds, what was measured."""
    return written_or_checked(PAGE, rendered(json.loads(RESULTS.read_text(encoding="utf-8"))), arguments)


def rendered(kept: Mapping[str, Any]) -> str:
    """The page."""
    machine = kept["machine"]
    steps = [step for page in kept["pages"].values() for step in page]
    seconds = sum(step["seconds"] or 0 for step in steps)
    states = {state: sum(step["state"] == state for step in steps) for state in STATES}
    facts = {
        "measured on": kept["when"],
        "machine": f"{machine['system']}, {machine['cores']} processors, Python {machine['python']}, "
        + (f"Java {machine['java']}" if machine["java"] else "no Java"),
        "load at the end": machine["load"],
        "commands and blocks": ", ".join(f"{number} {state}" for state, number in states.items()),
        "all of it": f"{seconds / 60:.0f} minutes",
    }
    head = "".join(f"| {name} | {value} |\n" for name, value in facts.items())
    return BEGIN + head + "".join(_section(page, steps) for page, steps in kept["pages"].items())


def _section(page: str, steps: list[Mapping[str, Any]]) -> str:
    link = f"[{page}]({'../README.md' if page == 'README.md' else Path(page).name})"
    rows = "".join(
        f"| {_code(s['command'])} | {_seconds(s)} | {STATES[s['state']]}{_plain(s['came'])} |\n" for s in steps
    )
    return f"\n## {page}\n\n{link}\n\n| command or block | seconds | what came |\n|---|---:|---|\n{rows}"


def _seconds(step: Mapping[str, Any]) -> str:
    return "" if step["seconds"] is None else f"{step['seconds']:.1f}"


def _code(text: str) -> str:
    """Text as code in a cell of a table."""
    mark = "``" if "`" in text else "`"
    return f"{mark}{text}{mark}".replace("|", "\\|")


def _plain(text: str) -> str:
    return _code(text) if set(text) & set("|*_<>[]`{}") else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
