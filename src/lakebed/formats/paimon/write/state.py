"""What the files of a table say to a writer before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakebed.formats.paimon.codec.manifest import HASH_INDEX, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.manifests import index_files, live_files
from lakebed.formats.paimon.write.assigners import Bucket
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.routing import partition_bucket_counts
from lakebed.kernel.files import Store


@dataclass(frozen=True, slots=True)
class WriteState:
    """What files of the table say to a writer: the greatest sequence number of each bucket, and the partitions with
    their own bucket count."""

    sequences: Mapping[Bucket, int] = field(default_factory=dict)
    partition_buckets: Mapping[bytes, int] = field(default_factory=dict)
    indexes: Mapping[bytes, tuple[IndexManifestEntry, ...]] = field(default_factory=dict)
    snapshot: int = 0


def read_state(store: Store, latest: Snapshot | None, schema: TableSchema, options: WriteOptions) -> WriteState:
    """The state at a snapshot; CommitConflictError where the files have another number of buckets than the table."""
    planned = latest.id if latest else 0
    entries = live_files(store, latest)
    sequences = greatest_sequences(entries)
    if options.mode is BucketMode.HASH_DYNAMIC:
        indexes: dict[bytes, tuple[IndexManifestEntry, ...]] = {}
        for index in index_files(store, latest):
            if index.index_type == HASH_INDEX:
                indexes[index.partition] = (*indexes.get(index.partition, ()), index)
        return WriteState(sequences, {}, indexes, planned)
    if options.mode is not BucketMode.HASH_FIXED:
        return WriteState(sequences, snapshot=planned)
    own = partition_bucket_counts(real_buckets(entries), schema, options.buckets, store.location)
    return WriteState(sequences, own, snapshot=planned)


def greatest_sequences(entries: Iterable[ManifestEntry]) -> dict[Bucket, int]:
    """The greatest sequence number in each bucket."""
    found: dict[Bucket, int] = {}
    for entry in entries:
        bucket = (entry.partition, entry.bucket)
        found[bucket] = max(found.get(bucket, -1), entry.file.max_sequence_number)
    return found


def real_buckets(entries: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """How many buckets each partition has, where it has any that are not postponed."""
    return {entry.partition: entry.total_buckets for entry in entries if entry.bucket >= 0}
