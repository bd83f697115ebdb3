"""`where`, as SQL text or as a pyarrow expression: one canonical form, the pyarrow expression.

A row is kept when the predicate is true, neither when it is false nor when it is null. What SQL means is in `sql.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import PredicateError, first_line
from lakebed.kernel.predicates.arrow import fields_of, tree_of, with_decimal_constants

Where: TypeAlias = str | pc.Expression | None
"""What users hand in."""


def parse_where(where: Where, schema: pa.Schema) -> pc.Expression | None:
    """The canonical predicate, None for "every row".

    Raises PredicateError when the text does not parse, names no column of `schema` (the nearest is named), or compares
    what cannot be compared.
    """
    if where is None:
        return None
    if isinstance(where, pc.Expression):
        predicate = with_decimal_constants(where, schema)
    elif isinstance(where, str):
        predicate = import_module("lakebed.kernel.predicates.sql").expression_of(
            where, schema
        )  # the parser: only when needed
    else:
        raise PredicateError(
            f"where is a {type(where).__name__}", todo="Give a SQL predicate as text or a pyarrow expression"
        )
    try:
        _try_out(predicate, schema)
    except (pa.ArrowException, TypeError) as error:
        raise PredicateError(f"where {where!s} does not fit the table", why=first_line(error)) from error
    return predicate


def columns_of(where: Where, schema: pa.Schema) -> tuple[str, ...]:
    """The columns of `schema` that a predicate reads, in the schema's order."""
    predicate = parse_where(where, schema)
    if predicate is None:
        return ()
    tree = tree_of(predicate)
    if tree is not None:
        used = fields_of(tree)
        return tuple(name for name in schema.names if name in used)
    return tuple(name for name in schema.names if not _binds(predicate, schema.remove(schema.get_field_index(name))))


def keep(batch: pa.RecordBatch, predicate: pc.Expression) -> pa.RecordBatch:
    """The rows that a predicate keeps; UUIDs are compared as the bytes that they are, since Arrow knows no better.

    Raises PredicateError where the predicate cannot be computed for a row: a sum that leaves its type, a cast of what
    is no number.
    """
    extended = {n for n, column in enumerate(batch.columns) if isinstance(column, pa.ExtensionArray)}
    plain = [column.storage if n in extended else column for n, column in enumerate(batch.columns)]
    try:
        found = (pa.RecordBatch.from_arrays(plain, names=batch.schema.names) if extended else batch).filter(predicate)
    except pa.ArrowInvalid as error:
        raise PredicateError(
            f"where {predicate!s} fails for a row", why=first_line(error),
            todo="Compare the column itself, without arithmetic, or cast it to a wider type first",
        ) from error  # fmt: skip
    if not extended:
        return found
    whole = [
        pa.ExtensionArray.from_storage(batch.schema.field(n).type, column) if n in extended else column
        for n, column in enumerate(found.columns)
    ]
    return pa.RecordBatch.from_arrays(whole, schema=batch.schema)


def find_column(name: str, names: list[str]) -> str | None:
    """The column of that name: as written, else the only one that differs in case alone."""
    if name in names:
        return name
    near = [known for known in names if known.lower() == name.lower()]
    return near[0] if len(near) == 1 else None


def _try_out(predicate: pc.Expression, schema: pa.Schema) -> None:
    """Runs the predicate over one row of nulls: some mismatches of types show only when a kernel runs."""
    columns = [pa.nulls(1, field.type) for field in schema]
    pa.Table.from_arrays(columns, schema=pa.schema([field.with_nullable(True) for field in schema])).filter(predicate)


def _binds(predicate: pc.Expression, schema: pa.Schema) -> bool:
    try:
        _try_out(predicate, schema)
    except pa.ArrowInvalid:
        return False
    return True
