"""A folder of Parquet, ORC or Avro files as a new Iceberg table: the procedures `snapshot` and `migrate`.

Rules: the reference engine's SnapshotTableSparkAction and MigrateTableSparkAction (the properties `gc.enabled`,
`snapshot` and `migrated`, and a name mapping for files without field ids). The table appears with all files in one
step, so that nobody sees it empty. A snapshot lies in a folder of its own and never removes a file of the source. A
migrated folder becomes the table's, and its upkeep removes files as of any table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from lakebed.errors import OptionError, TableExistsError, UsageError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.add_files.footer import FooterReader
from lakebed.formats.iceberg.add_files.options import FORMAT
from lakebed.formats.iceberg.add_files.run import Placing, footer_reader, in_tasks
from lakebed.formats.iceberg.catalog.creation import NewPlace, NewTable, new_place, options_of, refuse_taken
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.table import CatalogTable, parse_identifier
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.commit.kinds import Append
from lakebed.formats.iceberg.commit.loop import commit_snapshot
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.definition import new_metadata, new_schema, new_spec, table_properties
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.formats.iceberg.layout import is_metadata, places_of
from lakebed.formats.iceberg.migrate.columns import ColumnReader, merged, with_given
from lakebed.formats.iceberg.migrate.folder import Folder, folder_of, inferred
from lakebed.formats.iceberg.read.context import NAME_MAPPING
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.files.credentials import credentials_from
from lakebed.kernel.files.places import is_below, named_places
from lakebed.kernel.options import Options, OptionSet
from lakebed.model.upkeep import NewTableResult

Columns: TypeAlias = pa.Schema | Mapping[str, pa.DataType | str] | None
_OWN = OptionSet((FORMAT,), "a table made of a folder", ("",))
_KEPT = {opt.GC_ENABLED.key: "false", "snapshot": "true"}
_MIGRATED = {"migrated": "true"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The table that is wanted. `table` is the store of its folder, or its name in a catalog; None: the folder itself.

    `columns` are types that the caller gives, `options` table properties and those of storage and catalog.
    """

    folder: Store
    table: Store | str | None
    columns: Columns
    options: Mapping[str, str]


def snapshot_folder(wanted: Wanted, dry_run: bool, engine: Engine | None) -> NewTableResult:
    """Create a table elsewhere whose metadata names the folder's files.

    Raises what `migrate_folder` raises, and UsageError where one of the two places is inside the other.
    """
    return _create(wanted, _KEPT, dry_run, engine)


def migrate_folder(wanted: Wanted, dry_run: bool, engine: Engine | None) -> NewTableResult:
    """Make the folder an Iceberg table, by its path or in a catalog.

    Raises TableExistsError, UsageError for a folder without data files, SchemaError for files that do not go together,
    UnsupportedError for the folder of another kind of table, CommitUnknownError. After another error nothing stays.
    """
    return _create(wanted, _MIGRATED, dry_run, engine, in_place=True)


def _create(
    wanted: Wanted, marks: Mapping[str, str], dry_run: bool, engine: Engine | None, in_place: bool = False
) -> NewTableResult:
    own, properties = _options(wanted.options, marks)
    version, properties = table_properties(properties)
    source = wanted.folder.location
    target = _Target.of(wanted, source if in_place else "")
    files = Files(wanted.folder, credentials_from(target.options))
    folder = folder_of(files, source, own)
    work = engine or LocalEngine(files.at_once if files.at_once > 1 else None)
    merged_columns = merged(
        each for of_task in work.map(ColumnReader(files), in_tasks(folder.files)) for each in of_task
    )
    kinds = {name: inferred(values) for name, values in folder.partitions.items()}
    columns = with_given(merged_columns, kinds, wanted.columns)
    schema = new_schema(columns, (), version, target.name)
    spec = new_spec(schema, [*folder.partitions], target.name)
    properties.setdefault(NAME_MAPPING, schema.name_mapping.model_dump_json())
    place = target.place(source if in_place else "", dry_run)
    document = new_metadata(place.location, schema, spec, version, properties)
    placed = Placing.of(TableMetadata(document))
    reader = footer_reader(files, placed.metadata)
    append = _append(reader, folder, placed, work)
    described = tuple(f"{field.name} {field.field_type}" for field in schema.fields)
    partitions = placed.partitions(append.added)
    rows = sum(file.record_count for file in append.added)
    result = NewTableResult(target.name, len(append.added), rows, described, partitions, dry_run)
    if not in_place:
        option = f"lakebed.storage.places={source}"
        result = replace(result, notes=(f"its files lie in {source}: open it with the option {option}",))
    if dry_run:
        return result
    operations = target.operations(place, source, document, properties)
    committed = commit_snapshot(operations, append, CommitOptions())
    return replace(result, instants=(committed.instant,))


