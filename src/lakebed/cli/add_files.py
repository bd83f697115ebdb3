"""`lakebed add-files TABLE PATH...`: files that are there already become a table's (Iceberg)."""

from __future__ import annotations

from typing import Annotated

import typer

from lakebed.cli import output, results
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import counted


def add_files(
    table: TableArgument,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, or folders of files.")],
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Add Parquet, ORC and Avro files to an Iceberg table as they are, in one commit."""
    opened, options = results.opened(table, option, also=("branch",))
    result = opened.add_files(paths, dry_run=dry_run, options=options)
    if json:
        results.emit(opened, result)
        return
    rows = [[each.path, str(each.files), str(each.rows), str(each.size)] for each in result.partitions]
    output.show_table(["partition", "files", "rows", "bytes"], rows, right=("files", "rows", "bytes"))
    done = "would be" if dry_run else "were"
    output.log(f"{opened.location}: {counted(result.files, 'file')} with {counted(result.rows, 'row')} {done} added")
