"""Tables made of what is there already: a metadata file, or a folder of data files. Iceberg's alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeAlias

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.opening import is_catalog_name
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.garbage import no_cycles
from lakebed.kernel.options import option_texts
from lakebed.model.upkeep import NewTableResult, RegisterResult

_Place: TypeAlias = str | os.PathLike[str] | Store
_Columns: TypeAlias = pa.Schema | Mapping[str, pa.DataType | str] | None


def register(
    table: str, metadata_file: str | os.PathLike[str], dry_run: bool = False, options: Mapping[str, object] | None = {}
) -> RegisterResult:
    """Make an Iceberg table known to a catalog by one of its metadata files. Nothing is copied.

        lakebed.register("shop:sales.orders", "s3://bucket/orders/metadata/v12.metadata.json")

    From then on, write it only by its name in the catalog. A dry run reads the file and checks that the name is free.
    Raises TableExistsError for a name that is taken, TableNotFoundError for a missing file, CorruptError for one that
    is not whole, UnsupportedError for the metadata of a table that was moved or copied.
    """
    if not is_catalog_name(table):
        raise UsageError(
            f"{table!r} is not the name of a table in a catalog", todo="Give catalog:namespace.table to register it as"
        )
    if not isinstance(metadata_file, str | os.PathLike):
        raise UsageError(f"metadata_file is a {type(metadata_file).__name__}", todo="Give its location")
    run = _module("register").register
    result: RegisterResult = run(table, os.fspath(metadata_file), dry_run, option_texts(options))
    return result


def snapshot(
    folder: _Place, table: _Place, columns: _Columns = None, dry_run: bool = False, engine: Engine | None = None,
    options: Mapping[str, object] | None = {},
) -> NewTableResult:  # fmt: skip
    """Create an Iceberg table elsewhere of a folder's Parquet, ORC and Avro files, which stay where they are.

        lakebed.snapshot("/lake/landing/orders", "/lake/trial/orders", dry_run=True).columns

    `table` is a path, or `catalog:namespace.table`. The table never removes the folder's files: it has
    `gc.enabled=false`. Open it with the folder in the option `lakebed.storage.places`. Columns come from the files and
    from folders named `name=value`; `columns` gives types where these say too little. `options` are table properties.

    Raises TableExistsError; UsageError for a folder without data files and where one place is inside the other;
    SchemaError names files that do not go together; UnsupportedError for the folder of another kind of table.
    """
    run = _module("migrate.run").snapshot_folder
    result: NewTableResult = run(_wanted(folder, table, columns, options), dry_run, engine)
    return result


def migrate(
    folder: _Place, table: _Place | None = None, columns: _Columns = None, dry_run: bool = False,
    engine: Engine | None = None, options: Mapping[str, object] | None = {},
) -> NewTableResult:  # fmt: skip
    """Make a folder of Parquet, ORC and Avro files an Iceberg table, where it is.

        lakebed.migrate("/lake/landing/orders", columns={"dt": "date32"})

    The files then belong to the table. Without `table` it is opened by the folder's path; a name
    `catalog:namespace.table` enters it in a catalog. Stop whoever writes to the folder first. The other arguments mean
    what they mean for `snapshot`, and the same errors are raised.
    """
    run = _module("migrate.run").migrate_folder
    result: NewTableResult = run(_wanted(folder, table, columns, options), dry_run, engine)
    return result


def store_of_new(table: _Place, options: Mapping[str, object] | None = {}) -> Store:
    """The store of the folder where `snapshot` would put a table: in a catalog it is asked for the place."""
    texts = option_texts(options)
    if isinstance(table, Store) or not is_catalog_name(table):
        return table if isinstance(table, Store) else open_store(table, texts)
    store: Store = _module("migrate.run").store_in_catalog(table, texts)
    return store


def _wanted(folder: _Place, table: _Place | None, columns: _Columns, options: Mapping[str, object] | None) -> Any:
    texts = option_texts(options)
    if is_catalog_name(folder):
        raise UsageError(f"{folder!r} is the name of a table", todo="Give the path or URL of a folder of files")
    target = table if table is None or isinstance(table, Store) or is_catalog_name(table) else open_store(table, texts)
    source = folder if isinstance(folder, Store) else open_store(folder, texts)
    return _module("migrate.run").Wanted(source, target, columns, texts)


def _module(name: str) -> Any:
    """One of Iceberg's modules, loaded when it is needed."""
    with no_cycles():
        return import_module(f"lakebed.formats.iceberg.{name}")
