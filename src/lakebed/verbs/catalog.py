"""A catalog's public face: the databases and tables that it knows by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.kernel.options import option_texts
from lakebed.verbs.table import Table

CATALOG_OPTIONS = "lakebed.catalog."
"""Options with this prefix are settings of a catalog."""


class Catalog(ABC):
    """An open catalog. `lakebed.catalog` gives one. Tables are named `database.table`.

        shop = lakebed.catalog("shop", {"lakebed.catalog.warehouse": "s3://bucket/warehouse"})
        shop.tables("sales")
        shop.open("sales.orders").read().read_all()          # as lakebed.open("shop:sales.orders", options)

    Every method may raise StorageError when the catalog does not answer or refuses.
    """

    format: ClassVar[str]

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        """`options` are those that every table is opened and created with."""
        self.name, self._options = name, options

    def __repr__(self) -> str:
        return f"<lakebed {self.format} catalog {self.name}>"

    @abstractmethod
    def databases(self) -> list[str]:
        """The names of the databases, sorted."""

    @abstractmethod
    def tables(self, database: str) -> list[str]:
        """The names of a database's tables, sorted. TableNotFoundError when there is no such database."""

    @abstractmethod
    def create_database(self, name: str) -> None:
        """Create a database, unless there is one of that name."""

    @abstractmethod
    def drop_database(self, name: str) -> None:
        """Remove an empty database. UsageError when it has tables."""

    @abstractmethod
    def open(self, table: str, options: Mapping[str, object] = {}) -> Table:
        """Open a table by its name `database.table`. TableNotFoundError when there is none."""

    @abstractmethod
    def create(
        self,
        table: str,
        schema: pa.Schema | Mapping[str, pa.DataType | str],
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, object] = {},
    ) -> Table:
        """Create an empty table, and its database where there is none. The arguments are those of `lakebed.create`.
        TableExistsError when there is a table."""

    @abstractmethod
    def drop(self, table: str) -> None:
        """Remove a table as the format's own catalog does: of Paimon with its files, of Iceberg its name alone.
        TableNotFoundError when there is none."""

    def _given(self, options: Mapping[str, object]) -> dict[str, str]:
        """The options of a call over those of the catalog. UsageError for settings of the catalog among the former."""
        texts = option_texts(options)
        late = [key for key in texts if key.lower().startswith(CATALOG_OPTIONS)]
        if late:
            raise UsageError(
                f"option {late[0]!r} only works when the catalog is opened", todo="Give it to lakebed.catalog"
            )
        return {**self._options, **texts}
