"""The SQL table functions that make a table of what is there already: there is no table to open before they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import lakebed.formats as formats
from lakebed.kernel.files import Store, open_store, parse_location
from lakebed.model.upkeep import NewTableResult, RegisterResult
from lakebed.spark.procedure import Given, Procedure, Row
from lakebed.spark.procedure_results import result_row, result_schema
from lakebed.verbs.table import Table


def _register(given: Given) -> Iterator[Row]:
    yield result_row(formats.register(given.table, given.values["metadata_file"], given.dry_run, given.options))


def _snapshot(given: Given) -> Iterator[Row]:
    folder, columns = given.values["folder"], given.values.get("columns")
    yield result_row(formats.snapshot(folder, given.table, columns, given.dry_run, options=given.options))


def _migrate(given: Given) -> Iterator[Row]:
    folder, columns = given.values["folder"], given.values.get("columns")
    table = given.table if given.table != folder else None
    yield result_row(formats.migrate(folder, table, columns, given.dry_run, options=given.options))


def _beside_metadata(given: Given) -> tuple[Store, str]:
    folder = parse_location(given.values["metadata_file"]).text.rpartition("/")[0].rpartition("/")[0]
    return open_store(folder, given.options), Table.own_folder


def _in_new_table(given: Given) -> tuple[Store, str]:
    return formats.store_of_new(given.table, given.options), Table.own_folder


def _in_folder(given: Given) -> tuple[Store, str]:
    return open_store(given.values["folder"], given.options), Table.own_folder


NEW_TABLES: Mapping[str, Procedure] = {
    "lakebed_register": Procedure(
        ("table", "metadata_file", "options", "dry_run"), result_schema(RegisterResult), _register,
        ("table", "metadata_file"), True, _beside_metadata,
    ),
    "lakebed_snapshot": Procedure(
        ("folder", "table", "columns", "options", "dry_run"), result_schema(NewTableResult), _snapshot,
        ("folder", "table"), True, _in_new_table,
    ),
    "lakebed_migrate": Procedure(
        ("folder", "table", "columns", "options", "dry_run"), result_schema(NewTableResult), _migrate, ("folder",),
        True, _in_folder,
    ),
}  # fmt: skip
"""These functions by their names in SQL."""
