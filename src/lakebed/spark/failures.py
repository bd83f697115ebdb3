"""Errors that come back from Spark, as the errors that they were where they happened.

A worker's exception reaches the driver as the text of a traceback, whose last line names the type: the type is found
again, the text is kept whole, the error's other fields are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from lakebed import errors
from lakebed.spark.worker import MISSING

_OURS = re.compile(r"^(?:\w+\.)*?lakebed\.errors\.(\w+): (.+)$", re.MULTILINE)
_MISSING = re.compile(rf"RuntimeError: ({re.escape(MISSING)}.*)")


@contextmanager
def spoken_plainly() -> Iterator[None]:
    """Raise what a worker raised: a LakebedError as itself, a missing module as RuntimeMissingError, anything else as
    Spark has it."""
    try:
        yield
    except PySparkException as error:
        plain = plain_error(error)
        if plain is None:
            raise
        raise plain from error


def plain_error(error: BaseException) -> errors.LakebedError | None:
    """The LakebedError that lies in an error of Spark, None when there is none."""
    text = str(error)
    missing = _MISSING.search(text)
    if missing:
        return errors.RuntimeMissingError(missing[1].strip())
    found = _OURS.findall(text)
    if not found:
        return None
    name, words = found[-1]
    kind: type[errors.LakebedError] = getattr(errors, name, errors.LakebedError)
    return errors.OptionError(words.strip(), key="") if kind is errors.OptionError else kind(words.strip())
