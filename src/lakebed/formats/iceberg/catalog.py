"""Where a table's current metadata is, and how a new version takes its place: a catalog, or the path alone.

A path table is what the reference engine's HadoopCatalog makes: `metadata/vN.metadata.json`, whose next name is claimed
only if absent, with `version-hint.text` as a hint. A catalog is any of pyiceberg's (sql, rest, hive, glue, dynamodb): a
REST catalog is sent the changes; every other one swaps the location of a metadata file that is written here, since
pyiceberg writes no version 3 and keeps no field that it does not know.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError
from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.exceptions import ValidationError as InvalidMetadata
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, StagedTable
from pyiceberg.table import Table as CatalogEntry
from pyiceberg.table.metadata import TableMetadataUtil

from lakebed.errors import (
    CorruptError,
    LakebedError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg.codec.metadata import TableMetadata, metadata_from_json, metadata_to_json
from lakebed.formats.iceberg.codec.updates import Words, applied, dropped_metadata, unmet
from lakebed.formats.iceberg.file_io import IMPLEMENTATION, storage_options
from lakebed.formats.iceberg.files import Files
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.kernel.files.credentials import credentials_from, is_secret

CATALOG_OPTIONS = "lakebed.catalog."
"""Options with this prefix are properties of the catalog, over those of pyiceberg's own configuration."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table's metadata as it was read, and the location of its file."""

    metadata: TableMetadata
    location: str


class LostRaceError(Exception):
    """Another commit was faster: the requirements do not hold, or the next version is taken. Nothing was published."""


class OutcomeUnknownError(Exception):
    """Nobody said whether the commit was published."""


class TableAccess(Protocol):
    """A table's place in the world. `name` is for people: its path or its name in the catalog."""

    @property
    def name(self) -> str:
        """The path, or `catalog:namespace.table`."""
        ...

    @property
    def files(self) -> Files:
        """The table's files."""
        ...

    def load(self) -> Loaded:
        """The current metadata, read anew. TableNotFoundError when there is none."""
        ...

    def commit(self, base: Loaded, requirements: Sequence[Words], updates: Sequence[Words]) -> Loaded:
        """Publish changes of `base`. Raises LostRaceError, when nothing is published, and OutcomeUnknownError."""
        ...


# ---- tables by path --------------------------------------------------------------------------------------------------


