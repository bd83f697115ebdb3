"""How values show in a notebook, and in a console that is short of room.

IPython and Jupyter call `_repr_html_`. Long lists are cut: their first entries are shown, and how many more there are.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from lakebed.redaction import redacted

T = TypeVar("T")
_ROWS = 20
_SHORT = 5


class Shown:
    """A frozen dataclass that shows its fields as a table in notebooks, and cuts long lists in its repr."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = [(name, value) for name, value in _parts(self) if value not in ("", (), None) or name == "outcome"]
        return f"<b>{html.escape(type(self).__name__)}</b>{_table(('', ''), rows)}"

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_short(value)}" for name, value in _parts(self))
        return f"{type(self).__name__}({inside})"


class ShownList(list[T]):
    """A list of values that shows as one table in notebooks."""

    def _repr_html_(self) -> str:
        return _entries(self) if self else "<i>none</i>"


def table_html(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with these headings."""
    return _table(names, rows)


def _parts(value: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name)) for field in fields(value) if field.repr]


def _short(value: object) -> str:
    if isinstance(value, tuple) and len(value) > _SHORT:
        return f"({', '.join(map(repr, value[:_SHORT]))}, ... {len(value) - _SHORT:,} more)"
    return repr(value)


def _table(names: Sequence[str], rows: Iterable[Sequence[object]], more: int = 0) -> str:
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in names) if any(names) else ""
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    rest = f"<tr><td colspan='{len(names)}'>... {more:,} more</td></tr>" if more else ""
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}{rest}</table>"


def _cell(value: object) -> str:
    if isinstance(value, Mapping):
        return _table(("", ""), list(value.items())[:_ROWS], max(len(value) - _ROWS, 0)) if value else ""
    if isinstance(value, tuple | list) and value:
        return _entries(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _table(("", ""), _parts(value))
    return html.escape(redacted("" if value is None or value == () else str(value)))


def _entries(values: Sequence[Any]) -> str:
    """A table with a row per value: its fields as columns where the values have some."""
    shown, more = values[:_ROWS], max(len(values) - _ROWS, 0)
    first = shown[0]
    if is_dataclass(first) and not isinstance(first, type) and all(type(value) is type(first) for value in shown):
        names = [name for name, _ in _parts(first)]
        return _table(names, [[value for _, value in _parts(entry)] for entry in shown], more)
    return _table(("",), [[value] for value in shown], more)
