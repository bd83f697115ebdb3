"""`lakebed rewrite TABLE`: rewrite Iceberg files to the target size, the sorted runs and postponed buckets of Paimon
tables to files of the highest level, and the logs of Hudi tables to base files."""

from __future__ import annotations

from typing import Annotated

import typer

from lakebed.cli import output, upkeep
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.model.upkeep import RewriteResult


def rewrite(
    table: TableArgument,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Rewrite only files that may have a matching row.")
    ] = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Rewrite small files and files with many deletes, or all files, into files of the target size."""
    opened, options = upkeep.opened(table, option)
    result = opened.rewrite(where=where, dry_run=dry_run, options=options)
    if json:
        upkeep.emit(opened, result)
    else:
        _report(result, opened.location, dry_run)
    if result.failed:
        total = len(result.failed) + result.groups
        output.log(f"error: {len(result.failed)} of {total} groups failed. The first: {result.failed[0].reason}")
        raise typer.Exit(1)


def _report(result: RewriteResult, location: str, dry_run: bool) -> None:
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
