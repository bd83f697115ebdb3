"""Simulated Iceberg catalogs of one table, as pyiceberg's clients of catalogs are: one whose client writes the metadata
file and swaps its location in, as that of a SQL catalog does, and one that is sent the changes, as a REST catalog is.

Which metadata file is the current one stands in the file `.catalog`, which only the catalog touches. Each question to
the catalog and each commit is one call of a process, like its calls of the store: others may go first, and it may fail
before or after its effect, get no answer, take minutes, or be the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException, NoSuchTableError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata as Model
from pyiceberg.table.metadata import TableMetadataUtil

from lakebed.errors import RetryableError
from lakebed.formats.iceberg.codec.metadata import TableMetadata, brief, metadata_from_json, metadata_to_json
from lakebed.formats.iceberg.codec.updates import applied, unmet
from lakebed.formats.iceberg.definition import new_metadata
from lakebed.formats.iceberg.layout import catalog_metadata, catalog_version
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.testing.simulation.store import SimulatedStore

POINTER = ".catalog"
"""The file that says which metadata file is the current one. An Iceberg clean-up leaves files of such names."""
COMMIT = "commit"
"""The verb of a commit to a catalog, among the verbs of a store."""
_BAD_REQUEST, _TOO_MANY_REQUESTS = 400, 429


class _Refused(Exception):
    """The catalog answered with a status that it does nothing."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.response = SimpleNamespace(status_code=status)


class SimulatedRest(NoopCatalog):
    """A catalog that is sent requirements and updates, and writes the metadata file itself. Its property `warehouse` is
    the location of its table."""

    @property
    def _store(self) -> Store:
        """The store of whoever runs."""
        return open_store(self.properties["warehouse"])

    def load_table(self, identifier: Any) -> Table:
        """One call. ConnectionError where it gets no answer."""
        return self._table(identifier, *self._asked(self._store))

    def _asked(self, store: Store) -> tuple[str, Model]:
        """The current metadata file, and what is in it."""
        location = _current(store)
        data = _real(store).read(_inner(store, location))
        return location, _model(metadata_from_json(data, location))

    def create_table(
        self, identifier: Any, schema: Any, location: str | None = None, partition_spec: Any = None,
        sort_order: Any = None, properties: Any = None,
    ) -> Table:  # fmt: skip
        """Create the table. It is done before a run begins, so that nothing fails."""
        assert isinstance(schema, Schema) and isinstance(partition_spec, PartitionSpec)
        store, given = self._store, dict(properties)
        version = int(given.pop("format-version"))
        document = new_metadata(store.location, schema, partition_spec, version, given)
        path = f"metadata/{catalog_metadata(0)}"
        store.write(path, metadata_to_json(document))
        store.write(POINTER, store.url(path).encode())
        return self.load_table(identifier)

    def commit_table(self, table: Table, requirements: Sequence[Any], updates: Sequence[Any]) -> CommitTableResponse:
        """One call, which is carried out as a whole.

        Raises CommitFailedException for a requirement that does not hold, BadRequestError for a sequence number that
        another commit has taken, for a snapshot without row ids where the table has them since, and for a branch or tag
        at a snapshot that is gone, as the reference engine's server does.
        """
        store = self._store
        wanted = [one.model_dump(by_alias=True, mode="json") for one in requirements]
        changes = [one.model_dump(by_alias=True, mode="json", exclude_none=True) for one in updates]
        refusals: list[Exception] = []

        def carried_out(real: Store) -> PutOutcome:
            location = _current(real)
            metadata = metadata_from_json(real.read(_inner(real, location)), location)
            reason = unmet(metadata, wanted)
            if reason is not None:
                refusals.append(CommitFailedException(reason))
            elif is_behind(metadata, changes):
                refusals.append(BadRequestError("Cannot add a snapshot of an older state"))
                refusals[-1].__cause__ = _Refused(_BAD_REQUEST)
            else:
                _publish(real, metadata, changes, location)
                return PutOutcome.CREATED
            return PutOutcome.EXISTS

        _commit(store, carried_out, refusals)
        location, model = self._asked(_real(store))
        return CommitTableResponse.model_construct(metadata=model, metadata_location=location)

    def view_exists(self, identifier: Any) -> bool:
        """There are no views."""
        return False

    def _table(self, identifier: Any, location: str, model: Model) -> Table:
        return Table(identifier, model, location, self._load_file_io(model.properties, location), self)


