"""`lakebed metadata TABLE NAME`: a metadata table, or system table, of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.read import checked_output, deliver


def metadata(
    table: TableArgument,
    name: Annotated[str | None, typer.Argument(help="Such as snapshots or files. None: list the names.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="The most rows. Default: 20 in the terminal.")] = None,
    to: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write a .parquet, .csv or .jsonl file.")
    ] = None,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Read a table's metadata as a table: its snapshots, files, manifests, partitions."""
    if to:
        checked_output(to)
    opened = lakebed.open(table, output.parse_options(option or []))
    if name is not None:
        deliver(opened, opened.metadata(name), to, limit, json)
    elif json:
        output.emit_json({"table": opened.location, "format": opened.format, "names": list(opened.metadata_names)})
    else:
        output.show_table(["name"], [[known] for known in opened.metadata_names])
        output.log(f"lakebed metadata {table} NAME reads one of them")
