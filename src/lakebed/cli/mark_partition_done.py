"""`lakebed mark-partition-done TABLE PARTITION...`: say that partitions are complete."""

from __future__ import annotations

from typing import Annotated

import typer

from lakebed.cli import output, results
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import UsageError


def mark_partition_done(
    table: TableArgument,
    partitions: Annotated[list[str], typer.Argument(help="Partitions, such as dt=2024-01-01,h=3; null is null.")],
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say that partitions of a Paimon table are complete, for jobs that wait for a file _SUCCESS."""
    opened, options = results.opened(table, option)
    paths = opened.mark_partition_done([_values(text) for text in partitions], dry_run=dry_run, options=options)
    if json:
        output.emit_json({"table": opened.location, "format": opened.format, "marks": paths, "dry_run": dry_run})
        return
    output.show_table([f"file that {'would say' if dry_run else 'says'} so"], [[path] for path in paths])


def _values(text: str) -> dict[str, str | None]:
    """The values of a partition by column."""
    values: dict[str, str | None] = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"{text!r} does not name a partition", todo="Write COLUMN=VALUE, separated by commas")
        values[name.strip()] = None if value == "null" else value
    return values
