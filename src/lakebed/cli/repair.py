"""`lakebed repair TABLE`: find files that are gone or damaged, and commit a snapshot without them."""

from __future__ import annotations

from lakebed.cli import output, results
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.errors import counted
from lakebed.model.upkeep import RepairResult


def repair(
    table: TableArgument,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Find files that a table names and that are gone or damaged, and commit a snapshot without them."""
    opened, options = results.opened(table, option, also=("branch",))
    result = opened.repair(dry_run=dry_run, options=options)
    if json:
        results.emit(opened, result)
        return
    if result.lost:
        rows = [
            [lost.path, lost.kind, str(lost.rows), lost.partition, ", ".join(lost.snapshots), lost.reason, lost.remedy]
            for lost in result.lost
        ]
        output.show_table(["lost", "holds", "rows", "partition", "snapshots", "because", "remedy"], rows)
    if result.kept:
        output.show_table(["stays", "because"], [[kept.what, kept.reason] for kept in result.kept])
    for note in result.notes:
        output.log(note)
    output.log(f"{opened.location}: {_line(result)}")


def _line(result: RepairResult) -> str:
    if not result.lost:
        return "its one file is whole" if result.checked == 1 else f"all {result.checked} files are whole"
    lost, rows = len(result.lost), counted(result.rows, "row")
    if result.dry_run:
        return f"{lost} of {counted(result.checked, 'file')} lost, with {rows} that would be removed"
    files = f"{counted(lost, 'file')} lost, {len(result.restored)} restored, {len(result.removed)} removed"
    return f"{files}, {counted(result.rows, 'row was', 'rows were')} removed"
