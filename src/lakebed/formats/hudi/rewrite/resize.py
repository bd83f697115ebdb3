"""The resizing of buckets of consistent hashing: the rows of a plan's groups go to the file groups of its child nodes,
and the rings that these make count once the instant is completed.

Plans of Hudi's own are run too. While one is pending, its writers may put rows into the old file groups and a second
time into the new ones (`SparkConsistentBucketDuplicateUpdateStrategy`): such rows stay, in the logs of the new ones.

Rules: Hudi's `SingleSparkJobConsistentHashingExecutionStrategy`, `HoodieSparkConsistentBucketIndex.updateLocation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.codec.hashing import (
    PARTITION,
    REPLACE,
    SEQUENCE,
    HashingMetadata,
    HashingNode,
    parse_children,
)
from lakebed.formats.hudi.codec.service_plans import ClusteringGroup, ClusteringPlan
from lakebed.formats.hudi.index.consistent import places_of, ring_hashes
from lakebed.formats.hudi.index.hash_fields import HashFields
from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.metadata_table.change import NEW_GROUP, WrittenFile
from lakebed.formats.hudi.rewrite.cluster import Clusterer, ClusterTask
from lakebed.formats.hudi.write.base_file import BaseFileWriter
from lakebed.formats.hudi.write.files import new_token
from lakebed.kernel.arrays import from_numpy, one_chunk
from lakebed.kernel.sorting import sorted_batches


@dataclass(frozen=True, slots=True)
class Resizer:
    """Writes the rows of groups into the file groups of their child nodes. Picklable. `children` are those of tasks,
    by its number."""

    clusterer: Clusterer
    hashed: HashFields
    children: Mapping[int, tuple[HashingNode, ...]]

    def __call__(self, task: ClusterTask) -> list[WrittenFile]:
        """Write one base file per child that gets rows. Those of a task that fails are removed with its instant."""
        nodes = tuple(sorted(node for node in self.children[task.number] if node.tag == REPLACE))
        ring = HashingMetadata("", "", len(nodes), 0, nodes)
        partition, target = task.slices[0].partition, self.clusterer.target
        writers: dict[int, BaseFileWriter] = {}
        try:
            for batch in self._rows(task):
                for place, part in self._parts(batch, ring):
                    if place not in writers:
                        token = new_token(task.number)
                        writers[place] = BaseFileWriter(target, partition, nodes[place].file_id, token)
                    writers[place].write(part)
            return [writer.close(NEW_GROUP) for writer in writers.values()]
        except BaseException:
            for writer in writers.values():
                writer.abort()
            raise

    def _rows(self, task: ClusterTask) -> Iterator[pa.RecordBatch]:
        rows = self.clusterer.rows(task)
        return rows if self.clusterer.order is None else sorted_batches(rows, self.clusterer.order)

    def _parts(self, batch: pa.RecordBatch, ring: HashingMetadata) -> Iterator[tuple[int, pa.RecordBatch]]:
        if len(ring.nodes) == 1:
            yield 0, batch
            return
        places = places_of(ring_hashes(one_chunk(batch.column(RECORD_KEY)), self.hashed), ring)
        for place in np.unique(places).tolist():
            yield place, batch.filter(from_numpy(places == place))


def children_of(plan: ClusteringPlan) -> dict[int, tuple[HashingNode, ...]]:
    """The child nodes of each group of a plan, by its number; none for a plan that resizes no buckets."""
    children_by_group = {number: parse_children(group.extra) for number, group in enumerate(plan.groups)}
    return {number: children for number, children in children_by_group.items() if children}


def resized(
    rings: Mapping[str, HashingMetadata], plan: ClusteringPlan, instant: str, table: str
) -> list[HashingMetadata]:
    """The rings after a plan has run. CommitConflictError where the plan was made for other ones."""
    by_partition: dict[str, list[HashingNode]] = {}
    for number, children in children_of(plan).items():
        group = plan.groups[number]
        partition = _partition(group)
        ring = rings.get(partition)
        if ring is None or ring.sequence != int(group.extra.get(SEQUENCE) or 0):
            raise CommitConflictError(
                f"the buckets of partition {partition!r} changed after the clustering was planned",
                table=table,
                instant=instant,
                todo=f"Withdraw the plan {instant} and make another one",
            )
        by_partition.setdefault(partition, []).extend(children)
    return [rings[partition].with_children(children, instant) for partition, children in by_partition.items()]


def without_doubled(plan: ClusteringPlan, commits: Mapping[str, set[tuple[str, str]]]) -> ClusteringPlan:
    """A plan without the groups whose file groups every later commit wrote to twice: into the new ones too. `commits`
    are the file groups that each commit since the plan wrote to."""
    kept: list[ClusteringGroup] = []
    for number, group in enumerate(plan.groups):
        old = {(part.partition, part.file_id) for part in group.slices}
        partition = _partition(group)
        new = {(partition, node.file_id) for node in parse_children(group.extra) if node.tag == REPLACE}
        if not new or any(changed & old and not changed & new for changed in commits.values()):
            kept.append(plan.groups[number])
    return replace(plan, groups=tuple(kept))


def partitions_of(plan: ClusteringPlan) -> Sequence[str]:
    """The partitions whose buckets a plan changes."""
    return list(dict.fromkeys(_partition(plan.groups[number]) for number in children_of(plan)))


def _partition(group: ClusteringGroup) -> str:
    return group.extra.get(PARTITION, group.slices[0].partition if group.slices else "")
