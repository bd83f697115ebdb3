"""Which rows go to which bucket: one strategy per bucket mode, over whole columns.

Fixed, unaware and postponed buckets follow from the row alone. Dynamic buckets depend on what the table holds: see
`hash_dynamic` and `key_dynamic`. An assigner belongs to one task and remembers what it assigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakebed.errors import UnsupportedError, counted
from lakebed.formats.paimon.write.routing import Partitions, Router
from lakebed.kernel.arrays import Int8s, Int32s

MOST_BUCKETS = 32_767
Bucket = tuple[bytes, int]
"""A serialized partition row, and the number of a bucket in it."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """Rows as they are written, with the partition and the bucket of each. Some modes drop, change or add rows."""

    rows: pa.Table
    kinds: Int8s | None
    partitions: Partitions
    buckets: Int32s


class Assigner(Protocol):
    """The bucket strategy of one task."""

    def assign(self, rows: pa.Table, kinds: Int8s | None) -> Assigned:
        """Assign buckets to rows in the table's columns and types."""
        ...

    def new_hashes(self) -> Mapping[Bucket, Int32s]:
        """The key hashes that each bucket gained since the last call; empty where buckets have no HASH index."""
        ...


@dataclass(frozen=True, slots=True)
class DirectAssigner:
    """Assigns the buckets that follow from the row: fixed, unaware and postponed ones."""

    router: Router

    def assign(self, rows: pa.Table, kinds: Int8s | None) -> Assigned:
        """Every row as it is, in its bucket. UnsupportedError for a dynamic mode."""
        partitions = self.router.partitions(rows)
        buckets = self.router.fixed_assignment(rows, partitions)
        if buckets is None:
            raise UnsupportedError(f"{self.router.mode} buckets do not follow from the row")
        return Assigned(rows, kinds, partitions, buckets)

    def new_hashes(self) -> Mapping[Bucket, Int32s]:
        """Always empty: such buckets have no HASH index."""
        return {}


def fill_buckets(counts: dict[int, int], wanted: int, target: int, owner: int, owners: int, most: int = -1) -> Int32s:
    """The bucket of each of `wanted` new keys: first the owner's buckets with fewer than `target` rows, in ascending
    order, then new ids. Updates `counts`, the rows of each bucket.

    A bucket is the owner's when `id % owners == owner`. Once there are `most` buckets (-1: no bound), the keys go to
    the owner's buckets at random, as in the reference. UnsupportedError when no id is left.
    """
    assigned: list[Int32s] = []
    left = wanted
    limit = most if most > 0 else MOST_BUCKETS
    fresh = (number for number in range(owner, limit, owners) if number not in counts)
    open_buckets = iter([bucket for bucket in sorted(counts) if bucket % owners == owner and counts[bucket] < target])
    while left:
        bucket = next(open_buckets, None)
        if bucket is None:
            bucket = next(fresh, None)
        if bucket is None:
            own = np.array([number for number in counts if number % owners == owner], np.int32)
            if most <= 0 or not len(own):
                raise UnsupportedError(
                    f"a partition has more than {counted(limit, 'bucket')}", todo="Raise dynamic-bucket.target-row-num"
                )
            assigned.append(np.random.default_rng().choice(own, left).astype(np.int32))
            break
        room = min(left, target - counts.get(bucket, 0))
        counts[bucket] = counts.get(bucket, 0) + room
        assigned.append(np.full(room, bucket, np.int32))
        left -= room
    return np.concatenate(assigned) if assigned else np.zeros(0, np.int32)
