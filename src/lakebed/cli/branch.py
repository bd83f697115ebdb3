"""`lakebed branch TABLE [NAME]`: list, make, delete and follow the branches of a table."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.refs import DeleteOption, RefDryRunOption, ReplaceOption, iceberg_only, report, show
from lakebed.errors import UsageError


def branch(
    table: TableArgument,
    name: Annotated[
        str | None, typer.Argument(help="The branch to create, delete or follow. Without it, list all.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="Where the branch begins: tag:NAME, or for Iceberg a snapshot too.")
    ] = None,
    delete: DeleteOption = False,
    fast_forward: Annotated[
        bool, typer.Option("--fast-forward", help="Fast-forward the open branch to the head of this one.")
    ] = False,
    replace: ReplaceOption = False,
    retain: Annotated[
        list[str] | None,
        typer.Option(
            "--retain",
            metavar="KEY=VALUE",
            help="Iceberg: min-snapshots-to-keep, max-snapshot-age-ms or max-ref-age-ms of the branch. Repeatable.",
        ),
    ] = None,
    dry_run: RefDryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List a table's branches, or make, delete or follow one. The option `branch` opens another one than main."""
    given = {"--at": at is not None, "--delete": delete, "--fast-forward": fast_forward}
    used = [word for word, is_given in given.items() if is_given]
    if name is None and used:
        raise UsageError(f"{used[0]} needs the name of a branch", todo="Give it after the table")
    if name is None and (replace or retain):
        raise UsageError("--replace and --retain need the name of a branch", todo="Give it after the table")
    if len(used) > 1:
        raise UsageError(f"{used[0]} and {used[1]} are given together", todo="Leave one of them out")
    opened = lakebed.open(table, output.parse_options(option or []))
    if name is None:
        show(opened, "branch", json)
    elif delete:
        result = opened.delete_branch(name, **iceberg_only(opened, {"dry_run": dry_run}))
        report(opened, "branch", name, "deleted", json, result)
    elif fast_forward:
        result = opened.fast_forward(name, **iceberg_only(opened, {"dry_run": dry_run}))
        report(opened, "branch", name, "followed", json, result)
    else:
        kept = output.parse_options(retain or [])
        own = iceberg_only(opened, {"replace": replace, "dry_run": dry_run, "options": kept})
        result = opened.branch(name, output.parse_position(at), **own)
        report(opened, "branch", name, "made", json, result)
