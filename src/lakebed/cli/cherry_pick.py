"""`lakebed cherry-pick TABLE SNAPSHOT`, `lakebed publish TABLE WAP_ID`: changes of a snapshot, on top of a branch."""

from __future__ import annotations

from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.refs import report


def cherry_pick(
    table: TableArgument,
    snapshot: Annotated[str, typer.Argument(help="A snapshot id, or tag:NAME.")],
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Put the changes of one snapshot on top of a branch (Iceberg). The option `branch` opens another one than main."""
    opened = lakebed.open(table, output.parse_options(option or []))
    result = opened.cherry_pick(snapshot, dry_run=dry_run)
    report(opened, "branch", result.name, "moved on", json, result)


def publish(
    table: TableArgument,
    wap_id: Annotated[str, typer.Argument(metavar="WAP_ID", help="The name under which a write was staged.")],
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make a write visible that was staged under a name (Iceberg: wap.id)."""
    opened = lakebed.open(table, output.parse_options(option or []))
    result = opened.publish(wap_id, dry_run=dry_run)
    report(opened, "branch", result.name, "moved on", json, result)
