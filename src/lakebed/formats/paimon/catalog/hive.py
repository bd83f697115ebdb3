"""A Hive metastore as a catalog. It names tables and shows their columns; the folders of the tables have the rest.

Rules: Paimon's HiveCatalog. A table of the metastore is Paimon's by its input and output format. Its schema is put
before its name is entered, and the name goes before the files. An external table keeps its files when it is dropped.
"""

from __future__ import annotations

import getpass
from contextlib import nullcontext
from typing import Any

from lakebed.errors import (
    CommitUnknownError,
    RetryableError,
    SchemaError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.paimon.catalog.filesystem import drop_files
from lakebed.formats.paimon.catalog.hive_tables import (
    PLACE,
    HivePartitions,
    HiveTables,
    is_external,
    is_paimon,
    place_of,
    written_place,
)
from lakebed.formats.paimon.catalog.metastore import HiveLock, Metastore
from lakebed.formats.paimon.catalog.registry import Entry, no_database, no_table, not_empty, table_exists
from lakebed.formats.paimon.catalog.settings import (
    LOCATION_IN_PROPERTIES,
    TABLE_TYPE,
    WAREHOUSE,
    Settings,
)
from lakebed.formats.paimon.codec.schema_json import TableSchema, schema_to_json
from lakebed.formats.paimon.layout import MAIN_BRANCH, TableName, schema_path
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.kernel.files.credentials import credentials_from

_TABLES_AT_ONCE = 300


class HiveRegistry:
    """The tables that a metastore names."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metastore = settings, Metastore(settings)

    def databases(self) -> list[str]:
        """All databases of the metastore."""
        return [str(name) for name in self.metastore.ask("get_all_databases")]

    def tables(self, database: str) -> list[str]:
        """The tables of a database that are Paimon's."""
        self._database(database)
        names = self.metastore.ask("get_all_tables", database)
        tables: list[Any] = []
        for start in range(0, len(names), _TABLES_AT_ONCE):
            part = names[start : start + _TABLES_AT_ONCE]
            tables += self.metastore.ask("get_table_objects_by_name", database, part)
        return [str(table.tableName) for table in tables if is_paimon(table)]

    def create_database(self, name: str) -> None:
        """Enter a database, with a place in the warehouse where that is set."""
        _check_lower(name)
        warehouse, inside = self.settings[WAREHOUSE], self.settings.asks(LOCATION_IN_PROPERTIES)
        place = written_place(f"{warehouse.rstrip('/')}/{name}.db") if warehouse else None
        database = self.metastore.types.Database(
            name=name,
            locationUri=None if inside else place,
            parameters={PLACE: place} if inside and place else {},
            ownerName=getpass.getuser(),
        )
        try:
            self.metastore.ask("create_database", database, taken=TableExistsError(f"there is a database {name!r}"))
        except TableExistsError:
            return

    def drop_database(self, name: str) -> None:
        """Remove a database. The metastore refuses where it has tables of other formats."""
        tables = self.tables(name)
        if tables:
            raise not_empty(name, tables)
        self.metastore.ask("drop_database", name, True, False, missing=no_database(self.settings.name, name))

    def find(self, name: TableName) -> Entry:
        """The place that the metastore has for the table, which has a schema."""
        entry = self._entry(name, self._table(name))
        try:
            History(self._store(entry)).latest_schema()
        except TableNotFoundError as error:
            raise no_table(self.settings.name, name) from error
        return entry

    def create(self, name: TableName, schema: TableSchema, place: str | None = None) -> Entry:
        """Put the schema, then enter the name. At a place of its own, a table of the same schema is taken over."""
        _check_lower(name.text)
        self.create_database(name.database)
        self._refuse_taken(name)
        external = place is not None or self.settings[TABLE_TYPE] == "external"
        where = written_place(place or f"{self._folder(name.database)}/{name.table}")
        shown = HiveTables(self.metastore, name)
        entry = self._entry(name, shown.new(schema, where, external))
        store, path = self._store(entry), schema_path(MAIN_BRANCH, 0)
        with (entry.lock or nullcontext)():
            outcome = store.put_if_absent(path, schema_to_json(schema))
        if outcome is PutOutcome.UNKNOWN:
            raise _unknown(name)
        if outcome is PutOutcome.EXISTS:
            schema = self._taken_over(name, schema, store, external)
        try:
            table = shown.new(schema, where, external)
            self.metastore.ask("create_table", table, taken=table_exists(self.settings.name, name))
        except (StorageError, TableExistsError) as error:
            if isinstance(error, StorageError) and self._was_entered(name, where):
                return entry
            if isinstance(error, RetryableError):  # it may still be on its way
                raise _unknown(name) from error
            if outcome is PutOutcome.CREATED:
                store.delete(path)
            raise
        return entry

    def drop(self, name: TableName) -> None:
        """Remove the name, then the files of a table that is not external. A folder without a schema is left alone."""
        table = self._table(name)
        files = None if is_external(table) else self._store(self._entry(name, table))
        ours = files is not None and any(file.startswith("schema-") for file in files.list("schema").names)
        missing = no_table(self.settings.name, name)
        self.metastore.ask("drop_table", name.database, name.table, ours, missing=missing)
        if files is not None and ours:
            drop_files(files)

    def _table(self, name: TableName) -> Any:
        """The metastore's table. UnsupportedError for one that is not Paimon's."""
        missing = no_table(self.settings.name, name)
        table = self.metastore.ask("get_table", name.database, name.table, missing=missing)
        if not is_paimon(table):
            raise UnsupportedError(
                f"{name.text} is not a Paimon table in the catalog {self.settings.name!r}",
                why=f"the metastore has {(table.parameters or {}).get('table_type', table.tableType)} for it",
                todo="Open it as a table of its own format",
            )
        return table

    def _entry(self, name: TableName, table: Any) -> Entry:
        place = place_of(table, self.settings.asks(LOCATION_IN_PROPERTIES))
        if not place:
            raise StorageError(f"the catalog {self.settings.name!r} does not say where {name.text} is")
        remote = open_store(place, self.settings.storage).local_path("") is None
        return Entry(
            place,
            credentials_from(self.settings.storage),
            lock=HiveLock(self.metastore, name) if self.settings.locks(remote) else None,
            reporter=HivePartitions(self.metastore, name),
            show=HiveTables(self.metastore, name).show,
        )

    def _store(self, entry: Entry) -> Store:
        return open_store(entry.location, self.settings.storage)

    def _database(self, name: str) -> Any:
        return self.metastore.ask("get_database", name, missing=no_database(self.settings.name, name))

    def _folder(self, database: str) -> str:
        """The place of a database, where its tables are."""
        entry = self._database(database)
        inside = self.settings.asks(LOCATION_IN_PROPERTIES)
        place = ((entry.parameters or {}).get(PLACE) if inside else None) or entry.locationUri
        return str(place or f"{self.settings.needs(WAREHOUSE).rstrip('/')}/{database}.db").rstrip("/")

    def _refuse_taken(self, name: TableName) -> None:
        """Raise TableExistsError where the metastore has the name, for a table of whatever format."""
        free = no_table(self.settings.name, name)
        try:
            self.metastore.ask("get_table", name.database, name.table, missing=free)
        except TableNotFoundError:
            return
        raise table_exists(self.settings.name, name)

    def _was_entered(self, name: TableName, place: str) -> bool:
        """Whether the metastore has the table at this place, although it answered with a failure or not at all.
        CommitUnknownError when it does not say."""
        try:
            table = self._table(name)
        except TableNotFoundError:
            return False
        except StorageError as error:
            raise _unknown(name) from error
        return place_of(table, self.settings.asks(LOCATION_IN_PROPERTIES)) == place

    def _taken_over(self, name: TableName, schema: TableSchema, store: Store, external: bool) -> TableSchema:
        """The schema of the table at a place, which may get the name: it is asked for, and has the same columns and
        keys."""
        if not external:
            raise TableExistsError(
                f"the folder of {name.text} has a table that the catalog {self.settings.name!r} does not name",
                table=store.location,
                todo="Give its place as the option path to enter it as an external table, or remove the folder",
            )
        existing = History(store).latest_schema()
        if _identity(existing) != _identity(schema):
            raise SchemaError(
                "the table at this place has other columns or keys",
                table=store.location,
                why=f"it has {', '.join(f'{field.name} {field.type}' for field in existing.fields)}",
                todo="Give its columns and keys, or another place",
            )
        return existing


def _identity(schema: TableSchema) -> Any:
    """The parts of a schema that are equal in two definitions of one table."""
    columns = [(field.name, str(field.type)) for field in schema.fields]
    return columns, schema.primary_keys, schema.partition_keys


def _check_lower(name: str) -> None:
    """Raise UsageError for a name that a metastore would change."""
    if name != name.lower():
        raise UsageError(f"{name!r} has capital letters", why="a metastore keeps names in lower case")


def _unknown(name: TableName) -> CommitUnknownError:
    return CommitUnknownError(
        f"it is not certain whether the table {name.text!r} was created",
        why="the answer was lost",
        todo="Try to open it before you create it again",
    )
