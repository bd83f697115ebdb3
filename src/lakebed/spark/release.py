"""What the PySpark that is here can do. Imported before anything that needs it.

A platform brings its own PySpark, which no `pip install` may replace. We run on each from 3.5 on, with what it has, and
refuse the rest by the release that brought it. Vendors carry parts of later releases in theirs, so we look for a part
itself, and not for a number, wherever it can be seen.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

from lakebed.errors import RuntimeMissingError, UnsupportedError

LEAST = (3, 5)
"""The oldest PySpark that lakebed runs on."""
_WITHOUT_SPARK = "Tables that lakebed.open gives need no Spark"

try:
    from pyspark import __version__
except ModuleNotFoundError as error:
    raise RuntimeMissingError(
        "lakebed.spark needs PySpark, which is not installed here",
        todo=f"Run pip install 'lakebed[spark]'. {_WITHOUT_SPARK}",
    ) from error


VERSION: str = __version__
"""The version of the PySpark that is here."""


def parsed(text: str) -> tuple[int, int]:
    """The release that a version's text begins with, "4.0.1.dev1" as (4, 0)."""
    numbers = re.findall(r"\d+", text)[:2]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else (0, 0)


if parsed(VERSION) < LEAST:
    raise RuntimeMissingError(
        f"lakebed.spark needs PySpark {'.'.join(map(str, LEAST))} or newer, and this is {VERSION}",
        why="older releases lack types and functions that lakebed needs",
        todo="Run pip install 'lakebed[spark]' in an environment of its own. Or read and write without Spark: tables"
        " that lakebed.open gives need none, and spark.createDataFrame(table.to_pandas()) takes their rows",
    )

HAS_SOURCES = find_spec("pyspark.sql.datasource") is not None
"""Whether data sources can be written in Python (4.0)."""
TAKES_ARROW = parsed(VERSION) >= (4, 0)
"""Whether `createDataFrame` takes an Arrow table."""
HAS_STREAMS = HAS_SOURCES and find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether a stream is told where a batch begins, and can bound it (4.2)."""


def needs(least: str, what: str, todo: str) -> UnsupportedError:
    """The error for something that came with a later release, and what to do on this one."""
    return UnsupportedError(f"{what} needs PySpark {least} or newer, and this is {VERSION}", todo=todo)
