"""The types and default values that changes of a table name."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable

import pyarrow as pa

from lakebed.errors import CorruptError, SchemaError, UnsupportedError, first_line
from lakebed.formats.paimon.codec.from_arrow import type_from_arrow
from lakebed.formats.paimon.codec.types import DataType, arrow_type, type_from_json
from lakebed.kernel.options import option_text


def type_of(given: object, column: str, next_id: Callable[[], int] | None) -> DataType:
    """The Paimon type that a change names. SchemaError where there is none, UnsupportedError where lakebed lacks it."""
    numbers = next_id or itertools.count().__next__
    if isinstance(given, pa.DataType):
        kind = type_from_arrow(given, numbers, column)
    elif isinstance(given, str):
        kind = _type_from_text(given, numbers, column)
    else:
        raise SchemaError(
            f"the type of column {column!r} is a {type(given).__name__}", todo="Give a pyarrow type or a text"
        )
    arrow_type(kind)
    if kind.root == "BLOB":
        raise UnsupportedError(
            f"column {column!r} would have type BLOB", why="lakebed can read such columns, but not write them",
            todo="Add the column with Paimon's own engine, or as BYTES",
        )  # fmt: skip
    return kind


def _type_from_text(text: str, numbers: Callable[[], int], column: str) -> DataType:
    try:
        return type_from_arrow(pa.type_for_alias(text), numbers, column)
    except ValueError:
        pass
    try:
        return type_from_json(text)
    except (CorruptError, UnsupportedError) as error:
        raise SchemaError(
            f"column {column!r} has the unknown type {text!r}",
            why=first_line(error),
            todo='Give a type such as "BIGINT", "DECIMAL(10, 2)" or "TIMESTAMP(6)", or a pyarrow type',
        ) from error


def text_of(default: object) -> str:
    """A default value as Paimon keeps it: a text that is cast to the column's type."""
    if isinstance(default, datetime.datetime):
        return default.isoformat(sep=" ")
    if isinstance(default, datetime.date | datetime.time):
        return default.isoformat()
    return option_text(default)
