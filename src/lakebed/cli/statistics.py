"""`lakebed compute-table-stats TABLE`, `lakebed compute-partition-stats TABLE`: figures for query planners."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output, results
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import counted
from lakebed.model.upkeep import PartitionStatsResult, TableStatsResult

AtOption = Annotated[str | None, typer.Option("--at", help="A snapshot id, a time or tag:NAME. Default: now.")]


def compute_table_stats(
    table: TableArgument,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME", help="A column. Repeatable. Default: all primitive ones."),
    ] = None,
    at: AtOption = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Count the different values of an Iceberg table's columns, and keep the figures for query planners."""
    opened = lakebed.open(table, output.parse_options(option or []))
    result = opened.compute_table_stats(column or None, at, dry_run)
    if json:
        results.emit(opened, result)
        return
    rows = [[each.column, "" if each.distinct < 0 else str(each.distinct)] for each in result.columns]
    output.show_table(["column", "different values"], rows, right=("different values",))
    _tell(opened, result, counted(len(rows), "column"))


def compute_partition_stats(
    table: TableArgument,
    at: AtOption = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Sum up the files, rows and bytes of each partition of an Iceberg table, and keep the figures in a file."""
    opened = lakebed.open(table, output.parse_options(option or []))
    result = opened.compute_partition_stats(at, dry_run)
    if json:
        results.emit(opened, result)
        return
    _tell(opened, result, counted(result.partitions, "partition"))


def _tell(table: lakebed.Table, result: TableStatsResult | PartitionStatsResult, of: str) -> None:
    """The notes, and which snapshot has statistics of how much."""
    for note in result.notes:
        output.log(note)
    if result.snapshot:
        done = "would get" if result.dry_run else "has"
        output.log(f"{table.location}: snapshot {result.snapshot} {done} statistics of {of}")
