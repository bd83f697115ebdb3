"""New file groups for the buckets of partitions that a write replaces.

A file group that was replaced stays out of use, whatever is written to it. So a write that replaces the file groups
of a partition under consistent hashing gives each bucket another one, in metadata of its own instant, which all engines
take once that has completed. (Releases of Hudi that delete such a partition leave its buckets as they are.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.codec.hashing import HashingMetadata
from lakebed.formats.hudi.index.consistent import ConsistentIndex
from lakebed.formats.hudi.index.hashing_files import load_rings
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.write.served import has_rings

Replaced = Mapping[str, tuple[str, ...]]
"""File ids by partition."""


def new_rings(
    state: TableState, lookup: Callable[..., Any] | None, replaced: Replaced, instant: str
) -> tuple[HashingMetadata, ...]:
    """The buckets that a write changes: those of its lookup, and of other partitions that it replaces."""
    known = lookup.rings if isinstance(lookup, ConsistentIndex) else {}
    changed = {partition: ring for partition, ring in known.items() if ring.instant == instant}
    others = [partition for partition in replaced if partition not in known]
    if others and has_rings(state.store, state.config):
        changed |= {partition: ring.renewed(instant) for partition, ring in load_rings(state, others).items()}
    return tuple(changed.values())


def check_renewed(state: TableState, rings: Sequence[HashingMetadata]) -> None:
    """CommitConflictError where buckets that a write renews are not those any more that it began with. `state` is the
    table now. A write that began before another one may complete after it, and of two renewals the one of the later
    instant would count, whatever was written last."""
    now = load_rings(state, [ring.partition for ring in rings])
    for ring in rings:
        if now[ring.partition].sequence + 1 != ring.sequence:
            raise CommitConflictError(
                f"the buckets of partition {ring.partition!r} changed after this write began",
                table=state.store.location,
                instant=ring.instant,
                todo="Write the rows again",
            )


def with_buckets(state: TableState, replaced: Replaced, rings: tuple[HashingMetadata, ...]) -> Replaced:
    """The file groups that a write replaces, with those of buckets that have no rows: a write that begins one of them
    meanwhile is then in conflict with it."""
    if not rings:
        return replaced
    before = load_rings(state, [ring.partition for ring in rings])
    groups = {**replaced}
    for partition, ring in before.items():
        ids = [*groups.get(partition, ()), *(node.file_id for node in ring.nodes)]
        groups[partition] = tuple(dict.fromkeys(ids))
    return groups
