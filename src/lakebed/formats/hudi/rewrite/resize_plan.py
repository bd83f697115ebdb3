"""Which buckets of consistent hashing a clustering splits, merges and sorts.

A bucket whose file slice is large is split in the middle of its range. Neighbours on the ring whose slices are small
are merged, also around its end. What is left is sorted where the caller names columns; Hudi rewrites it in any case, so
a second run of lakebed plans nothing. By default the number of buckets stays as the partition began, as in Hudi.

Rules: Hudi's `BaseConsistentHashingBucketClusteringPlanStrategy`, `ConsistentBucketIdentifier.splitBucket` and
`mergeBucket`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lakebed.errors import counted
from lakebed.formats.hudi.codec.hashing import DELETE, GREATEST, REPLACE, HashingMetadata, HashingNode, children_extra
from lakebed.formats.hudi.codec.service_plans import SORT_COLUMNS, ClusteringGroup, ClusteringPlan, CompactionPlan
from lakebed.formats.hudi.index import options as index
from lakebed.formats.hudi.rewrite import options as opt
from lakebed.formats.hudi.rewrite.cluster import planned_group
from lakebed.formats.hudi.rewrite.partition_choice import for_clustering
from lakebed.formats.hudi.rewrite.plan import Planned, slice_name
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.timeline.pending_services import PendingServices
from lakebed.formats.hudi.write.settings import MAX_FILE
from lakebed.kernel.options import Options
from lakebed.model.upkeep import RewriteGroup, Skipped

EXECUTION = "org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
"""The class with which all releases of Hudi run such a plan."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Slices whose rows go to other buckets, by the nodes that come in place of theirs."""

    slices: tuple[FileSlice, ...]
    children: tuple[HashingNode, ...]
    why: str


def plan_resizing(
    slices: Iterable[FileSlice],
    rings: Mapping[str, HashingMetadata],
    pending: PendingServices,
    timeline: Timeline,
    options: Options,
) -> Planned:
    """Choose among the newest slices of file groups, which are those of the rings."""
    writing = next((entry.time for entry in timeline.pending if entry.action == "deltacommit"), "")
    if writing:
        why = f"the write {writing} is under way, and may begin buckets"
        return Planned(CompactionPlan(()), (), (Skipped("the table", why),))
    by_partition = {path: [*each] for path, each in groupby(sorted(slices, key=_partition), _partition)}
    chosen = for_clustering(sorted(by_partition), options)
    left = "the options of the clustering leave the partition out"
    skipped = [Skipped(path, left) for path in by_partition if path not in chosen]
    groups: list[ClusteringGroup] = []
    about: list[RewriteGroup] = []
    for path in chosen:
        instant = next((taken for (partition, _), taken in pending.clustering.items() if partition == path), "")
        if instant:
            skipped.append(Skipped(path, f"the pending clustering {instant} changes its buckets"))
            continue
        free = []
        for each in by_partition[path]:
            taken = pending.taken((each.partition, each.file_id))
            if taken:
                skipped.append(Skipped(slice_name(each), f"the pending table service {taken} has taken it"))
            else:
                free.append(each)
        changes, rest = _changes(rings[path], free, options)
        skipped += [Skipped(slice_name(each), "its bucket is neither large nor small") for each in rest]
        for change in changes:
            group = planned_group(change.slices, sum(node.tag == REPLACE for node in change.children))
            groups.append(group._replace(extra=children_extra(path, change.children, rings[path].sequence)))
            about.append(_about(change))
    sort = options[opt.SORT_COLUMNS]
    parameters = {SORT_COLUMNS: sort} if sort else {}
    return Planned(ClusteringPlan(tuple(groups), parameters, EXECUTION), tuple(about), tuple(skipped))


def _changes(
    ring: HashingMetadata, slices: Sequence[FileSlice], options: Options
) -> tuple[list[_Change], list[FileSlice]]:
    """The changes of a partition, and the slices that stay."""
    most = options[index.MAX_BUCKETS] or ring.first
    least = options[index.MIN_BUCKETS] or ring.first
    size = options[MAX_FILE]
    split, rest = _split(ring, slices, most - len(ring.nodes), int(size * options[index.SPLIT_THRESHOLD]))
    room = len(ring.nodes) - least + len(split)
    merged, rest = _merged(ring, rest, room, int(size * options[index.MERGE_THRESHOLD]))
    if not options[opt.SORT_COLUMNS]:
        return [*split, *merged], rest
    own = {node.file_id: node for node in ring.nodes}
    alone = [_Change((each,), (_new(own[each.file_id].value),), "it is sorted") for each in rest]
    return [*split, *merged, *alone], []


def _split(
    ring: HashingMetadata, slices: Sequence[FileSlice], room: int, threshold: int
) -> tuple[list[_Change], list[FileSlice]]:
    places = {node.file_id: place for place, node in enumerate(ring.nodes)}
    changes: list[_Change] = []
    rest: list[FileSlice] = []
    for each in slices:
        place = places[each.file_id]
        value, before = ring.nodes[place].value, ring.nodes[place - 1].value
        middle = ((before + value + (0 if before < value else GREATEST + 1)) >> 1) & GREATEST
        if len(changes) >= room or each.size <= threshold or middle in (before, value):
            rest.append(each)
        else:
            changes.append(_Change((each,), (_new(middle), _new(value)), f"its bucket has more than {threshold} bytes"))
    return changes, rest


def _merged(
    ring: HashingMetadata, slices: Sequence[FileSlice], room: int, threshold: int
) -> tuple[list[_Change], list[FileSlice]]:
    """Merge runs of neighbours, each one as long as what it has so far is no larger than the threshold."""
    places = {node.file_id: place for place, node in enumerate(ring.nodes)}
    by_place = {places[each.file_id]: each for each in slices}
    count = len(ring.nodes)
    changes: list[_Change] = []
    for start in sorted(by_place):
        if start not in by_place or by_place[start].size > threshold:
            continue
        run, size = [start], by_place[start].size
        for end, step in ((0, -1), (-1, 1)):  # first what lies before it, then what follows
            while room > 0:
                following = (run[end] + step) % count
                each = by_place.get(following)
                if each is None or following in run or size > threshold or each.size > threshold:
                    break
                run.insert(0 if step < 0 else len(run), following)
                size, room = size + each.size, room - 1
        if len(run) > 1:
            values = [ring.nodes[place].value for place in run]
            children = (*(HashingNode(value, "", DELETE) for value in values[:-1]), _new(values[-1]))
            why = f"{counted(len(run), 'neighbour')} on the ring have no more than {threshold} bytes each"
            changes.append(_Change(tuple(by_place.pop(place) for place in run), children, why))
    return changes, list(by_place.values())


def _new(value: int) -> HashingNode:
    return HashingNode(value, str(uuid.uuid4()), REPLACE)


def _about(change: _Change) -> RewriteGroup:
    files = sum(bool(each.base) + len(each.logs) for each in change.slices)
    size = sum(each.size for each in change.slices)
    outputs = sum(node.tag == REPLACE for node in change.children)
    return RewriteGroup(change.slices[0].partition, files, size, outputs, size, change.why)


def _partition(each: FileSlice) -> str:
    return each.partition
