"""`lakebed expire TABLE`: remove old versions of a table, or of many, and the files that only they need."""

from __future__ import annotations

from collections.abc import Mapping

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
from lakebed.model.upkeep import ExpireResult


def expire(
    table: ManyArgument,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    including_databases: DatabasesOption = None,
    including_tables: TablesOption = None,
    excluding_tables: ExcludedOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove old snapshots, instants or partitions, and the files that nothing else needs."""

    def one(opened: lakebed.Table, options: dict[str, object]) -> None:
        result = opened.expire(dry_run=dry_run, options=options)
        if json:
            results.emit(opened, result)
            return
        if result.kept:
            output.show_table(["stays", "because"], [[kept.what, kept.reason] for kept in result.kept])
        for note in result.notes:
            output.log(note)
        output.log(_line(result, options, f" of {opened.location}"))

    def act(opened: lakebed.Table, options: dict[str, object], _: Engine | None) -> many.Done:
        result = opened.expire(dry_run=dry_run, options=options)
        return many.Done(many.with_notes(_line(result, options), result.notes), results.document(opened, result))

    chosen = many.Chosen(including_databases, including_tables, excluding_tables)
    many.over(table, option, chosen, one, act, json)


def _line(result: ExpireResult, options: Mapping[str, object], where: str = "") -> str:
    done = "would expire" if result.dry_run else "expired"
    deleted = "would be deleted" if result.dry_run else "deleted"
    what = "partition" if options.get("lakebed.expire.what") == "partitions" else "snapshot"
    return f"{counted(len(result.expired), what)}{where} {done}; {counted(len(result.deleted_files), 'file')} {deleted}"
