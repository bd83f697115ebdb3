"""`lakebed describe|schema|files|partitions TABLE`: what a table is, its columns, its files and its partitions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.rows import FormatOption, LimitOption, OutputOption, checked_format, deliver


def describe(
    table: TableArgument, option: OptionOption = None, json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Show what a table is: its format, columns, keys, partitioning and newest commit."""
    opened = lakebed.open(table, output.parse_options(option or []))
    newest = opened.newest_commit()
    figures = dict(opened.inspect().figures.get("table", {}))
    newest_time = (newest.completed or newest.time) if newest is not None else None
    facts = {"format": opened.format, "newest": newest.time if newest is not None else None, "committed": newest_time}
    if json:
        output.emit_json({"table": opened.location, **facts, "figures": figures, "schema": _columns(opened)})
        return
    shown = {"location": opened.location, **facts, **figures}
    output.show_table(
        ["what", "value"], [[name, "-" if value in (None, "") else value] for name, value in shown.items()]
    )
    _show_columns(opened)


def schema(
    table: TableArgument, option: OptionOption = None, json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Show a table's columns with their types."""
    opened = lakebed.open(table, output.parse_options(option or []))
    if json:
        output.emit_json({"table": opened.location, "format": opened.format, "schema": _columns(opened)})
    else:
        _show_columns(opened)


def files(
    table: TableArgument, limit: LimitOption = None, format: FormatOption = None, to: OutputOption = None,
    option: OptionOption = None, json: JsonOption = False, debug: DebugOption = False,
) -> None:  # fmt: skip
    """List the data files of a table's newest snapshot: the metadata table `files`."""
    written = checked_format(to, format, json)
    opened = lakebed.open(table, output.parse_options(option or []))
    deliver(opened, opened.metadata("files"), to, written, limit, json)


def partitions(
    table: TableArgument, limit: LimitOption = None, format: FormatOption = None, to: OutputOption = None,
    option: OptionOption = None, json: JsonOption = False, debug: DebugOption = False,
) -> None:  # fmt: skip
    """List a table's partitions: the metadata table `partitions`."""
    written = checked_format(to, format, json)
    opened = lakebed.open(table, output.parse_options(option or []))
    deliver(opened, opened.metadata("partitions"), to, written, limit, json)


def _columns(table: lakebed.Table) -> list[dict[str, Any]]:
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable, **_comment(field)}
        for field in table.schema
    ]


def _comment(field: pa.Field) -> dict[str, str]:
    comment = (field.metadata or {}).get(b"comment", b"").decode()
    return {"comment": comment} if comment else {}


def _show_columns(table: lakebed.Table) -> None:
    rows = [[field.name, str(field.type), "" if field.nullable else "not null"] for field in table.schema]
    output.show_table(["column", "type", ""], rows)
