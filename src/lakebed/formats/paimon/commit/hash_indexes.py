"""The HASH index files of dynamic buckets, which a commit writes for the keys that its buckets gained.

Rules: Paimon's DynamicBucketIndexMaintainer. An index file holds all key hashes of one bucket and is written whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakebed.formats.paimon.codec.hash_index import hashes_of, index_bytes
from lakebed.formats.paimon.codec.manifest import ADD, HASH_INDEX, IndexManifestEntry
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.layout import NameFactory, index_path
from lakebed.formats.paimon.manifests import index_files, key_hashes
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.arrays import Int32s

_BUFFER_BYTES = 32 << 20
"""Index files are held until they have so many bytes, to be written together."""


def write_hash_indexes(
    history: History, messages: Sequence[PaimonMessage], replaces: bool
) -> tuple[IndexManifestEntry, ...]:
    """Write the index of each bucket that gained keys: the hashes of its latest index, then the new ones. `replaces`:
    only the new ones, for an overwrite."""
    gained: dict[tuple[bytes, int], list[Int32s]] = {}
    for message in messages:
        if message.new_hashes:
            gained.setdefault((message.partition, message.bucket), []).append(hashes_of(message.new_hashes))
    if not gained:
        return ()
    store, names = history.store, NameFactory("index-")
    latest = {} if replaces else _latest_indexes(history)
    entries: list[IndexManifestEntry] = []
    files: dict[str, bytes] = {}
    for (partition, bucket), parts in gained.items():
        before = latest.get((partition, bucket))
        hashes = np.concatenate([*([key_hashes(store, before)] if before else []), *parts])
        data, name = index_bytes(hashes), names()
        files[index_path(name)] = data
        if sum(map(len, files.values())) >= _BUFFER_BYTES:
            store.write_many(files)
            files = {}
        entries.append(IndexManifestEntry(ADD, partition, bucket, HASH_INDEX, name, len(data), len(hashes)))
    store.write_many(files)
    return tuple(entries)


def _latest_indexes(history: History) -> dict[tuple[bytes, int], IndexManifestEntry]:
    entries = index_files(history.store, history.latest())
    return {(entry.partition, entry.bucket): entry for entry in entries if entry.index_type == HASH_INDEX}
