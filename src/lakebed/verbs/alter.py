"""What `table.alter` takes, checked, and how a format applies it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lakebed.errors import LakebedError, UsageError
from lakebed.model.alter import Change


def checked_changes(changes: object) -> tuple[Change, ...]:
    """Changes as a tuple. UsageError for other values, and for none."""
    several = (changes,) if isinstance(changes, Change) else changes
    todo = "Give what lakebed.add_column(...) and its like return, or a list of them"
    if not isinstance(several, Sequence) or isinstance(several, str):
        raise UsageError(f"a {type(changes).__name__} is not a change of a table", todo=todo)
    for change in several:
        if not isinstance(change, Change):
            raise UsageError(f"a {type(change).__name__} is not a change of a table", todo=todo)
    if not several:
        raise UsageError("no change was given", todo=todo)
    return tuple(several)


def apply_each(changes: Iterable[Change], apply: Callable[[Change], None], table: str) -> None:
    """Apply changes one after the other. An error that names no table gets this one."""
    for change in changes:
        try:
            apply(change)
        except LakebedError as error:
            error.table = error.table or table
            raise
