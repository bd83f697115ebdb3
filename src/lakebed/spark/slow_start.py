"""A query started again when the machine was too busy for Spark's own Python process to start in time.

Spark gives that process 10 s, has no setting for it, and fails the query. Nothing was read or written by then, so the
query may be started again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException

T = TypeVar("T")

STARTS = 4
"""How often a query is started at most."""
_WORDS = ("worker failed to connect back", "waiting for the Python worker")


def despite_slow_start(start: Callable[[], T]) -> T:
    """What `start` gives, which starts a query and may wait for it. Each failure by a slow start begins it anew, and
    the last one is raised."""
    for _ in range(STARTS - 1):
        try:
            return start()
        except PySparkException as error:
            if not any(words in str(error) for words in _WORDS):
                raise
    return start()
