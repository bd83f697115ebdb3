"""What the manifests of a snapshot say of its buckets, without a value for each of their entries.

A manifest never changes under its name, so the process keeps what it says: a process that writes again and again
decodes only the manifests that are new. How many files a table has does not matter then.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from lakebed.errors import CorruptError
from lakebed.formats.paimon.codec.manifest import ManifestFileMeta
from lakebed.formats.paimon.codec.manifest_summary import (
    BucketOf,
    BucketSummary,
    ManifestSummary,
    manifest_summary,
)
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.layout import manifest_path
from lakebed.formats.paimon.manifests import manifest_bytes, manifest_file, refuse_external
from lakebed.kernel.files import Store

_MOST_BUCKETS = 200_000
"""The most buckets in all summaries that are kept."""

Key = tuple[str, str, int]
"""The location of a table, and the name and size of a manifest."""


def _key(store: Store, meta: ManifestFileMeta) -> Key:
    return store.location, meta.file_name, meta.file_size


def bucket_summaries(
    store: Store, snapshot: Snapshot, metas: Sequence[ManifestFileMeta]
) -> dict[BucketOf, BucketSummary]:
    """The buckets that have files in a snapshot, by what its manifests `metas` say.

    The greatest sequence number counts files that were deleted since too, which only leaves numbers out. Raises
    CorruptError where a bucket has more deletes than files, UnsupportedError for files outside the table.
    """
    buckets = all_bucket_summaries(store, snapshot, metas)
    return {bucket: total for bucket, total in buckets.items() if total.files}


def all_bucket_summaries(
    store: Store, snapshot: Snapshot, metas: Sequence[ManifestFileMeta]
) -> dict[BucketOf, BucketSummary]:
    """As `bucket_summaries`, but with buckets that no longer have files too."""
    summaries = _summaries(store, metas)
    for summary in summaries:
        refuse_external(store, summary.external)
    buckets = _total(summaries)
    for (_, bucket_number, _), total in buckets.items():
        if total.files < 0:
            raise CorruptError(
                f"manifests delete more files of bucket {bucket_number} than they added",
                table=store.location,
                instant=str(snapshot.id),
            )
    return buckets


def remember_joined(store: Store, metas: Sequence[ManifestFileMeta], joined: ManifestFileMeta) -> None:
    """Keep what a new manifest says that has the entries of others, where it is known what these say."""
    known = [KEPT.get(_key(store, meta)) for meta in metas]
    summaries = [summary for summary in known if summary is not None]
    if len(summaries) == len(metas):
        external = tuple(place for summary in summaries for place in summary.external)
        KEPT.put(_key(store, joined), ManifestSummary(_total(summaries), external))


def _total(summaries: Sequence[ManifestSummary]) -> dict[BucketOf, BucketSummary]:
    """The sums of several manifests, by bucket."""
    buckets: dict[BucketOf, BucketSummary] = {}
    for summary in summaries:
        for bucket, of_manifest in summary.buckets.items():
            before = buckets.get(bucket)
            buckets[bucket] = of_manifest if before is None else before.plus(of_manifest)
    return buckets


def _summaries(store: Store, metas: Sequence[ManifestFileMeta]) -> list[ManifestSummary]:
    """The summary of each manifest. Those that the process does not know are read together."""
    keys = [_key(store, meta) for meta in metas]
    known: dict[Key, ManifestSummary | None] = {key: KEPT.get(key) for key in keys}
    missing = [(key, meta) for key, meta in zip(keys, metas, strict=True) if known[key] is None]
    read = manifest_bytes(store, [manifest_file(meta) for _, meta in missing])
    for (key, _), (file, data) in zip(missing, read, strict=True):
        summary = known[key] = manifest_summary(data, manifest_path(file.name))
        if len(data) == key[2]:
            KEPT.put(key, summary)
    return [kept for key in keys if (kept := known[key]) is not None]


class SummaryCache:
    """The most recently used summaries, up to a number of buckets. Safe for threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, ManifestSummary] = OrderedDict()
        self._lock = threading.Lock()
        self._buckets = 0

    def get(self, key: Key) -> ManifestSummary | None:
        """The summary of a manifest, None when it is not kept."""
        with self._lock:
            summary = self._kept.get(key)
            if summary is not None:
                self._kept.move_to_end(key)
            return summary

    def put(self, key: Key, summary: ManifestSummary) -> None:
        """Keep a summary, and drop those that were not used for the longest time."""
        with self._lock:
            before = self._kept.pop(key, None)
            self._buckets += len(summary.buckets) - (len(before.buckets) if before is not None else 0)
            self._kept[key] = summary
            while self._buckets > _MOST_BUCKETS:
                self._buckets -= len(self._kept.popitem(last=False)[1].buckets)


KEPT = SummaryCache()
"""The summaries that this process keeps."""
