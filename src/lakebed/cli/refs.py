"""`lakebed refs TABLE`: the branches and tags of a table. What `lakebed tag` and `lakebed branch` share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import UnsupportedError, counted
from lakebed.model.refs import RefResult

DeleteOption = Annotated[bool, typer.Option("--delete", help="Delete it.")]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Iceberg, and tags of Paimon: move it if it already exists.")
]
RefDryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Iceberg: show what would change, and change nothing.")
]


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
    many = "branches" if kind == "branch" else ""
    output.log(f"{counted(len(shown), kind or 'ref', many)} of {table.location} ({table.format})")


def iceberg_only(table: lakebed.Table, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a verb that were given, of those that only Iceberg tables have. UnsupportedError for another
    format's table."""
    return only_of(table, given, "iceberg")


def only_of(table: lakebed.Table, given: Mapping[str, Any], *formats: str) -> dict[str, Any]:
    """The arguments of a verb that were given, of those that only tables of some formats have. UnsupportedError for
    another format's table."""
    used = {name: value for name, value in given.items() if value}
    if used and table.format not in formats:
        option = "--" + next(iter(used)).replace("_", "-").replace("options", "retain")
        raise UnsupportedError(
            f"{table.format} tables have no {option} here", table=table.location, todo="Leave it out"
        )
    return used


def report(
    table: lakebed.Table, kind: str, name: str, action: str, as_json: bool, result: RefResult | None = None
) -> None:
    """Print what became of a tag or a branch. `result` says it in full where the format does; its fields are part of
    the JSON document of one that moves, and of a dry run."""
    if as_json:
        document = {"table": table.location, "format": table.format, "kind": kind, "name": name, "action": action}
        moves = result is not None and (result.dry_run or (result.before and result.to))
        output.emit_json({**(asdict(result) if result is not None and moves else {}), **document})
        return
    for verb, snapshots in () if result is None else (("leave it", result.removed), ("come in", result.added)):
        if snapshots:
            output.show_table([f"snapshots that {verb}"], [[snapshot] for snapshot in snapshots])
    for note in result.notes if result is not None else ():
        output.log(note)
    done = "would be" if result is not None and result.dry_run else "was"
    place = f", now at snapshot {result.to}" if result is not None and result.to and not result.dry_run else ""
    output.log(f"{kind} {name!r} of {table.location} {done} {action}{place}")
