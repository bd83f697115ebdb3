"""`lakebed expire TABLE`: remove old versions of a table and the files that only they need."""

from __future__ import annotations

from lakebed.cli import output, upkeep
from lakebed.cli.arguments import DebugOption, DryRunOption, JsonOption, OptionOption, TableArgument


def expire(
    table: TableArgument,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove old snapshots, instants or partitions, and the files that nothing else needs."""
    opened, options = upkeep.opened(table, option)
    result = opened.expire(dry_run=dry_run, options=options)
    if json:
        upkeep.emit(opened, result)
        return
    if result.kept:
        output.show_table(["stays", "because"], [[kept.what, kept.reason] for kept in result.kept])
    for note in result.notes:
        output.log(note)
    done = "would expire" if dry_run else "expired"
    deleted = "would be deleted" if dry_run else "deleted"
    what = "partitions" if options.get("lakebed.expire.what") == "partitions" else "snapshots"
    output.log(f"{len(result.expired)} {what} of {opened.location} {done}; {len(result.deleted_files)} files {deleted}")
