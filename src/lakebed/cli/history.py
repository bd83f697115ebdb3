"""`lakebed history TABLE`: instants or snapshots, oldest first."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import counted


def history(
    table: TableArgument,
    archived: Annotated[bool, typer.Option("--archived", help="Include the archived timeline (Hudi).")] = False,
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
                        "time": instant.time,
                        "completed": instant.completed,
                        "action": instant.action,
                        "state": instant.state,
                        "archived": instant.archived,
                        "summary": dict(instant.summary),
                    }
                    for instant in instants
                ],
            }
        )
        return
    names = ["time", "completed", "action", "state", *(["archived"] if archived else []), "summary"]
    output.show_table(
        names,
        (
            [
                instant.time,
                instant.completed or "-",
                instant.action,
                instant.state,
                *([instant.archived] if archived else []),
                ", ".join(f"{k}={v}" for k, v in instant.summary.items()),
            ]
            for instant in instants
        ),
    )
    output.log(
        f"{counted(len(instants), opened.history_holds.removesuffix('s'))} of {opened.location} ({opened.format})"
    )
