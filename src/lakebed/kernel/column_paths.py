"""Columns named by a path, and the place that a column gets among others.

A path is a dotted text, or a sequence of names where a name itself has a dot. A name is found as written, else as the
only one that differs in case alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.errors import SchemaError, known_columns
from lakebed.kernel.predicates.where import find_column


def path_of(given: object, columns: Sequence[str]) -> tuple[str, ...]:
    """The names of a path that begins with one of the columns, or with a new one.

    A text that is a column's name is that column, dots and all. SchemaError for what is no path.
    """
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise SchemaError(f"{given!r} names no column", todo="Give its name, or the names of its path")
    if isinstance(given, str) and find_column(given, columns) is None:
        names = tuple(given.split("."))
    if not all(names):
        raise SchemaError(f"{given!r} names no column", todo="Give names with one dot between them")
    return names


def place_of(name: str, names: Sequence[str]) -> int:
    """Where a name stands among others. SchemaError when it does not."""
    spelled = find_column(name, names)
    if spelled is None:
        raise SchemaError(f"there is no column {name!r}", todo=known_columns(name, names))
    return [*names].index(spelled)


def new_place(
    name: str, others: Sequence[str], after: str | None = None, first: bool = False, before: str | None = None
) -> int | None:
    """Where a column comes to stand among the others; None where nothing says it.

    SchemaError for more than one place, for a name that another one has, and for a neighbour that is not there.
    """
    if (after is not None) + (before is not None) + bool(first) > 1:
        raise SchemaError(f"column {name!r} cannot go to two places", todo="Give one of after, before and first")
    if name in others:
        raise SchemaError(f"there is already a column {name!r}", todo="Choose another name")
    if first:
        return 0
    if after is not None:
        return place_of(after, others) + 1
    return place_of(before, others) if before is not None else None
