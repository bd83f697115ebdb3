"""What the run of a pending plan would rewrite, as a dry run shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakebed.formats.hudi.codec.service_plans import ClusteringPlan, PlannedSlice
from lakebed.formats.hudi.rewrite.request import Plan
from lakebed.kernel.files import Store
from lakebed.model.upkeep import RewriteGroup


def pending_groups(store: Store, service: str, plans: Mapping[str, Plan]) -> tuple[RewriteGroup, ...]:
    """The groups of plans by their instant: a compaction's file groups, and the groups of a clustering. `service` is
    its name in words."""
    slices = [part for plan in plans.values() for part in slices_of(plan)]
    sizes = file_sizes(store, slices)
    return tuple(
        group
        for instant, plan in sorted(plans.items())
        for group in _groups(plan, sizes, f"the {service} {instant} is pending")
    )


def slices_of(plan: Plan) -> Sequence[PlannedSlice]:
    """The file slices that a plan takes."""
    return plan.slices if isinstance(plan, ClusteringPlan) else plan.operations


def file_sizes(store: Store, slices: Sequence[PlannedSlice]) -> dict[tuple[str, str], int]:
    """The bytes of all files in the partitions of slices, by partition and name."""
    folders = sorted({part.partition for part in slices})
    return {
        (folder, info.name): info.size
        for folder, listing in zip(folders, store.list_many(folders), strict=True)
        for info in listing.files
    }


def read_by(part: PlannedSlice, sizes: Mapping[tuple[str, str], int]) -> tuple[int, int]:
    """The number of files that a planned slice reads, and their bytes."""
    names = (*part.logs, *((part.base,) if part.base else ()))
    return len(names), sum(sizes.get((part.partition, name), 0) for name in names)


def _groups(plan: Plan, sizes: Mapping[tuple[str, str], int], reason: str) -> Iterator[RewriteGroup]:
    if isinstance(plan, ClusteringPlan):
        for group in plan.groups:
            read = [read_by(part, sizes) for part in group.slices]
            files, size = sum(count for count, _ in read), sum(size for _, size in read)
            where = group.slices[0].partition if group.slices else ""
            yield RewriteGroup(where, files, size, group.outputs, size, reason)
        return
    for part in plan.operations:
        files, size = read_by(part, sizes)
        base = sizes.get((part.partition, part.base), 0) if part.base else 0
        yield RewriteGroup(f"{part.partition}/{part.file_id}".lstrip("/"), files, size, 1, base or size, reason)
