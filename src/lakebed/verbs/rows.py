"""The reading half of a table's public face: its rows as Arrow, pandas and Polars, and the plans behind them."""

from __future__ import annotations

import datetime
import html
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa

from lakebed.errors import UnsupportedError, UsageError
from lakebed.kernel.files import Store
from lakebed.kernel.predicates.where import Where
from lakebed.model.notebooks import table_html
from lakebed.redaction import Settings, redacted
from lakebed.verbs.arguments import Position, checked_position
from lakebed.verbs.read import ReadPlan, count, first_rows, run
from lakebed.verbs.stream import StreamReader


class Rows(ABC):
    """Where a table lies, its schema, and its rows.

    A format says how a read is planned; everything else here follows from the plan.
    """

    format: ClassVar[str]
    unknown_to_format: ClassVar[Mapping[str, str]] = {}
    """Verbs that the format itself does not have, each with what to do instead. They are refused with that advice."""

    meta_columns: ClassVar[tuple[str, ...]] = ()
    """Columns that the format adds before the table's own (Hudi)."""

    def __init__(self, store: Store, options: Mapping[str, str]) -> None:
        self.store, self.options = store, Settings(options)

    def __repr__(self) -> str:
        return f"<lakebed {self.format} table {redacted(self.location)}>"

    def _repr_html_(self) -> str:
        rows = [(field.name, field.type, "" if field.nullable else "not null") for field in self.schema]
        return f"<b>{html.escape(repr(self)[1:-1])}</b>{table_html(('column', 'type', ''), rows)}"

    @property
    def location(self) -> str:
        """The absolute path or URL of the table's folder."""
        return self.store.location

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of the rows that `read` gives when it is not asked for certain columns."""

    def read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position | datetime.date = None
    ) -> pa.RecordBatchReader:
        """Read a snapshot as a stream of Arrow batches.

            table.read(["id", "amount"], "amount > 100 and dt = '2026-11-01'", as_of="tag:month-end")

        Only the columns that are needed are decoded, and files that `where` rules out are not opened. `where` is a SQL
        condition (docs/where.md) or a pyarrow expression. `as_of` names an older snapshot: an instant of `history`, a
        snapshot id, a timestamp, or "tag:NAME". Rows come in no defined order.

        Raises SchemaError for a column that the table does not have, PredicateError for a mistake in `where`,
        NotInHistoryError when there is no such snapshot, and DataCleanedError when its files are gone.
        """
        return run(self.plan_read(columns, where, checked_position(as_of)), self._threads)

    def changes(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        after: Position | datetime.date = None,
        until: Position | datetime.date = None,
    ) -> pa.RecordBatchReader:
        """Read the rows that changed in the range (after, until], with their kinds in the string column `_row_kind`.

            table.changes(after=table.history()[-2])            # what the newest commit changed

        The kinds are +I (inserted), -U and +U (a row before and after an update) and -D (deleted). `after` is
        exclusive, None is the start of history; `until` is inclusive, None is now. Both take what `as_of` of `read`
        takes, and `columns` and `where` mean what they mean there. The same errors are raised.
        """
        ends = checked_position(after), checked_position(until)
        return run(self.plan_changes(columns, where, *ends), self._threads)

    @abstractmethod
    def plan_read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position = None
    ) -> ReadPlan[Any]:
        """The plan that `read` and `lakebed.spark.read` run: the splits of a snapshot."""

    def plan_changes(
        self, columns: Sequence[str] | None = None, where: Where = None, after: Position = None, until: Position = None
    ) -> ReadPlan[Any]:
        """The plan that `changes` runs: the splits of the changes in (after, until]."""
        raise self._lacks("changes")

    def stream(self, columns: Sequence[str] | None = None, where: Where = None) -> StreamReader:
        """The driver's half of a stream of changes. It starts where the table's options say."""
        raise self._lacks("streaming reads")

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position | datetime.date = None
    ) -> pa.Table:
        """All rows of a snapshot as a pyarrow Table. The arguments are those of `read`, which streams them instead."""
        rows: pa.Table = self.read(columns, where, as_of).read_all()
        return rows

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position | datetime.date = None
    ) -> Any:
        """All rows of a snapshot as a pandas DataFrame. The arguments are those of `read`."""
        return self.to_arrow(columns, where, as_of).to_pandas()

    def to_polars(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position | datetime.date = None
    ) -> Any:
        """All rows of a snapshot as a Polars DataFrame. The arguments are those of `read`.

        UsageError where Polars is not installed.
        """
        try:
            polars = import_module("polars")
        except ImportError as error:
            raise UsageError("to_polars needs Polars, which is not installed", todo="pip install polars") from error
        return polars.from_arrow(self.to_arrow(columns, where, as_of))

    def head(
        self,
        n: int = 5,
        columns: Sequence[str] | None = None,
        where: Where = None,
        as_of: Position | datetime.date = None,
    ) -> pa.Table:
        """`n` rows of a snapshot, or all where there are fewer, as a pyarrow Table: which ones is not defined.

        No more files are opened than these rows need. The other arguments are those of `read`.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise UsageError(f"{n!r} is not a number of rows", todo="Give 0 or more")
        return first_rows(self.plan_read(columns, where, checked_position(as_of)), n)

    def count(self, where: Where = None, as_of: Position | datetime.date = None) -> int:
        """How many rows a snapshot has, or how many of them `where` keeps.

        Without `where`, files whose rows the table's metadata counts exactly are not opened. The arguments are those of
        `read`.
        """
        return count(self.plan_read([], where, checked_position(as_of)), self._threads)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows of the newest snapshot, for whatever reads Arrow's C stream interface.

        polars.from_arrow(table)
        duckdb.from_arrow(table).aggregate("sum(amount)")
        """
        return self.read().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The table's schema, for whatever reads Arrow's C schema interface."""
        return self.schema.__arrow_c_schema__()

    @property
    def _threads(self) -> int:
        return int(self.options.get("read.tasks") or os.cpu_count() or 1)

    def _lacks(self, what: str) -> UnsupportedError:
        if what in self.unknown_to_format:
            why, todo = f"the {self.format} format does not have it", self.unknown_to_format[what]
            return UnsupportedError(f"{self.format} tables have no {what}", table=self.location, why=why, todo=todo)
        return UnsupportedError(
            f"lakebed has no {what} for {self.format} tables yet",
            table=self.location,
            todo="The support grid of the README says what works",
        )
