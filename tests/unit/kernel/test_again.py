"""Reads that begin anew when a file was gone: how often, for what, and what they say at the end."""

from __future__ import annotations

import pytest

from lakebed.errors import CorruptError, DataCleanedError, LakebedError, RetryableError
from lakebed.kernel.again import LOOKS, looks_again


def gone(name: str) -> FileNotFoundError:
    return FileNotFoundError(2, "No such file", name)


def named(name: str) -> CorruptError:
    error = CorruptError("a manifest is missing", file=name)
    error.__cause__ = gone(name)
    return error


def runs(*errors: Exception) -> tuple[object, int]:
    """What a read gives that meets these errors one after the other, and how often it looked."""
    looks = 0

    @looks_again
    def read() -> str:
        nonlocal looks
        looks += 1
        if looks <= len(errors):
            raise errors[looks - 1]
        return "rows"

    try:
        return read(), looks
    except LakebedError as error:
        return error, looks


@pytest.mark.parametrize("error", [gone("a"), named("a"), DataCleanedError("gone")], ids=["bare", "named", "cleaned"])
def test_a_file_that_is_gone_is_looked_for_again(error: Exception) -> None:
    assert runs(error) == ("rows", 2)


def test_other_errors_are_raised_at_once() -> None:
    error, looks = runs(CorruptError("torn"))
    assert isinstance(error, CorruptError) and looks == 1


def test_a_file_that_stays_missing_is_told_after_the_second_look() -> None:
    error, looks = runs(*[gone("/t/a")] * LOOKS)
    assert isinstance(error, RetryableError) and looks == 2 and error.file == "/t/a"
    error, looks = runs(*[named("a")] * LOOKS)
    assert isinstance(error, CorruptError) and looks == 2


def test_a_table_that_changes_all_the_time_is_given_up() -> None:
    error, looks = runs(*[gone(str(n)) for n in range(2 * LOOKS)])
    assert isinstance(error, RetryableError) and looks == LOOKS
