"""The bucket index: a hash of its record key tells which file group of its partition holds a row.

No file is read to look keys up. A file id begins with the number of its bucket, in eight digits.

A partition may have a number of buckets of its own (`codec/bucket_rules.py`).

Rules: Hudi's `HoodieSimpleBucketIndex` (one file group per bucket), `BucketIdentifier` (Java's hash of the list of
texts, without its sign, modulo the number of buckets).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import UsageError, counted
from lakebed.formats.hudi.codec.bucket_rules import BucketRules
from lakebed.formats.hudi.index.hash_fields import HashFields
from lakebed.formats.hudi.layout import PARTITION_PATH, RECORD_KEY
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.staged_rows import deletes_in
from lakebed.formats.hudi.write.tagging import Tagged
from lakebed.kernel.arrays import Int64s, from_numpy, one_chunk, to_numpy
from lakebed.kernel.keys.java import string_hashes
from lakebed.kernel.options import is_number

_ALIKE = "-0000-0000-0000-000000000000-0"
"""What follows the number in the file id of a bucket that any of several writers may begin."""


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """Finds the bucket of each key. Picklable.

    `rules` say how many buckets a partition has, and `slices` are the slices of each partition by bucket. `unsaved`
    says that the table does not have the rules yet. `names` makes the file ids of new buckets: it is one of a kind
    per write, so that all tasks name them alike. None where all writers of the table have to name them alike: then
    deletes of new buckets stay, since another writer may be adding their keys.
    """

    hashed: HashFields
    rules: BucketRules
    slices: Mapping[str, Mapping[int, FileSlice]]
    names: uuid.UUID | None
    unsaved: bool = False

    def __call__(self, rows: pa.Table) -> Tagged:
        """The file group of each row, which may be a new one. Deletes of buckets without a file group are left out."""
        partitions = one_chunk(rows.column(PARTITION_PATH)).dictionary_encode()
        paths = partitions.dictionary.to_pylist()
        counts = np.array([self.rules.count(path) for path in paths], np.int64)
        of_row = to_numpy(partitions.indices)
        numbers = bucket_numbers(one_chunk(rows.column(RECORD_KEY)), self.hashed, counts[of_row])
        most = int(counts.max(initial=1))
        places = of_row.astype(np.int64) * most + numbers
        taken, codes = np.unique(places, return_inverse=True)
        groups: list[FileSlice] = []
        for place in taken.tolist():
            partition, number = paths[place // most], place % most
            known = self.slices.get(partition, {}).get(number)
            groups.append(known or FileSlice(partition, self._new_id(partition, number), None, ()))
        if self.names is None:
            return Tagged(rows, codes.astype(np.int64), tuple(groups))
        return without_lost_deletes(rows, codes.astype(np.int64), groups)

    def _new_id(self, partition: str, number: int) -> str:
        if self.names is None:
            return f"{number:08d}{_ALIKE}"
        return f"{number:08d}{str(uuid.uuid5(self.names, f'{partition}/{number}'))[8:]}-0"


def without_lost_deletes(rows: pa.Table, codes: Int64s, groups: Sequence[FileSlice]) -> Tagged:
    """Rows with their file groups, `groups[code]`, without deletes from groups that are still to be made."""
    new = np.array([group.base is None and not group.logs for group in groups], bool)
    lost = new[codes] & np.asarray(to_numpy(deletes_in(rows))) if len(codes) else np.zeros(0, bool)
    if lost.any():
        rows, codes = rows.filter(from_numpy(~lost)), codes[~lost]
    return Tagged(rows, codes, tuple(groups))


def bucket_numbers(keys: pa.StringArray, hashed: HashFields, buckets: int | Int64s) -> Int64s:
    """The bucket of each record key, of so many, which may differ by row."""
    counts = np.broadcast_to(np.asarray(buckets, np.uint32), len(keys))
    numbers = np.zeros(len(keys), np.int64)
    for rows, texts in hashed.texts(keys):
        total = np.ones(len(rows), np.uint32)
        for text in texts:
            total = total * np.uint32(31) + string_hashes(text.fill_null("")).view(np.uint32)
        numbers[rows] = (total & np.uint32(0x7FFFFFFF)) % counts[rows]
    return numbers


def by_bucket(
    slices: Mapping[str, Sequence[FileSlice]], rules: BucketRules, table: str
) -> Mapping[str, Mapping[int, FileSlice]]:
    """The slices of each partition by bucket. UsageError for a file group that is none of its partition's buckets, and
    for two of one bucket."""
    slices_by_bucket: dict[str, dict[int, FileSlice]] = {}
    for partition, of_partition in slices.items():
        numbered = slices_by_bucket[partition] = {}
        buckets = rules.count(partition)
        for file_slice in of_partition:
            text = file_slice.file_id[:8]
            number = int(text) if is_number(text) else -1
            if not 0 <= number < buckets:
                group = f"file group {file_slice.file_id} of partition {partition!r}"
                raise not_its_index(table, f"{group} is none of {counted(buckets, 'bucket')}")
            if number in numbered:
                raise UsageError(
                    f"partition {partition!r} has two file groups of bucket {number}",
                    table=table,
                    why=f"{numbered[number].file_id} and {file_slice.file_id}: a key could be in both",
                    todo="Find the commit that wrote the second one, and take it back",
                )
            numbered[number] = file_slice
    return slices_by_bucket


def not_its_index(table: str, why: str) -> UsageError:
    """The error of a write whose index is not the one that the table was written with."""
    return UsageError(
        "the table was not written with this bucket index",
        table=table,
        why=why,
        todo="Give hoodie.index.type, hoodie.bucket.index.num.buckets and hoodie.bucket.index.hash.field "
        "the values that it was written with",
    )
