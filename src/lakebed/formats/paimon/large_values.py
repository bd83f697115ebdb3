"""Columns of large values (type BLOB), as far as lakebed serves them: it reads them, and writes none.

Rules: Paimon's SchemaValidation.validateBlobNesting. The values lie in files of their own (`read/blobs.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataType
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel.options import Options


def refuse_large_values(schema: TableSchema, options: Options, use: Use, table: str) -> None:
    """Raise UnsupportedError for columns of large values that lakebed does not support in this use of the table."""
    for field in schema.fields if use is not Use.UPKEEP else ():
        roots = {*_roots(field.type)}
        if "BLOB" not in roots:
            continue
        todo = "Use Paimon's own engine"
        if field.type.root != "BLOB" or not options[opt.DATA_EVOLUTION]:
            why = f"only columns of type BLOB itself are read, in tables with {opt.DATA_EVOLUTION.key}"
        elif use is Use.READ:
            continue
        else:
            why = "it reads the files of its values, and writes none"
        raise UnsupportedError(
            f"lakebed does not {use} column {field.name!r} of type {field.type}", table=table, why=why, todo=todo
        )


def _roots(kind: DataType) -> Iterator[str]:
    yield kind.root
    for inner in (kind.key, kind.element, *(field.type for field in kind.fields)):
        if inner is not None:
            yield from _roots(inner)
