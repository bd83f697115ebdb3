"""`lakebed snapshot FOLDER TABLE`, `lakebed migrate FOLDER`, `lakebed register TABLE FILE`: Iceberg tables made of what
is there already."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption
from lakebed.errors import UsageError, counted
from lakebed.model.upkeep import NewTableResult

_Folder = Annotated[
    str, typer.Argument(metavar="FOLDER", help="A folder of Parquet, ORC or Avro files.", show_default=False)
]
_Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME=TYPE", help="The type of a column, such as dt=date32. Repeatable."),
]


def snapshot(
    folder: _Folder,
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="Path or URL of the new table, or catalog:namespace.table.")
    ],
    column: _Columns = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Create an Iceberg table of a folder's files elsewhere. The files stay, and the table never removes them."""
    options = output.parse_options(option or [])
    _report(lakebed.snapshot(folder, table, _types(column), dry_run, options=options), json)


def migrate(
    folder: _Folder,
    table: Annotated[
        str | None,
        typer.Argument(metavar="[TABLE]", help="catalog:namespace.table. Default: the table opens by its path."),
    ] = None,
    column: _Columns = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make a folder of files an Iceberg table, where it is. The files then belong to the table."""
    options = output.parse_options(option or [])
    _report(lakebed.migrate(folder, table, _types(column), dry_run, options=options), json)


def register(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="catalog:namespace.table.", show_default=False)],
    metadata_file: Annotated[
        str, typer.Argument(metavar="FILE", help="A metadata file of the table.", show_default=False)
    ],
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make an Iceberg table known to a catalog by one of its metadata files."""
    result = lakebed.register(table, metadata_file, dry_run, output.parse_options(option or []))
    if json:
        output.emit_json(asdict(result))
        return
    for note in result.notes:
        output.log(note)
    done = "would be" if dry_run else "was"
    output.log(
        f"{result.table} {done} registered with {counted(result.rows, 'row')} in {counted(result.files, 'file')}"
    )


def _types(given: list[str] | None) -> dict[str, str]:
    """The types of columns by name. UsageError for a text without `=`."""
    types = {}
    for text in given or ():
        name, sign, kind = text.partition("=")
        if not sign or not name.strip() or not kind.strip():
            raise UsageError(f"--column is {text!r}", todo="Give a name and a type, as in --column dt=date32")
        types[name.strip()] = kind.strip()
    return types


def _report(result: NewTableResult, json: bool) -> None:
    if json:
        output.emit_json({"format": "iceberg", **asdict(result)})
        return
    output.show_table(["column", "type"], [text.rsplit(" ", 1) for text in result.columns])
    if result.partitions and result.partitions[0].path:
        rows = [[each.path, str(each.files), str(each.rows), str(each.size)] for each in result.partitions]
        output.show_table(["partition", "files", "rows", "bytes"], rows, right=("files", "rows", "bytes"))
    for note in result.notes:
        output.log(note)
    done = "would have" if result.dry_run else "has"
    output.log(f"{result.table} {done} {counted(result.rows, 'row')} in {counted(result.files, 'file')}")
