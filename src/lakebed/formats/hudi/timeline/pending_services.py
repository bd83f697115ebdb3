"""The table services that are requested or under way: which file groups their plans take.

Writers need them. In table version 6 and older, log files of a file group under a pending compaction are named by the
compaction's instant. A file group under a pending clustering takes no updates unless the writer's strategy says so
(`hoodie.clustering.updates.strategy`), and small files are not filled up there. Cleaners, planners and the rewrite of
the table leave such file groups as they are.

Rules: Hudi's `CompactionUtils.getAllPendingCompactionOperations` and
`ClusteringUtils.getAllFileGroupsInPendingClusteringPlans`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.formats.hudi.codec.service_plans import (
    ClusteringPlan,
    CompactionPlan,
    parse_clustering_plan,
    parse_compaction_plan,
)
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store

Group = tuple[str, str]
"""A file group: its partition and its file id."""


@dataclass(frozen=True, slots=True)
class PendingServices:
    """Pending services and their plans, by instant.

    `compacting`, `log_compacting` and `clustering` map the file groups of those plans to the instant that takes them.
    """

    compactions: Mapping[str, CompactionPlan] = field(default_factory=dict)
    log_compactions: Mapping[str, CompactionPlan] = field(default_factory=dict)
    clusterings: Mapping[str, ClusteringPlan] = field(default_factory=dict)
    compacting: Mapping[Group, str] = field(default_factory=dict)
    log_compacting: Mapping[Group, str] = field(default_factory=dict)
    clustering: Mapping[Group, str] = field(default_factory=dict)

    def taken(self, group: Group) -> str:
        """The instant of a pending service that takes a file group, "" for none."""
        return self.compacting.get(group) or self.log_compacting.get(group) or self.clustering.get(group) or ""


def pending_services(store: Store, timeline: Timeline) -> PendingServices:
    """Read the plans of all pending compactions, log compactions and clusterings of a timeline.

    A pending replace commit without a plan, as an insert overwrite leaves it, is none. Raises CorruptError, which names
    the state file, for a plan that cannot be decoded.
    """
    entries = [entry for entry in timeline.pending if _may_have_plan(entry)]
    contents = store.read_many([entry.requested for entry in entries])
    compactions: dict[str, CompactionPlan] = {}
    log_compactions: dict[str, CompactionPlan] = {}
    clusterings: dict[str, ClusteringPlan] = {}
    for entry, data in zip(entries, contents, strict=True):
        todo = "Take the instant back with Hudi's own engine, or restore the file from a copy"
        with decoding(
            "the plan of a table service cannot be read",
            table=store.location,
            file=entry.requested,
            instant=entry.time,
            todo=todo,
        ):
            if entry.action in ("clustering", "replacecommit"):
                clustering = parse_clustering_plan(data)
                if clustering is not None:
                    clusterings[entry.time] = clustering
            elif data:
                plans = compactions if entry.action == "compaction" else log_compactions
                plans[entry.time] = parse_compaction_plan(data)
    return PendingServices(
        compactions,
        log_compactions,
        clusterings,
        _groups(compactions),
        _groups(log_compactions),
        {(part.partition, part.file_id): time for time, plan in clusterings.items() for part in plan.slices},
    )


def _may_have_plan(entry: Entry) -> bool:
    return bool(entry.requested) and entry.action in ("compaction", "logcompaction", "clustering", "replacecommit")


def _groups(plans: Mapping[str, CompactionPlan]) -> dict[Group, str]:
    return {(part.partition, part.file_id): time for time, plan in plans.items() for part in plan.operations}
