"""The upkeep of one table by a policy: what is due is found by dry runs, and done within a budget.

A rewrite is due where its plan has groups, an expiry where something would go, an archival where instants would move.
Each verb's own options say when that is. The bytes that a rewrite takes are known from its plan: a plan that is beyond
the budget is cut to the groups that fit, where the format can bound it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.errors import counted, error_text
from lakebed.formats.policy import Budget, Policy
from lakebed.kernel import clock
from lakebed.kernel.commit.alone import alone
from lakebed.kernel.engine import Engine
from lakebed.kernel.files.waiting import requests_made
from lakebed.model.report import Health
from lakebed.model.upkeep import (
    ArchiveResult,
    ExpireResult,
    RewriteGroup,
    RewriteResult,
    StepState,
    TableUpkeep,
    UpkeepStep,
)
from lakebed.verbs.table import Table

_MB = 1 << 20
_BY_FILES = {"iceberg": "max-files-to-rewrite", "paimon": "lakebed.rewrite.max-files"}
_BY_MEGABYTES = {"hudi": "hoodie.compaction.target.io"}
"""What bounds a rewrite in each format: by the files that it takes, or by the MB that it reads and writes."""
_ARCHIVING = ("hudi",)
"""The formats that have an archive."""


@dataclass(slots=True)
class Spending:
    """What a run has spent of its budget."""

    budget: Budget
    bytes: int = 0
    _began: float = field(default_factory=clock.steady)
    _requests_before: int = field(default_factory=requests_made)

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return clock.steady() - self._began

    @property
    def requests(self) -> int:
        """The requests that this process has made since."""
        return requests_made() - self._requests_before

    @property
    def bytes_left(self) -> int | None:
        """The bytes that rewrites may still take; None: no bound."""
        return None if self.budget.bytes is None else max(self.budget.bytes - self.bytes, 0)

    def spent(self) -> str:
        """The bound that the run has reached; "" for none."""
        if self.budget.minutes is not None and self.seconds >= self.budget.minutes * 60:
            return f"the budget of {counted(self.budget.minutes, 'minute')} is spent"
        if self.budget.requests is not None and self.requests >= self.budget.requests:
            return f"the budget of {counted(self.budget.requests, 'request')} is spent"
        return ""


def upkeep_of(
    table: Table, name: str, policy: Policy, spending: Spending, dry_run: bool = False, engine: Engine | None = None
) -> TableUpkeep:
    """Decide and do what is due on a table, which was opened by `name`.

    A broken table is left alone, since an expiry may remove what it can be mended from. A verb that fails is a step
    that failed, and the next one is tried.
    """
    report = table.inspect()
    verbs = [verb for verb in policy.verbs_of(name) if verb != "archive" or table.format in _ARCHIVING]
    done = TableUpkeep(table.location, table.format, report.health.value)
    if report.health is Health.BROKEN:
        what = next(finding.what for finding in report.findings if finding.health is Health.BROKEN)
        return _all_left(done, verbs, f"the table is broken: {what}. Mend it first: lakebed inspect {name}")
    with alone("upkeep", table.location) as is_alone:
        if not is_alone:
            return _all_left(done, verbs, "another run of upkeep is at work on the table")
        steps = []
        for verb in verbs:
            options = policy.options_of(name, table.format, verb)
            steps.append(_Step(table, verb, options, spending, dry_run, engine).taken())
    return TableUpkeep(done.table, done.format, done.health, tuple(steps))


def _all_left(table: TableUpkeep, verbs: list[str], why: str) -> TableUpkeep:
    steps = tuple(UpkeepStep(verb, StepState.LEFT, why) for verb in verbs)
    return TableUpkeep(table.table, table.format, table.health, steps)


@dataclass(frozen=True, slots=True)
class _Step:
    """One verb to run on one table."""

    table: Table
    verb: str
    options: Mapping[str, str]
    spending: Spending
    dry_run: bool
    engine: Engine | None

    def taken(self) -> UpkeepStep:
        """Plan the verb, and run it where it is due and within the budget."""
        spent = self.spending.spent()
        if spent:
            return UpkeepStep(self.verb, StepState.LEFT, spent)
        try:
            return self._taken()
        except Exception as error:  # noqa: BLE001 - the other steps and tables are none the worse for it
            return UpkeepStep(self.verb, StepState.FAILED, error_text(error))

    def _taken(self) -> UpkeepStep:
        options, why = dict(self.options), ""
        plan = self._call(True, options)
        due, reason = _is_due(plan)
        if not due:
            return UpkeepStep(self.verb, StepState.NOT_DUE, reason, plan)
        left = self.spending.bytes_left
        if isinstance(plan, RewriteResult) and left is not None and plan.bytes_before > left:
            why = f"it takes {plan.bytes_before} bytes, and {left} are left of the budget"
            bounded = self._bounded(plan.plan, left)
            plan = self._call(True, options | bounded) if bounded else plan
            if not bounded or not isinstance(plan, RewriteResult) or not 0 < plan.bytes_before <= left:
                return UpkeepStep(self.verb, StepState.LEFT, why, plan)
            options |= bounded
            why = f"; the rest is left: {why}"
            reason = _is_due(plan)[1]
        result = plan if self.dry_run else self._call(False, options)
        if isinstance(result, RewriteResult):
            self.spending.bytes += result.bytes_before
            if result.failed:
                more = f"{counted(len(result.failed), 'group')} failed. The first: {result.failed[0].reason}"
                return UpkeepStep(self.verb, StepState.FAILED, more, result)
        return UpkeepStep(self.verb, StepState.DUE if self.dry_run else StepState.DONE, reason + why, result)

    def _call(self, dry_run: bool, options: Mapping[str, str]) -> RewriteResult | ExpireResult | ArchiveResult:
        table = self.table
        if self.verb == "rewrite":
            return table.rewrite(dry_run=dry_run, engine=self.engine, options=options)
        if self.verb == "expire":
            return table.expire(dry_run, self.engine, options)
        return table.archive(dry_run, self.engine, options)

    def _bounded(self, groups: tuple[RewriteGroup, ...], left: int) -> dict[str, str]:
        """The option that bounds a rewrite to its first groups that fit. Empty where none does."""
        files = size = 0
        for group in groups:
            if size + group.size > left:
                break
            files, size = files + group.files, size + group.size
        if not files:
            return {}
        by_files, by_megabytes = _BY_FILES.get(self.table.format), _BY_MEGABYTES.get(self.table.format)
        if by_files:
            return {by_files: str(files)}
        return {by_megabytes: str(size // _MB)} if by_megabytes else {}


def _is_due(plan: RewriteResult | ExpireResult | ArchiveResult) -> tuple[bool, str]:
    """Whether a plan has anything to do, and what, or why not."""
    if isinstance(plan, RewriteResult):
        if plan.groups:
            first = f": {plan.plan[0].reason}" if plan.plan else ""
            of = f"of {plan.bytes_before} bytes"
            files = counted(plan.files_before, f"file {of} becomes", f"files {of} become")
            return True, f"{files} {plan.files_after}{first}"
        return False, plan.skipped[0].reason if plan.skipped else "no file needs it"
    if isinstance(plan, ExpireResult):
        if plan.expired or plan.deleted_files:
            expired = counted(len(plan.expired), "snapshot or instant", "snapshots or instants")
            return True, f"{expired} and {counted(len(plan.deleted_files), 'file')} to be removed"
        return False, plan.kept[0].reason if plan.kept else "nothing is old enough"
    if plan.archived or plan.dropped:
        moves = counted(len(plan.archived), "instant moves", "instants move")
        return True, f"{moves} to the archive, and {counted(len(plan.dropped), 'goes', 'go')} from it"
    return False, plan.blockers[0].reason if plan.blockers else "the timeline is short enough"
