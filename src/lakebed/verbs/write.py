"""Write: the plan routes rows to buckets, the task writes files and says so, the commit publishes one snapshot.

A *sink* is what a format gives: it says where rows go (`Routing`), makes a writer for one task, and commits messages
under a commit user and an identifier, exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lakebed.errors import LakebedError, UsageError
from lakebed.kernel.engine import Engine
from lakebed.model.commit import CommitMessage, CommitResult


class Mode(StrEnum):
    """What a write does with the rows that are there."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    UPSERT = "upsert"
    DELETE = "delete"

    @classmethod
    def parse(cls, text: str) -> Mode:
        """The mode of that name; UsageError names the four."""
        try:
            return cls(text.lower())
        except (ValueError, AttributeError):
            given = repr(text) if isinstance(text, str) else f"of type {type(text).__name__}"
            raise UsageError(f"unknown write mode {given}", todo=f"Modes: {', '.join(cls)}") from None


class TaskWriter(Protocol):
    """Writes the rows of one task. It may die at any moment: what it wrote is invisible until committed."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of the sink's input schema."""
        ...

    def finish(self) -> Sequence[CommitMessage]:
        """Close all files and say what was written."""
        ...

    def abort(self) -> None:
        """Close and remove what was written."""
        ...


class Sink(Protocol):
    """A table as the target of one write. Picklable: workers get copies of it."""

    @property
    def input_schema(self) -> pa.Schema:
        """What rows must look like; a `_row_kind` column may be added where the table takes changes."""
        ...

    def channels(self, batch: pa.RecordBatch, count: int) -> pa.Array | None:
        """The int32 channel in [0, count) of each row, None when rows need no routing.

        All rows of a (partition, bucket) get one channel, so that they meet in one task.
        """
        ...

    def task_writer(self) -> TaskWriter:
        """A writer for one task, on the machine that runs it."""
        ...

    def commit(self, identifier: int, messages: Sequence[CommitMessage]) -> CommitResult:
        """Publish; an identifier that this user committed before is skipped and its messages' files are removed."""
        ...

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove files of messages that were certainly not committed."""
        ...


class TwoPhaseSink(Sink, Protocol):
    """A sink whose commits the caller numbers, in one process."""

    commit_user: str

    def task_writer(self, threads: int = 1) -> TaskWriter:
        """A writer that writes files of different buckets at once; it may be used on after `finish`."""
        ...

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit those identifiers that this user has not committed yet, in their order; how many they were."""
        ...


@runtime_checkable
class NarrowSink(Protocol):
    """A sink that routes rows by a few of their columns, so that only those need to be handed to it for that."""

    @property
    def routing_columns(self) -> tuple[str, ...]:
        """What a batch given to `channels` must have."""
        ...


@runtime_checkable
class FinalizingSink(Protocol):
    """A sink whose tasks stage rows, which become files of the right size once all of them are known."""

    def finalize(self, messages: Sequence[CommitMessage], engine: Engine) -> Sequence[CommitMessage]:
        """Make files of what tasks have staged, on an engine; what was staged is removed, also when it fails."""
        ...


@runtime_checkable
class StagingSink(Protocol):
    """A sink whose tasks stage rows in places of this write alone."""

    def sweep(self) -> None:
        """Remove all that tasks of this write have staged, also those whose messages nobody has: attempts that failed,
        or lost to a twin. Called when the write has ended."""
        ...


@contextmanager
def swept(sink: Sink) -> Iterator[None]:
    """Sweep when the block has ended, well or not. It is cleaning up: a failure of it fails nothing."""
    try:
        yield
    finally:
        if isinstance(sink, StagingSink):
            with suppress(LakebedError, OSError):
                sink.sweep()


def finalized(sink: Sink, messages: Sequence[CommitMessage], engine: Engine) -> Sequence[CommitMessage]:
    """The messages to commit, of what all tasks of a write have given: as they are, or once files are made of them."""
    return sink.finalize(messages, engine) if isinstance(sink, FinalizingSink) else messages
