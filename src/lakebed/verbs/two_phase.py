"""The two-phase write, in one process: the caller says when rows become files and when files become a snapshot.

One object for what Paimon has as StreamTableWrite and StreamTableCommit.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.observers import watching
from lakebed.model.commit import BATCH_IDENTIFIER, CommitMessage, CommitResult
from lakebed.redaction import redacting_logger
from lakebed.verbs.write import TaskWriter, TwoPhaseSink, WritePlan, for_good

_LOG = redacting_logger("lakebed.write")


class TableWriter:
    """Writes rows, gives the commit messages, and commits them under an identifier.

        with table.writer(commit_user="load-orders") as writer:
            writer.write(rows)
            messages = writer.prepare_commit()
        writer.commit(42, messages)

    As a context manager it removes the files of rows that were written and not prepared. Messages that
    `prepare_commit` gave stay valid until they are committed or aborted.
    """

    def __init__(self, sink: TwoPhaseSink, threads: int | None = None) -> None:
        self._sink = sink
        self._threads = threads or os.cpu_count() or 1
        self._plan: WritePlan | None = None
        self._writer: TaskWriter | None = None
        self._prepared: list[CommitMessage] = []
        self.of = ("", "")
        """The format and the location of the table, for those who observe commits."""
        self._notes: tuple[str, ...] = ()

    @property
    def commit_user(self) -> str:
        """The commit user. Give it to a later writer, and that writer recognises what this one has committed."""
        return self._sink.commit_user

    def write(self, data: Any) -> None:
        """Write rows: a pyarrow Table, RecordBatch or RecordBatchReader, or anything with `__arrow_c_stream__`."""
        if self._writer is None:
            self._plan = self._sink.plan()
            self._writer = self._plan.task_writer(self._threads)
        for batch in batches_of(data):
            self._writer.write(batch)

    def prepare_commit(self) -> list[CommitMessage]:
        """Finish the files of all rows so far and return their messages. Nothing is visible yet."""
        if self._writer is None:
            return []
        prepared = self._sink.finalize(self._plan, self._writer.finish(), LocalEngine(self._threads))
        self._prepared += prepared.messages
        self._notes += prepared.notes
        return list(prepared.messages)

    def commit(
        self, identifier: int = BATCH_IDENTIFIER, messages: Sequence[CommitMessage] | None = None
    ) -> CommitResult:
        """Publish messages, by default all that are prepared, exactly once for this commit user and identifier."""
        wanted = self._prepared if messages is None else _checked_messages(messages)
        with watching("commit", *self.of) as watched:
            result = self._sink.commit(_checked_identifier(identifier), wanted)
            self._forget(wanted)
            notes, self._notes = self._notes, ()
            watched.result = result = result.with_notes(notes)
        return result

    def commit_for_good(self) -> CommitResult:
        """Publish all prepared messages as a batch. If the commit certainly failed, their files are removed."""
        with for_good(self._sink, self._prepared):
            return self.commit()

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit those identifiers that this user has not committed yet, in ascending order, and return how many there
        were.

        This is what to call after a restart, with all messages whose commit may not have happened.
        """
        if not isinstance(commits, Mapping):
            raise UsageError(
                f"commits must be a dict, not a {type(commits).__name__}",
                todo="Give a dict that maps each identifier to its messages",
            )
        commits = {_checked_identifier(key): _checked_messages(messages) for key, messages in commits.items()}
        count = self._sink.filter_and_commit(commits)
        for messages in commits.values():
            self._forget(messages)
        return count

    def abort(self, messages: Sequence[CommitMessage] | None = None) -> None:
        """Remove the files of messages, by default of everything that was not committed."""
        unwanted = self._prepared if messages is None else _checked_messages(messages)
        if messages is None:
            self._notes = ()
            if self._writer is not None:
                self._writer.abort()
        self._sink.abort(unwanted)
        self._forget(unwanted)

    def _forget(self, messages: Sequence[CommitMessage]) -> None:
        forgotten = {id(message) for message in messages}
        self._prepared = [message for message in self._prepared if id(message) not in forgotten]

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is None:
            return
        try:
            self._writer.abort()
        except Exception as failure:  # noqa: BLE001 - it must neither hide an error nor make a commit look failed
            _LOG.warning("cannot remove the files of a writer: %s", failure)


def _checked_identifier(identifier: object) -> int:
    if isinstance(identifier, bool) or not isinstance(identifier, numbers.Integral):
        raise UsageError(
            f"the commit identifier must be a whole number, not a {type(identifier).__name__}",
            todo="Give a whole number",
        )
    return int(identifier)


def _checked_messages(messages: object) -> Sequence[CommitMessage]:
    checked: list[Any] = (
        list(messages) if isinstance(messages, Iterable) and not isinstance(messages, str | bytes) else [messages]
    )
    for message in checked:
        if not isinstance(message, CommitMessage):
            raise UsageError(
                f"a {type(message).__name__} is not a commit message",
                todo="Give a list of what prepare_commit returned",
            )
    return checked


def batches_of(data: Any) -> Sequence[pa.RecordBatch] | pa.RecordBatchReader | Sequence[pa.Table]:
    """Rows as a sequence of batches or tables. UsageError for what is not Arrow data."""
    if isinstance(data, pa.Table):
        return [data]
    if isinstance(data, pa.RecordBatch):
        return [data]
    if isinstance(data, pa.RecordBatchReader):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    raise UsageError(
        f"cannot write a {type(data).__name__}",
        todo="Use lakebed.spark.write for a DataFrame of Spark"
        if hasattr(data, "toArrow")
        else "Give a pyarrow Table, RecordBatch or RecordBatchReader, or a DataFrame of pandas or Polars; for rows as"
        " dicts pyarrow.Table.from_pylist(rows)",
    )
