"""New tables that begin with metadata which is there already: their first snapshot, or a metadata file to register.

A table with its first snapshot appears in one step: by path when `v1.metadata.json` is claimed, in a catalog when it
takes in the name with the location of a metadata file. Rules: HadoopTableOperations.commit, the REST specification's
registerTable, and pyiceberg's `Catalog.register_table`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakebed.errors import LakebedError, TableExistsError, first_line
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg.catalog.client import asking, catalog_error, published_nothing, status_of
from lakebed.formats.iceberg.catalog.file_io import storage_options
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.operations import Loaded, LostRaceError, OutcomeUnknownError, check
from lakebed.formats.iceberg.catalog.table import CatalogTable
from lakebed.formats.iceberg.codec.metadata import Document, TableMetadata, metadata_to_json
from lakebed.formats.iceberg.codec.updates import TableRequirement, TableUpdate, applied
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.kernel import clock
from lakebed.kernel.files import parse_location

_NO_COLUMNS = Schema(NestedField(1, "id", LongType()))
"""A catalog says where a table would lie only for one with columns."""
_NOT_FOUND = 404


class NewTable:
    """A table that does not exist yet, as the operations of a commit: the commit creates it, with its snapshot.

    `document` is its metadata without a snapshot. A commit that finds the table there raises TableExistsError.
    """

    def __init__(self, table: HadoopTable | CatalogTable, files: Files, document: Document) -> None:
        self._table, self._files = table, files
        self._base = Loaded(TableMetadata(document), f"{document['location']}/metadata/{layout.hadoop_metadata(0)}")
        self._tried = False

    @property
    def name(self) -> str:
        """The path, or `catalog:namespace.table`."""
        return self._table.name

    @property
    def files(self) -> Files:
        """The table's files, and those that it takes in."""
        return self._files

    @property
    def last(self) -> Loaded | None:
        """None: a new table has no metadata yet."""
        return None

    @property
    def moved_from(self) -> str:
        """ "": the table lies where it is created."""
        return ""

    @property
    def planner(self) -> None:
        """None: a new table has nothing to scan yet."""

    def refuse_changes(self, base: Loaded) -> None:
        """Refuse nothing: the creator of a table may change it."""

    def load(self) -> Loaded:
        """The metadata without a snapshot; what the table has, once its creation was tried."""
        return self._table.load() if self._tried else self._base

    def commit(
        self,
        base: Loaded,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        first: Mapping[str, bytes] = {},
    ) -> Loaded:
        """Create the table. TableExistsError when it is there, OutcomeUnknownError."""
        check(base, requirements)
        document = {**applied(base.metadata, updates, clock.now_ms(), base.location), "metadata-log": []}
        if isinstance(self._table, CatalogTable):
            return self._enter(self._table, document, first)
        self._files.write_many(first)
        self._tried = True
        try:
            return self._table.create(document)
        except LostRaceError as error:
            raise already_there(self.name) from error

    def _enter(self, table: CatalogTable, document: Document, first: Mapping[str, bytes]) -> Loaded:
        after = TableMetadata(document)
        name = layout.catalog_metadata(0)
        location = f"{layout.metadata_folder(after.location, after.properties)}/{name}"
        data = metadata_to_json(document)
        self._files.write_many(first)
        self._files.write(location, data)
        self._tried = True
        try:
            enter(table, location)
        except LakebedError:
            with suppress(LakebedError):
                self._files.delete_many([location])
            raise
        return Loaded(after, location, len(data))


def enter(table: CatalogTable, location: str) -> None:
    """Have the catalog take in a table with the metadata file at a location. Its namespace is made where it is missing.

    Raises TableExistsError, StorageError when the catalog refuses, OutcomeUnknownError.
    """
    name, catalog = table.identifier.table, table.catalog
    try:
        try:
            catalog.register_table(name, location)
        except Exception as error:
            if not isinstance(error, NoSuchNamespaceError) and status_of(error) != _NOT_FOUND:
                raise
            catalog.create_namespace_if_not_exists(name[:-1])  # only now, since not every writer may create namespaces
            catalog.register_table(name, location)
    except Exception as error:  # each catalog's client has errors of its own
        metadata = _metadata_of(table, error)
        if metadata is not None and spelled(metadata) == spelled(location):
            return  # a client that repeats an unanswered request meets itself
        if metadata is not None or isinstance(error, TableAlreadyExistsError):
            raise already_there(table.name) from error
        if not published_nothing(error) and not isinstance(error, CommitFailedException | NoSuchNamespaceError):
            raise OutcomeUnknownError(first_line(error)) from error
        raise catalog_error(error, table.identifier.catalog) from error


def refuse_taken(table: CatalogTable) -> None:
    """TableExistsError when the catalog has a table of this name."""
    with asking(table.identifier.catalog, table.identifier.table), suppress(NoSuchTableError, NoSuchNamespaceError):
        table.catalog.load_table(table.identifier.table)
        raise already_there(table.name)


@dataclass(frozen=True, slots=True)
class NewPlace:
    """Where a new table lies, and the options for its files."""

    location: str
    options: Mapping[str, str]


def new_place(table: CatalogTable) -> NewPlace:
    """Where the catalog puts a new table: the option `location`, else what the catalog says, with the keys that a REST
    catalog hands out for it. Its namespace is made where it is missing."""
    given = table.options.get("location")
    if given:
        return NewPlace(parse_location(given).text, options_of(table))
    name = table.identifier.table
    with asking(table.identifier.catalog, name):
        try:
            return _staged(table)
        except NoSuchNamespaceError:
            table.catalog.create_namespace_if_not_exists(name[:-1])
            return _staged(table)
        except TableAlreadyExistsError as error:
            raise already_there(table.name) from error


def _staged(table: CatalogTable) -> NewPlace:
    """The catalog's answer about a table that it is not going to have yet. pyiceberg drops the keys of a staged table
    whose metadata has no location, so we look at the answer itself."""
    catalog, name = table.catalog, table.identifier.table
    if not isinstance(catalog, RestCatalog):
        transaction = catalog.create_table_transaction(name, _NO_COLUMNS)
        return NewPlace(spelled(transaction.table_metadata.location), options_of(table))
    answer = catalog._create_table(name, _NO_COLUMNS, stage_create=True)
    location = answer.metadata.location
    keys = catalog._resolve_storage_credentials(answer.storage_credentials, location)
    handed_out = storage_options({**catalog.properties, **answer.config, **keys})
    return NewPlace(spelled(location), handed_out | table.options)


def options_of(table: CatalogTable) -> dict[str, str]:
    """The options for files of a table that the catalog does not have yet: those of the catalog, and the caller's."""
    return storage_options(table.catalog.properties) | table.options


def already_there(name: str) -> TableExistsError:
    """The error for a name that has a table."""
    return TableExistsError(
        f"there is already a table {name}", table=name, todo="Open it with lakebed.open, or choose another name"
    )


def _metadata_of(table: CatalogTable, failure: Exception) -> str | None:
    """The metadata file that the catalog has for a table, None for no table. OutcomeUnknownError when it cannot be
    asked after a failure."""
    try:
        return table.catalog.load_table(table.identifier.table).metadata_location
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:  # noqa: BLE001  # each catalog's client has errors of its own
        raise OutcomeUnknownError(f"{first_line(failure)}; {first_line(error)}") from failure
