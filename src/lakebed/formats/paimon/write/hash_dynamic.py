"""HASH_DYNAMIC: a bucket takes keys up to a number of rows, then the next one begins. An index file per bucket holds
the hashes of its keys.

Rules: Paimon's HashBucketAssigner, PartitionIndex and BucketAssigner. An assigner owns every `assigners`-th bucket id
and sees the hashes that `computeAssigner` sends it. Two keys with one hash share a bucket and count once. One job may
write at a time: the commit refuses the work of a second one in the same partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon.codec.manifest import IndexManifestEntry
from lakebed.formats.paimon.manifests import many_key_hashes
from lakebed.formats.paimon.write.assigners import Assigned, Bucket, fill_buckets
from lakebed.formats.paimon.write.routing import Partitions, Router, assigner_tasks
from lakebed.kernel.arrays import Bools, Int8s, Int32s, Int64s, UInt32s
from lakebed.kernel.files import Store

_LOW = np.int64(0xFFFF_FFFF)
_MANY, _CELL_BITS = 4, 20


@dataclass(frozen=True, slots=True)
class DynamicSettings:
    """`target` rows per bucket, `most` buckets per partition (-1: no bound), `assigners` that share the hashes of one
    partition, and the number of `tasks`."""

    target: int
    most: int
    assigners: int
    tasks: int


class PartitionIndex:
    """The hashes of one partition, and the number of rows of its buckets. Paimon's PartitionIndex, for many hashes at
    once.

    A hash and its bucket, or its row, are one int64, with the hash in the upper half: numpy sorts plain numbers fast.
    """

    def __init__(self, hashes: Int32s, buckets: Int32s, counts: dict[int, int]) -> None:
        self._hashes, self._buckets, self._counts = hashes, buckets, counts
        self._places: Int64s | None = None  # all pairs in order, once that is worth sorting

    def assign(self, hashes: Int32s, owner: int, settings: DynamicSettings) -> tuple[Int32s, Int32s, Int32s]:
        """The bucket of each hash; then the new hashes, and the bucket of each. `owner` is this assigner's number."""
        asked = np.sort(_pair(hashes, np.arange(len(hashes), dtype=np.int32)))
        assigned, known = self._look_up(asked)
        buckets = np.empty(len(hashes), np.int32)
        fresh, places = np.zeros(0, np.int32), np.zeros(0, np.int32)
        if not known.all():
            new = np.flatnonzero(~known)
            assigned[new], first = self._fill(asked[new], len(hashes), owner, settings)
            fresh = hashes[first]
        buckets[asked & _LOW] = assigned
        if len(fresh):
            places = buckets[first]
            self._add(fresh, places)
        return buckets, fresh, places

    def _fill(self, new: Int64s, rows: int, owner: int, settings: DynamicSettings) -> tuple[Int32s, Int64s]:
        """The bucket of each of the `new` pairs of hash and row, which are sorted, and the first row of each hash in
        order. `rows` is the number of all rows. Hashes come to buckets in the order of their first rows."""
        begins = np.append(True, new[1:] >> 32 != new[:-1] >> 32)
        firsts = new[begins] & _LOW
        is_first = np.zeros(rows, np.bool_)
        is_first[firsts] = True
        first = np.flatnonzero(is_first)
        of_row = np.empty(rows, np.int32)
        of_row[first] = fill_buckets(
            self._counts, len(first), settings.target, owner % settings.assigners, settings.assigners, settings.most
        )
        return of_row[firsts][np.cumsum(begins) - 1], first

    def _look_up(self, asked: Int64s) -> tuple[Int32s, Bools]:
        """The bucket of each of the sorted pairs (-1: none), and whether its hash has one."""
        wanted = asked >> 32
        places = self._places_near(wanted)
        if not len(places):
            return np.full(len(asked), -1, np.int32), np.zeros(len(asked), np.bool_)
        nearest = places[np.minimum(np.searchsorted(places, wanted << 32), len(places) - 1)]
        known = nearest >> 32 == wanted
        return np.where(known, nearest & _LOW, -1).astype(np.int32), known

    def _places_near(self, wanted: Int64s) -> Int64s:
        """Sorted pairs of hash and bucket, among them all that the wanted hashes have.

        The whole index is sorted once that is worth it. Of an index much larger than what is wanted, only the hashes
        with wanted upper bits are sorted.
        """
        if self._places is None and len(self._hashes) <= _MANY * len(wanted):
            self._places = np.sort(_pair(self._hashes, self._buckets))
        if self._places is not None:
            return self._places
        wanted_cells = np.zeros(1 << _CELL_BITS, np.bool_)
        wanted_cells[_cells(wanted.astype(np.int32))] = True
        near = np.flatnonzero(wanted_cells[_cells(self._hashes)])
        return np.sort(_pair(self._hashes[near], self._buckets[near]))

    def _add(self, hashes: Int32s, buckets: Int32s) -> None:
        if self._places is not None:
            self._places = np.sort(np.concatenate([self._places, _pair(hashes, buckets)]))
            return
        self._hashes = np.concatenate([self._hashes, hashes])
        self._buckets = np.concatenate([self._buckets, buckets])


