"""`lakebed rewrite TABLE`: Iceberg files into files of the target size, postponed buckets of Paimon into real ones."""

from __future__ import annotations

from typing import Annotated

import typer

from lakebed.cli import output, upkeep
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption, TableArgument
from lakebed.model.upkeep import RewriteResult


def rewrite(
    table: TableArgument,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only files that may hold a matching row.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be rewritten and why, and change nothing.")
    ] = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Rewrite small files, files with many deletes, or all of them, into files of the target size."""
    opened, options = upkeep.opened(table, option)
    result = opened.rewrite(where=where, dry_run=dry_run, options=options)
    if json:
        upkeep.emit(opened, result)
    else:
        _tell(result, opened.location, dry_run)
    if result.failed:
        whole = len(result.failed) + result.groups
        output.log(f"error: {len(result.failed)} of {whole} groups failed, the first: {result.failed[0].reason}")
        raise typer.Exit(1)


def _tell(result: RewriteResult, location: str, dry_run: bool) -> None:
    _show(result)
    done = "would become" if dry_run else "became"
    output.log(
        f"{result.files_before} files ({result.bytes_before} bytes) {done} {result.files_after} "
        f"({result.bytes_after} bytes) in {result.groups} groups of {location}"
    )
    for note in result.notes:
        output.log(note)


def _show(result: RewriteResult) -> None:
    if result.plan:
        output.show_table(
            ["group", "files", "bytes", "files after", "bytes after", "because"],
            [[g.what, g.files, g.size, g.files_after, g.size_after, g.reason] for g in result.plan],
            right=("files", "bytes", "files after", "bytes after"),
        )
    if result.skipped:
        output.show_table(["left alone", "because"], [[one.what, one.reason] for one in result.skipped])
    if result.failed:
        output.show_table(["failed", "because"], [[one.what, one.reason] for one in result.failed])
