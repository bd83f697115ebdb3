"""`lakebed alter TABLE`: change a table's columns, partition fields, sort order and options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from lakebed.cli import output, results
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import UsageError
from lakebed.model import alter as model

_Words = list[str] | None
_VERSION = "format-version"


def alter(
    table: TableArgument,
    drop: Annotated[_Words, typer.Option("--drop", metavar="COLUMN", help="Drop a column. Repeatable.")] = None,
    rename: Annotated[_Words, typer.Option("--rename", metavar="COLUMN=NAME", help="Rename a column.")] = None,
    add: Annotated[_Words, typer.Option("--add", metavar="COLUMN=TYPE", help="Add a column at the end.")] = None,
    widen: Annotated[_Words, typer.Option("--widen", metavar="COLUMN=TYPE", help="Give a column another type.")] = None,
    default: Annotated[
        _Words, typer.Option("--default", metavar="COLUMN=VALUE", help="The default value of a column.")
    ] = None,
    nullable: Annotated[_Words, typer.Option("--nullable", metavar="COLUMN", help="Let a column be null.")] = None,
    move: Annotated[
        _Words, typer.Option("--move", metavar="COLUMN=PLACE", help="Move a column: first, after:NAME or before:NAME.")
    ] = None,
    comment: Annotated[_Words, typer.Option("--comment", metavar="COLUMN=TEXT", help="Describe a column.")] = None,
    identifier_fields: Annotated[
        str | None,
        typer.Option("--identifier-fields", metavar="COLUMNS", help="Iceberg: the columns that identify rows."),
    ] = None,
    drop_partition: Annotated[
        _Words, typer.Option("--drop-partition", metavar="FIELD", help="Iceberg: drop a partition field.")
    ] = None,
    replace_partition: Annotated[
        _Words,
        typer.Option("--replace-partition", metavar="FIELD=TRANSFORM", help="Iceberg: replace a partition field."),
    ] = None,
    rename_partition: Annotated[
        _Words, typer.Option("--rename-partition", metavar="FIELD=NAME", help="Iceberg: rename a partition field.")
    ] = None,
    add_partition: Annotated[
        _Words, typer.Option("--add-partition", metavar="TRANSFORM", help="Iceberg: add a partition field.")
    ] = None,
    sort_order: Annotated[
        str | None,
        typer.Option("--sort-order", metavar="ORDER", help='Iceberg: such as "dt, amount desc"; "" for none.'),
    ] = None,
    set_: Annotated[_Words, typer.Option("--set", metavar="KEY=VALUE", help="Set an option of the table.")] = None,
    unset: Annotated[_Words, typer.Option("--unset", metavar="KEY", help="Remove an option of the table.")] = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Change a table's columns, partition fields, sort order and options, in one step.

    A new format version comes first, then drops, then the other changes in the order of this list.
    """
    settings = [model.set_option(*_pair(text, "--set")) for text in set_ or ()]
    changes: list[model.Change] = [change for change in settings if change.key == _VERSION]
    changes += [model.drop_partition_field(field) for field in drop_partition or ()]
    changes += [model.drop_column(name) for name in drop or ()]
    changes += [model.rename_column(*_pair(text, "--rename")) for text in rename or ()]
    changes += [model.add_column(*_pair(text, "--add")) for text in add or ()]
    changes += [model.widen(*_pair(text, "--widen")) for text in widen or ()]
    changes += [model.set_default(*_pair(text, "--default")) for text in default or ()]
    changes += [model.set_nullable(name) for name in nullable or ()]
    changes += [_moved(*_pair(text, "--move")) for text in move or ()]
    changes += [model.set_comment(*_pair(text, "--comment")) for text in comment or ()]
    if identifier_fields is not None:
        changes.append(model.set_identifier_fields(*_split(identifier_fields)))
    changes += [model.replace_partition_field(*_pair(text, "--replace-partition")) for text in replace_partition or ()]
    changes += [model.rename_partition_field(*_pair(text, "--rename-partition")) for text in rename_partition or ()]
    changes += [model.add_partition_field(text) for text in add_partition or ()]
    if sort_order is not None:
        changes.append(model.set_sort_order(*_split(sort_order)))
    changes += [change for change in settings if change.key != _VERSION]
    changes += [model.remove_option(key) for key in unset or ()]
    opened, _ = results.opened(table, option, also=("branch",))
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


def _moved(column: str, place: str) -> model.MoveColumn:
    """The change that `COLUMN=PLACE` asks for. UsageError for a place that is none."""
    word, _, beside = place.partition(":")
    match (word.strip().lower(), beside.strip()):
        case ("first", ""):
            return model.move_column(column, first=True)
        case ("after", name) if name:
            return model.move_column(column, after=name)
        case ("before", name) if name:
            return model.move_column(column, before=name)
    raise UsageError(f"--move has the place {place!r}", todo="Give first, after:NAME or before:NAME")


def _split(text: str) -> Iterator[str]:
    """The parts of a list with commas; commas in parentheses belong to a part."""
    part, depth = "", 0
    for letter in f"{text},":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            if part.strip():
                yield part.strip()
            part = ""
        else:
            part += letter


def _pair(text: str, option: str) -> tuple[str, str]:
    """The two sides of `COLUMN=TYPE`. UsageError where one is missing."""
    left, sign, right = text.partition("=")
    if not sign or not left.strip() or not right.strip():
        raise UsageError(f"{option} is {text!r}", todo="Give two words with = between them, as in --add price=BIGINT")
    return left.strip(), right.strip()
