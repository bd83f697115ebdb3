"""What a batch reads, by its options: the changes of a range, a snapshot with row kinds, or a snapshot's rows, perhaps
with another branch to fall back on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakebed.errors import UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.read.change_task import KindColumn
from lakebed.formats.paimon.read.changes import plan_audited, plan_named_range
from lakebed.formats.paimon.read.fallback import plan_with_fallback
from lakebed.formats.paimon.read.plan import ReadRequest, plan_snapshot
from lakebed.formats.paimon.read.travel import created_since, travel_keys
from lakebed.formats.paimon.snapshot_files import was_removed
from lakebed.verbs.read import ReadPlan


def plan_range(request: ReadRequest, named: bool, audited: bool) -> ReadPlan[Any]:
    """Plan a read of the range that the options name. `named` says whether the caller names a snapshot too.

    Raises UsageError when both are named, and what `plan_named_range` raises.
    """
    if named:
        raise UsageError("options name a range, and as_of a snapshot", table=request.table, todo="Give one")
    return plan_named_range(request, KindColumn.FIRST if audited else KindColumn.NONE)


def plan_rows(
    request: ReadRequest, snapshot: Snapshot | None, given: Mapping[str, str], named: bool, audited: bool
) -> ReadPlan[Any]:
    """Plan a read of a snapshot. `given` are the caller's own options, and `named` says whether the caller names the
    snapshot. An `audited` read has row kinds as Paimon's audit log has them.

    A read of the newest snapshot warns where a later one was taken away: Paimon's engines read on without a word."""
    history, options = request.history, request.options
    is_newest = not named and not travel_keys(options)
    removed = history.removed if is_newest else None
    if not named:
        request = replace(request, created_since=created_since(history, options))
    plan: ReadPlan[Any]
    if audited:
        plan = plan_audited(request, snapshot)
    elif options[opt.FALLBACK_BRANCH] not in ("", history.branch):
        plan = plan_with_fallback(request, snapshot, given, is_newest)
    else:
        plan = plan_snapshot(request, snapshot)
    if removed is None:
        return plan
    warning = f"{was_removed(removed, snapshot.id if snapshot else None)}; what it committed is not read"
    return replace(plan, warnings=(warning, *plan.warnings))
