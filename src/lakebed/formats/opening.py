"""Opens and creates tables: detects the format at a location and returns its table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakebed.errors import (
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
    nearest_of,
)
from lakebed.kernel.files import FileInfo, Listing, Store, open_store
from lakebed.kernel.files.location import REMOTE_SCHEMES
from lakebed.kernel.garbage import no_cycles
from lakebed.kernel.options import option_texts
from lakebed.kernel.rows.columns import schema_of
from lakebed.verbs.catalog import Catalog
from lakebed.verbs.native_source import NativeSource
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.table import Table

if TYPE_CHECKING:
    from lakebed.verbs.plain_files import PlainReads

FORMATS: Mapping[str, str] = {"hudi": "HudiTable", "paimon": "PaimonTable", "iceberg": "IcebergTable"}
"""The formats, each with the class in its `table` module, which is imported when the first table of it is opened."""

CLASS_NAMES: Mapping[str, str] = {
    "org.apache.hudi": "hudi",
    "org.apache.iceberg.spark.source.IcebergSource": "iceberg",
}
"""Names of classes by which Spark jobs call a format's own source, each with the format."""

SOURCE_FUNCTIONS: Mapping[str, str] = {"hudi_table_changes": "hudi"}
"""Table functions of the formats' own engines that read, each with the format whose source says what it does."""


def format_of(store: Store) -> str | None:
    """Detect the format of the table in a store. None where there is no known table.

    A Hudi table has `.hoodie`, a Paimon table `schema/schema-N`, an Iceberg table `metadata/*.metadata.json`.
    """
    likely, _ = _likely_format(store)
    if likely == "iceberg" and not any(info.name.endswith(_METADATA) for info in store.list("metadata").files):
        return None
    return likely


def _likely_format(store: Store) -> tuple[str | None, Listing]:
    """The format as `format_of` detects it, where a folder `metadata` alone makes an Iceberg table, and the listing of
    the folder that shows it."""
    root = store.list()
    if ".hoodie" in root.folders:
        return "hudi", root
    if "schema" in root.folders:
        schemas = store.list("schema")
        if any(name.startswith("schema-") for name in schemas.names):
            return "paimon", schemas
    return ("iceberg" if "metadata" in root.folders else None), root


_READ_FIRST = (FileInfo("metadata/version-hint.text", 8),)
"""Small files that tables read first when they are opened. They are asked for while the format is detected."""
_METADATA = (".metadata.json", ".metadata.json.gz")
_CATALOG_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]+:[^/\\:]+\.[^/\\:]+")


_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
"""Names in a catalog, without the catalog."""
_OPENING = ("lakebed.storage.", "lakebed.catalog.")


def opening_options(options: Mapping[str, object], also: Sequence[str] = ()) -> dict[str, str]:
    """Of options that are meant for a verb, those that open the table: of its storage, its catalog, and the keys in
    `also`."""
    return {key: str(value) for key, value in options.items() if key.startswith(_OPENING) or key in also}


def is_catalog_name(location: str | os.PathLike[str] | Store) -> bool:
    """Whether a location is the name `catalog:namespace.table` in a catalog, not a path that looks like one."""
    if not isinstance(location, str) or not _CATALOG_NAME.fullmatch(location):
        return False
    return location.partition(":")[0].lower() not in (*REMOTE_SCHEMES, "file", "hdfs") and not os.path.exists(location)


def open_table(location: str | os.PathLike[str] | Store, options: Mapping[str, object] | None = {}) -> Table:
    """Open the table at a location: a path, a URL, or the name `catalog:namespace.table` in a catalog.

        table = lakebed.open("s3://bucket/orders", {"branch": "audit"})

    The format is detected. `options` are the format's own, and the `lakebed.storage.*` keys of the storage client.

    Raises TableNotFoundError when there is no table, UnsupportedError for a format or table version that this build
    does not read, OptionError for an unknown or ill-typed option.
    """
    texts = option_texts(options)
    if is_catalog_name(location):
        paimon = _paimon_catalogs(location, texts)
        if paimon is not None:
            opened: Table = paimon.open_named(location, texts)
            return opened
        named: Table = _class_of("iceberg").of_catalog(location, texts)  # type: ignore[attr-defined]  # Iceberg's only
        return named
    store = location if isinstance(location, Store) else open_store(location, texts)
    with store.fetching(_READ_FIRST):
        detected, metadata = _likely_format(store)
        if detected is None:
            raise _not_a_table(store, metadata)
        try:
            return _class_of(detected).opened(store, texts, metadata)
        except TableNotFoundError as error:
            if detected != "iceberg":
                raise
            raise _not_a_table(store, metadata) from error  # its folder of metadata is empty


