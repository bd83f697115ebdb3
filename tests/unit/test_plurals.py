"""A number comes with the form of its noun everywhere: no text of lakebed says "1 files"."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.errors import counted

SOURCES = Path(lakebed.__file__).parent
NOUNS = (
    "branches", "buckets", "columns", "commits", "days", "entries", "files", "folders", "groups", "hours", "instants",
    "manifests", "minutes", "partitions", "requests", "rows", "seconds", "snapshots", "tables", "tags",
)  # fmt: skip
QUALITIES = (
    "archive", "archived", "data", "delete", "delta", "equality", "file", "foreign", "log", "lost", "marker", "old",
    "orphan", "small", "staged", "torn",
)  # fmt: skip
WORDS = (["what"], ["opened.history_holds"], ["table.history_holds"])
"""What holds a plural."""
COUNTED = re.compile(rf" (?:(?:{'|'.join(QUALITIES)}) )*(?:{'|'.join(NOUNS)})\b(?!')")
NO_NUMBERS = {
    "kind", "format", "short_name", "self.format", "table.format", "options[opt.BASE_FORMAT]", "self.router.mode",
    "actions.pop()", "key",
}  # fmt: skip
"""What stands before a plural and is no number: names of formats, of modes and of actions."""
NEVER_ONE = {
    ("cli/repair.py", "result.checked"),
    ("formats/paimon/rewrite/plan.py", "len(files)"), ("formats/paimon/rewrite/plan.py", "count"),
    ("formats/paimon/write/routing.py", "old"), ("model/pictures.py", "len(sizes)"),
}  # fmt: skip
"""Numbers of which the code before says that they are greater, and lists of numbers."""


def uncounted(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.JoinedStr):
            continue
        for place, (value, after) in enumerate(itertools.pairwise(node.values)):
            if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                continue
            number = ast.unparse(value.value)
            known = number in NO_NUMBERS or (path.relative_to(SOURCES).as_posix(), number) in NEVER_ONE
            word = node.values[place + 2 :][:1]
            spoken = after.value == " " and [ast.unparse(w.value) for w in word if isinstance(w, ast.FormattedValue)]
            if value.conversion == -1 and not known and (COUNTED.match(str(after.value)) or spoken in WORDS):
                yield f"{path.relative_to(SOURCES)}:{value.lineno}: {{{number}}}{str(after.value)[:30]}"


def test_every_number_before_a_plural_is_counted() -> None:
    inside = [path for path in SOURCES.rglob("*.py") if not {"testing", "codec"} & {*path.parts}]
    assert [found for path in sorted(inside) for found in uncounted(path)] == []


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("row",), "1 row"), (2, ("row",), "2 rows"), (0, ("entry", "entries"), "0 entries"),
        (1, ("file is", "files are"), "1 file is"), (1.0, ("hour",), "1 hour"), (1.5, ("hour",), "1.5 hours"),
        (np.int64(12_345_678), ("row",), "12345678 rows"),
    ],
)  # fmt: skip
def test_a_number_with_its_words(number: float, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text
