"""Writes the support grid of the README from the matrix, as honest as the tests that pytest collects.

    python -m tests.conformance.grid            writes it
    python -m tests.conformance.grid --check    fails when the README holds another one

A cell is "yes" when every test that it names is collected and none of them is marked to be skipped or to fail.
"""

import contextlib
import io
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conformance.matrix import FORMATS, GRID, Cell, Row

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BEGIN, END = "<!-- grid:begin -->", "<!-- grid:end -->"
NOT_YET, YES, PARTLY, NONE = "not yet", "yes", "partly", "–"


def main(arguments: list[str]) -> int:
    """0 when the README holds, or now holds, the grid of the matrix."""
    grid, missing = rendered(collected())
    for name in missing:
        print(f"grid: no test {name}: its cell is {NOT_YET!r}", file=sys.stderr)
    text = README.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        print(f"grid: README.md has no {BEGIN} ... {END}", file=sys.stderr)
        return 1
    wanted = f"{before}{BEGIN}\n{grid}{END}{after}"
    if "--check" in arguments:
        if wanted != text:
            print("grid: the grid in README.md is stale; write it with ./run docs", file=sys.stderr)
        return int(wanted != text)
    README.write_text(wanted, encoding="utf-8")
    return 0


def rendered(tests: dict[str, bool]) -> tuple[str, list[str]]:
    """The grid as Markdown, and the names in it that no test begins with. `tests`: pytest id -> whether it runs."""
    notes: list[str] = []
    missing: list[str] = []
    lines = ["| | call | " + " | ".join(map(str.capitalize, FORMATS)) + " |", "|---|---|" + "---|" * len(FORMATS)]
    for row in GRID:
        cells = [_shown(row, name, tests, notes, missing) for name in FORMATS]
        lines.append(f"| {row.title} | {row.call} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *notes, *([""] if notes else [])]), missing


def state_of(cell: Cell | None, tests: dict[str, bool]) -> str:
    """The word of a cell."""
    if cell is None:
        return NOT_YET
    if cell.none:
        return NONE
    if not cell.tests or not all(proved(name, tests) for name in cell.tests):
        return NOT_YET
    return PARTLY if cell.note else YES


def collected() -> dict[str, bool]:
    """Every test of the files that the matrix names: pytest id -> whether it runs and must pass."""
    return collected_of(name for row in GRID for cell in row.cells.values() for name in cell.tests)


def collected_of(names: Iterable[str]) -> dict[str, bool]:
    """Every test of the files that these names begin with: pytest id -> whether it runs and must pass."""
    files = sorted({name.partition("::")[0] for name in names})
    there = [str(ROOT / file) for file in files if (ROOT / file).exists()]
    collector = _Collector()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *there], plugins=[collector]
        )
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"{said.getvalue()}\ngrid: pytest cannot collect the tests that the matrix names: {status!r}")
    return collector.tests


class _Collector:
    def __init__(self) -> None:
        self.tests: dict[str, bool] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            held_back = any(item.get_closest_marker(mark) for mark in ("skip", "skipif", "xfail"))
            self.tests[item.nodeid] = not held_back


def proved(name: str, tests: dict[str, bool]) -> bool:
    """Whether tests begin with a name, and all of them run and must pass."""
    found = [runs for test, runs in tests.items() if test.startswith(name)]
    return bool(found) and all(found)


def _shown(row: Row, name: str, tests: dict[str, bool], notes: list[str], missing: list[str]) -> str:
    cell = row.cells.get(name)
    state = state_of(cell, tests)
    if cell is None or state not in (PARTLY, NONE, NOT_YET):
        return state
    missing += [test for test in cell.tests if not proved(test, tests)]
    remark = cell.none if state == NONE else cell.note if state == PARTLY else ""
    return f"{state}{_footnote(f'{name.capitalize()}, {row.title}: {remark}.', notes)}" if remark else state


def _footnote(text: str, notes: list[str]) -> str:
    line = f"<sup>{len(notes) + 1}</sup> {text}<br>"
    notes.append(line)
    return f" <sup>{len(notes)}</sup>"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
