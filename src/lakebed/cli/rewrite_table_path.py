"""`lakebed rewrite-table-path TABLE TARGET STAGING`: a table's metadata for another place (Iceberg)."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output, results
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import counted


def rewrite_table_path(
    table: TableArgument,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where the copy will lie.", show_default=False)],
    staging: Annotated[
        str, typer.Argument(metavar="STAGING", help="A folder for the new metadata and the list of files to copy.")
    ],
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="FILE",
            help="The metadata file of an earlier copy: files that it names are not copied again.",
        ),
    ] = "",
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write an Iceberg table's metadata for another place to a folder, and list the files to copy there."""
    opened = lakebed.open(table, output.parse_options(option or []))
    result = opened.rewrite_table_path(target, staging, since, dry_run)
    if json:
        results.emit(opened, result)
        return
    for source, to in result.copies:
        output.log(f"copy {source} to {to}")
    done = "would be" if dry_run else "were"
    rewritten = counted(result.manifests, "manifest") + " and " + counted(result.delete_files, "delete file")
    copies = counted(len(result.copies), "file")
    output.log(f"{opened.location}: {rewritten} {done} rewritten, {copies} to copy; then register {result.metadata}")
