"""One run of a clustering's plan: its groups are written, and what it replaces, and its buckets, are committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.formats.hudi.codec.hashing import HashingMetadata
from lakebed.formats.hudi.codec.service_plans import ClusteringPlan, PlannedSlice
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.options import Strategy
from lakebed.formats.hudi.index.consistent import check_ring
from lakebed.formats.hudi.index.hash_fields import HashFields
from lakebed.formats.hudi.index.hashing_files import load_rings, mark_rings, save_rings
from lakebed.formats.hudi.index.lookups import check_hash
from lakebed.formats.hudi.index.options import hash_fields_of
from lakebed.formats.hudi.metadata_table.change import WrittenFile
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.rewrite.cluster import Clusterer, ClusterTask, plan_clustering
from lakebed.formats.hudi.rewrite.plan import Planned
from lakebed.formats.hudi.rewrite.request import changed_since, refuse_changed, refuse_under_way
from lakebed.formats.hudi.rewrite.resize import Resizer, children_of, partitions_of, resized, without_doubled
from lakebed.formats.hudi.rewrite.resize_plan import plan_resizing
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.timeline.pending_services import PendingServices
from lakebed.formats.hudi.write.served import check_clustered, has_rings
from lakebed.kernel.engine import Engine
from lakebed.kernel.options import Options


def planned_clustering(
    state: TableState, slices: Sequence[FileSlice], pending: PendingServices, options: Options
) -> Planned:
    """The clustering of a table's newest slices: of a table with consistent hashing a resizing of its buckets.

    UsageError where the options name other hash fields than the table was written with, or its file groups are not
    those of its buckets; UnsupportedError for another bucket index.
    """
    store = state.store
    if not has_rings(store, state.config):
        check_clustered(slices, state.config.merge_on_read, store.location)
        return plan_clustering(slices, pending, options)
    by_partition: dict[str, dict[str, FileSlice]] = {}
    for each in slices:
        by_partition.setdefault(each.partition, {})[each.file_id] = each
    rings = load_rings(state, by_partition)
    for partition, some in by_partition.items():
        empty = HashingMetadata(partition, "", 0, 0, ())
        check_ring(rings.get(partition, empty), some, frozenset(), store.location)
    check_hash(rings, by_partition, _hashed(state, options), store)
    return plan_resizing(slices, rings, pending, state.timeline, options)


def check_plan(state: TableState, plan: ClusteringPlan, options: Options) -> None:
    """Raise for a plan that these options cannot run: OptionError for hash fields that are not in the record key,
    CorruptError for buckets that cannot be read."""
    if children_of(plan):
        _hashed(state, options)


def _hashed(state: TableState, options: Options) -> HashFields:
    config, table = state.config, state.store.location
    return HashFields(config.record_keys, hash_fields_of(options, config, table), config.version < 8, table)


@dataclass
class ClusteringRun:
    """A plan that is run under its instant. `state` is the table as it was when the run began."""

    context: WriteContext
    state: TableState
    options: Options
    plan: ClusteringPlan
    instant: str
    clusterer: Clusterer
    _rings: list[HashingMetadata] = field(default_factory=list)

    def write(self, slices: Sequence[PlannedSlice], engine: Engine) -> list[WrittenFile]:
        """The new base files. `slices` are those of the plan, in its order."""
        ordered = iter(slices)
        groups = [
            ClusterTask(number, tuple(next(ordered) for _ in group.slices))
            for number, group in enumerate(self.plan.groups)
            if group.slices
        ]
        children = children_of(self.plan)
        if not children:
            return [file for files in engine.map(self.clusterer, groups) for file in files]
        resizer = Resizer(self.clusterer, _hashed(self.state, self.options), children)
        return [file for files in engine.map(resizer, groups) for file in files]

    @property
    def replaced(self) -> Mapping[str, tuple[str, ...]]:
        """The file groups that the plan takes out of use, by partition."""
        replaced: dict[str, tuple[str, ...]] = {}
        for part in self.plan.slices:
            replaced[part.partition] = (*replaced.get(part.partition, ()), part.file_id)
        return replaced

    def check(self) -> None:
        """Just before the commit: CommitConflictError where rows that came meanwhile would be lost. Then the new
        buckets are written, which count with the commit."""
        later = changed_since(self.context, self.instant)
        refuse_changed(self.context, self.instant, without_doubled(self.plan, later))
        if self.context.concurrency.strategy is Strategy.PREFER_WRITER:
            refuse_under_way(self.context, self.instant, self.plan)
        partitions = partitions_of(self.plan)
        if partitions:
            state, table = self.state, self.context.store.location
            now = TableState(state.store, state.config, self.context.timeline(), state.files, state.archived)
            self._rings = resized(load_rings(now, partitions), self.plan, self.instant, table)
            save_rings(self.context.store, self._rings)

    def done(self) -> None:
        """After the commit: say so beside the new buckets."""
        mark_rings(self.context.store, self._rings)
