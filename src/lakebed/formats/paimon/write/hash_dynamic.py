"""HASH_DYNAMIC: a bucket is filled with keys up to a number of rows, then the next is begun; an index file per bucket
holds the hashes of its keys.

Rules: Paimon's HashBucketAssigner, PartitionIndex and BucketAssigner. An assigner owns every `assigners`-th bucket id
and sees those hashes that `computeAssigner` sends it. Two keys of one hash share a bucket and count once. One job may
write at a time: the commit refuses a second one's work in the same partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon.codec.manifest import IndexManifestEntry
from lakebed.formats.paimon.manifests import key_hashes
from lakebed.formats.paimon.write.assigners import Assigned, Bucket, fill_buckets
from lakebed.formats.paimon.write.routing import Partitions, Router, assigner_tasks
from lakebed.kernel.arrays import Bools, Int8s, Int32s, Int64s, UInt32s
from lakebed.kernel.files import Store

_LOW = np.int64(0xFFFF_FFFF)
_MANY, _CELL_BITS = 4, 20


@dataclass(frozen=True, slots=True)
class DynamicSettings:
    """`target` rows a bucket, `most` buckets a partition (-1: no bound), `assigners` that share a partition's hashes,
    `tasks` in all."""

    target: int
    most: int
    assigners: int
    tasks: int


class PartitionIndex:
    """The hashes of one partition and the rows of its buckets. Implements Paimon's PartitionIndex for many hashes at
    once.

    A hash and its bucket, or its row, are one number, hash first: numbers alone are what numpy sorts fast.
    """

    def __init__(self, hashes: Int32s, buckets: Int32s, counts: dict[int, int]) -> None:
        self._hashes, self._buckets, self._counts = hashes, buckets, counts
        self._places: Int64s | None = None  # all of them in order, once it is worth the sorting

    def assign(self, hashes: Int32s, owner: int, settings: DynamicSettings) -> tuple[Int32s, Int32s, Int32s]:
        """The bucket of each hash, and the hashes that are new with their buckets. `owner` is this assigner's
        number."""
        asked = np.sort(_pair(hashes, np.arange(len(hashes), dtype=np.int32)))
        found, known = self._look(asked)
        buckets = np.empty(len(hashes), np.int32)
        fresh, places = np.zeros(0, np.int32), np.zeros(0, np.int32)
        if not known.all():
            new = np.flatnonzero(~known)
            found[new], first = self._fill(asked[new], len(hashes), owner, settings)
            fresh = hashes[first]
        buckets[asked & _LOW] = found
        if len(fresh):
            places = buckets[first]
            self._add(fresh, places)
        return buckets, fresh, places

    def _fill(self, new: Int64s, rows: int, owner: int, settings: DynamicSettings) -> tuple[Int32s, Int64s]:
        """Buckets for new hashes in order, each with its row, of `rows` rows; and the first row of each hash. Hashes
        come to buckets in the order of these rows."""
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

    def _look(self, asked: Int64s) -> tuple[Int32s, Bools]:
        """The bucket of each hash in order (-1: none), and whether there is one."""
        wanted = asked >> 32
        places = self._near(wanted)
        if not len(places):
            return np.full(len(asked), -1, np.int32), np.zeros(len(asked), np.bool_)
        found = places[np.minimum(np.searchsorted(places, wanted << 32), len(places) - 1)]
        known = found >> 32 == wanted
        return np.where(known, found & _LOW, -1).astype(np.int32), known

    def _near(self, wanted: Int64s) -> Int64s:
        """Places in order, among them all that these hashes have. Of an index that is much greater than what is asked
        only those are sorted whose upper bits are asked for."""
        if self._places is None and len(self._hashes) <= _MANY * len(wanted):
            self._places = np.sort(_pair(self._hashes, self._buckets))
        if self._places is not None:
            return self._places
        asked_for = np.zeros(1 << _CELL_BITS, np.bool_)
        asked_for[_cells(wanted.astype(np.int32))] = True
        near = np.flatnonzero(asked_for[_cells(self._hashes)])
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
    """One task's assigner; `indexes` are the HASH files of each partition. A partition's files are read when its
    first row comes."""

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
        """Every row as it is, in its key's bucket."""
        partitions = self._router.partitions(rows)
        hashes = self._router.key_hashes(rows, self._router.schema.trimmed_primary_keys)
        return Assigned(rows, kinds, partitions, self._assign(partitions, hashes))

    def new_hashes(self) -> dict[Bucket, Int32s]:
        """The hashes that buckets gained since the last call."""
        made = {bucket: np.concatenate(parts) for bucket, parts in self._fresh.items()}
        self._fresh = {}
        return made

    def _assign(self, partitions: Partitions, hashes: Int32s) -> Int32s:
        settings = self._settings
        tasks = assigner_tasks(partitions.hashes[partitions.codes], hashes, settings.tasks, settings.assigners)
        buckets = np.empty(len(hashes), np.int32)
        groups = partitions.codes.astype(np.int64) * settings.tasks + tasks
        for group in np.unique(groups):
            here = np.flatnonzero(groups == group)
            key, task = partitions.keys[int(group) // settings.tasks], int(group) % settings.tasks
            found, fresh, places = self._index(key, task).assign(hashes[here], task, settings)
            buckets[here] = found
            for bucket in np.unique(places):
                self._fresh.setdefault((key, int(bucket)), []).append(fresh[places == bucket])
        return buckets

    def _index(self, partition: bytes, task: int) -> PartitionIndex:
        if (partition, task) not in self._partitions:
            entries = self._indexes.get(partition, ())
            parts = [key_hashes(self._store, entry) for entry in entries]
            hashes = np.concatenate(parts) if parts else np.zeros(0, np.int32)
            sizes = [len(part) for part in parts]
            buckets = np.repeat(np.array([entry.bucket for entry in entries], np.int32), sizes)
            counts = {entry.bucket: size for entry, size in zip(entries, sizes, strict=True)}
            self._partitions[partition, task] = PartitionIndex(hashes, buckets, counts)
        return self._partitions[partition, task]
