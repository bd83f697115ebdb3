"""Iceberg tables in a catalog, and how a commit to one is published.

A REST catalog is sent the changes. For every other catalog the metadata file is written here and the catalog swaps its
location, since pyiceberg does not write format version 3 and drops fields that it does not know. Rules: the REST
specification's updateTable, and the reference engine's BaseMetastoreTableOperations (after a swap that failed without
an answer, the table is loaded again before any file is removed).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest
from pyiceberg.table import Table as CatalogEntry
from pyiceberg.table.metadata import TableMetadataUtil

from lakebed.errors import CorruptError, LakebedError, StorageError, TableExistsError, first_line
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg.catalog.client import asking, catalog_error, open_catalog, published_nothing
from lakebed.formats.iceberg.catalog.demands import planned_elsewhere, plans_scans, refuse_demands, refuse_view
from lakebed.formats.iceberg.catalog.file_io import KEPT, Opened, is_unique, storage_options, table_options
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.identifier import Identifier, parse_identifier
from lakebed.formats.iceberg.catalog.operations import (
    CalledLostError,
    Loaded,
    LostRaceError,
    OutcomeUnknownError,
    Planner,
    TableOperations,
    check,
    clean_log,
)
from lakebed.formats.iceberg.catalog.publishing import publishing
from lakebed.formats.iceberg.codec.metadata import TableMetadata, brief, metadata_from_json, metadata_to_json
from lakebed.formats.iceberg.codec.schema import with_all_types
from lakebed.formats.iceberg.codec.updates import TableRequirement, TableUpdate, applied
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.files import open_store
from lakebed.kernel.files.credentials import KEYS_END, PREFIX, credentials_from, is_secret
from lakebed.kernel.files.places import named_places
from lakebed.verbs.catalog import CATALOG_OPTIONS

__all__ = [
    "CATALOG_OPTIONS",
    "CatalogTable",
    "HadoopTable",
    "Identifier",
    "Loaded",
    "LostRaceError",
    "OutcomeUnknownError",
    "TableOperations",
    "parse_identifier",
]


class CatalogTable:
    """The operations of a table in one of pyiceberg's catalogs.

    Picklable without its secrets. Threads may share it: one at a time talks to the catalog.
    """

    def __init__(self, identifier: Identifier, options: Mapping[str, str] = {}) -> None:
        self.identifier, self.options = identifier, dict(options)
        self._turn = threading.RLock()
        self._files: Files | None = None
        self._opened = Opened()
        self._last: Loaded | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the catalog itself, and finds its secrets in pyiceberg's configuration.
        plain = {key: value for key, value in self.options.items() if not is_secret(key)}
        return CatalogTable, (self.identifier, plain)

    @property
    def name(self) -> str:
        """`catalog:namespace.table`."""
        return self.identifier.text

    @functools.cached_property
    def catalog(self) -> Catalog:
        """The catalog. Raises what `open_catalog` raises."""
        return open_catalog(self.identifier.catalog, self.options, self._opened)

    @property
    def files(self) -> Files:
        """The table's files, in the store of its location and in the other places that its metadata names."""
        if self._files is None:
            self._files = self._files_of(self._entry())
        return self._files

    @property
    def last(self) -> Loaded | None:
        """The result of the last `load`; None if it is not kept."""
        return self._last

    @property
    def moved_from(self) -> str:
        """ "": the catalog knows where the table lies."""
        return ""

    @property
    def planner(self) -> Planner | None:
        """The catalog where it plans the scans of the table."""
        if not self.files.planned_for:
            return None
        from pyiceberg.catalog.rest import RestCatalog

        from lakebed.formats.iceberg.catalog.planning import ServedScans

        catalog = self.catalog
        if not isinstance(catalog, RestCatalog):
            raise planned_elsewhere(self.name, "it is no REST catalog, which alone has plans")
        return ServedScans(catalog, self.identifier.table, self._files_of_plan)

    def refuse_changes(self, base: Loaded) -> None:
        """Refuses a table whose scans the catalog plans. Else the catalog decides who may change it."""
        if self.files.planned_for:
            raise planned_elsewhere(self.name)

    def load(self) -> Loaded:
        """The metadata that the catalog names as current. A file that was read before is not read again.

        CorruptError when its file is missing.
        """
        entry = self._entry()
        self._files = self._files_of(entry, self._files)
        try:
            return self._read(entry.metadata_location)
        except FileNotFoundError:
            newer = self._entry()  # the file may have been cleaned up after a newer commit
        self._files = self._files_of(newer, self._files)
        try:
            return self._read(newer.metadata_location)
        except FileNotFoundError as error:
            raise CorruptError(
                "the table's metadata file is missing",
                table=self.name,
                file=newer.metadata_location,
                why="the catalog names this file as the current one",
                todo="Restore the file, or register the table again from an older one",
            ) from error

    def commit(
        self,
        base: Loaded,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        first: Mapping[str, bytes] = {},
    ) -> Loaded:
        """Send the changes to a REST catalog, or swap the location of the metadata file in another catalog.

        Raises LostRaceError, OutcomeUnknownError, and StorageError when the catalog refuses.
        """
        self.refuse_changes(base)
        check(base, requirements)
        entries: list[CatalogEntry] = []
        self.files.write_many(first, lambda: entries.append(self._entry()))
        (entry,) = entries
        with self._turn:
            if isinstance(self.catalog, MetastoreCatalog):
                return self._swap(self.catalog, entry, base, updates)
            return self._send(entry, base, requirements, updates)

    def create(self, schema: Schema, spec: PartitionSpec, version: int, properties: Mapping[str, str]) -> Loaded:
        """Create the table without a snapshot, and its namespace. TableExistsError when the table exists.

        Where pyiceberg writes the metadata, a table of format version 3 is created with version 2 and then upgraded,
        since pyiceberg does not write version 3.
        """
        first = min(version, 2) if isinstance(self.catalog, MetastoreCatalog) else version
        create = functools.partial(
            self.catalog.create_table, self.identifier.table, schema, location=self.options.get("location"),
            partition_spec=spec, properties={**properties, "format-version": str(first)},
        )  # fmt: skip
        with self._turn, asking(self.identifier.catalog, self.identifier.table):
            try:
                try:
                    create()
                except NoSuchNamespaceError:  # only now, since not every writer may create namespaces
                    self.catalog.create_namespace_if_not_exists(self.identifier.table[:-1])
                    create()
            except TableAlreadyExistsError as error:
                raise TableExistsError(
                    f"the catalog already has a table {self.name}", table=self.name, todo="Open it with lakebed.open"
                ) from error
        loaded = self.load()
        if version == first:
            return loaded
        return self.commit(loaded, (), [{"action": "upgrade-format-version", "format-version": version}])

    def drop(self) -> None:
        """Remove the table from the catalog. Its files stay."""
        with self._turn, asking(self.identifier.catalog, self.identifier.table):
            self.catalog.drop_table(self.identifier.table)

    def _send(
        self,
        entry: CatalogEntry,
        base: Loaded,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
    ) -> Loaded:
        """Send the changes to a catalog that writes the next metadata itself."""
        name = {"namespace": list(self.identifier.table[:-1]), "name": self.identifier.table[-1]}
        request = CommitTableRequest.model_validate(
            {"identifier": name, "requirements": list(requirements), "updates": [*map(with_all_types, updates)]}
        )
        try:
            answer = self.catalog.commit_table(entry, request.requirements, request.updates)
        except CommitFailedException as error:
            raise CalledLostError(first_line(error)) from error
        except Exception as error:
            if published_nothing(error):
                self._refused_late(error, base)
                self._refused(error)
            raise OutcomeUnknownError(first_line(error)) from error
        location = answer.metadata_location
        with suppress(LakebedError, FileNotFoundError):  # the commit stands even when its file cannot be read
            self._files = self.files.also(spelled(location).rpartition("/")[0])
            loaded = self._read(location)
            last = loaded.metadata.metadata_log[-1:]
            return replace(loaded, replaced=next((file for _, file in last if file != base.location), ""))
        document = applied(base.metadata, updates, clock.now_ms(), base.location)
        return Loaded(TableMetadata(document), location, replaced=None)

    def _swap(
        self, catalog: MetastoreCatalog, entry: CatalogEntry, base: Loaded, updates: Sequence[TableUpdate]
    ) -> Loaded:
        """Write the next metadata file, and have the catalog name it in place of the current one."""
        staged: list[Loaded] = []
        try:
            publishing(catalog, lambda current: self._stage(base, current, updates, staged)).commit_table(entry, (), ())
        except LakebedError:
            raise
        except Exception as error:  # each catalog's client has errors of its own; all raised below
            if not staged and isinstance(error, FileNotFoundError):  # others committed, and cleaned it up
                raise LostRaceError(first_line(error)) from error
            if not self._landed_after_all(error, staged):
                self._discard(staged)
                self._refused(error)
        clean_log(self.files, base.metadata, staged[0].metadata)
        return staged[0]

    def _landed_after_all(self, error: Exception, staged: Sequence[Loaded]) -> bool:
        """Whether a swap that failed took place all the same: a client that repeats an unanswered request gets a
        conflict with itself. OutcomeUnknownError when the catalog cannot be asked."""
        if not staged or _LOCKED in str(error):
            return False
        if not isinstance(error, CommitFailedException) and not published_nothing(error):
            raise OutcomeUnknownError(first_line(error)) from error
        try:
            now = self._entry()
        except LakebedError as unseen:
            raise OutcomeUnknownError(f"{first_line(error)}; {unseen}") from error
        past = [entry.metadata_file for entry in now.metadata.metadata_log]
        return staged[0].location in (now.metadata_location, *past)

    def _refused(self, error: Exception) -> NoReturn:
        """Raise the error for a swap that published nothing: LostRaceError, or StorageError for a refusal."""
        if isinstance(error, CommitFailedException) or _LOCKED in str(error):
            raise LostRaceError(first_line(error)) from error
        with suppress(StorageError):
            self._entry()  # raises when the table is gone
        raise catalog_error(error, self.identifier.catalog) from error

    def _refused_late(self, error: Exception, base: Loaded) -> None:
        """CalledLostError for changes that the catalog calls wrong because others committed meanwhile.

        A commit to another branch breaks no requirement, but takes the sequence number: the reference engine's server
        answers the slower one with 400, as it answers a request that is wrong by itself.
        """
        if not isinstance(error, BadRequestError):
            return
        with suppress(StorageError):  # the refusal is what matters
            if self._entry().metadata_location != base.location:
                raise CalledLostError(first_line(error)) from error

    def _stage(
        self, base: Loaded, current: CatalogEntry, updates: Sequence[TableUpdate], staged: list[Loaded]
    ) -> tuple[Loaded, Any]:
        """Write the next metadata file and append it to `staged`, unless the catalog has newer metadata than `base`."""
        if current.metadata_location != base.location:
            raise CommitFailedException(f"the catalog is at {current.metadata_location}")
        document = applied(base.metadata, updates, clock.now_ms(), base.location)
        metadata = TableMetadata(document)
        compressed = metadata.properties.get("write.metadata.compression-codec", "none").lower() == "gzip"
        version = layout.catalog_version(base.location.rpartition("/")[2])
        name = layout.catalog_metadata((-1 if version is None else version) + 1, compressed)
        location = f"{layout.metadata_folder(metadata.location, metadata.properties)}/{name}"
        model = TableMetadataUtil.parse_raw(brief(metadata).decode())
        stored = metadata_to_json(document, compressed)
        self.files.write(location, stored)
        self._opened.keep(location, stored)
        staged.append(Loaded(metadata, location, len(stored)))
        return staged[0], model

    def _discard(self, staged: Sequence[Loaded]) -> None:
        """Remove the metadata file of a swap that failed."""
        with suppress(LakebedError):
            self.files.delete_many([loaded.location for loaded in staged])

    def _read(self, location: str) -> Loaded:
        last = self._last
        if last is not None and last.location == location:
            return last
        data = self._opened.kept(location) or self.files.read(location)
        loaded = Loaded(metadata_from_json(data, location), location, len(data))
        self._last = loaded if is_unique(location) and len(data) <= KEPT else None
        return loaded

    @looks_again
    def _entry(self) -> CatalogEntry:
        """What the catalog answers about the table. A catalog's client may read the metadata file itself, which others
        may replace and clean up meanwhile: then it is asked again."""
        catalog = self.catalog
        with self._turn, asking(self.identifier.catalog, self.identifier.table):
            try:
                return catalog.load_table(self.identifier.table)
            except NoSuchTableError:
                refuse_view(catalog, self.identifier.table, self.name)
                raise

    def storage(self) -> Mapping[str, str]:
        """The storage options for the table's files, with the keys that the catalog hands out now."""
        return table_options(self.catalog.properties, self._entry(), self.options)

    def _files_of(self, entry: CatalogEntry, before: Files | None = None) -> Files:
        """The files of an entry. It is `before` where the places and the credentials are still the same."""
        properties, options = entry.metadata.properties, table_options(self.catalog.properties, entry, self.options)
        config = {**self.catalog.properties, **entry.config}
        keys = [key for key in options if key.lower().startswith(PREFIX) and is_secret(key.lower())]
        refuse_demands(self.name, config, has_keys=bool(keys))
        planned_for = self.name if plans_scans(config) else ""
        places = [*layout.places_of(properties), entry.metadata_location.rpartition("/")[0]]
        named = named_places(options, (spelled(place) for place in places))
        credentials = credentials_from(options)
        if KEYS_END in credentials.secret:  # asked for by a catalog of its own, since this one may be at work
            credentials = replace(credentials, renewal=CatalogTable(self.identifier, self.options).storage)
        home = open_store(entry.metadata.location, options, credentials)
        wanted = (home.location, named, credentials, planned_for)
        if (
            before is not None
            and (before.home.location, before.named, before.credentials, before.planned_for) == wanted
        ):
            return before
        return Files(home, credentials, named, planned_for=planned_for)

    def _files_of_plan(self, handed_out: Sequence[Mapping[str, Any]]) -> Files:
        """The files of a table to read with the keys that a plan handed out, for as long as these last: those whose
        prefix is the longest that fits."""
        files = self.files
        location = files.home.location
        fitting = [one for one in handed_out if location.startswith(str(one.get("prefix", "")))]
        if not fitting:
            return files
        best = max(fitting, key=lambda one: len(str(one.get("prefix", ""))))
        options = {**self.storage(), **storage_options(best.get("config") or {}), **self.options}
        credentials = credentials_from(options)
        home = open_store(location, options, credentials)
        return Files(home, credentials, files.named, planned_for=files.planned_for)


_LOCKED = "database is locked"
"""SQLite's message when it refuses a swap and rolls it back."""
