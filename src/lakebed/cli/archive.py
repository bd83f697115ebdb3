"""`lakebed archive TABLE`: move old instants of a Hudi timeline to the archive, and show what stays and why."""

from __future__ import annotations

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
from lakebed.cli.blockers import HEADINGS, grouped
from lakebed.errors import counted
from lakebed.kernel.engine import Engine
from lakebed.model.upkeep import ArchiveResult


def archive(
    table: ManyArgument,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    including_databases: DatabasesOption = None,
    including_tables: TablesOption = None,
    excluding_tables: ExcludedOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Move old instants of a Hudi table from the active timeline to the archive."""

    def one(opened: lakebed.Table, options: dict[str, object]) -> None:
        result = opened.archive(dry_run=dry_run, options=options)
        if json:
            results.emit(opened, result)
            return
        _show(result)
        output.log(_line(result, f" of {opened.location}"))
        if result.dropped:
            dropped = "would be dropped" if dry_run else "dropped"
            archived = counted(len(result.dropped), "archived instant")
            output.log(f"{archived} up to {result.dropped[-1]} {dropped} from the archive")
        for note in result.notes:
            output.log(note)

    def act(opened: lakebed.Table, options: dict[str, object], _: Engine | None) -> many.Done:
        result = opened.archive(dry_run=dry_run, options=options)
        return many.Done(many.with_notes(_line(result), result.notes), results.document(opened, result))

    chosen = many.Chosen(including_databases, including_tables, excluding_tables)
    many.over(table, option, chosen, one, act, json)


def _line(result: ArchiveResult, where: str = "") -> str:
    done = "would leave" if result.dry_run else "left"
    return f"{counted(len(result.archived), 'instant')} {done} the active timeline{where}, {len(result.kept)} stay"


def _show(result: ArchiveResult) -> None:
    output.show_table(["setting", "used"], sorted(result.settings.items()))
    if result.archived:
        output.show_table(["archived", "from", "to"], [[len(result.archived), result.archived[0], result.archived[-1]]])
    if result.blockers:
        output.show_table(HEADINGS, grouped(result.blockers))
