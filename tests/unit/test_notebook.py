"""The notebook of the examples runs as it is, from top to bottom, and each result can be shown."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_steps.ipynb"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    shown: list[object] = []
    for cell in cells:
        assert cell["outputs"] == [], "results are made anew by whoever runs it"
        *before, last = ast.parse("".join(cell["source"])).body
        exec(compile(ast.Module(before, []), "cell", "exec"), names)
        assert isinstance(last, ast.Expr), "a cell ends with what it shows"
        shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    for result in shown:
        as_html = getattr(result, "_repr_html_", None)
        assert as_html() if as_html is not None else repr(result)
    assert shown[-1] is True, "the rollback leads back to the rows of the first snapshot"
    report = shown[-3]
    assert "<svg" in report._repr_html_()  # type: ignore[attr-defined]
