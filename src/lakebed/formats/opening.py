"""Which format lies at a location, and its table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from lakebed.errors import SchemaError, TableExistsError, TableNotFoundError, UnsupportedError, UsageError, first_line
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.files.location import REMOTE_SCHEMES
from lakebed.kernel.options import option_texts
from lakebed.verbs.native_source import NativeSource
from lakebed.verbs.table import Table

FORMATS: Mapping[str, str] = {"hudi": "HudiTable", "paimon": "PaimonTable", "iceberg": "IcebergTable"}
"""The formats of this build, each with the class in its `table` module, which is loaded when a table of it is met."""


def format_of(store: Store) -> str | None:
    """The format of what lies in a store, None for nothing known.

    Hudi by `.hoodie`, Paimon by `schema/schema-N`, Iceberg by `metadata/*.metadata.json`.
    """
    listing = store.list()
    folders = set(listing.folders)
    if ".hoodie" in folders:
        return "hudi"
    if "schema" in folders and any(info.name.startswith("schema-") for info in store.list("schema").files):
        return "paimon"
    if "metadata" in folders and any(info.name.endswith(_METADATA) for info in store.list("metadata").files):
        return "iceberg"
    return None


_METADATA = (".metadata.json", ".metadata.json.gz")
_CATALOG_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]+:[^/\\:]+\.[^/\\:]+")


def is_catalog_name(location: str | os.PathLike[str] | Store) -> bool:
    """Whether this is `catalog:namespace.table`, an Iceberg table's name, and not a path that looks like one."""
    if not isinstance(location, str) or not _CATALOG_NAME.fullmatch(location):
        return False
    return location.partition(":")[0].lower() not in (*REMOTE_SCHEMES, "file", "hdfs") and not os.path.exists(location)


def open_table(location: str | os.PathLike[str] | Store, options: Mapping[str, object] | None = {}) -> Table:
    """The table at a location: a path, a URL, or the name `catalog:namespace.table` of an Iceberg table.

    Raises TableNotFoundError when nothing or no table lies there, UnsupportedError for a format or table version that
    this build does not read, OptionError for an unknown or ill-typed option.
    """
    texts = option_texts(options)
    if is_catalog_name(location):
        named: Table = _class_of("iceberg").of_catalog(location, texts)  # type: ignore[attr-defined]  # Iceberg's only
        return named
    store = location if isinstance(location, Store) else open_store(location, texts)
    found = format_of(store)
    if found is None:
        raise _nothing_there(store)
    return _class_of(found)(store, texts)


def create_table(
    location: str | os.PathLike[str] | Store, format: str, schema: pa.Schema | Mapping[str, pa.DataType | str],
    primary_key: Sequence[str] | str | None = (), partition_by: Sequence[str] | str | None = (),
    options: Mapping[str, object] | None = {},
) -> Table:  # fmt: skip
    """A new, empty table. The arguments mean what the format's own DDL says.

    `schema` is a pyarrow schema, or a dict of column names with pyarrow types or their names ("int64", "string").
    Raises TableExistsError when a table is there, SchemaError or UsageError for what the format does not allow.
    """
    texts = option_texts(options)
    kind = _class_of(format)
    columns = _schema_of(schema)
    keys, partitions = _names(primary_key, "primary_key"), _names(partition_by, "partition_by")
    if is_catalog_name(location) and hasattr(kind, "create_in_catalog"):
        named: Table = kind.create_in_catalog(location, columns, keys, partitions, texts)
        return named
    store = location if isinstance(location, Store) else open_store(location, texts)
    found = format_of(store)
    if found is not None:
        raise TableExistsError(
            f"an {found} table is there already" if found == "iceberg" else f"a {found} table is there already",
            table=store.location,
            todo="Open it with lakebed.open, or choose another place",
        )
    make: Callable[..., Table] | None = getattr(kind, "create", None)
    if make is None:
        raise UnsupportedError(
            f"lakebed cannot create {format} tables", todo="The support grid of the README says what works"
        )
    return make(store, columns, keys, partitions, texts)


def native_source(name: str) -> NativeSource[Any]:
    """What a format's own Spark source takes and gives; `name` is one of `FORMATS`."""
    source: NativeSource[Any] = import_module(f"lakebed.formats.{name}.spark").SOURCE
    return source


def drop_created(table: Table, files: Sequence[str]) -> None:
    """Take back a table that was just created and that has no snapshot: its entry in a catalog, and those of its files
    that were there when it was created."""
    leave: Callable[[], None] | None = getattr(table, "leave_catalog", None)
    if leave is not None:
        leave()
    table.store.delete_many(files)


def _names(given: Sequence[str] | str | None, argument: str) -> tuple[str, ...]:
    """Names of columns. A single name may come without its list, None is no name."""
    if given is None:
        return ()
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(
                f"{argument} has a value of type {type(name).__name__}", todo="Give a list of column names"
            )
    return names


def _schema_of(given: pa.Schema | Mapping[str, pa.DataType | str]) -> pa.Schema:
    if isinstance(given, pa.Schema):
        return given
    if not isinstance(given, Mapping):
        raise SchemaError(
            f"the schema is a {type(given).__name__}",
            todo='Give a pyarrow.Schema, or a dict such as {"id": "int64", "name": pyarrow.string()}',
        )
    fields = []
    for name, kind in given.items():
        try:
            fields.append(pa.field(name, kind))
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise SchemaError(
                f"column {name!r} has no known type", why=first_line(error),
                todo='Give a pyarrow type, or the name of a plain one such as "int64", "string" or "date32"',
            ) from error  # fmt: skip
    return pa.schema(fields)


def _class_of(name: str) -> Callable[[Store, Mapping[str, str]], Table]:
    if isinstance(name, str) and name.lower() in FORMATS:
        module = import_module(f"lakebed.formats.{name.lower()}.table")
        found: Callable[[Store, Mapping[str, str]], Table] = getattr(module, FORMATS[name.lower()])
        return found
    given = repr(name) if isinstance(name, str) else f"of type {type(name).__name__}"
    raise UsageError(f"unknown format {given}", todo=f"Formats: {', '.join(FORMATS)}")


def _nothing_there(store: Store) -> TableNotFoundError:
    root = store.local_path("")
    if root is not None and not os.path.exists(root):
        return TableNotFoundError(
            "there is no such path", table=store.location, todo="Check the spelling of the location"
        )
    if root is not None and not os.path.isdir(root):
        return TableNotFoundError(
            "this is a file, not a table", table=store.location, todo="Give the table's root folder"
        )
    return TableNotFoundError(
        "this is no table", table=store.location,
        why="there is no .hoodie folder, no schema/schema-N and no metadata/*.metadata.json in it",
        todo="Give the table's root folder (for Paimon WAREHOUSE/DB.db/TABLE)",
    )  # fmt: skip
