"""`lakebed tag TABLE [NAME]`: list, make and delete the tags of a table."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.refs import DeleteOption, RefDryRunOption, ReplaceOption, iceberg_only, report, show
from lakebed.errors import UsageError


def tag(
    table: TableArgument,
    name: Annotated[str | None, typer.Argument(help="The tag to make or delete. Without it, all are listed.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="The snapshot, instant or time to tag. Default: now.")] = None,
    time_retained: Annotated[
        str | None, typer.Option("--time-retained", metavar="DURATION", help="How long the tag lives, as 7d.")
    ] = None,
    delete: DeleteOption = False,
    replace: ReplaceOption = False,
    dry_run: RefDryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List a table's tags (Hudi: savepoints), or make or delete one."""
    given = {"--at": at is not None, "--time-retained": time_retained is not None, "--replace": replace,
             "--delete": delete}  # fmt: skip
    used = [word for word, is_given in given.items() if is_given]
    if name is None and used:
        raise UsageError(f"{used[0]} needs the name of a tag", todo="Give it after the table")
    if delete and len(used) > 1:
        raise UsageError(f"{used[0]} and --delete are given together", todo="Leave one of them out")
    opened = lakebed.open(table, output.parse_options(option or []))
    if name is None:
        show(opened, "tag", json)
    elif delete:
        result = opened.delete_tag(name, **iceberg_only(opened, {"dry_run": dry_run}))
        report(opened, "tag", name, "deleted", json, result)
    else:
        own = iceberg_only(opened, {"replace": replace, "dry_run": dry_run})
        result = opened.tag(name, output.parse_position(at), time_retained, **own)
        report(opened, "tag", name, "made", json, result)
