"""Errors that come back from Spark, as the errors that they were where they happened.

A worker's exception reaches the driver as the text of a traceback, buried in one of Spark's own exceptions. Its last
line names the type: the type is found again, the text is kept whole, the error's other fields are not.

What lakebed itself runs is wrapped in `spoken_plainly`. DataFrames that users act on (`df.collect()`, `load()`,
`save()`, SQL, `query.awaitTermination()`) raise where no code of lakebed runs, so `speak_plainly` puts a step behind
PySpark's own conversion of errors. What it raises is of both kinds: the LakebedError, and the exception of Spark that
it was buried in, so that whoever catches that one still does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured

from lakebed import errors
from lakebed.spark.worker import MISSING

_OURS = re.compile(r"^(?:\w+\.)*?lakebed\.errors\.(\w+): (.+)$", re.MULTILINE)
_MISSING = re.compile(rf"RuntimeError: ({re.escape(MISSING)}.*)")
_CONVERT = "convert_exception"
"""PySpark's function from what the JVM or the server said to a Python exception, in both kinds of session."""
_CONNECT = "pyspark.sql.connect.client.core"


@contextmanager
def spoken_plainly() -> Iterator[None]:
    """Raise what a worker raised: a LakebedError as itself, a missing module as RuntimeMissingError, anything else as
    Spark has it."""
    try:
        yield
    except PySparkException as error:
        plain = plain_error(error)
        if plain is None or isinstance(error, errors.LakebedError):
            raise
        raise plain from error


def speak_plainly() -> None:
    """Let every action of this process raise what a worker raised, as `spoken_plainly` does, whoever calls it."""
    for module in (captured, sys.modules.get(_CONNECT)):
        convert = getattr(module, _CONVERT, None)
        if convert is not None and not getattr(convert, "_of_lakebed", False):
            setattr(module, _CONVERT, _plain(convert))


def _plain(convert: Callable[..., Any]) -> Callable[..., Any]:
    def converted(*arguments: Any, **named: Any) -> Any:
        error = convert(*arguments, **named)
        with suppress(Exception):  # an error that cannot be told better is told as it is
            plain = plain_error(error)
            if plain is not None and plain is not error:
                return _both(plain, error).with_traceback(error.__traceback__)
        return error

    converted._of_lakebed = True  # type: ignore[attr-defined]  # marks what is not to be wrapped twice
    return converted


def _both(plain: errors.LakebedError, spark: BaseException) -> BaseException:
    """An exception that is `plain` in its words and fields, and of the type of `spark` besides; it pickles as
    `plain`."""
    kind = type(type(plain).__name__, (_Both, type(plain), type(spark)), {"__module__": type(plain).__module__})
    error: BaseException = kind.__new__(kind, *plain.args)
    error.__dict__.update(spark.__dict__ | plain.__dict__ | {"_plain": plain})
    return error


class _Both(Exception):
    _plain: errors.LakebedError

    def __str__(self) -> str:
        return str(self._plain)

    def __reduce__(self) -> Any:
        return self._plain.__reduce__()


def plain_error(error: BaseException) -> errors.LakebedError | None:
    """The LakebedError that lies in an error of Spark, None when there is none."""
    if isinstance(error, errors.LakebedError):
        return error
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
