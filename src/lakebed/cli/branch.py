"""`lakebed branch TABLE [NAME]`: list, make, delete and follow the branches of a table."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.refs import DeleteOption, report, show
from lakebed.errors import UsageError


def branch(
    table: TableArgument,
    name: Annotated[
        str | None, typer.Argument(help="The branch to make, delete or follow. Without it, all are listed.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="Where the branch begins: tag:NAME, or for Iceberg a snapshot too.")
    ] = None,
    delete: DeleteOption = False,
    fast_forward: Annotated[
        bool, typer.Option("--fast-forward", help="Put the branch that is open where this one is.")
    ] = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List a table's branches, or make, delete or follow one. The option `branch` opens another one than main."""
    given = {"--at": at is not None, "--delete": delete, "--fast-forward": fast_forward}
    used = [word for word, is_given in given.items() if is_given]
    if name is None and used:
        raise UsageError(f"{used[0]} needs the name of a branch", todo="Give it after the table")
    if len(used) > 1:
        raise UsageError(f"{used[0]} and {used[1]} are given together", todo="Leave one of them out")
    opened = lakebed.open(table, output.parse_options(option or []))
    if name is None:
        show(opened, "branch", json)
    elif delete:
        opened.delete_branch(name)
        report(opened, "branch", name, "deleted", json)
    elif fast_forward:
        opened.fast_forward(name)
        report(opened, "branch", name, "followed", json)
    else:
        opened.branch(name, output.parse_position(at))
        report(opened, "branch", name, "made", json)
