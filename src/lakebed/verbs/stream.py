"""Stream: a read that goes on from a position, batch by batch.

The positions are small JSON texts: all that a later process needs to plan the same batch again, with nothing kept in
memory. Whoever drives the stream (Spark's streaming source, the command line) stores them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lakebed.verbs.read import ReadPlan


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch may take; None is no bound. A batch takes at least one commit: a stream never stands still."""

    commits: int | None = None
    files: int | None = None
    bytes: int | None = None


class StreamReader(Protocol):
    """The driver's half of a stream. All methods only read; positions are opaque texts, compared only by the reader."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        ...

    def initial(self) -> str:
        """The position before the first row that the options ask for."""
        ...

    def latest(self, start: str, limits: Limits) -> str:
        """The position to read up to from `start`; `start` itself when there is nothing new."""
        ...

    def plan(self, start: str, end: str) -> ReadPlan[Any]:
        """The rows after `start` up to and with `end`. The same answer however often and wherever it is asked."""
        ...


def drain(
    reader: StreamReader, start: str | None = None, limits: Limits = Limits()
) -> Iterator[tuple[str, ReadPlan[Any]]]:
    """Every batch from `start` (None: the initial position) until nothing is new: (the position after it, its plan)."""
    position = reader.initial() if start is None else start
    while (end := reader.latest(position, limits)) != position:
        yield end, reader.plan(position, end)
        position = end
