"""The grid says no more than its tests."""

from pathlib import Path

import pytest

from tests.conformance import grid
from tests.conformance.matrix import FORMATS, GRID, Cell, Row

TESTS = {"tests/a.py::TestRead::test_x": True, "tests/a.py::TestRead::test_y": True, "tests/a.py::test_z": False}


@pytest.mark.parametrize(
    ("cell", "state"),
    [
        (None, "not yet"),
        (Cell(), "not yet"),
        (Cell(("tests/a.py::TestRead",)), "yes"),
        (Cell(("tests/a.py::TestRead",), "only so far"), "partly"),
        (Cell(("tests/a.py::TestRead", "tests/gone.py::test")), "not yet"),
        (Cell(("tests/a.py::test_z",)), "not yet"),
        (Cell(("tests/a.py",)), "not yet"),
        (Cell(none="there is no such thing"), "–"),
    ],
)
def test_a_cell_is_as_good_as_its_tests(cell: Cell | None, state: str) -> None:
    assert grid.state_of(cell, TESTS) == state


def test_it_is_a_table_with_footnotes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (
        Row(
            "read",
            "`read`",
            {"hudi": Cell(("tests/a.py::TestRead",)), "paimon": Cell(("tests/a.py::TestRead",), "some")},
        ),
        Row("archive", "`archive`", {"hudi": Cell(("tests/b.py::t",)), "paimon": Cell(none="none of it")}),
    )
    monkeypatch.setattr(grid, "GRID", rows)
    text, missing = grid.rendered(TESTS)
    lines = text.splitlines()
    assert lines[2] == "| read | `read` | yes | partly <sup>1</sup> | not yet |"
    assert lines[3] == "| archive | `archive` | not yet | – <sup>2</sup> | not yet |"
    assert lines[5:] == ["<sup>1</sup> Paimon, read: some.<br>", "<sup>2</sup> Paimon, archive: none of it.<br>"]
    assert missing == ["tests/b.py::t"]


@pytest.fixture
def readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "README.md"
    path.write_text(f"# x\n\n{grid.BEGIN}\na stale grid\n{grid.END}\n\nmore\n")
    monkeypatch.setattr(grid, "README", path)
    monkeypatch.setattr(grid, "collected", lambda: TESTS)
    return path


def test_a_stale_readme_fails_until_it_is_written(readme: Path) -> None:
    assert grid.main(["--check"]) == 1
    assert grid.main([]) == 0
    assert grid.main(["--check"]) == 0
    text = readme.read_text()
    assert text.startswith("# x\n") and text.endswith("\nmore\n") and "a stale grid" not in text
    readme.write_text("# x\n")
    assert grid.main([]) == 1


def test_the_matrix_is_well_formed() -> None:
    assert all(set(row.cells) <= set(FORMATS) for row in GRID)
    assert len({row.title for row in GRID}) == len(GRID)
    for row in GRID:
        for cell in row.cells.values():
            assert bool(cell.none) != bool(cell.tests), row.title
            assert all("::" in name for name in cell.tests), row.title