def create_table(
    location: str | os.PathLike[str] | Store,
    format: str,
    schema: pa.Schema | Mapping[str, pa.DataType | str] | str,
    primary_key: Sequence[str] | str | None = (),
    partition_by: Sequence[str] | str | None = (),
    options: Mapping[str, object] | None = {},
) -> Table:
    """Create an empty table. The arguments mean what they mean in the format's own DDL.

        lakebed.create(
            "s3://bucket/shop.db/orders",
            "paimon",
            {"id": "int64", "dt": "string", "amount": "float64"},
            primary_key=["dt", "id"],
            partition_by=["dt"],
            options={"bucket": 4},
        )

    `schema` is a pyarrow schema, a dict of column names to types, or SQL ("id bigint not null, dt string"). Types are
    pyarrow types, the names of plain ones ("int64"), or SQL types ("decimal(10, 2)").

    Raises TableExistsError when there is a table already, SchemaError or UsageError for what the format does not allow.
    """
    texts = option_texts(options)
    kind = _class_of(format)
    columns = schema_of(schema)
    keys, partitions = _names(primary_key, "primary_key"), _names(partition_by, "partition_by")
    if is_catalog_name(location) and kind.format == "paimon":
        catalogs = import_module("lakebed.formats.paimon.catalog_tables")
        created: Table = catalogs.create_named(location, columns, keys, partitions, texts)
        return created
    if is_catalog_name(location) and hasattr(kind, "create_in_catalog"):
        named: Table = kind.create_in_catalog(location, columns, keys, partitions, texts)
        return named
    store = location if isinstance(location, Store) else open_store(location, texts)
    detected = format_of(store)
    if detected is not None:
        article = "an" if detected == "iceberg" else "a"
        raise TableExistsError(
            f"there is already {article} {detected} table",
            table=store.location,
            todo="Open it with lakebed.open, or choose another location",
        )
    make: Callable[..., Table] | None = getattr(kind, "create", None)
    if make is None:
        raise UnsupportedError(
            f"lakebed cannot create {format} tables", todo="The support table in the README shows what works"
        )
    return make(store, columns, keys, partitions, texts)


def open_catalog(name: str, options: Mapping[str, object] | None = {}) -> Catalog:
    """Open a catalog by its name.

        shop = lakebed.catalog("shop", {"lakebed.catalog.metastore": "filesystem", "lakebed.catalog.warehouse": "out"})
        prod = lakebed.catalog("prod", {"lakebed.catalog.type": "rest", "lakebed.catalog.uri": "https://host"})
        prod.tables("sales")

    The setting `metastore` makes it one of Paimon tables, any other one of Iceberg tables. `options` are the catalog's
    settings (`lakebed.catalog.*`), the `lakebed.storage.*` keys of the storage client, and options of the tables that
    it opens. Settings may also be variables of the environment, and those of Iceberg's pyiceberg's configuration:
    docs/paimon-upkeep.md and docs/iceberg-upkeep.md.

    Raises UsageError for a catalog without settings, StorageError for one that does not answer.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"{name!r} cannot name a catalog", todo="Give its name as a text")
    texts = option_texts(options)
    paimon = _paimon_catalogs(name, texts)
    if paimon is not None:
        catalog: Catalog = paimon.PaimonCatalog(name, texts)
    else:
        catalog = import_module("lakebed.formats.iceberg.catalog_tables").IcebergCatalog(name, texts)
    return catalog


def _paimon_catalogs(location: str | os.PathLike[str] | Store, options: Mapping[str, str]) -> Any:
    """The module of Paimon's catalogs where a name is that of one, else None."""
    settings = import_module("lakebed.formats.paimon.catalog.settings")
    if settings.is_configured(str(location).partition(":")[0], options):
        return import_module("lakebed.formats.paimon.catalog_tables")
    return None


def native_source(name: str) -> NativeSource[Any]:
    """The description of a format's own Spark source. `name` is one of `FORMATS`."""
    source: NativeSource[Any] = import_module(f"lakebed.formats.{name}.spark").SOURCE
    return source


def plain_reads(name: str, plan: ReadPlan[Any]) -> PlainReads[Any] | None:
    """What a format knows of the plain files of a plan that one of its tables made. None: only the plan's own function
    reads such splits."""
    known: PlainReads[Any] | None = import_module(f"lakebed.formats.{name}.read.plain").plain_reads(plan)
    return known


def drop_created(table: Table, files: Sequence[str]) -> None:
    """Remove a table that was just created and has no snapshot yet.

    This removes its catalog entry, where it has one, `files`, the files that its creation wrote, and what failed writes
    left.
    """
    leave: Callable[[], None] | None = getattr(table, "leave_catalog", None)
    if leave is not None:
        leave()
    remove: Callable[[], None] | None = getattr(table, "remove_without_commits", None)
    if remove is not None:
        remove()
    else:
        table.store.delete_many(files)


