"""The upkeep of one table or of many by a policy, and the line of each run in its audit file."""

from __future__ import annotations

import datetime
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from lakebed.errors import UsageError, error_text
from lakebed.formats.finding import find_tables
from lakebed.formats.opening import open_table, opening_options
from lakebed.formats.policy import Policy, policy_of
from lakebed.formats.table_upkeep import Spending, upkeep_of
from lakebed.kernel import clock
from lakebed.kernel.engine import Engine
from lakebed.kernel.lines import add_line, check_lines
from lakebed.kernel.options import option_texts
from lakebed.model.report import Health
from lakebed.model.upkeep import StepState, TableUpkeep, UpkeepResult, UpkeepStep
from lakebed.redaction import redacted

_LOOKS_AT_ONCE = 8
Told = Callable[[TableUpkeep], None]
"""Is told of each table when it is done."""


def upkeep(
    location: str | os.PathLike[str],
    policy: Policy | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    engine: Engine | None = None,
    options: Mapping[str, object] = {},
    including_databases: str | None = None,
    including_tables: str | None = None,
    excluding_tables: str | None = None,
    told: Told | None = None,
) -> UpkeepResult:
    """Decide what is due on a table, or on many (as in `lakebed.tables`), and do it: rewrite, expire, archive.

        lakebed.upkeep("/lake/shop", "policy.toml", dry_run=True)      # what is due, and why the rest is not
        lakebed.upkeep("catalog:shop", {"budget": {"bytes": "50 gb", "minutes": 30}})

    `policy` is a TOML file or what it holds (`lakebed.formats.policy`); None: every verb with its defaults, without a
    budget. `options` open the tables. Pass an engine, such as `lakebed.spark.SparkEngine(spark)`, to run the tasks
    elsewhere. `told` is called with each table's part of the result when it is done.

    With a budget, tables in the worst health come first. A table that fails ends nothing: see `.failed` of the result.
    Run twice at once on one machine, a table is worked on once. Raises UsageError for a policy that is wrong and
    TableNotFoundError where there is no table, before anything is done.
    """
    chosen, texts = policy_of(policy), option_texts(options)
    for key in texts.keys() - opening_options(texts).keys():
        raise UsageError(
            f"option {key!r} does not open a table", todo="Options of verbs belong in the policy, as [hudi.rewrite]"
        )
    spending = Spending(chosen.budget)
    names = find_tables(location, texts, including_databases, including_tables, excluding_tables)
    if chosen.audit:
        check_lines(chosen.audit, "audit file")
    if len(names) > 1 and chosen.budget.is_bound:
        names = _worst_first(names, texts)
    done: list[TableUpkeep] = []

    def result() -> UpkeepResult:
        return UpkeepResult(tuple(done), dry_run, spending.bytes, spending.requests, round(spending.seconds, 3))

    try:
        for name in names:
            done.append(_one(name, texts, chosen, spending, dry_run, engine))
            if told is not None:
                told(done[-1])
    finally:  # after an interrupt too
        if chosen.audit:
            add_line(chosen.audit, audit_line(os.fspath(location), result()))
    return result()


def audit_line(location: str, result: UpkeepResult) -> str:
    """A run in one line of JSON: when, where, how much, and each step that was not simply not due."""
    states = Counter(step.state.value for table in result.tables for step in table.steps)
    steps = [
        {"table": table.table, "health": table.health, "verb": step.verb, "state": step.state.value, "why": step.why}
        for table in result.tables
        for step in table.steps
        if step.state is not StepState.NOT_DUE
    ]
    line = {
        "time": clock.moment(datetime.UTC).isoformat(timespec="seconds") + "Z", "location": location,
        "dry_run": result.dry_run, "tables": len(result.tables), "failed": len(result.failed), "steps": dict(states),
        "bytes": result.bytes, "requests": result.requests, "seconds": result.seconds, "told": steps,
    }  # fmt: skip
    return redacted(json.dumps(line, ensure_ascii=False))


def _one(
    name: str, options: Mapping[str, str], policy: Policy, spending: Spending, dry_run: bool, engine: Engine | None
) -> TableUpkeep:
    try:
        return upkeep_of(open_table(name, options), name, policy, spending, dry_run, engine)
    except Exception as error:  # noqa: BLE001 - the other tables are none the worse for it
        return TableUpkeep(
            redacted(name), steps=(UpkeepStep("inspect", StepState.FAILED, redacted(error_text(error))),)
        )


def _worst_first(names: Sequence[str], options: Mapping[str, str]) -> list[str]:
    """The tables, the worst health and the most findings first. Tables that cannot be inspected come last, so that they
    spend nothing of the budget."""
    with ThreadPoolExecutor(min(_LOOKS_AT_ONCE, len(names)), "lakebed-upkeep") as pool:
        looks = list(pool.map(partial(_look, options), names))
    return [name for _, name in sorted(zip(looks, names, strict=True))]


def _look(options: Mapping[str, str], name: str) -> tuple[int, int]:
    try:
        report = open_table(name, options).inspect()
    except Exception:  # noqa: BLE001 - it is told of when its turn comes
        return 1, 0
    concerns = sum(finding.health is not Health.GOOD for finding in report.findings)
    return -report.health.rank, -concerns
