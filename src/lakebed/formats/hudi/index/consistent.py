"""Consistent hashing: the ring of its partition tells which file group holds a row.

No file is read to look keys up.

Rules: Hudi's `HoodieConsistentBucketIndex`, `ConsistentBucketIdentifier`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.hashing import GREATEST, HashingMetadata
from lakebed.formats.hudi.index.buckets import not_its_index, without_lost_deletes
from lakebed.formats.hudi.index.hash_fields import HashFields
from lakebed.formats.hudi.layout import PARTITION_PATH, RECORD_KEY
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.tagging import Tagged
from lakebed.kernel.arrays import Int64s, one_chunk, to_numpy
from lakebed.kernel.keys.xxhash import hash_bytes


@dataclass(frozen=True, slots=True)
class ConsistentIndex:
    """Finds the bucket of each key. Picklable. `rings` are the buckets of each partition, `slices` the slices of each
    partition by file id. `new` are the partitions whose buckets are not on storage yet."""

    hashed: HashFields
    rings: Mapping[str, HashingMetadata]
    slices: Mapping[str, Mapping[str, FileSlice]]
    new: frozenset[str] = frozenset()

    def __call__(self, rows: pa.Table) -> Tagged:
        """The file group of each row, which may be a new one. Deletes of buckets without a file group are left out."""
        partitions = one_chunk(rows.column(PARTITION_PATH)).dictionary_encode()
        of_row = to_numpy(partitions.indices)
        hashes = ring_hashes(one_chunk(rows.column(RECORD_KEY)), self.hashed)
        codes = np.zeros(len(rows), np.int64)
        groups: list[FileSlice] = []
        for number, partition in enumerate(partitions.dictionary.to_pylist()):
            at = np.flatnonzero(of_row == number)
            taken, places = np.unique(places_of(hashes[at], self.rings[partition]), return_inverse=True)
            codes[at] = places + len(groups)
            groups += [self._group(partition, node) for node in taken.tolist()]
        return without_lost_deletes(rows, codes, groups)

    def _group(self, partition: str, node: int) -> FileSlice:
        file_id = self.rings[partition].nodes[node].file_id
        return self.slices.get(partition, {}).get(file_id) or FileSlice(partition, file_id, None, ())


def ring_hashes(keys: pa.StringArray, hashed: HashFields) -> Int64s:
    """The hash of each record key: that of its texts in a row."""
    hashes = np.zeros(len(keys), np.int64)
    for rows, texts in hashed.texts(keys):
        filled = [text.fill_null("null") for text in texts]
        joined = filled[0] if len(filled) == 1 else pc.binary_join_element_wise(*filled, "")
        hashes[rows] = hash_bytes(joined.cast(pa.binary()), 0) & np.uint32(GREATEST)
    return hashes


def places_of(hashes: Int64s, ring: HashingMetadata) -> Int64s:
    """The place in the ring of the node that takes each hash: the next one, behind the last one the first."""
    values = np.array([node.value for node in ring.nodes], np.int64)
    places: Int64s = np.searchsorted(values, hashes).astype(np.int64) % len(values)
    return places


def check_ring(ring: HashingMetadata, slices: Mapping[str, FileSlice], replaced: frozenset[str], table: str) -> None:
    """Raise UsageError where the file groups of a partition are not those of its buckets, UnsupportedError where a
    bucket's own is out of use."""
    own = {node.file_id for node in ring.nodes}
    strange = next((file_id for file_id in slices if file_id not in own), "")
    if strange:
        raise not_its_index(table, f"file group {strange} of partition {ring.partition!r} is none of its buckets")
    gone = next((file_id for file_id in own if file_id in replaced), "")
    if gone:
        raise UnsupportedError(
            f"rows of partition {ring.partition!r} would not be found again",
            table=table,
            why=f"a commit took file group {gone} out of use, and no metadata of consistent hashing names another one",
            todo="Replace the partition with lakebed (operation insert_overwrite or delete_partition), which renews "
            "its buckets",
        )
