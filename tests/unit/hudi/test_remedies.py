"""Every error of the Hudi adapter says what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import lakebed
from lakebed import errors

HUDI = Path(lakebed.__file__).parent / "formats" / "hudi"
ERRORS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.LakebedError)
}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls that make an error."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            yield node


def test_every_error_has_a_remedy() -> None:
    lacking, seen = [], 0
    for path in sorted(HUDI.rglob("*.py")):
        for call in calls(ast.parse(path.read_text())):
            seen += 1
            if not any(word.arg in ("todo", None) for word in call.keywords):
                lacking.append(f"{path.relative_to(HUDI)}:{call.lineno}")
    assert seen > 200 and not lacking, lacking
