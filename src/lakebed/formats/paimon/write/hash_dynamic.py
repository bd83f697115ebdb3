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
import numpy.typing as npt
import pyarrow as pa

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon.codec.manifest import IndexManifestEntry
from lakebed.formats.paimon.layout import index_path
from lakebed.formats.paimon.write.assigning import Assigned, Bucket, fill_buckets
from lakebed.formats.paimon.write.routing import Ints, Partitions, Router, assigner_tasks
from lakebed.kernel.files import Store
from lakebed.verbs.kinds import Kinds

_BIG_INT = np.dtype(">i4")
_LOW = np.int64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class DynamicSettings:
    """`target` rows a bucket, `most` buckets a partition (-1: no bound), `assigners` that share a partition's hashes,
    `tasks` in all."""

    target: int
    most: int
    assigners: int
    tasks: int


def read_index(store: Store, entry: IndexManifestEntry) -> npt.NDArray[np.int32]:
    """The key hashes of a HASH index file: four bytes each, big-endian."""
    path = index_path(entry.file_name)
    try:
        return hashes_of(store.read(path))
    except FileNotFoundError as error:
        raise DataCleanedError(
            "an index file is gone", table=store.location, file=path, todo="Plan the write again"
        ) from error


def hashes_of(data: bytes) -> npt.NDArray[np.int32]:
    """The hashes in the bytes of a HASH index file."""
    return np.frombuffer(data, _BIG_INT).astype(np.int32)


def index_bytes(hashes: npt.NDArray[np.int32]) -> bytes:
    """The bytes of a HASH index file."""
    return hashes.astype(_BIG_INT).tobytes()


class PartitionIndex:
    """The hashes of one partition and the rows of its buckets. Implements Paimon's PartitionIndex for many hashes at
    once.

    A hash and its bucket are one number, hash first: numbers alone are what numpy sorts fast.
    """

    def __init__(self, hashes: Ints, buckets: Ints, counts: dict[int, int]) -> None:
        self._places, self._counts = np.sort(_pair(hashes, buckets)), counts

    def assign(self, hashes: Ints, owner: int, settings: DynamicSettings) -> tuple[Ints, Ints, Ints]:
        """The bucket of each hash, and the hashes that are new with their buckets. `owner` is this assigner's
        number."""
        buckets, known = self._look(hashes)
        if known.all():
            return buckets, np.zeros(0, np.int32), np.zeros(0, np.int32)
        unknown = hashes[~known]
        _, first = np.unique(unknown, return_index=True)
        fresh = unknown[np.sort(first)]
        found = fill_buckets(
            self._counts, len(fresh), settings.target, owner % settings.assigners, settings.assigners, settings.most
        )
        self._places = np.sort(np.concatenate([self._places, _pair(fresh, found)]))
        return self._look(hashes)[0], fresh, found

    def _look(self, hashes: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """The bucket of each hash (-1: none), and whether there is one. Asked for in order, which spares the
        processor's cache."""
        if not len(self._places):
            return np.full(len(hashes), -1, np.int32), np.zeros(len(hashes), np.bool_)
        asked = np.sort(_pair(hashes, np.arange(len(hashes), dtype=np.int32)))
        rows, wanted = asked & _LOW, asked >> 32
        found = self._places[np.minimum(np.searchsorted(self._places, wanted << 32), len(self._places) - 1)]
        known = np.empty(len(hashes), np.bool_)
        buckets = np.empty(len(hashes), np.int32)
        known[rows] = found >> 32 == wanted
        buckets[rows] = found & _LOW
        return np.where(known, buckets, np.int32(-1)), known


def _pair(hashes: Ints, numbers: Ints) -> npt.NDArray[np.int64]:
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
        self._fresh: dict[Bucket, list[Ints]] = {}

    def assign(self, rows: pa.Table, kinds: Kinds | None) -> Assigned:
        """Every row as it is, in its key's bucket."""
        partitions = self._router.partitions(rows)
        hashes = self._router.key_hashes(rows, self._router.schema.trimmed_primary_keys)
        return Assigned(rows, kinds, partitions, self._assign(partitions, hashes))

    def new_hashes(self) -> dict[Bucket, Ints]:
        """The hashes that buckets gained since the last call."""
        made = {bucket: np.concatenate(parts) for bucket, parts in self._fresh.items()}
        self._fresh = {}
        return made

    def _assign(self, partitions: Partitions, hashes: Ints) -> Ints:
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
            parts = [read_index(self._store, entry) for entry in entries]
            hashes = np.concatenate(parts) if parts else np.zeros(0, np.int32)
            sizes = [len(part) for part in parts]
            buckets = np.repeat(np.array([entry.bucket for entry in entries], np.int32), sizes)
            counts = {entry.bucket: size for entry, size in zip(entries, sizes, strict=True)}
            self._partitions[partition, task] = PartitionIndex(hashes, buckets, counts)
        return self._partitions[partition, task]
