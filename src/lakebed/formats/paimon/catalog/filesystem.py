"""A warehouse folder as a catalog: `WAREHOUSE/DATABASE.db/TABLE`.

Rules: Paimon's FileSystemCatalog and AbstractCatalog. A folder is a database when its name ends with `.db`, and a table
when it has a schema.
"""

from __future__ import annotations

import os

from lakebed.errors import CommitUnknownError, TableNotFoundError
from lakebed.formats.paimon.catalog.registry import Entry, no_database, no_table, not_empty, refuse_place, table_exists
from lakebed.formats.paimon.catalog.settings import WAREHOUSE, Settings
from lakebed.formats.paimon.codec.schema_json import TableSchema, schema_to_json
from lakebed.formats.paimon.layout import MAIN_BRANCH, TableName, schema_path
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.kernel.files.credentials import credentials_from

_SUFFIX = ".db"


class FileSystemRegistry:
    """The tables below a warehouse folder."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = open_store(settings.needs(WAREHOUSE), settings.storage)

    def databases(self) -> list[str]:
        """The folders that end with `.db`. On an object store a database is there once it has a table."""
        return [name.removesuffix(_SUFFIX) for name in self.store.list().folders if name.endswith(_SUFFIX)]

    def tables(self, database: str) -> list[str]:
        """The folders of a database that have a schema."""
        folders = self.store.list(f"{database}{_SUFFIX}").folders
        if not folders and database not in self.databases():
            raise no_database(self.settings.name, database)
        paths = [f"{database}{_SUFFIX}/{name}/schema" for name in folders]
        has_schema = self.store.together(self._has_schema, paths)
        return [name for name, is_table in zip(folders, has_schema, strict=True) if is_table]

    def create_database(self, name: str) -> None:
        """Make the folder, where the store has folders."""
        folder = self.store.local_path(f"{name}{_SUFFIX}")
        if folder is not None:
            os.makedirs(folder, exist_ok=True)

    def drop_database(self, name: str) -> None:
        """Remove the folder."""
        tables = self.tables(name)
        if tables:
            raise not_empty(name, tables)
        self.store.delete_folder(f"{name}{_SUFFIX}")

    def find(self, name: TableName) -> Entry:
        """The table's folder. It has a schema."""
        entry = self.place(name)
        try:
            History(self.opened(name)).latest_schema()
        except TableNotFoundError as error:
            raise no_table(self.settings.name, name) from error
        return entry

    def place(self, name: TableName) -> Entry:
        """The entry of a table, which need not exist yet."""
        location = self.store.url(f"{name.database}{_SUFFIX}/{name.table}")
        return Entry(location, credentials_from(self.settings.storage))

    def opened(self, name: TableName) -> Store:
        """The store of a table's folder."""
        return open_store(self.place(name).location, self.settings.storage)

    def create(self, name: TableName, schema: TableSchema, place: str | None = None) -> Entry:
        """Put the first version of the schema, if there is no other."""
        refuse_place(self.settings.name, place)
        self.create_database(name.database)
        outcome = self.opened(name).put_if_absent(schema_path(MAIN_BRANCH, 0), schema_to_json(schema))
        if outcome is PutOutcome.EXISTS:
            raise table_exists(self.settings.name, name)
        if outcome is PutOutcome.UNKNOWN:
            raise CommitUnknownError(
                f"the store does not say whether the table {name.text!r} was created",
                todo="Try to open it before you create it again",
            )
        return self.place(name)

    def drop(self, name: TableName) -> None:
        """Remove the table's folder. Its schema goes last, so that a drop that died can be repeated."""
        self.find(name)
        drop_files(self.opened(name))

    def _has_schema(self, folder: str) -> bool:
        return any(name.startswith("schema-") for name in self.store.list(folder).names)


def drop_files(store: Store) -> None:
    """Remove everything in a table's folder, the schema last."""
    root = store.list()
    for folder in root.folders:
        if folder != "schema":
            store.delete_folder(folder)
    store.delete_many(root.names)
    store.delete_folder("schema")
    here = store.local_path("")
    if here is not None and os.path.isdir(here):
        os.rmdir(here)
