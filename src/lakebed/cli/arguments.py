"""Arguments and options that several commands share, in one wording."""

from __future__ import annotations

from typing import Annotated

import typer

TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="Path or URL of the table, or catalog:namespace.table (Iceberg).", show_default=False
    ),
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the table or format; may be repeated."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark master; an embedded local[*] when not given.")
]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="Spark Connect server, sc://HOST:PORT.")]
