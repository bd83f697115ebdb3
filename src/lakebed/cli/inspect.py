"""`lakebed inspect TABLE`: show a table's health: figures, findings with what to do, and what blocks its upkeep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import lakebed
from lakebed.cli import many, output
from lakebed.cli.arguments import (
    DatabasesOption,
    DebugOption,
    ExcludedOption,
    JsonOption,
    ManyArgument,
    OptionOption,
    TablesOption,
)
from lakebed.cli.blockers import HEADINGS, grouped
from lakebed.cli.report_page import figure_text, report_page
from lakebed.errors import UsageError
from lakebed.kernel.engine import Engine
from lakebed.model.fixes import Fix, with_table
from lakebed.model.report import Health, TableReport

_STYLES = {Health.GOOD: "green", Health.ATTENTION: "yellow", Health.BROKEN: "bold red"}


def inspect(
    table: ManyArgument,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the report as an HTML page.")
    ] = None,
    fail_on: Annotated[
        Health | None,
        typer.Option("--fail-on", help="Exit with code 1 if a table is this bad or worse: attention or broken."),
    ] = None,
    option: OptionOption = None,
    including_databases: DatabasesOption = None,
    including_tables: TablesOption = None,
    excluding_tables: ExcludedOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a table's health: figures, problems, what to do, and what blocks its upkeep. Changes nothing.

    Of many tables the worst come first.

    --option takes the settings of the table's writer, such as hoodie.keep.max.commits, and storage options.
    """

    def is_bad(report: TableReport) -> bool:
        return fail_on is not None and report.health.rank >= fail_on.rank

    def one(opened: lakebed.Table, settings: dict[str, object]) -> None:
        report = opened.inspect(settings)
        if html is not None:
            _write(html, report_page(report))
        if json:
            output.emit_json(_document(report))
        else:
            _show(report)
        if html is not None:
            output.log(f"the report is in {html}")
        if is_bad(report):
            raise typer.Exit(1)

    def act(opened: lakebed.Table, settings: dict[str, object], _: Engine | None) -> many.Done:
        if html is not None:
            raise UsageError("--html is for one table", todo="Leave it out")
        report = opened.inspect(settings)
        findings = "; ".join(finding.what for finding in report.findings)
        line = f"{report.health}{': ' if findings else ''}{findings}"
        return many.Done(line, _document(report), is_bad(report), report.health.rank)

    chosen = many.Chosen(including_databases, including_tables, excluding_tables)
    many.over(table, option, chosen, one, act, json, ["branch"], combined=True, worst_first=True)


def _write(file: Path, page: str) -> None:
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot write --html {file}", why=why, todo="Name a file in a folder that exists") from error


def _document(report: TableReport) -> dict[str, Any]:
    return {
        "table": report.table,
        "format": report.format,
        "health": report.health.value,
        "figures": {section: dict(figures) for section, figures in report.figures.items()},
        "findings": [
            {
                "health": f.health.value,
                "what": f.what,
                "why": f.why,
                "remedy": f.remedy,
                "fix": _spelled(f.fix, report.table) if f.fix else None,
            }
            for f in report.findings
        ],
        "blockers": [
            {"instant": b.instant, "reason": b.reason, "remedy": with_table(b.remedy, report.table)}
            for b in report.blockers
        ],
        "advice": list(report.advice),
    }


def _spelled(fix: Fix, table: str) -> dict[str, str]:
    """The call in the three languages in which it can be pasted."""
    return {"command": fix.command(table), "sql": fix.sql(table), "python": fix.python(table)}


def _show(report: TableReport) -> None:
    console = output.stdout()
    for section, figures in report.figures.items():
        shown = [[name, figure_text(name, value)] for name, value in figures.items()]
        output.show_table([section, ""], shown)
        console.print()
    if report.findings:
        output.show_table(
            ["health", "finding", "why", "what to do"],
            ([finding.health.value, finding.what, finding.why, finding.remedy] for finding in report.findings),
        )
        console.print()
    if report.blockers:
        output.show_table(HEADINGS, grouped(report.blockers, report.table))
        console.print()
    if report.fixes:
        console.print("to run:")
        for fix in report.fixes:
            console.print(f"  {fix.command(report.table)}", markup=False, highlight=False, soft_wrap=True)
        console.print()
    console.print(f"{report.table} ({report.format}): {report.health.value}", style=_STYLES[report.health])
