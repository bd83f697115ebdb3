"""Arguments and options that several commands share, with one help text each."""

from __future__ import annotations

from typing import Annotated

import typer

TableArgument = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="Path or URL of the table, or catalog:namespace.table.", show_default=False),
]
ManyArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Path or URL of the table, or catalog:namespace.table. Many tables: catalog:namespace, a pattern with * "
        "(catalog:sales.*, /lake/*.db/orders), or a folder of tables.",
        show_default=False,
    ),
]
DatabasesOption = Annotated[
    str | None,
    typer.Option(
        "--including-databases", metavar="REGEX", help="Only tables in these databases: a regular expression."
    ),
]
TablesOption = Annotated[
    str | None,
    typer.Option(
        "--including-tables",
        metavar="REGEX",
        help="Only tables with these names: a regular expression for database.table.",
    ),
]
ExcludedOption = Annotated[
    str | None,
    typer.Option(
        "--excluding-tables",
        metavar="REGEX",
        help="Leave out the tables with these names: a regular expression for database.table.",
    ),
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the table or format. Repeatable."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the plan and the reasons for it, and change nothing.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document to standard output, and nothing else.")
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
MasterOption = Annotated[str | None, typer.Option("--master", help="Spark master. Default: an embedded local[*].")]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="Spark Connect server, such as sc://HOST:PORT.")]
