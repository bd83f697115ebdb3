"""A file that goes while a writer or a table service works: others restore, archive and clean meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from lakebed.errors import CommitConflictError

P = ParamSpec("P")
T = TypeVar("T")


def conflict_when_gone(act: Callable[P, T]) -> Callable[P, T]:
    """Make `act` raise CommitConflictError where a state file is gone that a listing named a moment before."""

    @functools.wraps(act)
    def acting(*args: P.args, **named: P.kwargs) -> T:
        try:
            return act(*args, **named)
        except FileNotFoundError as error:
            raise changed_meanwhile(error) from error

    return acting


def changed_meanwhile(error: BaseException) -> CommitConflictError:
    """The conflict with another process that removed a file, such as a restore or an archival."""
    return CommitConflictError(
        "another process removed a file of the table meanwhile",
        file=str(getattr(error, "filename", None) or getattr(error, "file", "")),
        why=str(error),
        todo="Nothing of this is visible: try again. If the file stays missing, restore it from a copy",
    )