def _names(given: Sequence[str] | str | None, argument: str) -> tuple[str, ...]:
    """Column names from an argument, which may be one name or None. SchemaError for names that are not text."""
    if given is None:
        return ()
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(
                f"{argument} has a value of type {type(name).__name__}", todo="Give a list of column names"
            )
    return names


def _class_of(name: str) -> type[Table]:
    if isinstance(name, str) and name.lower() in FORMATS:
        with no_cycles():
            module = import_module(f"lakebed.formats.{name.lower()}.table")
        table_class: type[Table] = getattr(module, FORMATS[name.lower()])
        return table_class
    given = repr(name) if isinstance(name, str) else f"of type {type(name).__name__}"
    raise UsageError(f"unknown format {given}", todo=f"Formats: {', '.join(FORMATS)}")


def _no_table_of_a_catalog(path: str) -> str:
    """What to do about a path like `shop:orders`: perhaps a catalog's table is meant, and its database is missing."""
    catalog, colon, table = os.path.basename(path).partition(":")
    if not (colon and catalog.isidentifier() and table.isidentifier()):
        return ""
    return f"A table in a catalog is CATALOG:DATABASE.TABLE, such as {catalog}:{table}.orders; or check the spelling"


def _not_a_table(store: Store, root: Listing) -> TableNotFoundError:
    """The error for a place where there is no table, by what its listing shows."""
    path = store.local_path("")
    if path is not None and not os.path.exists(path):
        todo = _said_otherwise(path) or _no_table_of_a_catalog(path) or _like_it(path)
        return TableNotFoundError("the path does not exist", table=store.location, todo=todo)
    if path is not None and not os.path.isdir(path):
        return TableNotFoundError(
            "this is a file, not a table", table=store.location, todo="Give the table's root folder"
        )
    names = {info.name for info in root.files}
    if "_delta_log" in root.folders:
        return TableNotFoundError(
            "this is a Delta Lake table", table=store.location,
            why="lakebed has tables of Hudi, Paimon and Iceberg", todo="The package deltalake reads it",
        )  # fmt: skip
    if "snapshot" in root.folders and ("manifest" in root.folders or "schema" in root.folders):
        return TableNotFoundError(
            "this Paimon table has no schema file", table=store.location,
            why="it has a folder snapshot, and no file schema/schema-N says what its columns are",
            todo="Restore schema/schema-0 and those after it, from a backup or a copy of the table",
        )  # fmt: skip
    if ".hoodie_partition_metadata" in names or any(name.startswith("bucket-") for name in root.folders):
        return TableNotFoundError(
            "this is a folder inside a table, not a table", table=store.location, todo="Give the table's root folder"
        )
    files = any(name.endswith((".parquet", ".orc", ".avro")) for name in names)
    if files or any("=" in name for name in root.folders):
        return TableNotFoundError(
            "this is a folder of plain files, not a table", table=store.location,
            why="nothing in it says which files belong together",
            todo="lakebed.snapshot makes an Iceberg table of them, and pyarrow.dataset reads them as they are",
        )  # fmt: skip
    return TableNotFoundError(
        "not a Hudi, Paimon or Iceberg table",
        table=store.location,
        why="it has no .hoodie folder, no schema/schema-N and no metadata/*.metadata.json",
        todo="Give the table's root folder (for Paimon: WAREHOUSE/DB.db/TABLE)",
    )


def _said_otherwise(path: str) -> str:
    """What to write in place of what the formats' own Spark sources take: `/table/*`, `/table#files`, `db.table`."""
    folder, _, name = path.partition("#")
    if name and os.path.isdir(folder):
        call = f"SELECT * FROM lakebed_metadata({folder!r}, {name!r})"
        return f"A metadata table is read by table.metadata({name!r}), in SQL by {call}"
    parts = path.split(os.sep)
    wild = next((n for n, part in enumerate(parts) if "*" in part), None)
    if wild is not None:
        root = os.sep.join(parts[:wild])
        return f"A table is opened by its root folder, without wildcards: {root!r}. Choose partitions with where"
    relative = os.path.relpath(path)
    if _NAME.fullmatch(relative):
        return f'A table of a catalog is named "CATALOG:{relative}". A path is relative to {os.getcwd()!r}'
    return ""


def _like_it(path: str) -> str:
    """What to do about a path that does not exist: take the one beside it that is spelled most like it."""
    folder, name = os.path.split(os.path.abspath(path))
    try:
        nearest = nearest_of(name, (entry.name for entry in os.scandir(folder) if entry.is_dir()))
    except OSError:
        nearest = ""
    guess = f"Did you mean {os.path.join(folder, nearest)!r}? " if nearest else ""
    return f"{guess}Check the spelling of the location"
