"""What the calls of a table take, checked: positions in its history, names, spans of time, columns."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Iterable

import pyarrow as pa

from lakebed.errors import SchemaError, UsageError, known_columns
from lakebed.kernel.options import duration_ms
from lakebed.kernel.predicates.where import find_column
from lakebed.model.instant import Instant

Position = str | int | Instant | None
"""A point in a table's history: an `Instant` of `history`, its `time`, a snapshot id, an ISO timestamp (UTC unless it
names a zone) or "tag:NAME". None means the newest."""
Span = str | datetime.timedelta | None
"""How long something lives: "7 d", a timedelta, or None for no end of its own."""


def checked_position(position: object) -> Position:
    """A position in the form that the formats take: a `datetime` or `date` becomes its ISO text (UTC unless it names a
    zone). UsageError for a value that cannot name a moment."""
    if isinstance(position, datetime.date):
        return position.isoformat()
    if position is None or isinstance(position, str | Instant):
        return position
    if isinstance(position, numbers.Integral) and not isinstance(position, bool):
        return int(position)
    raise UsageError(
        f"a {type(position).__name__} names no moment of a table",
        todo="Give an instant of `history`, a snapshot id, an ISO timestamp or tag:NAME",
    )


def checked_target(position: object, needed: str = "a rollback needs a moment to go back to") -> str | int | Instant:
    """As `checked_position`, where a moment must be named: UsageError for None, which says what is `needed`."""
    target = checked_position(position)
    if target is None:
        raise UsageError(needed, todo="Give a tag, an instant or a snapshot")
    return target


def checked_name(name: object, what: str) -> str:
    """The name of a tag or branch. UsageError for an empty one, and for what is not a text."""
    if not isinstance(name, str) or not name:
        given = "an empty text" if name == "" else f"a {type(name).__name__}"
        raise UsageError(f"{given} cannot name a {what}", todo="Give a text")
    return name


def checked_span(span: object) -> datetime.timedelta | None:
    """How long something lives. UsageError for what is not a time from now on."""
    try:
        lifetime = datetime.timedelta(milliseconds=duration_ms(span)) if isinstance(span, str) else span
        if lifetime is None or (isinstance(lifetime, datetime.timedelta) and lifetime >= datetime.timedelta()):
            return lifetime
    except (ValueError, KeyError, OverflowError):
        pass
    raise UsageError(f"{span!r} is not how long something lives", todo="Give a duration such as 7 d, or a timedelta")


def project(columns: Iterable[str] | None, schema: pa.Schema, *, table: str) -> list[str]:
    """The columns that were asked for, in the schema's spelling; all of them for None.

    SchemaError names a column that is unknown or asked for twice.
    """
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str):
        raise SchemaError(f"columns is the text {columns!r}", table=table, todo="Give a list of column names")
    if not isinstance(columns, Iterable):
        raise SchemaError(f"columns is a {type(columns).__name__}", table=table, todo="Give a list of column names")
    names: list[str] = []
    for column in columns:
        if not isinstance(column, str):
            raise SchemaError(
                f"columns has a value of type {type(column).__name__}", table=table, todo="Give a list of column names"
            )
        name = find_column(column, schema.names)
        if name is None:
            raise SchemaError(f"unknown column {column!r}", table=table, todo=known_columns(column, schema.names))
        if name in names:
            raise SchemaError(f"column {name!r} is asked for twice", table=table, todo="Name each column once")
        names.append(name)
    return names