def _append(reader: FooterReader, folder: Folder, placed: Placing, work: Engine) -> Append:
    facts = [each for of_task in work.map(reader, in_tasks(folder.files)) for each in of_task]
    return Append(tuple(placed.data_file(file, fact) for file, fact in zip(folder.files, facts, strict=True)))


def _options(given: Mapping[str, str], marks: Mapping[str, str]) -> tuple[Options, dict[str, str]]:
    """The options of the call, and those of the table. OptionError for one that contradicts what the table is."""
    for key, value in marks.items():
        if given.get(key, value).lower() != value:
            raise OptionError(
                f"option {key!r} is {given[key]!r}", key=key,
                why=f"a table made in this way has {key}={value}, so that it does not remove the folder's files"
                if key == opt.GC_ENABLED.key else f"a table made in this way has {key}={value}",
                todo="Leave it out",
            )  # fmt: skip
    own = _OWN.parse({key: value for key, value in given.items() if key == FORMAT.key})
    table = {key: value for key, value in given.items() if key not in (FORMAT.key, "location")}
    return own, {**table, **marks}


def store_in_catalog(name: str, options: Mapping[str, str]) -> Store:
    """The store of the folder where a catalog puts a new table of this name."""
    table = CatalogTable(parse_identifier(name), options)
    place = new_place(table)
    return open_store(place.location, place.options)


@dataclass(frozen=True, slots=True)
class _Target:
    """The new table: the store of its folder, or its entry in a catalog."""

    store: Store | None
    entry: CatalogTable | None
    options: Mapping[str, str]

    @staticmethod
    def of(wanted: Wanted, in_place: str) -> _Target:
        """The target of a call. TableExistsError when it is there, UsageError where it overlaps with the source."""
        table = wanted.table if wanted.table is not None else wanted.folder
        if isinstance(table, str):
            entry = CatalogTable(parse_identifier(table), wanted.options)
            refuse_taken(entry)
            return _Target(None, entry, options_of(entry))
        if not in_place:
            refuse_overlap(table.location, wanted.folder.location)
        elif table.location != wanted.folder.location:
            raise UsageError(
                "a folder is migrated where it is", table=table.location, file=wanted.folder.location,
                todo="Name a table of a catalog, or no table. lakebed.snapshot makes a table elsewhere",
            )  # fmt: skip
        if any(is_metadata(info.name) for info in table.list("metadata").files):
            raise TableExistsError(
                "there is already an iceberg table", table=table.location, todo="Open it with lakebed.open"
            )
        return _Target(table, None, wanted.options)

    @property
    def name(self) -> str:
        """The path, or `catalog:namespace.table`."""
        return self.entry.name if self.entry is not None else self._home.location

    def place(self, in_place: str, dry_run: bool) -> NewPlace:
        """Where the new table lies. A dry run asks no catalog for it, since that may make the namespace."""
        if self.entry is None:
            return NewPlace(self._home.location, self.options)
        if in_place or dry_run:
            return NewPlace(in_place or "/", self.options)
        return new_place(self.entry)

    def operations(
        self, place: NewPlace, source: str, document: Mapping[str, Any], properties: Mapping[str, str]
    ) -> NewTable:
        """The operations that create the table with its first commit."""
        named = [*places_of(properties), source]
        if self.entry is None:
            table = HadoopTable(self._home, self.options, named)
            return NewTable(table, table.files, document)
        if place.location != source:
            refuse_overlap(place.location, source)
        home = open_store(place.location, place.options)
        places = named_places(place.options, map(spelled, named))
        return NewTable(self.entry, Files(home, credentials_from(place.options), places), document)

    @property
    def _home(self) -> Store:
        assert self.store is not None
        return self.store


def refuse_overlap(location: str, source: str) -> None:
    """UsageError where a table and the folder of its files are inside one another."""
    if is_below(location, source) or is_below(source, location):
        raise UsageError(
            "the new table and the folder are inside one another", table=location, file=source,
            todo="Choose another place for the table, or make the folder itself the table with lakebed.migrate",
        )  # fmt: skip
