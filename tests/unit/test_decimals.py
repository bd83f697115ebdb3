"""Nothing that lakebed does to a decimal depends on the decimal context of its caller, which rounds to 28 digits."""

from __future__ import annotations

import ast
from pathlib import Path

import lakebed

ROUNDS = {
    "scaleb": 2,
    "quantize": 3,
    "normalize": 1,
    "fma": 3,
    "sqrt": 1,
    "exp": 1,
    "ln": 1,
    "next_plus": 1,
    "to_eng_string": 1,
}
"""Methods of `Decimal` by how many arguments they take with a context."""


def test_methods_that_round_are_given_a_context() -> None:
    package = Path(lakebed.__file__).parent
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "Decimal" not in text and "as_py()" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ROUNDS:
                given = len(node.args) >= ROUNDS[node.func.attr] or "context" in {word.arg for word in node.keywords}
                assert given, f"{path.relative_to(package)}:{node.lineno} {node.func.attr}"
