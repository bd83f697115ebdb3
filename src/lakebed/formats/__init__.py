"""The formats, one package each with the same file names, and the way from a location to its table."""

from lakebed.formats.existing import migrate, register, snapshot, store_of_new
from lakebed.formats.finding import find_tables, names_many
from lakebed.formats.opening import (
    create_table,
    drop_created,
    format_of,
    is_catalog_name,
    native_source,
    open_catalog,
    open_table,
    opening_options,
    plain_reads,
)

__all__ = [
    "create_table", "drop_created", "find_tables", "format_of", "is_catalog_name", "migrate", "names_many",
    "native_source", "open_catalog", "open_table", "opening_options", "plain_reads", "register", "snapshot",
    "store_of_new",
]  # fmt: skip
