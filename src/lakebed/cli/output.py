"""What commands print: one JSON document, or tables for people; and log lines on standard error."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import sys
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from lakebed.errors import LakebedError, OptionError, UsageError
from lakebed.redaction import redacted


class Stopped(Exception):
    """The user interrupted a command. The text says what was done until then."""


def stdout() -> Console:
    """The console for results. Without a terminal it is so wide that nothing is wrapped."""
    return Console(soft_wrap=True) if sys.stdout.isatty() else Console(width=1 << 20, soft_wrap=True, no_color=True)


def log(text: str) -> None:
    """Print one line to standard error, without secrets."""
    print(redacted(text), file=sys.stderr, flush=True)


def emit_json(document: Any) -> None:
    """Print the JSON document of a command with `--json`."""
    sys.stdout.write(to_json(document, indent=2) + "\n")


def to_json(document: Any, indent: int | None = None) -> str:
    """The JSON text of a document. Numbers that JSON cannot write (NaN, Infinity) become text."""
    try:
        return json.dumps(document, default=json_value, ensure_ascii=False, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(document), default=json_value, ensure_ascii=False, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def fail(text: str, code: int, as_json: bool, error: LakebedError | None = None) -> int:
    """Report an error on standard error, and with `as_json` also as a JSON document on standard output.

    Returns `code`, the exit code.
    """
    log(f"error: {text}")
    if as_json:
        kind = type(error).__name__ if error else "UsageError" if code == 2 else "Error"
        emit_json({"error": error_document(text, kind, error)})
    return code


def error_document(text: str, kind: str, error: BaseException | None) -> dict[str, str]:
    """An error as JSON: its message, its kind, and the fields that it carries."""
    names = ("what", "table", "instant", "file", "why", "todo", "key")
    fields = {name: getattr(error, name) for name in names if getattr(error, name, "")}
    return {"message": text, "kind": kind, **(fields if isinstance(error, LakebedError) else {})}


def json_value(value: Any) -> Any:
    """A value that JSON has no type for: decimals as text, times as ISO 8601, bytes as base64.

    Raises TypeError for a value of any other type.
    """
    if isinstance(value, datetime.datetime):
        return (
            value.isoformat()
            if value.tzinfo is None
            else value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        )
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, uuid.UUID | datetime.timedelta):
        return str(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def rows_of(batch: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Rows as dicts, for people and JSON only, never on a data path. Times outside Python's years become text."""
    try:
        return list(batch.to_pylist())
    except (ValueError, OverflowError):
        temporal = [pa.types.is_temporal(column.type) for column in batch.columns]
        texts = [
            column.cast(pa.string()) if is_time else column
            for column, is_time in zip(batch.columns, temporal, strict=True)
        ]
        return list(pa.table(texts, names=batch.schema.names).to_pylist())


def text_of(value: Any) -> str:
    """The text of one table cell."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value, default=json_value, ensure_ascii=False)
    plain = json_value(value) if not isinstance(value, int | float) else value
    return str(plain)


def show_table(names: Sequence[str], rows: Iterable[Sequence[Any]], right: Iterable[str] = ()) -> None:
    """Print a table: headings, then one line per row. `right` names the columns aligned to the right."""
    grid = RichTable(box=None, pad_edge=False, header_style="bold")
    for name in names:
        grid.add_column(Text(name), justify="right" if name in set(right) else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(text_of(value)) for value in row))
    stdout().print(grid)


def parse_options(given: Sequence[str]) -> dict[str, object]:
    """The repeated `--option KEY=VALUE` as a mapping. OptionError for a text without `=` or a key given twice."""
    options: dict[str, object] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise OptionError(f"--option {text!r} is not KEY=VALUE", key=key, todo="Example: --option bucket=4")
        if key.strip() in options:
            raise OptionError(f"--option {key.strip()} is given twice", key=key.strip(), todo="Give it once")
        options[key.strip()] = value
    return options


def parse_position(text: str | None) -> str | int | None:
    """An instant, snapshot id, timestamp or tag from the command line. Up to 13 digits are a snapshot id."""
    if text is None or not text.strip():
        return None
    return int(text) if text.isdigit() and len(text) < 14 else text


def parse_columns(text: str | None) -> list[str] | None:
    """`a,b,c` as a list. None means all columns."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--columns {text!r} has an empty name", todo="Separate names by single commas")
    return names
