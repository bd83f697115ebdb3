"""Spark's exceptions, turned back into the errors that were raised on a worker.

A worker's exception reaches the driver as the text of a traceback inside one of Spark's own exceptions. The last line
of that text names the type. We find the type again and keep the whole text; the error's other fields are lost.

Where lakebed runs a job itself, `translated_errors` wraps it. Actions on a user's DataFrame (`df.collect()`, `load()`,
`save()`, SQL, `query.awaitTermination()`) run without any code of lakebed, so `translate_errors` adds a step to
PySpark's own conversion of errors. The exception that it raises is both the LakebedError and the exception of Spark, so
code that catches the latter still does.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured

from lakebed import errors
from lakebed.spark.worker import MISSING

_OURS = re.compile(r"^(?:\w+\.)*?lakebed\.errors\.(\w+): (.+)$", re.MULTILINE)
_GONE = re.compile(
    r"Encountered error while reading file (file:\S+?)\. +File does not exist|Path does not exist: (file:\S+?)\. "
    r"|File file:(/[^\n]*) does not exist\s+It is possible the underlying files have been updated"
)
"""The messages of Spark's own readers about a missing file, with the file's URL, or (3.5) with its path as it is."""
_SQL_STATE = re.compile(r"\s+SQLSTATE: \w{5}(; line \d+ pos \d+)?\s*$")
"""What Spark adds to the last line of an error that was raised while it analyzed a query."""
_MISSING = re.compile(rf"RuntimeError: ({re.escape(MISSING)}.*)")
_CONVERT = "convert_exception"
"""PySpark's function that converts an error of the JVM or the server to a Python exception, in both kinds of
session."""
_CONNECT = "pyspark.sql.connect.client.core"
_NO_CREDENTIALS = "there are no credentials for "
_WHERE_FROM = (
    "On Spark each executor finds its own: in its environment (spark.executorEnv.AWS_ACCESS_KEY_ID, ...), or by a "
    "function that lakebed.storage.provider names. What os.environ got after the session had started does not reach "
    "it, and spark.hadoop.fs.s3a.* is for Hadoop's client, not for lakebed"
)
"""What a user of Spark's own sources may not expect, for an error that found no credentials."""


_MOST_FOLDERS = 1 << 16
_tables: dict[str, str] = {}
"""The tables whose files Spark itself reads, by the folders of these files."""


def reading_itself(table: str, files: Iterable[str]) -> None:
    """Say that Spark's own reader reads these files of a table, by their paths, in DataFrames of this process: an error
    about one that is gone then names the table."""
    folders = dict.fromkeys((posixpath.dirname(file) for file in files), table)
    for folder in [*_tables][: max(len(_tables) + len(folders) - _MOST_FOLDERS, 0)]:
        del _tables[folder]
    _tables.update(folders)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise what a worker raised inside the block: a LakebedError as itself, a missing module as RuntimeMissingError.
    Any other exception of Spark is raised as it is."""
    try:
        yield
    except PySparkException as error:
        ours = lakebed_error(error)
        if ours is None or isinstance(error, errors.LakebedError):
            raise
        raise ours from error


@contextmanager
def explained_errors() -> Iterator[None]:
    """A block that opens a table on the driver: where no credentials are found, the error says who looks for them on
    Spark."""
    try:
        yield
    except errors.UsageError as error:
        if error.what.startswith(_NO_CREDENTIALS) and _WHERE_FROM not in error.todo:
            error.todo = f"{error.todo}. {_WHERE_FROM}" if error.todo else _WHERE_FROM
        raise


def translate_errors() -> None:
    """Make every action of this process raise what a worker raised, as `translated_errors` does for a block."""
    for module in (captured, sys.modules.get(_CONNECT)):
        convert = getattr(module, _CONVERT, None)
        if convert is not None and not getattr(convert, "_of_lakebed", False):
            setattr(module, _CONVERT, _translating(convert))


def _translating(convert: Callable[..., Any]) -> Callable[..., Any]:
    def converted(*arguments: Any, **named: Any) -> Any:
        error = convert(*arguments, **named)
        with suppress(Exception):  # an error that we fail to translate stays as it is
            ours = lakebed_error(error)
            if ours is not None and ours is not error:
                return _both(ours, error).with_traceback(error.__traceback__)
        return error

    converted._of_lakebed = True  # type: ignore[attr-defined]  # so that it is not wrapped twice
    return converted


def _both(ours: errors.LakebedError, spark: BaseException) -> BaseException:
    """An exception with the text and fields of `ours` that has the types of both. It pickles as `ours`."""
    # PySpark shows an unknown error as py4j raised it.
    base = captured.CapturedException if isinstance(spark, captured.UnknownException) else type(spark)
    kind = type(type(ours).__name__, (_Both, type(ours), base), {"__module__": type(ours).__module__})
    error: BaseException = kind.__new__(kind, *ours.args)
    error.__dict__.update(spark.__dict__ | ours.__dict__ | {"_ours": ours})
    return error


class _Both(Exception):
    _ours: errors.LakebedError

    def __str__(self) -> str:
        return str(self._ours)

    def __reduce__(self) -> Any:
        return self._ours.__reduce__()


def lakebed_error(error: BaseException) -> errors.LakebedError | None:
    """The LakebedError that an exception of Spark contains, None when it contains none."""
    if isinstance(error, errors.LakebedError):
        return error
    text = str(error)
    gone = _gone_file(text) or _gone_file(str(getattr(error, "_stackTrace", None) or ""))
    if gone is not None:
        return gone
    missing = _MISSING.search(text)
    if missing:
        return errors.RuntimeMissingError(missing[1].strip())
    lines = _OURS.findall(text)
    if not lines:
        return None
    name, message = lines[-1][0], _SQL_STATE.sub("", lines[-1][1])
    if message.startswith(_NO_CREDENTIALS) and _WHERE_FROM not in message:
        message = f"{message.strip()}. {_WHERE_FROM}"
    return errors.named_error(name, message.strip())


def _gone_file(text: str) -> errors.DataCleanedError | None:
    """The error for a file that Spark read itself and that is gone; None for any other text."""
    for named in _GONE.finditer(text):
        path = named[3] or "/" + unquote((named[1] or named[2]).removeprefix("file:")).lstrip("/")
        table = _tables.get(posixpath.dirname(path))
        if table is not None:
            return errors.DataCleanedError(
                "a data file is gone",
                table=table,
                file=path,
                why="the snapshot that holds it has expired, or something removed it, since the DataFrame was made",
                todo="Call lakebed.spark.read again, and keep snapshots for longer than queries take",
            )
    return None
