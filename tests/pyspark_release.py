"""Tests on a PySpark that is older than the newest: `./run test --pyspark X`.

lakebed refuses what a release lacks with the release that brought it. A test that meets such a refusal is skipped, with
the refusal's own words. Nothing else is skipped.
"""

from __future__ import annotations

import re
from importlib import metadata

import pytest


def parsed(text: str) -> tuple[int, ...]:
    """The release in a version's text."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


RELEASE = parsed(metadata.version("pyspark"))
_REFUSAL = re.compile(r"needs? PySpark (\d+\.\d+) or newer, and this is")
_UNKNOWN_SOURCE = re.compile(
    r"DATA_SOURCE_NOT_FOUND\] Failed to find the data source: (?:lakebed|hudi|paimon|iceberg|org\.apache\.)"
    r"|UNRESOLVABLE_TABLE_VALUED_FUNCTION\] .*lakebed_|has no attribute '(?:dataSource|_dataSource)'"
)
"""What Spark itself says where `register` could add nothing."""
WARNINGS = (
    *(("ignore:The distutils package is deprecated:DeprecationWarning",) if RELEASE < (4, 0) else ()),
    *(("ignore:distutils Version classes are deprecated:DeprecationWarning",) if RELEASE < (4, 0) else ()),
    # Its collect() and toArrow() leave their socket to the garbage collector.
    *(("ignore:unclosed <socket:ResourceWarning",) if RELEASE < (4, 2) else ()),
    *((r"ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",) if RELEASE < (4, 2) else ()),
)
"""Warnings that the PySpark of this run may give, as pytest writes filters."""


def wanted(error: BaseException) -> str:
    """Why a test that ended with this error needs a newer PySpark; "" where it does not."""
    texts = []
    cause: BaseException | None = error
    while cause is not None:
        texts.append(str(cause))
        cause = cause.__cause__
    for text in texts:
        refused = _REFUSAL.search(text)
        if refused and parsed(refused[1]) > RELEASE:
            return f"needs PySpark {refused[1]}: {text.splitlines()[0][:200]}"
        if RELEASE < (4, 0) and _UNKNOWN_SOURCE.search(text):
            return "needs PySpark 4.0: sources and table functions that are written in Python"
    return ""


def skip_refused(error: BaseException) -> None:
    """Skip the running test where its error says that it needs a newer PySpark."""
    if reason := wanted(error):
        pytest.skip(reason)


def needs(release: str, what: str, whole_module: bool = False) -> None:
    """Skip the running test, or the module, on a PySpark before this release."""
    if parsed(release) > RELEASE:
        pytest.skip(f"needs PySpark {release}: {what}", allow_module_level=whole_module)
