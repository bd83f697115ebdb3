"""`lakebed metadata TABLE NAME`: a metadata table, or system table, of a table."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.rows import FormatOption, LimitOption, OutputOption, checked_format, deliver


def metadata(
    table: TableArgument,
    name: Annotated[
        str | None, typer.Argument(help="The metadata table, such as snapshots or files. Without it, list the names.")
    ] = None,
    limit: LimitOption = None,
    format: FormatOption = None,
    to: OutputOption = None,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Read a table's metadata as a table: its snapshots, files, manifests, partitions."""
    written = checked_format(to, format, json)
    opened = lakebed.open(table, output.parse_options(option or []))
    if name is not None:
        deliver(opened, opened.metadata(name), to, written, limit, json)
    elif json:
        output.emit_json({"table": opened.location, "format": opened.format, "names": list(opened.metadata_names)})
    else:
        output.show_table(["name"], [[known] for known in opened.metadata_names])
        output.log(f"lakebed metadata {table} NAME reads one of them")
