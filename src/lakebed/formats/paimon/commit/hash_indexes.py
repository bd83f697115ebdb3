"""The HASH index files of dynamic buckets, which a commit writes for the keys that its buckets gained.

Rules: Paimon's DynamicBucketIndexMaintainer. An index file holds all key hashes of one bucket and is written whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lakebed.formats.paimon.codec.hash_index import hashes_of, index_bytes
from lakebed.formats.paimon.codec.manifest import ADD, HASH_INDEX, IndexManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.layout import NameFactory, index_path
from lakebed.formats.paimon.manifests import index_files, many_key_hashes
from lakebed.kernel.arrays import Int32s
from lakebed.kernel.files import Store

Bucket = tuple[bytes, int]
"""A serialized partition row, and the number of a bucket in it."""
_WAVE_BYTES = 32 << 20
"""Index files are read and written together up to about so many bytes."""


def write_hash_indexes(
    store: Store, latest: Snapshot | None, messages: Sequence[PaimonMessage], replaces: bool
) -> tuple[IndexManifestEntry, ...]:
    """Write the index of each bucket that gained keys: the hashes of its index in the snapshot `latest`, then the new
    ones. `replaces`: only the new ones, for an overwrite."""
    gained: dict[tuple[bytes, int], list[Int32s]] = {}
    for message in messages:
        if message.new_hashes:
            gained.setdefault((message.partition, message.bucket), []).append(hashes_of(message.new_hashes))
    if not gained:
        return ()
    names = NameFactory("index-")
    before = {} if replaces else _indexes(store, latest)
    entries: list[IndexManifestEntry] = []
    for buckets in _waves(list(gained), before):
        old = [entry for bucket in buckets if (entry := before.get(bucket)) is not None]
        old_hashes = dict(zip(((e.partition, e.bucket) for e in old), many_key_hashes(store, old), strict=True))
        files: dict[str, bytes] = {}
        for bucket in buckets:
            hashes = np.concatenate([*([old_hashes[bucket]] if bucket in old_hashes else []), *gained[bucket]])
            data, name = index_bytes(hashes), names()
            files[index_path(name)] = data
            entries.append(IndexManifestEntry(ADD, *bucket, HASH_INDEX, name, len(data), len(hashes)))
        store.write_many(files)
    return tuple(entries)


def _waves(buckets: Sequence[Bucket], before: Mapping[Bucket, IndexManifestEntry]) -> Iterator[list[Bucket]]:
    """Buckets whose index files are read and written together."""
    wave: list[Bucket] = []
    size = 0
    for bucket in buckets:
        wave.append(bucket)
        size += before[bucket].file_size if bucket in before else 0
        if size >= _WAVE_BYTES:
            yield wave
            wave, size = [], 0
    if wave:
        yield wave


def _indexes(store: Store, latest: Snapshot | None) -> dict[Bucket, IndexManifestEntry]:
    entries = index_files(store, latest)
    return {(entry.partition, entry.bucket): entry for entry in entries if entry.index_type == HASH_INDEX}
