"""Catalogs and table operations: where a table's current metadata is found, and how the next is published."""
