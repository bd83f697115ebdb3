"""Rows that a command gives out: to the terminal, as JSON, or as CSV, JSON lines or Parquet to a file or a pipe."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import typer

import lakebed
from lakebed.cli import output
from lakebed.errors import SchemaError, StorageError, UsageError, counted

TERMINAL_ROWS = 20
_PIPE = "-"


class RowFormat(StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


LimitOption = Annotated[
    int | None,
    typer.Option(min=0, help=f"The most rows. Default: {TERMINAL_ROWS} in the terminal, all elsewhere."),
]
FormatOption = Annotated[
    RowFormat | None,
    typer.Option("--format", help="How rows are written. Default: by the extension of --output, else a table."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Write a .parquet, .csv or .jsonl file; - is standard output."),
]


def checked_format(to: Path | None, format: RowFormat | None, as_json: bool = False) -> RowFormat:
    """How rows go out. UsageError for a file or a combination that `deliver` cannot serve."""
    piped = to is None or str(to) == _PIPE
    if as_json and format is not None and piped:
        raise UsageError(f"--json and --format {format} both write to standard output", todo="Give one of them")
    if piped:
        if to is not None and (format in (None, RowFormat.TABLE)):
            raise UsageError("--output - needs a format", todo="Add --format csv, --format jsonl or --format parquet")
        return format or RowFormat.TABLE
    assert to is not None
    if format is RowFormat.TABLE:
        raise UsageError("--format table is for the terminal", todo="Use csv, jsonl or parquet with --output")
    if format is None and to.suffix.lower() not in _EXTENSIONS:
        raise UsageError(f"--output {to} has an unknown extension", todo="Use .parquet, .csv or .jsonl, or --format")
    if not to.parent.is_dir():
        raise UsageError(f"--output {to}: the folder {to.parent} does not exist", todo="Create it first")
    return format or _EXTENSIONS[to.suffix.lower()]


def deliver(
    table: lakebed.Table,
    rows: pa.RecordBatchReader,
    to: Path | None,
    format: RowFormat,
    limit: int | None,
    as_json: bool,
) -> None:
    """Write rows of a table to a file or a pipe, or print them: as JSON, or the first ones for people."""
    deliver_rows(rows, to, format, limit, as_json, {"table": table.location, "format": table.format})


def deliver_rows(
    rows: pa.RecordBatchReader,
    to: Path | None,
    format: RowFormat,
    limit: int | None,
    as_json: bool,
    described: dict[str, Any],
) -> None:
    """As `deliver`; `described` begins the JSON document."""
    if to is not None and str(to) != _PIPE:
        count = _to_file(rows, to, _WRITERS[format], limit)
        if as_json:
            output.emit_json({**described, "output": str(to), "row_count": count})
        else:
            output.log(f"{counted(count, 'row')} -> {to}")
    elif as_json:
        values = list(chain.from_iterable(output.rows_of(batch) for batch in _limited(rows, limit)))
        schema = [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in rows.schema]
        output.emit_json({**described, "schema": schema, "rows": values, "row_count": len(values)})
    elif format is RowFormat.TABLE:
        _to_terminal(rows, TERMINAL_ROWS if limit is None else limit, limit is None)
    else:
        sys.stdout.flush()
        _WRITERS[format](rows, _limited(rows, limit), sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _limited(reader: pa.RecordBatchReader, limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in reader:
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        if batch.num_rows:
            yield batch
        if left == 0:
            return


def _to_terminal(reader: pa.RecordBatchReader, limit: int, by_default: bool) -> None:
    shown = list(_limited(reader, limit + 1))
    rows = list(chain.from_iterable(output.rows_of(batch) for batch in shown))
    right = [
        field.name
        for field in reader.schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
    ]
    output.show_table(reader.schema.names, ([row[name] for name in reader.schema.names] for row in rows[:limit]), right)
    if len(rows) > limit and by_default:
        output.log(f"the first {counted(limit, 'row')}; --limit N shows more, --output FILE writes all")
    elif not rows:
        output.log("no rows")


Writer = Callable[[pa.RecordBatchReader, Iterator[pa.RecordBatch], Any], int]


def _to_file(reader: pa.RecordBatchReader, to: Path, write: Writer, limit: int | None) -> int:
    """Write beside the target, then rename: the target is complete or not there at all."""
    staged = to.with_name(f".{to.name}.{secrets.token_hex(6)}")
    try:
        with open(staged, "xb") as sink:
            count = write(reader, _limited(reader, limit), sink)
        os.replace(staged, to)
    except OSError as error:
        raise StorageError(
            f"cannot write {to}", file=str(to), why=error.strerror or str(error), todo="Choose another --output"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            staged.unlink()
    return count


def _write_parquet(reader: pa.RecordBatchReader, batches: Iterator[pa.RecordBatch], sink: Any) -> int:
    count = 0
    with pq.ParquetWriter(sink, reader.schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _is_binary(kind: pa.DataType) -> bool:
    """Whether values are bytes, also where Arrow's CSV writer would put them into the text as they are."""
    types = pa.types
    binary_checks = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return isinstance(kind, pa.UuidType) or any(is_binary(kind) for is_binary in binary_checks)


def _write_csv(reader: pa.RecordBatchReader, batches: Iterator[pa.RecordBatch], sink: Any) -> int:
    nested = [field.name for field in reader.schema if pa.types.is_nested(field.type) or _is_binary(field.type)]
    if nested:
        raise SchemaError(
            f"CSV cannot hold the columns {', '.join(nested)}",
            why="they are nested or binary",
            todo="Use .parquet or .jsonl, or leave them out with --columns",
        )
    count = 0
    with pyarrow.csv.CSVWriter(sink, reader.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _write_jsonl(reader: pa.RecordBatchReader, batches: Iterator[pa.RecordBatch], sink: Any) -> int:
    count = 0
    for batch in batches:
        lines = (output.to_json(row) for row in output.rows_of(batch))
        sink.write("".join(f"{line}\n" for line in lines).encode())
        count += batch.num_rows
    return count


_WRITERS: dict[RowFormat, Writer] = {
    RowFormat.PARQUET: _write_parquet,
    RowFormat.CSV: _write_csv,
    RowFormat.JSONL: _write_jsonl,
}
_EXTENSIONS = {
    ".parquet": RowFormat.PARQUET,
    ".csv": RowFormat.CSV,
    ".jsonl": RowFormat.JSONL,
    ".ndjson": RowFormat.JSONL,
}
