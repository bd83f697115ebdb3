"""`lakebed read TABLE`: print a snapshot or the changes of a range, or write them to a file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import SchemaError, StorageError, UsageError

_TERMINAL_ROWS = 20


# Each parameter is an argument or option of the command: typer reads them from the signature.
def read(
    table: TableArgument,
    columns: Annotated[str | None, typer.Option(help="Columns, separated by commas. Default: all.")] = None,
    where: Annotated[
        str | None, typer.Option(help="SQL predicate, such as \"dt = '2024-01-01' and amount > 10\".")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Read the snapshot at an instant, snapshot id, ISO timestamp or tag:NAME.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(help="Read changes after this position (exclusive). 'start' is the whole history.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Read changes up to this position (inclusive).")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help=f"The most rows. Default: {_TERMINAL_ROWS} in the terminal, all in files and JSON."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write a .parquet, .csv or .jsonl file.")
    ] = None,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Read rows: a snapshot, or with --after or --until the changes in (after, until]."""
    if as_of is not None and (after is not None or until is not None):
        raise UsageError("--as-of reads a snapshot, but --after and --until read changes", todo="Give one or the other")
    if to:
        checked_output(to)
    opened = lakebed.open(table, output.parse_options(option or []))
    names = output.parse_columns(columns)
    if after is not None or until is not None:
        start = None if after == "start" else output.parse_position(after)
        reader = opened.changes(names, where, start, output.parse_position(until))
    else:
        reader = opened.read(names, where, output.parse_position(as_of))
    deliver(opened, reader, to, limit, json)


def deliver(
    table: lakebed.Table, rows: pa.RecordBatchReader, to: Path | None, limit: int | None, as_json: bool
) -> None:
    """Write rows to a file, or print them: as JSON, or the first ones for people."""
    if to:
        _to_file(rows, to, _writer_for(to), limit, table.location, as_json)
    elif as_json:
        values = list(chain.from_iterable(output.rows_of(batch) for batch in _limited(rows, limit)))
        schema = [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in rows.schema]
        output.emit_json(
            {
                "table": table.location,
                "format": table.format,
                "schema": schema,
                "rows": values,
                "row_count": len(values),
            }
        )
    else:
        _to_terminal(rows, _TERMINAL_ROWS if limit is None else limit, limit is None)


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
        output.log(f"the first {limit} rows; --limit N shows more, --output FILE writes all")
    elif not rows:
        output.log("no rows")


Writer = Callable[[pa.RecordBatchReader, Iterator[pa.RecordBatch], Any], int]


def _to_file(
    reader: pa.RecordBatchReader, to: Path, write: Writer, limit: int | None, location: str, as_json: bool
) -> None:
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
    if as_json:
        output.emit_json({"table": location, "output": str(to), "row_count": count})
    else:
        output.log(f"{count} rows -> {to}")


def _write_parquet(reader: pa.RecordBatchReader, batches: Iterator[pa.RecordBatch], sink: Any) -> int:
    count = 0
    with pq.ParquetWriter(sink, reader.schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _write_csv(reader: pa.RecordBatchReader, batches: Iterator[pa.RecordBatch], sink: Any) -> int:
    nested = [field.name for field in reader.schema if pa.types.is_nested(field.type) or pa.types.is_binary(field.type)]
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


_WRITERS: dict[str, Writer] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".ndjson": _write_jsonl,
}


def checked_output(to: Path) -> None:
    """UsageError for a file that `deliver` cannot write."""
    _writer_for(to)


def _writer_for(to: Path) -> Writer:
    if to.suffix.lower() not in _WRITERS:
        raise UsageError(f"--output {to} has an unknown extension", todo="Use .parquet, .csv or .jsonl")
    if not to.parent.is_dir():
        raise UsageError(f"--output {to}: the folder {to.parent} does not exist", todo="Create it first")
    return _WRITERS[to.suffix.lower()]