class PathTable:
    """A table that is found by its path alone. Picklable."""

    def __init__(self, store: Store, options: Mapping[str, str] = {}) -> None:
        self._store, self._files = store, Files(store, credentials_from(options))

    @property
    def name(self) -> str:
        """The path."""
        return self._store.location

    @property
    def files(self) -> Files:
        """The table's files."""
        return self._files

    def load(self) -> Loaded:
        """The current metadata: the version that the hint names or the newest after it, else the newest there is."""
        for _ in range(_ATTEMPTS):
            name = self._current()
            if name is None:
                break
            with suppress(FileNotFoundError):  # cleaned away in between
                metadata = metadata_from_json(self._store.read(f"metadata/{name}"), f"metadata/{name}")
                return Loaded(metadata, f"{metadata.location}/metadata/{name}")
        raise TableNotFoundError(
            "this is no Iceberg table", table=self.name, why="it has no metadata/*.metadata.json",
            todo="Give the table's root folder, or catalog:namespace.table",
        )  # fmt: skip

    def commit(self, base: Loaded, requirements: Sequence[Words], updates: Sequence[Words]) -> Loaded:
        """Claim the next version. UnsupportedError for a table that belongs to a catalog, which would not see it."""
        name = base.location.rpartition("/")[2]
        version = layout.path_table_version(name)
        if version is None:
            raise UnsupportedError(
                "this table belongs to a catalog", table=self.name,
                why=f"its metadata file is {name}, not vN.metadata.json, so its catalog says which is the current one",
                todo="Open it by its name, as catalog:namespace.table",
            )  # fmt: skip
        _check(base, requirements)
        document = applied(base.metadata, updates, _now(), base.location)
        after = TableMetadata(document)
        compressed = after.properties.get("write.metadata.compression-codec", "none").lower() == "gzip"
        target = layout.path_table_metadata(version + 1, compressed)
        other = layout.path_table_metadata(version + 1, not compressed)
        if self._store.exists(f"metadata/{other}"):
            raise LostRaceError(f"{other} is there already")
        self._claim(target, metadata_to_json(document, compressed))
        with suppress(StorageError):
            self._store.write(f"metadata/{layout.VERSION_HINT}", str(version + 1).encode())
        _clean(self._files, base.metadata, after)
        return Loaded(after, f"{after.location}/metadata/{target}")

    def create(self, document: Mapping[str, Any]) -> Loaded:
        """The first version. LostRaceError when there is one already."""
        metadata = TableMetadata(document)
        name = layout.path_table_metadata(1)
        self._claim(name, metadata_to_json(document))
        with suppress(StorageError):
            self._store.write(f"metadata/{layout.VERSION_HINT}", b"1")
        return Loaded(metadata, f"{metadata.location}/metadata/{name}")

    def _claim(self, name: str, data: bytes) -> None:
        """Put a version if absent; after an unknown outcome the bytes there tell, for they are unique to the commit."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_WAIT_SECONDS * 2**attempt)
            try:
                outcome = self._store.put_if_absent(f"metadata/{name}", data)
            except StorageError:
                outcome = PutOutcome.UNKNOWN
            if outcome is PutOutcome.UNKNOWN or attempt:
                outcome = self._look(name, data)
            if outcome is PutOutcome.CREATED:
                return
            if outcome is PutOutcome.EXISTS:
                raise LostRaceError(f"{name} is there already")
        raise OutcomeUnknownError(f"the store does not say whether {name} was written")

    def _look(self, name: str, data: bytes) -> PutOutcome:
        try:
            there = self._store.read(f"metadata/{name}")
        except (FileNotFoundError, StorageError):
            return PutOutcome.UNKNOWN
        return PutOutcome.CREATED if there == data else PutOutcome.EXISTS

    def _current(self) -> str | None:
        hint: int | None = None
        with suppress(FileNotFoundError, StorageError, ValueError):
            hint = int(self._store.read(f"metadata/{layout.VERSION_HINT}"))
        if hint is not None:
            name = self._version(hint)
            if name is not None:
                while (following := self._version(hint + 1)) is not None:
                    name, hint = following, hint + 1
                return name
        names = [info.name for info in self._store.list("metadata").files]
        by_path = [(v, n) for n in names if (v := layout.path_table_version(n)) is not None]
        if by_path:
            return max(by_path)[1]
        of_catalog = [(v, n) for n in names if (v := layout.catalog_version(n)) is not None]
        newest = [name for version, name in of_catalog if version == max(of_catalog)[0]]
        return newest[0] if len(newest) == 1 else self._youngest(newest)

    def _version(self, number: int) -> str | None:
        """The file of a version, None when there is none."""
        for compressed in (False, True):
            name = layout.path_table_metadata(number, compressed)
            if self._store.exists(f"metadata/{name}"):
                return name
        return None

    def _youngest(self, names: Sequence[str]) -> str | None:
        """Of several files of one version, which commits that lost a race leave behind, the last written."""
        found = []
        for name in names:
            with suppress(FileNotFoundError, CorruptError):
                document = metadata_from_json(self._store.read(f"metadata/{name}"), name).document
                found.append((int(document.get("last-updated-ms", 0)), name))
        return max(found)[1] if found else None


_ATTEMPTS = 5
_WAIT_SECONDS = 0.05

# ---- tables of a catalog ---------------------------------------------------------------------------------------------

_NAME = re.compile(r"^([A-Za-z0-9_][A-Za-z0-9_-]+):([^/\\:]+)\.([^./\\:]+)$")


@dataclass(frozen=True, slots=True)
class Identifier:
    """`catalog:namespace.table`; `text` is that spelling."""

    catalog: str
    table: tuple[str, ...]

    @property
    def text(self) -> str:
        """The spelling that `lakebed.open` takes."""
        return f"{self.catalog}:{'.'.join(self.table)}"


def parse_identifier(text: str) -> Identifier:
    """The parts of `catalog:namespace.table`; UsageError when it is not of that form."""
    match = _NAME.match(text)
    if match is None:
        raise UsageError(f"{text!r} names no table of a catalog", todo="Write catalog:namespace.table")
    return Identifier(match[1], (*match[2].split("."), match[3]))


class CatalogTable:
    """A table of one of pyiceberg's catalogs."""

    def __init__(self, identifier: Identifier, options: Mapping[str, str] = {}) -> None:
        self.identifier, self.options = identifier, dict(options)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process loads the catalog itself, and finds secrets itself (pyiceberg's own configuration).
        plain = {key: value for key, value in self.options.items() if not is_secret(key)}
        return CatalogTable, (self.identifier, plain)

    @property
    def name(self) -> str:
        """`catalog:namespace.table`."""
        return self.identifier.text

    @functools.cached_property
    def catalog(self) -> Catalog:
        """The catalog; UsageError when pyiceberg cannot make one of the configuration."""
        given = {k.removeprefix(CATALOG_OPTIONS): v for k, v in self.options.items() if k.startswith(CATALOG_OPTIONS)}
        storage = {k: v for k, v in self.options.items() if not k.startswith(CATALOG_OPTIONS)}
        try:
            return load_catalog(self.identifier.catalog, **{**storage, **given, "py-io-impl": IMPLEMENTATION})
        except Exception as error:
            raise UsageError(
                f"cannot open the catalog {self.identifier.catalog!r}", why=_first_line(error),
                todo=f"Configure it for pyiceberg (.pyiceberg.yaml), or by options {CATALOG_OPTIONS}type, "
                f"{CATALOG_OPTIONS}uri ...",
            ) from error  # fmt: skip

    @functools.cached_property
    def files(self) -> Files:
        """The table's files, in the store of its location."""
        return self._files_of(self._entry())

    def load(self) -> Loaded:
        """The current metadata as the catalog has it."""
        entry = self._entry()
        location = entry.metadata_location
        if "files" not in self.__dict__:
            self.files = self._files_of(entry)
        return Loaded(metadata_from_json(self.files.read(location), location), location)

    def commit(self, base: Loaded, requirements: Sequence[Words], updates: Sequence[Words]) -> Loaded:
        """Send the changes to a REST catalog, or swap the location of the metadata file in another one."""
        _check(base, requirements)
        entry = self._entry()
        made: list[Loaded] = []
        try:
            if isinstance(self.catalog, MetastoreCatalog):
                with _staging(self.catalog, lambda current: self._stage(base, current, updates, made)):
                    self.catalog.commit_table(entry, (), ())
                _clean(self.files, base.metadata, made[0].metadata)
                return made[0]
            name = {"namespace": list(self.identifier.table[:-1]), "name": self.identifier.table[-1]}
            request = CommitTableRequest.model_validate(
                {"identifier": name, "requirements": list(requirements), "updates": list(updates)}
            )
            answer = self.catalog.commit_table(entry, request.requirements, request.updates)
            location = answer.metadata_location
            return Loaded(metadata_from_json(self.files.read(location), location), location)
        except CommitFailedException as error:
            self._discard(made)
            raise LostRaceError(_first_line(error)) from error
        except CommitStateUnknownException as error:
            raise OutcomeUnknownError(_first_line(error)) from error
        except (LakebedError, LostRaceError):
            raise
        except Exception as error:
            if "database is locked" in str(error):  # SQLite refused the swap, and rolled it back
                self._discard(made)
                raise LostRaceError(_first_line(error)) from error
            raise OutcomeUnknownError(_first_line(error)) from error

    def create(self, schema: Schema, spec: PartitionSpec, version: int, properties: Mapping[str, str]) -> Loaded:
        """The table, without a snapshot; its namespace is made too. TableExistsError when there is one already.

        Catalogs that pyiceberg writes the metadata for get version 2 first, since it writes no version 3, and are then
        upgraded.
        """
        local = isinstance(self.catalog, MetastoreCatalog)
        first = min(version, 2) if local else version
        location = self.options.get("location")
        try:
            self.catalog.create_namespace_if_not_exists(self.identifier.table[:-1])
            self.catalog.create_table(
                self.identifier.table, schema, location=location, partition_spec=spec,
                properties={**properties, "format-version": str(first)},
            )  # fmt: skip
        except TableAlreadyExistsError as error:
            raise TableExistsError(
                f"the catalog has a table {self.name} already", table=self.name, todo="Open it with lakebed.open"
            ) from error
        loaded = self.load()
        if version == first:
            return loaded
        return self.commit(loaded, (), [{"action": "upgrade-format-version", "format-version": version}])

    def _stage(
        self, base: Loaded, current: CatalogEntry, updates: Sequence[Words], made: list[Loaded]
    ) -> tuple[Loaded, Any]:
        """Writes the next metadata file, unless the catalog has moved on since `base` was read."""
        if current.metadata_location != base.location:
            raise CommitFailedException(f"the catalog is at {current.metadata_location}")
        document = applied(base.metadata, updates, _now(), base.location)
        metadata = TableMetadata(document)
        compressed = metadata.properties.get("write.metadata.compression-codec", "none").lower() == "gzip"
        version = layout.catalog_version(base.location.rpartition("/")[2])
        name = layout.catalog_metadata((-1 if version is None else version) + 1, compressed)
        location = f"{layout.metadata_folder(metadata.location, metadata.properties)}/{name}"
        self.files.write(location, metadata_to_json(document, compressed))
        made.append(Loaded(metadata, location))
        return made[0], TableMetadataUtil.parse_raw(metadata_to_json(document).decode())

    def _discard(self, made: Sequence[Loaded]) -> None:
        """Removes the metadata file of a lost race."""
        with suppress(LakebedError):
            self.files.delete_many([loaded.location for loaded in made])

    def _entry(self) -> CatalogEntry:
        try:
            return self.catalog.load_table(self.identifier.table)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise TableNotFoundError(
                f"the catalog {self.identifier.catalog!r} has no table {'.'.join(self.identifier.table)!r}",
                why=_first_line(error), todo="Check the spelling, as catalog:namespace.table",
            ) from error  # fmt: skip
        except (ValidationError, InvalidMetadata) as error:
            raise UnsupportedError(
                "pyiceberg cannot read the table", table=self.name, why=_first_line(error)
            ) from error

    def _files_of(self, entry: CatalogEntry) -> Files:
        options = storage_options({**entry.io.properties, **entry.config}) | self.options
        return Files(open_store(entry.metadata.location, options), credentials_from(options))


@contextmanager
def _staging(catalog: MetastoreCatalog, stage: Callable[[CatalogEntry], tuple[Loaded, Any]]) -> Iterator[None]:
    """Within the block the catalog publishes what `stage` wrote: only the swap of the location is its own."""
    here: Any = catalog

    def staged(current: CatalogEntry | None, identifier: Any, requirements: Any, updates: Any) -> StagedTable:
        if current is None:
            raise CommitFailedException("the table is gone")
        loaded, model = stage(current)
        return StagedTable(identifier, model, loaded.location, current.io, catalog)

    def written(*args: Any, **named: Any) -> None:
        """The file is there already."""

    names = ("_update_and_stage_table", "_write_metadata", "_write_metadata_no_exist_check")
    for name, function in zip(names, (staged, written, written), strict=True):
        setattr(here, name, function)
    try:
        yield
    finally:
        for name in names:
            delattr(here, name)


def _check(base: Loaded, requirements: Sequence[Words]) -> None:
    reason = unmet(base.metadata, requirements)
    if reason is not None:
        raise LostRaceError(reason)


def _clean(files: Files, before: TableMetadata, after: TableMetadata) -> None:
    """Removes metadata files that fell out of the log, where the table wants it; a failure leaves them."""
    with suppress(LakebedError):
        files.delete_many(dropped_metadata(before, after))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
