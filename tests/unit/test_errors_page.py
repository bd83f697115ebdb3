"""docs/errors.md has every class of error, and its examples are what lakebed says today."""

from lakebed.errors import LakebedError
from tests.conformance.error_causes import CAUSES
from tests.conformance.error_index import PAGE, classes, examples, rendered

WITHOUT_EXAMPLE = {"LakebedError", "StorageError", "RetryableError", "CallbackError"}
"""Errors that need a store that is down, or code of the user's."""


def test_the_page_has_every_class_and_what_it_says() -> None:
    names = [kind.__name__ for kind in classes()]
    assert sorted(names) == sorted(CAUSES) and len(names) > 20 and all(CAUSES.values())
    assert PAGE.read_text(encoding="utf-8") == rendered(), "run ./run docs"


def test_every_error_that_can_be_shown_has_an_example() -> None:
    kinds = {kind.__name__ for kind in classes() if issubclass(kind, LakebedError)}
    assert kinds - examples().keys() == WITHOUT_EXAMPLE
