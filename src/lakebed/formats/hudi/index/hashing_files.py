"""The `.hashing_meta` files of consistent hashing: which one counts, and new ones.

    .hoodie/.bucket_index/consistent_hashing_metadata/<partition>/<instant>.hashing_meta

A partition begins with that of the instant 0, which its first writer makes; whoever comes second takes what is there.
Later ones belong to a resizing or a replacement, and count once that instant is completed. A marker `<instant>.commit`
beside a file says so when the instant has left the active timeline.

Rules: Hudi's `ConsistentBucketIndexUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.hashing import FIRST, HashingMetadata, encode_hashing, parse_hashing
from lakebed.formats.hudi.layout import HASHING_METADATA
from lakebed.formats.hudi.read.state import TableState
from lakebed.kernel.decoding import RESTORE, decoding
from lakebed.kernel.files import Listing, Store

_FILE, _MARKER = ".hashing_meta", ".commit"


def load_rings(state: TableState, partitions: Iterable[str]) -> dict[str, HashingMetadata]:
    """The buckets of those partitions that have some."""
    wanted = list(dict.fromkeys(partitions))
    listings = state.store.list_many([_folder(partition) for partition in wanted])
    chosen: dict[str, str] = {}
    for partition, listing in zip(wanted, listings, strict=True):
        path = _newest(state, listing)
        if path:
            chosen[partition] = path
    contents = state.store.read_many(list(chosen.values()))
    return {
        partition: _parsed(data, path, state.store.location)
        for (partition, path), data in zip(chosen.items(), contents, strict=True)
    }


def begin_ring(store: Store, partition: str, buckets: int) -> HashingMetadata:
    """The buckets of a partition that had none: its first ones, or those that another writer gave it meanwhile."""
    ring = HashingMetadata.initial(partition, buckets)
    path = _path(partition, FIRST)
    store.put_if_absent(path, encode_hashing(ring))
    return _parsed(store.read(path), path, store.location)


def save_rings(store: Store, rings: Iterable[HashingMetadata]) -> None:
    """Write the buckets since instants that are going to complete."""
    store.write_many({_path(ring.partition, ring.instant): encode_hashing(ring) for ring in rings})


def mark_rings(store: Store, rings: Iterable[HashingMetadata]) -> None:
    """Say beside such files that their instants are completed."""
    store.write_many({f"{_folder(ring.partition)}/{ring.instant}{_MARKER}": b"" for ring in rings})


def _newest(state: TableState, listing: Listing) -> str:
    """The path of the file that counts, "" for none."""
    names = {name for name in listing.names if not name.startswith(".")}
    instants = sorted((name.removesuffix(_FILE) for name in names if name.endswith(_FILE)), reverse=True)
    folder = {info.name: info.path for info in listing.files}
    for instant in instants:
        if instant == FIRST or f"{instant}{_MARKER}" in names or _completed(state, instant):
            return folder[f"{instant}{_FILE}"]
    return ""


def _completed(state: TableState, instant: str) -> bool:
    entry = state.timeline.by_time.get(instant)
    if entry is not None:
        return entry.done
    if instant >= state.timeline.start:
        return False
    return any(each.time == instant and each.state == "completed" for each in state.archived.instants())


def _parsed(data: bytes, path: str, table: str) -> HashingMetadata:
    with decoding("the buckets of consistent hashing cannot be read", table=table, file=path):
        ring = parse_hashing(data)
        if not ring.nodes or any(not node.prefix for node in ring.nodes):
            raise CorruptError("a bucket has no file group", todo=RESTORE)
    return ring


def _folder(partition: str) -> str:
    return f"{HASHING_METADATA}/{partition}" if partition else HASHING_METADATA


def _path(partition: str, instant: str) -> str:
    return f"{_folder(partition)}/{instant}{_FILE}"
