"""A database that keeps the names, in the tables of Paimon's JdbcCatalog; the tables lie below a warehouse folder.

Rules: Paimon's JdbcCatalog and JdbcUtils, for SQLite: `jdbc:sqlite:FILE`. A table's name is entered after its schema
was put, and is removed before its files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace

from lakebed.errors import StorageError, UnsupportedError, first_line
from lakebed.formats.paimon.catalog.filesystem import FileSystemRegistry, drop_files
from lakebed.formats.paimon.catalog.jdbc_lock import JdbcLock
from lakebed.formats.paimon.catalog.registry import Entry, no_database, no_table, not_empty, refuse_place, table_exists
from lakebed.formats.paimon.catalog.settings import CATALOG_KEY, URI, Settings
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.layout import TableName

_START = "jdbc:sqlite:"
_NAMES = {"mysql": "MySQL", "mariadb": "MariaDB", "postgresql": "PostgreSQL"}
_WAIT_SECONDS = 30
_LAYOUT = (
    "CREATE TABLE IF NOT EXISTS paimon_tables (catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL, "
    "table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, database_name, table_name))",
    "CREATE TABLE IF NOT EXISTS paimon_database_properties (catalog_key VARCHAR(255) NOT NULL, "
    "database_name VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000), "
    "PRIMARY KEY (catalog_key, database_name, property_key))",
)
_ONE_TABLE = "catalog_key = ? AND database_name = ? AND table_name = ?"
_ONE_DATABASE = "catalog_key = ? AND database_name = ?"


class JdbcRegistry:
    """The tables that a SQLite file names."""

    def __init__(self, settings: Settings) -> None:
        uri = settings.needs(URI)
        if not uri.startswith(_START):
            kind = uri.removeprefix("jdbc:").partition(":")[0]
            raise UnsupportedError(
                f"the catalog {settings.name!r} is kept in a database of {_NAMES.get(kind, kind)}",
                why=f"lakebed reaches only those of SQLite, whose uri begins with {_START}",
                todo="Open its tables by their paths where no writer needs its lock, or use a Hive or REST catalog",
            )
        self.settings, self._file, self._key = settings, uri.removeprefix(_START), settings[CATALOG_KEY]
        self._folder = FileSystemRegistry(settings)

    def databases(self) -> list[str]:
        """The databases that have tables or properties."""
        sources = " UNION ".join(
            f"SELECT database_name FROM {table} WHERE catalog_key = ?"
            for table in ("paimon_tables", "paimon_database_properties")
        )
        return self._names(sources, self._key, self._key)

    def tables(self, database: str) -> list[str]:
        """The tables of a database."""
        if database not in self.databases():
            raise no_database(self.settings.name, database)
        return self._names(f"SELECT table_name FROM paimon_tables WHERE {_ONE_DATABASE}", self._key, database)

    def create_database(self, name: str) -> None:
        """Enter the database's properties, as Paimon does: that it exists, and where."""
        self._folder.create_database(name)
        location = self._folder.store.url(f"{name}.db")
        insert = "INSERT OR IGNORE INTO paimon_database_properties VALUES (?, ?, ?, ?)"
        if name not in self.databases():
            with self.connected() as connection:
                connection.execute(insert, (self._key, name, "exists", "true"))
                connection.execute(insert, (self._key, name, "location", location))

    def drop_database(self, name: str) -> None:
        """Remove the database's properties. Its folder stays, as Paimon leaves it."""
        tables = self.tables(name)
        if tables:
            raise not_empty(name, tables)
        with self.connected() as connection:
            connection.execute(f"DELETE FROM paimon_database_properties WHERE {_ONE_DATABASE}", (self._key, name))

    def find(self, name: TableName) -> Entry:
        """The table's folder, where the database has its name."""
        query = f"SELECT table_name FROM paimon_tables WHERE {_ONE_TABLE}"
        if not self._names(query, self._key, name.database, name.table):
            raise no_table(self.settings.name, name)
        return self._locked(name, self._folder.find(name))

    def create(self, name: TableName, schema: TableSchema, place: str | None = None) -> Entry:
        """Put the schema, then enter the name. A table that is there without its name is not taken over."""
        refuse_place(self.settings.name, place)
        self.create_database(name.database)
        entry = self._locked(name, self._folder.place(name))
        with (entry.lock or nullcontext)():
            self._folder.create(name, schema)
        try:
            with self.connected() as connection:
                row = (self._key, name.database, name.table)
                connection.execute("INSERT INTO paimon_tables VALUES (?, ?, ?)", row)
        except StorageError as error:
            drop_files(self._folder.opened(name))
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise table_exists(self.settings.name, name) from error
            raise
        return entry

    def drop(self, name: TableName) -> None:
        """Remove the name, then the files."""
        with self.connected() as connection:
            deleted = connection.execute(
                f"DELETE FROM paimon_tables WHERE {_ONE_TABLE}", (self._key, name.database, name.table)
            )
            if not deleted.rowcount:
                raise no_table(self.settings.name, name)
        drop_files(self._folder.opened(name))

    def _locked(self, name: TableName, entry: Entry) -> Entry:
        """The entry with the lock that its commits hold."""
        remote = self._folder.store.local_path("") is None
        return replace(entry, lock=JdbcLock(self, name) if self.settings.locks(remote) else None)

    def _names(self, query: str, *values: str) -> list[str]:
        with self.connected() as connection:
            return [str(row[0]) for row in connection.execute(query, values)]

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """A connection with the catalog's tables, whose changes are kept at the end."""
        try:
            with closing(sqlite3.connect(self._file, timeout=_WAIT_SECONDS)) as connection, connection:
                _prepare(connection, _LAYOUT)
                yield connection
        except sqlite3.Error as error:
            raise StorageError(
                f"the database of the catalog {self.settings.name!r} refused",
                why=first_line(error),
                todo="Check its uri, and that the file can be written",
            ) from error


def _prepare(connection: sqlite3.Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        connection.execute(statement)
