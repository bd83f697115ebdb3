"""`lakebed sql QUERY`: SQL over tables, on an embedded engine."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption
from lakebed.cli.rows import FormatOption, LimitOption, OutputOption, checked_format, deliver_rows


def sql(
    query: Annotated[
        str,
        typer.Argument(
            help="Tables are named in quotes: select dt, count(*) from 'out/orders' group by dt.", show_default=False
        ),
    ],
    limit: LimitOption = None,
    format: FormatOption = None,
    to: OutputOption = None,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a SQL query over tables, without Spark. 'TABLE#files' is a metadata table."""
    written = checked_format(to, format, json)
    rows = lakebed.sql(query, output.parse_options(option or []))
    deliver_rows(rows.to_reader(), to, written, limit, json, {"query": query})
