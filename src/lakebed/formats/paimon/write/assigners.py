"""Which rows go to which bucket, mode by mode: one strategy each, over whole columns.

Fixed, unaware and postponed buckets follow from the row alone. Dynamic ones depend on what the table holds: see
`hash_dynamic` and `key_dynamic`. An assigner belongs to one task and remembers what it assigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.write.routing import Partitions, Router
from lakebed.kernel.arrays import Int8s, Int32s

MOST_BUCKETS = 32_767
Bucket = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Assigned:
    """Rows as they are written: some modes drop, change or add rows."""

    rows: pa.Table
    kinds: Int8s | None
    partitions: Partitions
    buckets: Int32s


class Assigner(Protocol):
    """One task's strategy."""

    def assign(self, rows: pa.Table, kinds: Int8s | None) -> Assigned:
        """Buckets for fitted rows."""
        ...

    def new_hashes(self) -> Mapping[Bucket, Int32s]:
        """Key hashes that came to buckets since the last call; only dynamic hash buckets have an index of them."""
        ...


@dataclass(frozen=True, slots=True)
class DirectAssigner:
    """Buckets that follow from the row."""

    router: Router

    def assign(self, rows: pa.Table, kinds: Int8s | None) -> Assigned:
        """Every row as it is."""
        partitions = self.router.partitions(rows)
        buckets = self.router.fixed_assignment(rows, partitions)
        if buckets is None:
            raise UnsupportedError(f"{self.router.mode} buckets do not follow from the row")
        return Assigned(rows, kinds, partitions, buckets)

    def new_hashes(self) -> Mapping[Bucket, Int32s]:
        """None: there is no index."""
        return {}


def fill_buckets(counts: dict[int, int], wanted: int, target: int, owner: int, owners: int, most: int = -1) -> Int32s:
    """Buckets for `wanted` new keys: the own ones below the target in ascending order, then new own ids; `counts` is
    brought up to date.

    An id is own when `id % owners == owner`. With `most` buckets reached, the keys are spread over the own ones at
    random, as the reference does. UnsupportedError when no id is left.
    """
    made: list[Int32s] = []
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
                    f"a partition has more than {limit} buckets", todo="Raise dynamic-bucket.target-row-num"
                )
            made.append(np.random.default_rng().choice(own, left).astype(np.int32))
            break
        some = min(left, target - counts.get(bucket, 0))
        counts[bucket] = counts.get(bucket, 0) + some
        made.append(np.full(some, bucket, np.int32))
        left -= some
    return np.concatenate(made) if made else np.zeros(0, np.int32)
