"""The face of a table, the same for every format.

A format overrides what it has; what it has not answers with one clear error. Planning is apart from doing: `dry_run`
stops after the plan.
"""

from __future__ import annotations

import datetime
import numbers
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from lakebed.errors import SchemaError, UnsupportedError, UsageError
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store
from lakebed.kernel.predicates.where import Where, find_column
from lakebed.model.commit import CommitResult
from lakebed.model.instant import Instant
from lakebed.model.report import TableReport
from lakebed.model.upkeep import ArchiveResult, ExpireResult, RelocateResult, RewriteResult
from lakebed.redaction import redacted
from lakebed.verbs.read import ReadPlan, run
from lakebed.verbs.stream import StreamReader
from lakebed.verbs.write import Mode, Sink

Position = str | int | Instant | None
"""An instant, an int snapshot id, an ISO timestamp (UTC unless it says otherwise) or "tag:NAME"."""


class Table(ABC):
    """One table, opened. Metadata is read again by each call, so an open table never goes stale."""

    format: ClassVar[str]
    unknown_to_format: ClassVar[Mapping[str, str]] = {}
    """Verbs that the format itself does not have, each with what to do instead."""

    def __init__(self, store: Store, options: Mapping[str, str]) -> None:
        self.store, self.options = store, dict(options)

    def __repr__(self) -> str:
        return f"<lakebed {self.format} table {redacted(self.location)}>"

    @property
    def location(self) -> str:
        """The absolute path or URL."""
        return self.store.location

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema that `read` gives with no projection."""

    def newest(self) -> Instant | None:
        """The instant that `read` reads as of when it is given none.

        Hand it to `plan_read`, and plans that are made at different times read the same rows. None for an empty table,
        and where the table's options name the snapshot to read.
        """
        done = [instant for instant in self.history() if instant.state == "completed"]
        return done[-1] if done else None

    @abstractmethod
    def history(self, archived: bool = False) -> list[Instant]:
        """Instants or snapshots, oldest first; with `archived` those of an archived timeline too."""

    def read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position | datetime.date = None
    ) -> pa.RecordBatchReader:
        """A snapshot, streamed. Only needed columns are decoded, and files that `where` rules out are not opened."""
        return run(self.plan_read(columns, where, checked_position(as_of)), self._threads)

    def changes(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        after: Position | datetime.date = None,
        until: Position | datetime.date = None,
    ) -> pa.RecordBatchReader:
        """Rows changed in (after, until], plus the string column `_row_kind`: +I -U +U -D.

        None is the start of history, or now.
        """
        ends = checked_position(after), checked_position(until)
        return run(self.plan_changes(columns, where, *ends), self._threads)

    @abstractmethod
    def plan_read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position = None
    ) -> ReadPlan[Any]:
        """The splits of a snapshot; what `read` and `lakebed.spark.read` run."""

    def plan_changes(
        self, columns: Sequence[str] | None = None, where: Where = None, after: Position = None, until: Position = None
    ) -> ReadPlan[Any]:
        """The splits of the changes in (after, until]."""
        raise self._lacks("changes")

    def stream(self, columns: Sequence[str] | None = None, where: Where = None) -> StreamReader:
        """The driver's half of a stream, started where the table's options say."""
        raise self._lacks("streaming reads")

    def sink(self, mode: Mode = Mode.APPEND, commit_user: str | None = None, callbacks: Sequence[Any] = ()) -> Sink:
        """The table as the target of writes by many tasks."""
        raise self._lacks("writes")

    def write(self, data: Any, mode: str = "append", options: Mapping[str, object] = {}) -> CommitResult:
        """Write a pyarrow Table, RecordBatch or Reader as one commit; `mode` is append, overwrite, upsert or delete."""
        raise self._lacks("writes")

    def writer(self, commit_user: str | None = None, callbacks: Sequence[Any] = ()) -> Any:
        """The two-phase form: write, prepare_commit, commit or filter_and_commit, abort."""
        raise self._lacks("two-phase writes")

    def rewrite(
        self,
        where: Where = None,
        dry_run: bool = False,
        engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> RewriteResult:
        """Compact, cluster or bin-pack data files."""
        raise self._lacks("rewrite")

    def expire(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ExpireResult:
        """Remove old versions and the files that only they need."""
        raise self._lacks("expire")

    def archive(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ArchiveResult:
        """Move old instants of the active timeline to the archived one."""
        raise self._lacks("archive")

    def tag(self, name: str, snapshot: Position = None) -> None:
        """Name a snapshot so that it is kept (a Hudi savepoint)."""
        raise self._lacks("tags")

    def delete_tag(self, name: str) -> None:
        """Remove such a name."""
        raise self._lacks("tags")

    def relocate(self, dry_run: bool = False) -> RelocateResult:
        """Make the folder where the table was opened its place, after it was moved or copied."""
        raise self._lacks("relocation")

    def inspect(self, options: Mapping[str, object] = {}) -> TableReport:
        """Health, blockers and advice. `options` are the settings of whoever writes the table and keeps it up, where
        they differ from the table's own."""
        raise self._lacks("inspect")

    @property
    def _threads(self) -> int:
        return int(self.options.get("read.tasks") or os.cpu_count() or 1)

    def _lacks(self, what: str) -> UnsupportedError:
        if what in self.unknown_to_format:
            why, todo = f"the {self.format} format has no such thing", self.unknown_to_format[what]
            return UnsupportedError(f"{self.format} tables have no {what}", table=self.location, why=why, todo=todo)
        return UnsupportedError(
            f"lakebed has no {what} for {self.format} tables",
            table=self.location,
            todo="The support grid of the README says what works",
        )


def checked_position(position: object) -> Position:
    """A position as the formats take it: a `datetime` or `date` becomes its ISO text, which is UTC unless it says
    otherwise. UsageError for what names no moment at all."""
    if isinstance(position, datetime.date):
        return position.isoformat()
    if position is None or isinstance(position, str | Instant):
        return position
    if isinstance(position, numbers.Integral) and not isinstance(position, bool):
        return int(position)
    raise UsageError(
        f"a {type(position).__name__} names no moment of a table",
        todo="Give an instant of `history`, a snapshot id, an ISO timestamp or tag:NAME",
    )


def checked_name(name: object, what: str) -> str:
    """A tag's or branch's name; UsageError for what is no text."""
    if not isinstance(name, str) or not name:
        given = "an empty text" if name == "" else f"a {type(name).__name__}"
        raise UsageError(f"{given} cannot name a {what}", todo="Give a text")
    return name


def project(columns: Iterable[str] | None, schema: pa.Schema, *, table: str) -> list[str]:
    """The columns asked for in the schema's spelling, all when None; SchemaError names one unknown or doubled."""
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str):
        raise SchemaError(f"columns is the text {columns!r}", table=table, todo="Give a list of column names")
    if not isinstance(columns, Iterable):
        raise SchemaError(f"columns is a {type(columns).__name__}", table=table, todo="Give a list of column names")
    found: list[str] = []
    for name in columns:
        if not isinstance(name, str):
            raise SchemaError(
                f"columns has a value of type {type(name).__name__}", table=table, todo="Give a list of column names"
            )
        known = find_column(name, schema.names)
        if known is None:
            raise SchemaError(f"unknown column {name!r}", table=table, todo=f"Columns: {', '.join(schema.names)}")
        if known in found:
            raise SchemaError(f"column {known!r} is asked for twice", table=table, todo="Name each column once")
        found.append(known)
    return found
