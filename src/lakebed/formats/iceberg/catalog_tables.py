"""Iceberg tables by their names in one of pyiceberg's catalogs: `catalog:namespace.table`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

import pyarrow as pa
from pyiceberg.catalog import Catalog as Client
from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchNamespaceError

from lakebed.errors import TableNotFoundError, UsageError
from lakebed.formats.iceberg.catalog.client import asking, open_catalog
from lakebed.formats.iceberg.catalog.identifier import parse_identifier
from lakebed.formats.iceberg.catalog.table import CatalogTable
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.rows.columns import schema_of
from lakebed.verbs.catalog import Catalog


class IcebergCatalog(Catalog):
    """A catalog of Iceberg tables: sql, rest, hive, glue or another of pyiceberg's. Namespaces are its databases; an
    inner one is named with its outer ones, `lake.sales`."""

    format: ClassVar[str] = "iceberg"

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        """UsageError when the catalog is not configured, StorageError when it does not answer."""
        super().__init__(name, options)
        self._client = open_catalog(name, options)

    def databases(self) -> list[str]:
        """The namespaces, the inner ones too, sorted."""
        with asking(self.name, ()):
            return sorted(".".join(parts) for parts in _inner(self._client, ()))

    def tables(self, database: str) -> list[str]:
        """The names of a namespace's tables, sorted, without those of inner ones."""
        namespace = _levels(database)
        with asking(self.name, namespace), _missing(self.name, database):
            names = sorted(str(identifier[-1]) for identifier in self._client.list_tables(namespace))
            if not names:  # as a metastore of Hive's answers for a namespace that is not there
                self._client.load_namespace_properties(namespace)
            return names

    def create_database(self, name: str) -> None:
        """Create a namespace, unless there is one of that name. Its outer ones must be there where the catalog asks
        for that."""
        with asking(self.name, _levels(name)):
            self._client.create_namespace_if_not_exists(_levels(name))

    def drop_database(self, name: str) -> None:
        """Remove an empty namespace."""
        with asking(self.name, _levels(name)), _missing(self.name, name):
            try:
                self._client.drop_namespace(_levels(name))
            except NamespaceNotEmptyError as error:
                raise UsageError(
                    f"the database {name!r} of the catalog {self.name!r} has tables", todo="Drop them first"
                ) from error

    def open(self, table: str, options: Mapping[str, object] = {}) -> IcebergTable:
        """Open a table by its name `namespace.table`."""
        return IcebergTable.of_catalog(f"{self.name}:{table}", self._given(options))

    def create(
        self,
        table: str,
        schema: pa.Schema | Mapping[str, pa.DataType | str],
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, object] = {},
    ) -> IcebergTable:
        """Create an empty table, and its namespace where there is none. The catalog chooses its place."""
        given = self._given(options)
        return IcebergTable.create_in_catalog(
            f"{self.name}:{table}", schema_of(schema), primary_key, partition_by, given
        )

    def drop(self, table: str) -> None:
        """Remove a table's name from the catalog. Its files stay, as with Iceberg's own DROP TABLE: they may be
        registered again (`lakebed.register`)."""
        CatalogTable(parse_identifier(f"{self.name}:{table}"), self._options).drop()


@contextmanager
def _missing(catalog: str, database: str) -> Iterator[None]:
    """The absence of a namespace, told as such and not as that of a table."""
    try:
        yield
    except NoSuchNamespaceError as error:
        raise TableNotFoundError(
            f"the catalog {catalog!r} has no database {database!r}", todo="Its method databases lists them"
        ) from error


def _levels(database: str) -> tuple[str, ...]:
    """The levels of a namespace. UsageError for a text that is none."""
    levels = tuple(database.split(".")) if isinstance(database, str) else ("",)
    if not all(levels):
        raise UsageError(f"{database!r} cannot name a database", todo="Give a name such as sales or lake.sales")
    return levels


def _inner(catalog: Client, outer: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for inner in catalog.list_namespaces(outer):
        namespace = inner if inner[: len(outer)] == outer else (*outer, *inner)
        if len(namespace) > len(outer):
            yield namespace
            yield from _inner(catalog, namespace)
