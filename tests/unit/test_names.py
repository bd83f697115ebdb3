"""The same job has the same file name in every format: the table in docs/architecture.md, held against the package."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakebed

FORMATS = ("hudi", "paimon", "iceberg")
PACKAGE = Path(lakebed.__file__).parent / "formats"
DOCUMENT = Path(__file__).parents[2] / "docs" / "architecture.md"
HEADING = "## The same job under the same name"
YES, NO = "yes", "–"


def table() -> Iterator[tuple[str, str, dict[str, str]]]:
    """(job, file, format -> cell) for each row."""
    section = DOCUMENT.read_text(encoding="utf-8").split(HEADING, 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 2 + len(FORMATS) and (name := re.fullmatch(r"`([\w/.]+)`", cells[1])):
            yield cells[0], name[1], dict(zip(FORMATS, cells[2:], strict=True))


ROWS = list(table())


def modules(table_format: str) -> set[str]:
    """The files of a format, and its folders with a slash at their end, as paths below the format's folder."""
    here = PACKAGE / table_format
    files = {path.relative_to(here).as_posix() for path in here.rglob("*.py") if path.name != "__init__.py"}
    return files | {f"{parent}/" for file in files for parent in map(str, Path(file).parents) if parent != "."}


@pytest.mark.parametrize(("job", "name", "cells"), ROWS, ids=[name for _, name, _ in ROWS])
def test_a_cell_says_whether_the_file_is_there(job: str, name: str, cells: dict[str, str]) -> None:
    assert {table_format: name in modules(table_format) for table_format in FORMATS} == {
        table_format: cell == YES for table_format, cell in cells.items()
    }, job
    assert all(cell == YES or cell.startswith(NO) for cell in cells.values()), (
        f"{job}: a cell is {YES}, {NO} or {NO} with words"
    )


def test_every_name_that_two_formats_share_is_in_the_table() -> None:
    counts = Counter(name for table_format in FORMATS for name in modules(table_format) if not name.endswith("/"))
    shared = {name for name, count in counts.items() if count > 1}
    named = {name for _, name, _ in ROWS}
    folders = tuple(name for name in named if name.endswith("/"))
    assert {name for name in shared - named if not name.startswith(folders)} == set()


def test_no_job_is_named_twice() -> None:
    assert len({job for job, _, _ in ROWS}) == len({name for _, name, _ in ROWS}) == len(ROWS) > 30


def test_every_file_that_the_page_names_is_there() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    root = Path(__file__).parents[2]
    paths = {
        path.relative_to(root).as_posix()
        for folder in ("src", "tests", "bench")
        for path in root.glob(f"{folder}/**/*.py")
    }
    table_rows = "".join(line for line in text.splitlines() if not re.match(r"\|[^|]*\| `[\w/.]+` \|", line))
    names = set(re.findall(r"`(?:formats/\*/)?([\w/]+\.py)\b", table_rows))
    assert {name for name in names if not any(f"/{path}".endswith(f"/{name}") for path in paths)} == set()
