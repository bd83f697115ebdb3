"""`lakebed read TABLE`: print a snapshot or the changes of a range, or write them to a file."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.rows import FormatOption, LimitOption, OutputOption, RowFormat, checked_format, deliver
from lakebed.errors import UsageError


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
    meta: Annotated[
        bool, typer.Option("--meta-columns", help="Hudi: show its meta columns in the terminal too.")
    ] = False,
    limit: LimitOption = None,
    format: FormatOption = None,
    to: OutputOption = None,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Read rows: a snapshot, or with --after or --until the changes in (after, until]."""
    if as_of is not None and (after is not None or until is not None):
        raise UsageError("--as-of reads a snapshot, but --after and --until read changes", todo="Give one or the other")
    written = checked_format(to, format, json)
    opened = lakebed.open(table, output.parse_options(option or []))
    names = output.parse_columns(columns)
    if names is None and not (meta or json) and written is RowFormat.TABLE and opened.meta_columns:
        names = [name for name in opened.schema.names if name not in opened.meta_columns]
    if after is not None or until is not None:
        start = None if after == "start" else output.parse_position(after)
        reader = opened.changes(names, where, start, output.parse_position(until))
    else:
        reader = opened.read(names, where, output.parse_position(as_of))
    deliver(opened, reader, to, written, limit, json)
