"""`lakebed upkeep TABLE`: decide by a policy what is due on a table, or on many, and do it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import (
    DatabasesOption,
    DebugOption,
    DryRunOption,
    ExcludedOption,
    JsonOption,
    ManyArgument,
    MasterOption,
    OptionOption,
    RemoteOption,
    TablesOption,
)
from lakebed.errors import counted
from lakebed.formats.policy import policy_of
from lakebed.kernel.engine import Engine
from lakebed.model.upkeep import StepState, TableUpkeep, UpkeepResult


def upkeep(
    table: ManyArgument,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="A policy, TOML. Default: every verb, without a budget."),
    ] = None,
    dry_run: DryRunOption = False,
    option: OptionOption = None,
    including_databases: DatabasesOption = None,
    including_tables: TablesOption = None,
    excluding_tables: ExcludedOption = None,
    spark: Annotated[bool, typer.Option("--spark", help="Run the tasks on Spark.")] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Decide what is due on a table, or on many, and do it: rewrite, expire, archive. Made for cron.

    Exit code 1 if a step failed or a table is broken. A step that the budget leaves for a later run is not a failure.
    """
    checked = policy_of(policy)
    options = output.parse_options(option or [])
    chosen = (including_databases, including_tables, excluding_tables)

    def run(engine: Engine | None) -> UpkeepResult:
        return lakebed.upkeep(table, checked, dry_run, engine, options, *chosen, told=None if json else _told)

    result = _on_spark(run, master, remote) if spark or master or remote else run(None)
    if json:
        output.emit_json(_document(result))
    else:
        _show(result)
    if result.failed:
        raise typer.Exit(1)


def _on_spark(run: Any, master: str | None, remote: str | None) -> UpkeepResult:
    sessions, engines = import_module("lakebed.spark.session"), import_module("lakebed.spark.engine")
    session = sessions.local_session(master=master, remote=remote)
    try:
        result: UpkeepResult = run(engines.SparkEngine(session))
        return result
    finally:
        session.stop()


def _told(done: TableUpkeep) -> None:
    states = ", ".join(f"{step.verb} {step.state}" for step in done.steps)
    output.log(f"{done.table}: {states or 'nothing is asked for'}")


def _show(result: UpkeepResult) -> None:
    """What there is to say: every step of one table, and of many those that were not simply not due."""
    rows = [
        [done.table, done.health or "unknown", step.verb, step.state.value, step.why]
        for done in result.tables
        for step in done.steps
        if len(result.tables) == 1 or step.state is not StepState.NOT_DUE
    ]
    if rows:
        output.show_table(["table", "health", "verb", "", "because"], rows)
    states = Counter(step.state for done in result.tables for step in done.steps)
    counts = ", ".join(f"{states[state]} {state}" for state in StepState if states[state])
    output.log(f"{counted(len(result.tables), 'table')}: {counts or 'nothing is asked for'}")


def _document(result: UpkeepResult) -> dict[str, Any]:
    tables = [{**asdict(done), "failed": done.failed} for done in result.tables]
    return {**asdict(result), "tables": tables, "failed": len(result.failed)}
