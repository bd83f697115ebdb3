"""`lakebed rollback TABLE TO`: put a table back to an earlier state."""

from __future__ import annotations

from typing import Annotated

import typer

from lakebed.cli import output, refs, results
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import counted


def rollback(
    table: TableArgument,
    to: Annotated[str, typer.Argument(help="Where to go back to: tag:NAME, an instant, a snapshot id or a timestamp.")],
    any_snapshot: Annotated[
        bool, typer.Option("--any-snapshot", help="Iceberg: also take a snapshot that is not an ancestor.")
    ] = False,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Put a table back to a tag, an instant, a snapshot or a time. What is newer goes."""
    opened, _ = results.opened(table, option, also=("branch",))
    own = refs.iceberg_only(opened, {"any_snapshot": any_snapshot})
    result = opened.rollback(to, dry_run=dry_run, **own)
    if json:
        results.emit(opened, result)
        return
    what = opened.history_holds
    if result.removed:
        heading = f"{what} that {'would go' if dry_run else 'went'}"
        output.show_table([heading], [[removed] for removed in result.removed])
    for note in result.notes:
        output.log(note)
    done = "would be back" if dry_run else "is back"
    output.log(
        f"{opened.location} {done} at {result.to}; {counted(len(result.removed), what.removesuffix('s'))} removed, "
        f"{counted(len(result.deleted_files), 'file')} deleted"
    )
