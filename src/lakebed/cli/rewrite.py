"""`lakebed rewrite TABLE`: rewrite Iceberg files to the target size, the sorted runs and postponed buckets of Paimon
tables to files of the highest level, and the logs of Hudi tables to base files."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

import lakebed
from lakebed.cli import many, output, results
from lakebed.cli.arguments import (
    DatabasesOption,
    DebugOption,
    DryRunOption,
    ExcludedOption,
    JsonOption,
    ManyArgument,
    OptionOption,
    TablesOption,
)
from lakebed.errors import counted
from lakebed.kernel.engine import Engine
from lakebed.model.upkeep import RewriteResult


class Mode(StrEnum):
    """Whether tables are rewritten one by one or together, in the words of Paimon's `compact_database`."""

    DIVIDED = "divided"
    COMBINED = "combined"


def rewrite(
    table: ManyArgument,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Rewrite only files that may have a matching row.")
    ] = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    including_databases: DatabasesOption = None,
    including_tables: TablesOption = None,
    excluding_tables: ExcludedOption = None,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode", help="How to rewrite many tables: one after the other, or the tasks of all side by side."
        ),
    ] = Mode.DIVIDED,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Rewrite small files and files with many deletes, or all files, into files of the target size."""

    def one(opened: lakebed.Table, options: dict[str, object]) -> None:
        result = opened.rewrite(where=where, dry_run=dry_run, options=options)
        if json:
            results.emit(opened, result)
        else:
            _show(result)
            output.log(_line(result, f" of {opened.location}"))
            for note in result.notes:
                output.log(note)
        if result.failed:
            output.log(f"error: {_failed(result)}")
            raise typer.Exit(1)

    def act(opened: lakebed.Table, options: dict[str, object], engine: Engine | None) -> many.Done:
        result = opened.rewrite(where=where, dry_run=dry_run, engine=engine, options=options)
        line = many.with_notes(_line(result), result.notes)
        document = results.document(opened, result)
        return many.Done(f"failed: {_failed(result)}; {line}" if result.failed else line, document, bool(result.failed))

    chosen = many.Chosen(including_databases, including_tables, excluding_tables)
    many.over(table, option, chosen, one, act, json, combined=mode is Mode.COMBINED)


def _line(result: RewriteResult, where: str = "") -> str:
    done = "would become" if result.dry_run else "became"
    return (
        f"{counted(result.files_before, 'file')} ({result.bytes_before} bytes) {done} {result.files_after} "
        f"({result.bytes_after} bytes) in {counted(result.groups, 'group')}{where}"
    )


def _failed(result: RewriteResult) -> str:
    total = len(result.failed) + result.groups
    return f"{len(result.failed)} of {counted(total, 'group')} failed. The first: {result.failed[0].reason}"


def _show(result: RewriteResult) -> None:
    if result.plan:
        output.show_table(
            ["group", "files", "bytes", "files after", "bytes after", "because"],
            [
                [group.what, group.files, group.size, group.files_after, group.size_after, group.reason]
                for group in result.plan
            ],
            right=("files", "bytes", "files after", "bytes after"),
        )
    if result.skipped:
        output.show_table(["left alone", "because"], [[skipped.what, skipped.reason] for skipped in result.skipped])
    if result.failed:
        output.show_table(["failed", "because"], [[failed.what, failed.reason] for failed in result.failed])
