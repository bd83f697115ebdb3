"""`where`, as SQL text or as a pyarrow expression, read into one form: the predicate tree (`tree.py`).

A row is kept when the predicate is true. It is left out when the predicate is false or null.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import PredicateError, first_line
from lakebed.kernel.predicates.arrow import tree_of
from lakebed.kernel.predicates.decimal_literals import with_decimal_literals
from lakebed.kernel.predicates.tree import Node, all_of

Where: TypeAlias = str | pc.Expression | Node | None
"""What callers hand in: SQL text, a pyarrow expression, or a tree that is built already."""


def parse_where(where: Where, schema: pa.Schema) -> Node | None:
    """The predicate as a tree, None for "every row".

    Raises PredicateError when the text cannot be parsed, when `schema` lacks a column that it names, or when it
    compares what cannot be compared.
    """
    if where is None:
        return None
    predicate = _read(where, schema)
    try:
        _try_out(predicate, schema)
    except (pa.ArrowException, TypeError) as error:
        raise PredicateError(f"where {where!s} does not fit the table", why=first_line(error)) from error
    return predicate


def columns_of(predicate: Node | None) -> tuple[str, ...]:
    """The columns that a predicate reads, none for None."""
    return () if predicate is None else predicate.columns()


def both(one: Node | None, other: Node | None) -> Node | None:
    """The rows that two predicates keep, each None for "every row"."""
    if one is None or other is None:
        return other if one is None else one
    return all_of(one, other)


def unread_parts(predicate: Node | None, filters_rows: bool = True) -> tuple[str, ...]:
    """A sentence for each part of a predicate that lakebed cannot read, for the warnings of a read's plan or the notes
    of a rewrite. A read also filters its rows by such a part; a rewrite only chooses files."""
    parts = [] if predicate is None else predicate.opaque_parts()
    effect = "it filters the rows, but statistics of columns rule" if filters_rows else "statistics of columns rule"
    return tuple(f"lakebed cannot read {part} in where: {effect} out no file by it" for part in parts)


def keep(batch: pa.RecordBatch, predicate: Node) -> pa.RecordBatch:
    """The rows that a predicate keeps. UUIDs are compared as their bytes, because Arrow compares no extension types.

    Raises PredicateError where the predicate cannot be computed for a row: a sum that overflows its type, a cast of a
    text that is not a number.
    """
    extended = {n for n, column in enumerate(batch.columns) if isinstance(column, pa.ExtensionArray)}
    plain = [column.storage if n in extended else column for n, column in enumerate(batch.columns)]
    rows = pa.RecordBatch.from_arrays(plain, names=batch.schema.names) if extended else batch
    try:
        kept = rows.filter(predicate.to_arrow())
    except pa.ArrowInvalid as error:
        raise PredicateError(
            f"where {predicate} fails for a row",
            why=first_line(error),
            todo="Compare the column itself, without arithmetic, or cast it to a wider type first",
        ) from error
    if not extended:
        return kept
    whole = [
        pa.ExtensionArray.from_storage(batch.schema.field(n).type, column) if n in extended else column
        for n, column in enumerate(kept.columns)
    ]
    return pa.RecordBatch.from_arrays(whole, schema=batch.schema)


def find_column(name: str, names: Sequence[str]) -> str | None:
    """The column of that name: as written, else the only one that differs in case alone."""
    if name in names:
        return name
    near = [candidate for candidate in names if candidate.lower() == name.lower()]
    return near[0] if len(near) == 1 else None


def _read(where: Where, schema: pa.Schema) -> Node:
    if isinstance(where, Node):
        return where
    if isinstance(where, str):
        # The SQL parser takes long to import, so it is imported only when it is needed.
        node: Node = import_module("lakebed.kernel.predicates.sql").predicate_of(where, schema)
        return node
    if not isinstance(where, pc.Expression):
        raise PredicateError(
            f"where is a {type(where).__name__}", todo="Give a SQL predicate as text or a pyarrow expression"
        )
    try:
        return with_decimal_literals(tree_of(where, schema), schema)
    except pa.ArrowNotImplementedError as error:
        raise PredicateError(
            f"where {where!s} cannot be sent to the tasks of a read",
            why=first_line(error),
            todo='Name columns by their names, as in pyarrow.compute.field("a"), not by their positions',
        ) from error


def _try_out(predicate: Node, schema: pa.Schema) -> None:
    """Run the predicate over one row of nulls: some mismatches of types show only when a kernel runs."""
    places = [place for name in predicate.columns() if (place := schema.get_field_index(name)) >= 0]
    fields = [schema.field(place).with_nullable(True) for place in places]
    nulls = [pa.nulls(1, field.type) for field in fields] if fields else [pa.nulls(1)]
    tried = pa.schema(fields) if fields else pa.schema([pa.field("", pa.null())])
    pa.Table.from_arrays(nulls, schema=tried).filter(predicate.to_arrow())
