"""`lakebed compute-partition-stats TABLE`: the files, rows and bytes of each partition, in a file (Iceberg)."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output, upkeep
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument


def compute_partition_stats(
    table: TableArgument,
    at: Annotated[str | None, typer.Option("--at", help="A snapshot id, a time or tag:NAME. Default: now.")] = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Sum up the files, rows and bytes of each partition of an Iceberg table, and keep the figures in a file."""
    opened = lakebed.open(table, output.parse_options(option or []))
    result = opened.compute_partition_stats(at, dry_run)
    if json:
        upkeep.emit(opened, result)
        return
    for note in result.notes:
        output.log(note)
    done = "would get" if dry_run else "has"
    if result.snapshot:
        output.log(f"{opened.location}: snapshot {result.snapshot} {done} statistics of {result.partitions} partitions")
