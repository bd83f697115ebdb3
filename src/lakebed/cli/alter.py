"""`lakebed alter TABLE`: change a table's columns and options."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lakebed.cli import output, upkeep
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import UsageError
from lakebed.model import alter as model

_Words = list[str] | None


def alter(
    table: TableArgument,
    drop: Annotated[_Words, typer.Option("--drop", metavar="COLUMN", help="Drop a column. Repeatable.")] = None,
    rename: Annotated[_Words, typer.Option("--rename", metavar="COLUMN=NAME", help="Rename a column.")] = None,
    add: Annotated[_Words, typer.Option("--add", metavar="COLUMN=TYPE", help="Add a column at the end.")] = None,
    widen: Annotated[_Words, typer.Option("--widen", metavar="COLUMN=TYPE", help="Give a column another type.")] = None,
    set_: Annotated[_Words, typer.Option("--set", metavar="KEY=VALUE", help="Keep an option in the table.")] = None,
    unset: Annotated[_Words, typer.Option("--unset", metavar="KEY", help="Forget an option of the table.")] = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Change a table's columns and options, in one step: drops, then renames, additions, types and options."""
    changes: list[model.Change] = [model.drop_column(name) for name in drop or ()]
    changes += [model.rename_column(*_pair(text, "--rename")) for text in rename or ()]
    changes += [model.add_column(*_pair(text, "--add")) for text in add or ()]
    changes += [model.widen(*_pair(text, "--widen")) for text in widen or ()]
    changes += [model.set_option(*_pair(text, "--set")) for text in set_ or ()]
    changes += [model.remove_option(key) for key in unset or ()]
    opened, _ = upkeep.opened(table, option, also=("branch",))
    result = opened.alter(changes, dry_run=dry_run)
    if json:
        shown = {key: value for key, value in asdict(result).items() if key != "schema"}
        columns = [{"name": field.name, "type": str(field.type)} for field in result.schema]
        output.emit_json({"table": opened.location, "format": opened.format, **shown, "schema": columns})
        return
    output.show_table([f"changes that {'would be' if dry_run else 'were'} made"], [[line] for line in result.changes])
    for note in result.notes:
        output.log(note)
    output.log(f"{opened.location} {'would have' if dry_run else 'has'} version {result.version} of its schema")


def _pair(text: str, option: str) -> tuple[str, str]:
    """The two sides of `COLUMN=TYPE`. UsageError where one is missing."""
    left, sign, right = text.partition("=")
    if not sign or not left.strip() or not right.strip():
        raise UsageError(f"{option} is {text!r}", todo="Give two words with = between them, as in --add price=BIGINT")
    return left.strip(), right.strip()
