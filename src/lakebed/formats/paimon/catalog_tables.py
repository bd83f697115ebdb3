"""Paimon tables by their names in a catalog: `catalog:database.table`."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import ClassVar, Self

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.alter.run import alter_table
from lakebed.formats.paimon.catalog.filesystem import FileSystemRegistry
from lakebed.formats.paimon.catalog.hive import HiveRegistry
from lakebed.formats.paimon.catalog.jdbc import JdbcRegistry
from lakebed.formats.paimon.catalog.registry import Entry, Registry
from lakebed.formats.paimon.catalog.rest import RestRegistry
from lakebed.formats.paimon.catalog.settings import (
    METASTORE,
    PREFIX,
    Settings,
    database_name,
    settings_of,
    table_name,
)
from lakebed.formats.paimon.definition import new_schema
from lakebed.formats.paimon.layout import MAIN_BRANCH, TableName
from lakebed.formats.paimon.merge import merge_function
from lakebed.formats.paimon.table import PaimonTable
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files import open_store
from lakebed.kernel.rows.columns import schema_of
from lakebed.model.alter import AlterResult, Change
from lakebed.model.upkeep import RollbackResult
from lakebed.verbs.arguments import Position
from lakebed.verbs.catalog import Catalog

_REGISTRIES: Mapping[str, Callable[[Settings], Registry]] = {
    "filesystem": FileSystemRegistry, "jdbc": JdbcRegistry, "hive": HiveRegistry, "rest": RestRegistry,
}  # fmt: skip


class CatalogTable(PaimonTable):
    """A table that was opened by its name in a catalog."""

    _name: TableName
    _registry: Registry
    _entry: Entry

    @classmethod
    def named(cls, registry: Registry, name: TableName, entry: Entry, options: Mapping[str, str]) -> Self:
        """The table of an entry."""
        table = cls(open_store(entry.location, credentials=entry.credentials), options)
        table._name, table._registry, table._entry = name, registry, entry
        table._history.publisher, table._history.reporter = entry.publisher, entry.reporter
        table._history.lock, table._history.name = entry.lock or nullcontext, name
        return table

    def alter(self, changes: Change | Sequence[Change], dry_run: bool = False) -> AlterResult:
        """Make the next version of the branch's schema, by the catalog where it does that itself. A catalog that shows
        the columns of the main branch is told of them."""
        before, show = self._history.latest_schema(), self._entry.show
        result = alter_table(self._history, changes, dry_run, self._entry.alter)
        if dry_run or show is None or self._history.branch != MAIN_BRANCH:
            return result
        notes = afterwards(
            "its catalog shows the columns of before", lambda: show(before, self._history.latest_schema())
        )
        return replace(result, notes=(*result.notes, *notes))

    def rollback(self, to: Position | datetime.date, dry_run: bool = False) -> RollbackResult:
        """Roll back as other tables do. UnsupportedError where the catalog commits snapshots."""
        if self._entry.publisher is not None:
            raise UnsupportedError(
                f"{self._name.text} is not rolled back by lakebed",
                table=self.location,
                why="its catalog commits the snapshots, and keeps the newest",
                todo="Roll it back by Paimon's own engines, or tag the snapshot and read it",
            )
        return super().rollback(to, dry_run)

    def remove_without_commits(self) -> None:
        """Remove the table, which was just created, from its catalog."""
        self._registry.drop(self._name)


class PaimonCatalog(Catalog):
    """A catalog of Paimon tables. The setting `metastore` says what keeps the names."""

    format: ClassVar[str] = "paimon"

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name, {key: text for key, text in options.items() if not key.lower().startswith(PREFIX)})
        self.settings = settings_of(name, options)
        self._registry = _REGISTRIES[self.settings[METASTORE]](self.settings)

    def databases(self) -> list[str]:
        """The names of the databases, sorted."""
        return sorted(self._registry.databases())

    def tables(self, database: str) -> list[str]:
        """The names of a database's tables, sorted."""
        return sorted(self._registry.tables(database_name(database)))

    def create_database(self, name: str) -> None:
        """Create a database, unless there is one of that name."""
        self._registry.create_database(database_name(name))

    def drop_database(self, name: str) -> None:
        """Remove an empty database."""
        self._registry.drop_database(database_name(name))

    def open(self, table: str, options: Mapping[str, object] = {}) -> CatalogTable:
        """Open a table by its name `database.table`."""
        name = table_name(table)
        given = self._given(options)
        opt.OPTIONS.parse(given)
        return CatalogTable.named(self._registry, name, self._registry.find(name), given)

    def create(
        self,
        table: str,
        schema: pa.Schema | Mapping[str, pa.DataType | str],
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, object] = {},
    ) -> CatalogTable:
        """Create an empty table. The catalog's settings `table-default.*` are options that it gets unless they are
        given."""
        name, given = table_name(table), self._given(options)
        defaults = self.settings.table_defaults()
        definition = new_schema(
            schema_of(schema), primary_key, partition_by, {**defaults, **given}, f"{self.name}:{name.text}"
        )
        if definition.primary_keys:
            merge_function(definition, opt.table_options(definition.options))
        places = [text for key, text in given.items() if key.lower() == "path"]
        entry = self._registry.create(name, definition, places[0] if places else None)
        kept = {key: text for key, text in given.items() if key.lower().startswith(opt.CALL_ONLY)}
        return CatalogTable.named(self._registry, name, entry, kept)

    def drop(self, table: str) -> None:
        """Remove a table with its files."""
        self._registry.drop(table_name(table))


def open_named(location: str, options: Mapping[str, str]) -> CatalogTable:
    """Open the table `catalog:database.table`."""
    catalog, _, table = location.partition(":")
    return PaimonCatalog(catalog, options).open(table)


def create_named(
    location: str,
    schema: pa.Schema,
    primary_key: Sequence[str],
    partition_by: Sequence[str],
    options: Mapping[str, str],
) -> CatalogTable:
    """Create the table `catalog:database.table`."""
    catalog, _, table = location.partition(":")
    settings = {key: text for key, text in options.items() if key.lower().startswith((PREFIX, "lakebed.storage."))}
    own = {key: text for key, text in options.items() if key not in settings}
    return PaimonCatalog(catalog, settings).create(table, schema, primary_key, partition_by, own)
