"""The lookup of one write, for the index that its settings name.

Nothing of the table but its file listing and, for a bucket index, one footer is read here: tasks do the lookup.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.index.base_files import BaseFileIndex
from lakebed.formats.hudi.index.buckets import BucketIndex, bucket_numbers, by_bucket, not_its_index
from lakebed.formats.hudi.index.hash_fields import HashFields
from lakebed.formats.hudi.index.options import IndexSettings
from lakebed.formats.hudi.layout import HOODIE, file_path
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.operation import Operation
from lakebed.formats.hudi.write.served import check_groups
from lakebed.formats.hudi.write.table_files import TableFiles
from lakebed.formats.hudi.write.tagging import NewOnly, Tagged

_PARTITION_RULES = f"{HOODIE}/.hashing_meta"
"""The folder in which a table keeps numbers of buckets by partition (Hudi's `PartitionBucketIndexHashingConfig`)."""


Lookup = Callable[[pa.Table], Tagged]
"""Finds the file groups of keys."""


def lookup_of(
    index: IndexSettings, files: TableFiles, partitions: Sequence[str], operation: Operation, duplicates: str
) -> Lookup | None:
    """The lookup of a write to some partitions, None where it only adds rows. `duplicates` says what an insert does
    with keys that the table has.

    UsageError for a table that was written with another index.
    """
    if index.buckets:
        return _by_bucket(index, files, partitions, operation, duplicates)
    slices = files.slices(partitions)
    check_groups((each for some in slices.values() for each in some), files.state.store.location)
    lookup = BaseFileIndex(files.state.store, slices)
    if operation.tags:
        return lookup
    if operation is Operation.INSERT and duplicates != "none":
        return NewOnly(lookup, duplicates == "fail", files.state.store.location)
    return None


def _by_bucket(
    index: IndexSettings, files: TableFiles, partitions: Sequence[str], operation: Operation, duplicates: str
) -> Lookup:
    store, config = files.state.store, files.state.config
    if operation is Operation.INSERT and duplicates != "none":
        raise UnsupportedError(
            "lakebed does not look for known keys in an insert by the bucket index",
            table=store.location,
            why=f"the option hoodie.datasource.insert.dup.policy is {duplicates}",
            todo="Upsert the rows, or leave the option out",
        )
    hashed = HashFields(config.record_keys, index.hash_fields, config.version < 8, store.location)
    slices = by_bucket(files.slices(partitions), index.buckets, store.location)
    _check_number(slices, files, hashed, index.buckets)
    known = {} if operation.replaces else slices
    return BucketIndex(hashed, index.buckets, known, uuid.uuid4())


def _check_number(
    slices: Mapping[str, Mapping[int, FileSlice]], files: TableFiles, hashed: HashFields, buckets: int
) -> None:
    """UsageError where a base file has keys of another bucket than its own: the table has another number of buckets.
    One file tells, by the keys of its footer."""
    store = files.state.store
    if store.list(_PARTITION_RULES).files:
        raise UnsupportedError(
            "lakebed does not have numbers of buckets by partition",
            table=store.location,
            why=f"the table has a folder {_PARTITION_RULES}",
            todo="Write the table with Hudi's own engine",
        )
    based = ((number, s, s.base) for some in slices.values() for number, s in some.items() if s.base is not None)
    number, file_slice, base = next(based, (0, None, None))
    if file_slice is None or base is None:
        return
    with store.open_input(file_path(file_slice.partition, base.name), base.size) as source:
        footer = pq.read_metadata(source).metadata or {}
    bounds = [footer.get(b"hoodie_min_record_key"), footer.get(b"hoodie_max_record_key")]
    keys = pa.array([key.decode() for key in bounds if key is not None], pa.string())
    if set(bucket_numbers(keys, hashed, buckets).tolist()) - {number}:
        raise not_its_index(
            store.location, f"by {buckets} buckets, file group {file_slice.file_id} has keys of another bucket"
        )
