"""`lakebed archive TABLE`: move old instants of a Hudi timeline to the archive, and show what stays and why."""

from __future__ import annotations

from lakebed.cli import output, upkeep
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument
from lakebed.cli.blockers import HEADINGS, grouped
from lakebed.model.upkeep import ArchiveResult


def archive(
    table: TableArgument,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Move old instants of a Hudi table from the active timeline to the archive."""
    opened, options = upkeep.opened(table, option)
    result = opened.archive(dry_run=dry_run, options=options)
    if json:
        upkeep.emit(opened, result)
        return
    _show(result)
    done = "would leave" if dry_run else "left"
    output.log(
        f"{len(result.archived)} instants {done} the active timeline of {opened.location}, {len(result.kept)} stay"
    )
    if result.dropped:
        dropped = "would be dropped" if dry_run else "were dropped"
        output.log(f"{len(result.dropped)} archived instants up to {result.dropped[-1]} {dropped} from the archive")
    for note in result.notes:
        output.log(note)


def _show(result: ArchiveResult) -> None:
    output.show_table(["setting", "used"], sorted(result.settings.items()))
    if result.archived:
        output.show_table(["archived", "from", "to"], [[len(result.archived), result.archived[0], result.archived[-1]]])
    if result.blockers:
        output.show_table(HEADINGS, grouped(result.blockers))
