"""`lakebed history TABLE`: instants or snapshots, oldest first."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument


def history(
    table: TableArgument,
    archived: Annotated[bool, typer.Option("--archived", help="Those of the archived timeline too (Hudi).")] = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a table's instants or snapshots, oldest first."""
    opened = lakebed.open(table, output.parse_options(option or []))
    instants = opened.history(archived=archived)
    if json:
        output.emit_json(
            {
                "table": opened.location,
                "format": opened.format,
                "instants": [
                    {
                        "time": i.time,
                        "completed": i.completed,
                        "action": i.action,
                        "state": i.state,
                        "archived": i.archived,
                        "summary": dict(i.summary),
                    }
                    for i in instants
                ],
            }
        )
        return
    names = ["time", "completed", "action", "state", *(["archived"] if archived else []), "summary"]
    output.show_table(
        names,
        (
            [
                i.time,
                i.completed or "-",
                i.action,
                i.state,
                *([i.archived] if archived else []),
                ", ".join(f"{k}={v}" for k, v in i.summary.items()),
            ]
            for i in instants
        ),
    )
    output.log(f"{len(instants)} {opened.history_holds} of {opened.location} ({opened.format})")
