"""`lakebed refs TABLE`: the branches and tags of a table. What `lakebed tag` and `lakebed branch` share."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument

DeleteOption = Annotated[bool, typer.Option("--delete", help="Delete it.")]


def refs(
    table: TableArgument, option: OptionOption = None, json: JsonOption = False, debug: DebugOption = False
) -> None:
    """List a table's branches and tags."""
    show(lakebed.open(table, output.parse_options(option or [])), "", json)


def show(table: lakebed.Table, kind: str, as_json: bool) -> None:
    """Print the branches, or the tags, of a table; with "" both."""
    shown = [ref for ref in table.refs() if kind in ("", ref.kind)]
    if as_json:
        output.emit_json({"table": table.location, "format": table.format, "refs": [asdict(ref) for ref in shown]})
        return
    columns = (["kind"] if not kind else []) + ["name", table.history_holds.removesuffix("s"), "ends"]
    rows = [([ref.kind] if not kind else []) + [ref.name, ref.instant or "-", ref.ends or "-"] for ref in shown]
    output.show_table(columns, rows)
    what = {"": "refs", "tag": "tags", "branch": "branches"}[kind]
    output.log(f"{len(shown)} {what} of {table.location} ({table.format})")


def report(table: lakebed.Table, kind: str, name: str, action: str, as_json: bool) -> None:
    """Print what became of a tag or a branch."""
    if as_json:
        output.emit_json(
            {"table": table.location, "format": table.format, "kind": kind, "name": name, "action": action}
        )
    else:
        output.log(f"{kind} {name!r} of {table.location} was {action}")