class SimulatedMetastore(SimulatedRest, MetastoreCatalog):
    """A catalog that only knows where the current metadata file is: its client writes the next one and swaps them."""

    def _asked(self, store: Store) -> tuple[str, Model]:
        location = _current(store)
        return location, FromInputFile.table_metadata(self._load_file_io({}, location).new_input(location))

    def commit_table(self, table: Table, requirements: Sequence[Any], updates: Sequence[Any]) -> CommitTableResponse:
        """Load the table, write the next metadata file, and swap it for the loaded one in one call.

        CommitFailedException where another commit was faster.
        """
        current = self.load_table(table.name())
        staged = self._update_and_stage_table(current, table.name(), tuple(requirements), tuple(updates))
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        refusals: list[Exception] = [CommitFailedException("the table has been updated by another process")]

        def swapped(real: Store) -> PutOutcome:
            if _current(real) != current.metadata_location:
                return PutOutcome.EXISTS
            real.write(POINTER, staged.metadata_location.encode())
            return PutOutcome.CREATED

        _commit(self._store, swapped, refusals)
        return CommitTableResponse.model_construct(metadata=staged.metadata, metadata_location=staged.metadata_location)


def current_file(store: Store) -> str:
    """The path of the metadata file that the catalog names."""
    return _inner(store, _current(store))


def is_behind(metadata: TableMetadata, changes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether changes add a snapshot whose sequence number or row ids are taken, or one without row ids where the table
    has them, or put a branch or tag at a snapshot that is gone."""
    last = metadata.document.get("last-sequence-number", 0) if metadata.format_version > 1 else -1
    next_row = metadata.document.get("next-row-id", 0) if metadata.format_version >= 3 else 0
    added = [change["snapshot"] for change in changes if change["action"] == "add-snapshot"]
    known = {*metadata.snapshots, *(snapshot["snapshot-id"] for snapshot in added)}
    if any(change["action"] == "set-snapshot-ref" and change["snapshot-id"] not in known for change in changes):
        return True
    return any(
        snapshot.get("sequence-number", last + 1) <= last
        or (metadata.format_version >= 3 and snapshot.get("first-row-id", -1) < next_row)
        for snapshot in added
    )


def _current(store: Store) -> str:
    """The location of the current metadata file. ConnectionError where the catalog does not answer."""
    try:
        return store.read(POINTER).decode()
    except FileNotFoundError as error:
        raise NoSuchTableError("there is no such table") from error
    except RetryableError as error:
        raise ConnectionError("the catalog does not answer") from error


def _commit(store: Store, act: Any, refusals: Sequence[Exception]) -> None:
    """Commit by one call. Raises the last of the refusals where the act did nothing, ConnectionError where there is no
    answer. A call that fails before its effect is refused. One that fails after it is done again by the client, which
    meets its own effect."""
    done: list[PutOutcome] = []

    def noted(real: Store) -> PutOutcome:
        done.append(act(real))
        return done[-1]

    try:
        outcome = store.apart(COMMIT, POINTER, noted) if isinstance(store, SimulatedStore) else noted(store)
    except RetryableError as error:
        if done:
            raise CommitFailedException("the table has been updated by another process") from error
        raise _Refused(_TOO_MANY_REQUESTS) from error
    if outcome is PutOutcome.UNKNOWN:
        raise ConnectionError("the connection was cut")
    if outcome is PutOutcome.EXISTS:
        _raise(refusals[-1])


def _raise(error: Exception) -> NoReturn:
    raise error


def _publish(real: Store, metadata: TableMetadata, changes: Sequence[Mapping[str, Any]], location: str) -> None:
    version = catalog_version(location.rpartition("/")[2])
    path = f"metadata/{catalog_metadata((version or 0) + 1)}"
    real.write(path, metadata_to_json(applied(metadata, changes, clock.now_ms(), location)))
    real.write(POINTER, real.url(path).encode())


def _model(metadata: TableMetadata) -> Model:
    return TableMetadataUtil.parse_raw(brief(metadata).decode())


def _real(store: Store) -> Store:
    """The store behind a process's handle of it, where the catalog itself is at work."""
    return store.real if isinstance(store, SimulatedStore) else store


def _inner(store: Store, location: str) -> str:
    return location.removeprefix(f"{store.location}/")