def _cells(hashes: Int32s) -> UInt32s:
    return hashes.view(np.uint32) >> np.uint32(32 - _CELL_BITS)


def _pair(hashes: Int32s, numbers: Int32s) -> Int64s:
    return (hashes.astype(np.int64) << 32) | numbers


class HashAssigner:
    """The assigner of one task. `indexes` are the HASH index files of each partition, which are read when the
    partition's first row comes."""

    def __init__(
        self,
        router: Router,
        store: Store,
        indexes: Mapping[bytes, Sequence[IndexManifestEntry]],
        settings: DynamicSettings,
    ) -> None:
        self._router, self._store, self._indexes, self._settings = router, store, indexes, settings
        self._partitions: dict[tuple[bytes, int], PartitionIndex] = {}
        self._fresh: dict[Bucket, list[Int32s]] = {}

    def assign(self, rows: pa.Table, kinds: Int8s | None) -> Assigned:
        """Every row as it is, in the bucket of its key."""
        partitions = self._router.partitions(rows)
        hashes = self._router.key_hashes(rows, self._router.schema.trimmed_primary_keys)
        return Assigned(rows, kinds, partitions, self._assign(partitions, hashes))

    def new_hashes(self) -> dict[Bucket, Int32s]:
        """The key hashes that each bucket gained since the last call."""
        gained = {bucket: np.concatenate(parts) for bucket, parts in self._fresh.items()}
        self._fresh = {}
        return gained

    def _assign(self, partitions: Partitions, hashes: Int32s) -> Int32s:
        settings = self._settings
        tasks = assigner_tasks(partitions.hashes[partitions.codes], hashes, settings.tasks, settings.assigners)
        buckets = np.empty(len(hashes), np.int32)
        groups = partitions.codes.astype(np.int64) * settings.tasks + tasks
        places = [(group, *divmod(group, settings.tasks)) for group in np.unique(groups).tolist()]
        self._read_indexes([(partitions.keys[code], task) for _, code, task in places])
        for group, code, task in places:
            here = np.flatnonzero(groups == group)
            key = partitions.keys[code]
            buckets[here], fresh, fresh_buckets = self._partitions[key, task].assign(hashes[here], task, settings)
            for bucket in np.unique(fresh_buckets):
                self._fresh.setdefault((key, int(bucket)), []).append(fresh[fresh_buckets == bucket])
        return buckets

    def _read_indexes(self, places: Sequence[tuple[bytes, int]]) -> None:
        """Read the indexes of partitions and tasks that are met for the first time, all files together."""
        new = [place for place in places if place not in self._partitions]
        needed = dict.fromkeys(partition for partition, _ in new)
        entries = [entry for partition in needed for entry in self._indexes.get(partition, ())]
        read = dict(zip(entries, many_key_hashes(self._store, entries), strict=True))
        for partition, task in new:
            own = self._indexes.get(partition, ())
            parts = [read[entry] for entry in own]
            sizes = [len(part) for part in parts]
            hashes = np.concatenate(parts) if parts else np.zeros(0, np.int32)
            buckets = np.repeat(np.array([entry.bucket for entry in own], np.int32), sizes)
            counts = {entry.bucket: size for entry, size in zip(own, sizes, strict=True)}
            self._partitions[partition, task] = PartitionIndex(hashes, buckets, counts)
