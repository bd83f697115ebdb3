"""Write: the plan routes rows to buckets, tasks write files and report them, the commit publishes one snapshot.

A format gives a `Sink`. It plans a write (`WritePlan`: where rows go, and a writer for each task), prepares what the
tasks wrote for the commit (`Prepared`), and commits messages under a commit user and an identifier, exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa

from lakebed.errors import CommitConflictError, LakebedError, StorageError, UsageError
from lakebed.kernel.engine import Engine
from lakebed.model.commit import CommitMessage, CommitResult


class Mode(StrEnum):
    """What a write does with the rows that are in the table."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    UPSERT = "upsert"
    DELETE = "delete"

    @classmethod
    def parse(cls, text: str) -> Mode:
        """The mode with that name, in any case. Raises UsageError, which lists the four."""
        try:
            return cls(text.lower())
        except (ValueError, AttributeError):
            given = repr(text) if isinstance(text, str) else f"of type {type(text).__name__}"
            raise UsageError(f"unknown write mode {given}", todo=f"Modes: {', '.join(cls)}") from None


class TaskWriter(Protocol):
    """Writes the rows of one task. It may die at any moment: what it wrote is invisible until it is committed."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of the sink's input schema."""
        ...

    def finish(self) -> Sequence[CommitMessage]:
        """Close all files and report them. The writer may be used again."""
        ...

    def abort(self) -> None:
        """Remove what was written since the last `finish`."""
        ...


class Routing(Protocol):
    """Which task takes each row. Frozen and picklable."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that decide it, in the table's order: `channels` needs no others."""
        ...

    def channels(self, batch: pa.RecordBatch) -> pa.Array:
        """The int32 channel of each row, in [0, tasks). All rows of a (partition, bucket) get one channel, so that they
        meet in one task."""
        ...


class WritePlan(Protocol):
    """What the tasks of one write need, as the table was when the plan was made. Frozen and picklable: each task works
    on a copy."""

    @property
    def routing(self) -> Routing | None:
        """How to route rows before the tasks take them; None where any task may take any row."""
        ...

    def task_writer(self, threads: int | None = None) -> TaskWriter:
        """A writer for one task, on the machine that runs it.

        With `threads` it is the write's only task, in the process that finalizes: it writes files of so many buckets
        at once.
        """
        ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a write is about to commit: its messages, and notes for the result of the commit."""

    messages: tuple[CommitMessage, ...]
    notes: tuple[str, ...] = ()


class Sink(Protocol):
    """A table as the target of one write, on the driver. Picklable."""

    @property
    def input_schema(self) -> pa.Schema:
        """The schema that rows must have. Where the table takes changes, a `_row_kind` column may be added to it."""
        ...

    @property
    def left_out(self) -> frozenset[str]:
        """Columns that rows may also have, as rows that were read from the table do. They are not written."""
        ...

    @property
    def knows_batches(self) -> bool:
        """Whether the table also records the batches of this stream that the format's own sink wrote, under a name from
        the options."""
        ...

    def plan(self, tasks: int = 1) -> WritePlan:
        """Read the table's state, and plan a write whose rows are routed to so many tasks; 1 where nobody routes
        them."""
        ...

    def finalize(self, plan: Any, messages: Sequence[CommitMessage], engine: Engine) -> Prepared:
        """Turn what all tasks of a plan wrote into files of the right size, on an engine. Rows that tasks staged are
        removed, also when it fails."""
        ...

    def commit(self, identifier: int, messages: Sequence[CommitMessage], origin: str = "") -> CommitResult:
        """Publish messages. An identifier that this user has committed before is skipped, and the files of its messages
        are removed.

        `origin` says where the rows come from, "" where that is unknown. The commit keeps it, and CommitConflictError
        is raised where the identifier was committed with another one (`lakebed.kernel.commit.replay`).
        """
        ...

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages that were certainly not committed."""
        ...

    def sweep(self) -> None:
        """Remove all rows that tasks of this write staged. Called when the write has ended.

        This includes rows that no message names: of attempts that failed, and of the slower of two that Spark ran.
        """
        ...


class TwoPhaseSink(Sink, Protocol):
    """A sink whose commits the caller numbers, in one process."""

    @property
    def commit_user(self) -> str:
        """The user of its commits."""
        ...

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit, in ascending order, the identifiers that this user has not committed yet; returns their number."""
        ...


@contextmanager
def swept(sink: Sink) -> Iterator[None]:
    """Sweep when the block ends, also with an error. A sweep that fails is ignored: it only leaves files behind."""
    try:
        yield
    finally:
        with suppress(LakebedError, OSError):
            sink.sweep()


@contextmanager
def for_good(sink: Sink, messages: Sequence[CommitMessage]) -> Iterator[None]:
    """A block with a commit of messages that nobody will commit again. If it raises a conflict or a StorageError, the
    commit certainly failed, so the files of the messages are removed. Files that cannot be removed stay until
    orphan-file removal. (A commit that may have landed raises CommitUnknownError, and its files stay.)"""
    try:
        yield
    except (CommitConflictError, StorageError):
        with suppress(LakebedError, OSError):
            sink.abort(messages)
        raise


def finalize_and_commit(
    sink: Sink, plan: WritePlan, messages: Sequence[CommitMessage], engine: Engine, identifier: int, origin: str = ""
) -> CommitResult:
    """The second half of a write, once all its tasks are done: files of the right size, then one commit."""
    prepared = sink.finalize(plan, messages, engine)
    with for_good(sink, prepared.messages):
        return sink.commit(identifier, prepared.messages, origin).with_notes(prepared.notes)
