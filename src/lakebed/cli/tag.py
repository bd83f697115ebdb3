"""`lakebed tag TABLE [NAME]`: list, make, move, rename and delete the tags of a table."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.refs import DeleteOption, RefDryRunOption, ReplaceOption, iceberg_only, only_of, report, show
from lakebed.errors import UsageError


def tag(
    table: TableArgument,
    name: Annotated[str | None, typer.Argument(help="The tag to create or delete. Without it, list all.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="The snapshot, instant or time to tag. Default: now.")] = None,
    time_retained: Annotated[
        str | None, typer.Option("--time-retained", metavar="DURATION", help="How long the tag lives, such as 7d.")
    ] = None,
    delete: DeleteOption = False,
    replace: ReplaceOption = False,
    rename: Annotated[str | None, typer.Option("--rename", metavar="NEW", help="Paimon: give it another name.")] = None,
    dry_run: RefDryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List a table's tags (Hudi: savepoints), or make, move, rename or delete one."""
    given = {"--at": at is not None, "--time-retained": time_retained is not None, "--replace": replace,
             "--rename": rename is not None, "--delete": delete}  # fmt: skip
    used = [word for word, is_given in given.items() if is_given]
    if name is None and used:
        raise UsageError(f"{used[0]} needs the name of a tag", todo="Give it after the table")
    if used[-1:] in (["--delete"], ["--rename"]) and len(used) > 1:
        raise UsageError(f"{used[0]} and {used[-1]} are given together", todo="Leave one of them out")
    opened = lakebed.open(table, output.parse_options(option or []))
    if name is None:
        show(opened, "tag", json)
    elif delete:
        result = opened.delete_tag(name, **iceberg_only(opened, {"dry_run": dry_run}))
        report(opened, "tag", name, "deleted", json, result)
    elif rename is not None:
        iceberg_only(opened, {"dry_run": dry_run})
        result = opened.rename_tag(name, rename)
        report(opened, "tag", name, f"renamed to {rename!r}", json, result)
    else:
        own = only_of(opened, {"replace": replace}, "iceberg", "paimon") | iceberg_only(opened, {"dry_run": dry_run})
        result = opened.tag(name, output.parse_position(at), time_retained, **own)
        report(opened, "tag", name, "made", json, result)
