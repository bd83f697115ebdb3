"""The notes of a write's second half come with its commit, once, and only where something was committed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakebed.kernel.engine import Engine
from lakebed.model.commit import CommitMessage, CommitResult, Outcome
from lakebed.verbs.two_phase import TableWriter
from lakebed.verbs.write import Prepared, TaskWriter

ROWS = pa.table({"id": [1]})
SMALL_FILES = "two small files stay"


class OneMessage:
    """A plan and a writer whose task reports one message."""

    routing = None

    def task_writer(self, threads: int | None = None) -> TaskWriter:
        """The only task."""
        return self

    def write(self, batch: Any) -> None:
        """Take rows."""

    def finish(self) -> Sequence[CommitMessage]:
        """Report a message."""
        return (CommitMessage(),)

    def abort(self) -> None:
        """Nothing to remove."""


class Sink:
    """A sink whose second half has a note."""

    commit_user = "user"
    input_schema = ROWS.schema
    left_out: frozenset[str] = frozenset()

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def plan(self, tasks: int = 1) -> OneMessage:
        """The plan of one task."""
        return OneMessage()

    def finalize(self, plan: Any, messages: Sequence[CommitMessage], engine: Engine) -> Prepared:
        """The messages as they are, and a note."""
        return Prepared(tuple(messages), (SMALL_FILES,))

    def commit(self, identifier: int, messages: Sequence[CommitMessage], origin: str = "") -> CommitResult:
        """A result with a note of its own."""
        return CommitResult("1", self.outcome, ("a note of the commit",))

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit all."""
        return len(commits)

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Nothing to remove."""

    def sweep(self) -> None:
        """Nothing to remove."""


@pytest.mark.parametrize(
    ("outcome", "notes"),
    [(Outcome.COMMITTED, ("a note of the commit", SMALL_FILES)), (Outcome.SKIPPED, ("a note of the commit",))],
)
def test_a_commit_carries_the_notes_of_what_was_prepared(outcome: Outcome, notes: tuple[str, ...]) -> None:
    writer = TableWriter(Sink(outcome))
    writer.write(ROWS)
    messages = writer.prepare_commit()
    assert writer.commit(1, messages).notes == notes
    assert writer.commit(2, messages).notes == ("a note of the commit",)


def test_an_aborted_write_leaves_no_notes() -> None:
    writer = TableWriter(Sink(Outcome.COMMITTED))
    writer.write(ROWS)
    writer.prepare_commit()
    writer.abort()
    assert writer.commit(1).notes == ("a note of the commit",)


def test_nothing_written_is_nothing_prepared() -> None:
    assert TableWriter(Sink(Outcome.COMMITTED)).prepare_commit() == []
