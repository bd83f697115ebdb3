"""Stream: a read that continues from a position, batch by batch.

A position is a small JSON text. It is all that a later process needs to plan the same batch again; nothing is kept in
memory. The caller that drives the stream (Spark's streaming source, the command line) stores the positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from lakebed.verbs.read import ReadPlan


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one batch takes, in commits, files and bytes. None is no bound.

    A batch takes at least one commit, even beyond the bounds, so that a stream always advances.
    """

    commits: int | None = None
    files: int | None = None
    bytes: int | None = None


class StreamReader(Protocol):
    """The driver's half of a stream.

    All methods only read. Positions are opaque texts that only the reader that gave them can compare.
    """

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        ...

    def initial(self) -> str:
        """The position before the first row that the options ask for."""
        ...

    def latest(self, start: str, limits: Limits) -> str:
        """The position at which the batch that begins at `start` ends; `start` itself when there is nothing new."""
        ...

    def ends(self, start: str, limits: Limits) -> Sequence[str]:
        """The positions after all batches from `start` up to what is there now, from one look at the table: as
        `latest` would give them one after the other."""
        ...

    def after_everything(self) -> str:
        """The position after everything that the table has now, for callers that do not know where a batch begins. From
        any earlier position of this stream, a plan up to here has the rows of a batch without bounds.

        Raises UnsupportedError for options that need to know where a batch begins.
        """
        ...

    def plan(self, start: str, end: str) -> ReadPlan[Any]:
        """The rows after `start` up to and including `end`: the same rows in every process and at every call.

        The reader that has just given `end` may reuse what it has read of the table.
        """
        ...


@runtime_checkable
class KeepsProgress(Protocol):
    """A stream that also stores its progress in the table, under a name from its options."""

    def processed(self, position: str) -> None:
        """Record that everything up to a position has been processed. The caller that drives the stream calls this. A
        second call does no harm."""
        ...


def drain(
    reader: StreamReader, start: str | None = None, limits: Limits = Limits()
) -> Iterator[tuple[str, ReadPlan[Any]]]:
    """Every batch from `start` (None: the initial position) until there is nothing new.

    Yields the position after each batch, and its plan. A batch counts as processed when the next one is asked for.
    """
    position = reader.initial() if start is None else start
    while True:
        if isinstance(reader, KeepsProgress):
            reader.processed(position)
        end = reader.latest(position, limits)
        if end == position:
            return
        yield end, reader.plan(position, end)
        position = end
