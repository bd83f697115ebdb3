"""The formats, one package each with the same file names, and the way from a location to its table."""

from lakebed.formats.opening import create_table, drop_created, format_of, native_source, open_catalog, open_table

__all__ = ["create_table", "drop_created", "format_of", "native_source", "open_catalog", "open_table"]
