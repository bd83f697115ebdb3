"""Reads that look again when a file was gone between the listing that named it and its reading.

Other processes archive, clean, expire and merge while a table is read. Who meets that begins anew from what is there
now, a few times; a file that is missing twice in a row is not about to be replaced, and the error says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from lakebed.errors import DataCleanedError, LakebedError, RetryableError

P = ParamSpec("P")
T = TypeVar("T")
LOOKS = 5
"""How often a read begins anew, at most."""


def looks_again(act: Callable[P, T]) -> Callable[P, T]:
    """`act`, which reads metadata from its beginning and changes nothing, done again when a file is gone.

    Raises the error of a file that stays missing: lakebed's own where there is one, else RetryableError.
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
                if isinstance(error, LakebedError):
                    raise
                raise RetryableError(
                    "a file of the table is gone", file=str(error.filename or ""), why=str(error),
                    todo="Another process removed it while the table was read, or it is lost. Try again; if it stays "
                    "so, restore the file from a copy",
                ) from error  # fmt: skip
        raise AssertionError("unreachable")

    return looking


def is_gone(error: BaseException) -> bool:
    """Whether an error says that a file was not there which something had named."""
    return isinstance(error, FileNotFoundError | DataCleanedError) or isinstance(error.__cause__, FileNotFoundError)
