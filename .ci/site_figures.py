"""The site's page of measurements: what each bench kept in bench/results, peers beside lakebed, as tables."""

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BENCHES = Path("bench")
CONTAINERS = ("cases", "figures", "engines", "parts", "rows")
"""Keys of results that say nothing of what they hold."""
ABOUT_RUNS = ("when", "machine")
"""Keys of texts about a run, which name no row."""
OWN_PAGES = ("newcomer",)
"""Results that are a page of their own."""
HEAD = """\
# Performance

What the benches measured last, lakebed beside its peers in one run. `./run bench NAME` measures anew. Compare figures
of one run only: machines differ, and `load` says how busy this one was. `seconds` are of a clock; `cpu seconds` are the
processor's, which noise touches less. Megabytes are the peak of a process.
"""


def performance_page() -> str:
    """One section for each bench that keeps a result."""
    results = sorted(file for file in (BENCHES / "results").glob("*.json") if file.stem not in OWN_PAGES)
    return HEAD + "".join(map(_section, results))


def _section(result: Path) -> str:
    words = ast.get_docstring(ast.parse((BENCHES / f"{result.stem}.py").read_text(encoding="utf-8"))) or ""
    what = " ".join(words.partition("\n\n")[0].split())
    kept: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    plain = {key: _text(value) for key, value in kept.items() if not isinstance(value, Mapping | list)}
    plain |= {key: _text(value) for key, value in kept.get("machine", {}).items()} if _flat(kept.get("machine")) else {}
    facts = ", ".join(f"{_spoken(key)}: {value}" for key, value in plain.items() if key != "bench" and value)
    tables: dict[tuple[str, ...], list[tuple[str, Mapping[str, Any]]]] = {}
    for label, figures in _rows(kept, ()):
        tables.setdefault(tuple(figures), []).append((label, figures))
    name = result.stem.replace("_", "-")
    return f"\n## {name}\n\n{what}\n\n`./run bench {name}`. {facts}\n" + "".join(
        _table(columns, rows) for columns, rows in tables.items()
    )


def _rows(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each set of figures with a name: the keys that lead to it, and the words that it has among its figures."""
    if isinstance(value, list):
        for item in value:
            yield from _rows(item, path)
    elif _flat(value):
        if path and path != ("machine",):
            words = [text for text in value.values() if isinstance(text, str)]
            figures = {key: figure for key, figure in value.items() if not isinstance(figure, str)}
            if figures:
                yield ", ".join((*path[path[0] in CONTAINERS :], *words)), figures
    elif isinstance(value, Mapping):
        inner = {key: item for key, item in value.items() if _holds_figures(item)}
        rest = {key: item for key, item in value.items() if key not in inner}
        if path and sum(isinstance(item, int | float) for item in rest.values()) > 1:
            yield from _rows({key: item for key, item in rest.items() if not isinstance(item, list)}, path)
        words = [text for key, text in rest.items() if isinstance(text, str) and key not in ABOUT_RUNS] if path else []
        for key, item in inner.items():
            yield from _rows(item, (*path, *words, key))


def _flat(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and not any(isinstance(v, Mapping | list) for v in value.values())


def _holds_figures(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(item, Mapping) for item in value))


def _table(columns: tuple[str, ...], rows: list[tuple[str, Mapping[str, Any]]]) -> str:
    head = "| | " + " | ".join(map(_spoken, columns)) + " |\n|---" + "|---:" * len(columns) + "|\n"
    lines = (f"| {label} | " + " | ".join(_text(figures[c]) for c in columns) + " |\n" for label, figures in rows)
    return f"\n{head}{''.join(lines)}"


def _spoken(key: str) -> str:
    return key.replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
