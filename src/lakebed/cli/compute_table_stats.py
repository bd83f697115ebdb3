"""`lakebed compute-table-stats TABLE`: how many different values columns have (Iceberg)."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output, upkeep
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument


def compute_table_stats(
    table: TableArgument,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME", help="A column. Repeatable. Default: all primitive ones."),
    ] = None,
    at: Annotated[str | None, typer.Option("--at", help="A snapshot id, a time or tag:NAME. Default: now.")] = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Count the different values of an Iceberg table's columns, and keep the figures for query planners."""
    opened = lakebed.open(table, output.parse_options(option or []))
    result = opened.compute_table_stats(column or None, at, dry_run)
    if json:
        upkeep.emit(opened, result)
        return
    rows = [[each.column, "" if each.distinct < 0 else str(each.distinct)] for each in result.columns]
    output.show_table(["column", "different values"], rows, right=("different values",))
    for note in result.notes:
        output.log(note)
    done = "would get" if dry_run else "has"
    if result.snapshot:
        output.log(f"{opened.location}: snapshot {result.snapshot} {done} statistics of {len(rows)} columns")
