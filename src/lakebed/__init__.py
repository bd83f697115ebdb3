"""lakebed: Apache Hudi, Apache Paimon and Apache Iceberg tables for PySpark, with pip install alone.

    import lakebed

    table = lakebed.open("s3://bucket/orders")
    table.read(columns=["id", "amount"], where="amount > 100").read_all()
    table.write(rows, mode="upsert")

`lakebed.open` and `lakebed.create` give a `Table`. `lakebed.register`, `lakebed.snapshot` and `lakebed.migrate` make
tables of what is there already. `lakebed.spark` has the same tables as DataFrames.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import lakebed.memory_pool  # noqa: F401 - first: it says what pyarrow takes when it is loaded
from lakebed import errors
from lakebed.version import VERSION

if TYPE_CHECKING:
    from lakebed.examples import example
    from lakebed.formats import create_table as create
    from lakebed.formats import find_tables as tables
    from lakebed.formats import migrate, register, snapshot
    from lakebed.formats import open_catalog as catalog
    from lakebed.formats import open_table as open
    from lakebed.formats.query import query as sql
    from lakebed.formats.upkeep import upkeep
    from lakebed.kernel.engine import LocalEngine
    from lakebed.kernel.shared_engine import together
    from lakebed.model.alter import (
        add_column,
        add_partition_field,
        drop_column,
        drop_partition_field,
        move_column,
        remove_option,
        rename_column,
        rename_partition_field,
        replace_partition_field,
        set_comment,
        set_default,
        set_identifier_fields,
        set_nullable,
        set_option,
        set_sort_order,
        widen,
    )
    from lakebed.verbs.table import Table

__all__ = [
    "LocalEngine", "Table", "add_column", "add_partition_field", "catalog", "create", "drop_column",
    "drop_partition_field", "errors", "example", "migrate", "move_column", "open", "register", "remove_option",
    "rename_column", "rename_partition_field", "replace_partition_field", "set_comment", "set_default",
    "set_identifier_fields", "set_nullable", "set_option", "set_sort_order", "snapshot", "sql", "tables", "together",
    "upkeep", "widen",
]  # fmt: skip
__version__ = VERSION

_PLACES = {
    "LocalEngine": "kernel.engine",
    "Table": "verbs.table",
    "catalog": "formats:open_catalog",
    "create": "formats:create_table",
    "example": "examples",
    "migrate": "formats",
    "open": "formats:open_table",
    "register": "formats",
    "snapshot": "formats",
    "sql": "formats.query:query",
    "tables": "formats:find_tables",
    "together": "kernel.shared_engine",
    "upkeep": "formats.upkeep",
}
"""The modules of names in `__all__`, with the name there where it is another one. The rest are in `model.alter`."""
_MODULES = ("callbacks", "hudi", "observe", "paimon", "spark")


def __getattr__(name: str) -> Any:
    """Import a name at its first use: a process starts faster without what it does not use."""
    if name in _MODULES:
        return import_module(f"lakebed.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'lakebed' has no attribute {name!r}")
    module, _, attribute = _PLACES.get(name, "model.alter").partition(":")
    value = globals()[name] = getattr(import_module(f"lakebed.{module}"), attribute or name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
