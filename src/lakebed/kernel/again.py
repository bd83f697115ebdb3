"""Start a metadata read over when a file is gone between the listing that named it and the read of it.

Other processes archive, clean, expire and merge while a table is read. A read that meets this starts over from what is
there now, a few times. When the same file is missing twice in a row, nothing is about to replace it, and the error says
so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

from lakebed.errors import DataCleanedError, LakebedError, RetryableError

P = ParamSpec("P")
T = TypeVar("T")
LOOKS = 5
"""How often a read is tried, at most."""


def looks_again(act: Callable[P, T]) -> Callable[P, T]:
    """Make `act` start over when a file is gone. It must read metadata from the beginning and change nothing.

    When a file stays missing, raises the LakebedError that `act` raised, or RetryableError for a FileNotFoundError.
    """

    @functools.wraps(act)
    def looking(*args: P.args, **named: P.kwargs) -> T:
        before = ""
        for look in range(LOOKS):
            try:
                return act(*args, **named)
            except (FileNotFoundError, LakebedError) as error:
                if not is_gone(error):
                    raise
                if look < LOOKS - 1 and str(error) != before:
                    before = str(error)
                    continue
                raise_missing(error)
        raise AssertionError("unreachable")

    return looking


def raise_missing(error: FileNotFoundError | LakebedError) -> NoReturn:
    """Raise the error of a file that stays missing; as a RetryableError where it is none of lakebed's."""
    if isinstance(error, LakebedError):
        raise error
    raise RetryableError(
        "a file of the table is gone",
        file=str(error.filename or ""),
        why=str(error),
        todo="Another process removed it while the table was read, or it is lost. Try again. If it stays missing, "
        "restore the file from a copy",
    ) from error


def is_gone(error: BaseException) -> bool:
    """Whether an error says that a file is missing that a listing or other metadata named."""
    return isinstance(error, FileNotFoundError | DataCleanedError) or isinstance(error.__cause__, FileNotFoundError)
