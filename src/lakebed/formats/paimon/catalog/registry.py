"""What keeps the names of databases and tables: the interface of all catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakebed.errors import TableExistsError, TableNotFoundError, UnsupportedError, UsageError, counted
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.layout import TableName
from lakebed.formats.paimon.snapshot import Lock, Publisher, Reporter
from lakebed.kernel.files import PutOutcome
from lakebed.kernel.files.credentials import Credentials

Alter = Callable[[str, Sequence[Mapping[str, Any]]], PutOutcome]
"""Commits changes of a branch's schema, in the form of Paimon's SchemaChange: CREATED, or UNKNOWN."""
Show = Callable[[TableSchema, TableSchema], None]
"""Shows a schema in the catalog in place of the one before it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A table of a catalog: where it is, and what the catalog has to do with its changes.

    `publisher` and `alter` make changes; None: the table's folder decides. `lock` is held around those that the folder
    decides. `reporter` and `show` tell the catalog of snapshots and schemas that stand.
    """

    location: str
    credentials: Credentials
    publisher: Publisher | None = None
    alter: Alter | None = None
    lock: Lock | None = None
    reporter: Reporter | None = None
    show: Show | None = None


class Registry(Protocol):
    """The names of a catalog."""

    def databases(self) -> list[str]:
        """The names of all databases."""
        ...

    def tables(self, database: str) -> list[str]:
        """The tables of a database. TableNotFoundError when there is none of that name."""
        ...

    def create_database(self, name: str) -> None:
        """Create a database, unless there is one."""
        ...

    def drop_database(self, name: str) -> None:
        """Remove a database without tables."""
        ...

    def find(self, name: TableName) -> Entry:
        """The entry of a table. TableNotFoundError when there is none."""
        ...

    def create(self, name: TableName, schema: TableSchema, place: str | None = None) -> Entry:
        """Create a table, at a place of its own where one is given. TableExistsError when there is one,
        UnsupportedError where the catalog chooses all places."""
        ...

    def drop(self, name: TableName) -> None:
        """Remove a table and its files. TableNotFoundError when there is none."""
        ...


def no_table(catalog: str, name: TableName) -> TableNotFoundError:
    """The error for a table that a catalog does not have."""
    return TableNotFoundError(
        f"the catalog {catalog!r} has no table {name.text!r}", todo="Check the spelling, as catalog:database.table"
    )


def no_database(catalog: str, name: str) -> TableNotFoundError:
    """The error for a database that a catalog does not have."""
    return TableNotFoundError(f"the catalog {catalog!r} has no database {name!r}", todo="Check the spelling")


def table_exists(catalog: str, name: TableName) -> TableExistsError:
    """The error for a table that there is already."""
    return TableExistsError(
        f"the catalog {catalog!r} already has a table {name.text!r}", todo="Open it with lakebed.open"
    )


def refuse_place(catalog: str, place: str | None) -> None:
    """Raise UnsupportedError for a table's place where the catalog chooses it."""
    if place is not None:
        raise UnsupportedError(
            f"the catalog {catalog!r} does not take the option path",
            why="lakebed lets it choose the places of its tables",
            todo="Leave path out, or create the table by its path without a catalog",
        )


def not_empty(name: str, tables: Sequence[str]) -> UsageError:
    """The error for a database that has tables."""
    return UsageError(f"the database {name!r} has {counted(len(tables), 'table')}", todo="Drop its tables first")
