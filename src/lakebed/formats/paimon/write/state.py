"""What a writer must know of a table's files before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakebed.formats.paimon.bucket_summaries import bucket_summaries
from lakebed.formats.paimon.codec.manifest import HASH_INDEX, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.manifest_summary import BucketOf, BucketSummary
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.manifests import data_manifests, data_manifests_and_index_files
from lakebed.formats.paimon.write.assigners import Bucket
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.routing import partition_bucket_counts
from lakebed.kernel.files import Store

NEED_NOTHING = (BucketMode.BUCKET_UNAWARE, BucketMode.POSTPONE_MODE)
"""Modes in which a writer needs to know nothing of a table's files: rows get no sequence numbers, and no bucket has
another number than the table's."""


@dataclass(frozen=True, slots=True)
class WriteState:
    """The state of a table's files at one snapshot (0: an empty table).

    `sequences` is the greatest sequence number of each bucket or a greater one, `partition_buckets` the number of
    buckets of partitions with another one than the table, `indexes` the HASH index files of each partition. `runs` has
    the sorted runs of each bucket, and how many of them are files of level 0.
    """

    sequences: Mapping[Bucket, int] = field(default_factory=dict)
    partition_buckets: Mapping[bytes, int] = field(default_factory=dict)
    indexes: Mapping[bytes, tuple[IndexManifestEntry, ...]] = field(default_factory=dict)
    snapshot: int = 0
    runs: Mapping[Bucket, tuple[int, int]] = field(default_factory=dict)


def read_state(store: Store, latest: Snapshot | None, schema: TableSchema, options: WriteOptions) -> WriteState:
    """The state at a snapshot. CommitConflictError where the files have another number of buckets than the table."""
    if latest is None:
        return WriteState()
    if options.mode is BucketMode.HASH_DYNAMIC:
        metas, index_files = data_manifests_and_index_files(store, latest)
        indexes: dict[bytes, tuple[IndexManifestEntry, ...]] = {}
        for index in index_files:
            if index.index_type == HASH_INDEX:
                indexes[index.partition] = (*indexes.get(index.partition, ()), index)
        buckets = bucket_summaries(store, latest, metas)
        return WriteState(_sequences(buckets), {}, indexes, latest.id, _runs(buckets))
    buckets = bucket_summaries(store, latest, data_manifests(store, latest))
    if options.mode is not BucketMode.HASH_FIXED:
        return WriteState(_sequences(buckets), snapshot=latest.id, runs=_runs(buckets))
    counts = {partition: total for partition, bucket, total in buckets if bucket >= 0}
    own_counts = partition_bucket_counts(counts, options.buckets, store.location)
    return WriteState(_sequences(buckets), own_counts, snapshot=latest.id, runs=_runs(buckets))


def _sequences(buckets: Mapping[BucketOf, BucketSummary]) -> dict[Bucket, int]:
    greatest: dict[Bucket, int] = {}
    for (partition, bucket, _), summary in buckets.items():
        greatest[partition, bucket] = max(greatest.get((partition, bucket), -1), summary.greatest_sequence)
    return greatest


def _runs(buckets: Mapping[BucketOf, BucketSummary]) -> dict[Bucket, tuple[int, int]]:
    runs: dict[Bucket, tuple[int, int]] = {}
    for (partition, bucket, _), summary in buckets.items():
        count, in_level_0 = runs.get((partition, bucket), (0, 0))
        runs[partition, bucket] = (count + summary.sorted_runs, in_level_0 + summary.levels.get(0, 0))
    return runs


def greatest_sequences(entries: Iterable[ManifestEntry]) -> dict[Bucket, int]:
    """The greatest sequence number in each bucket."""
    greatest: dict[Bucket, int] = {}
    for entry in entries:
        bucket = (entry.partition, entry.bucket)
        greatest[bucket] = max(greatest.get(bucket, -1), entry.file.max_sequence_number)
    return greatest


def real_buckets(entries: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """The number of buckets of each partition that has any which are not postponed."""
    return {entry.partition: entry.total_buckets for entry in entries if entry.bucket >= 0}
