"""From a snapshot to its files: reads manifest lists and manifests, and merges their entries.

Rules: Paimon's FileEntry.mergeEntries (a DELETE cancels an earlier ADD of the same file), IndexFileHandler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lakebed.errors import CorruptError, DataCleanedError, UnsupportedError
from lakebed.formats.paimon.codec.hash_index import hashes_of
from lakebed.formats.paimon.codec.manifest import ADD, Identity, IndexManifestEntry, ManifestEntry, ManifestFileMeta
from lakebed.formats.paimon.codec.manifest_avro import (
    index_manifest_from_bytes,
    manifest_from_bytes,
    manifest_list_from_bytes,
)
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.layout import index_path, manifest_path
from lakebed.kernel.arrays import Int32s
from lakebed.kernel.files import Store

_READ_AT_ONCE = 64
"""The most manifests whose bytes are in memory at a time."""

KeepManifest = Callable[[ManifestFileMeta], bool]
KeepEntry = Callable[[ManifestEntry], bool]


def manifest_metas(store: Store, list_name: str) -> list[ManifestFileMeta]:
    """The manifests of a manifest list."""
    return list(manifest_list_from_bytes(_read(store, list_name), manifest_path(list_name)))


def data_manifests(store: Store, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """All manifests of a snapshot: first those of the base list, then those of the delta list."""
    return manifest_metas(store, snapshot.base_manifest_list) + manifest_metas(store, snapshot.delta_manifest_list)


def entries_of(store: Store, metas: Iterable[ManifestFileMeta], keep: KeepEntry | None = None) -> list[ManifestEntry]:
    """The entries of manifests in order, unmerged; those that `keep` accepts."""
    names = [meta.file_name for meta in metas]
    entries: list[ManifestEntry] = []
    for start in range(0, len(names), _READ_AT_ONCE):
        wave = names[start : start + _READ_AT_ONCE]
        for name, data in zip(wave, _read_many(store, wave), strict=True):
            of_manifest = list(manifest_from_bytes(data, manifest_path(name)))
            _refuse_external(store, ((entry.file.file_name, entry.file.external_path) for entry in of_manifest))
            entries += of_manifest if keep is None else [entry for entry in of_manifest if keep(entry)]
    return entries


def merge(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries that remain after each DELETE has cancelled its ADD. A DELETE without an ADD stays."""
    merged: dict[Identity, ManifestEntry] = {}
    for entry in entries:
        identity = entry.identity
        if entry.kind == ADD:
            merged[identity] = entry
        elif identity in merged and merged[identity].kind == ADD:
            del merged[identity]
        else:
            merged[identity] = entry
    return list(merged.values())


def live_files(
    store: Store, snapshot: Snapshot | None, keep_manifest: KeepManifest | None = None, keep: KeepEntry | None = None
) -> list[ManifestEntry]:
    """The data files of a snapshot, oldest entry first.

    The filters must treat the ADD and the DELETE of a file alike, so they may only use its partition and bucket. Raises
    CorruptError for a DELETE without an ADD, DataCleanedError when a manifest is gone.
    """
    if snapshot is None:
        return []
    metas = [meta for meta in data_manifests(store, snapshot) if keep_manifest is None or keep_manifest(meta)]
    merged = merge(entries_of(store, metas, keep))
    for entry in merged:
        if entry.kind != ADD:
            raise CorruptError(
                f"manifests delete the file {entry.file.file_name}, but never added it",
                table=store.location,
                instant=str(snapshot.id),
            )
    return merged


def index_files(store: Store, snapshot: Snapshot | None) -> list[IndexManifestEntry]:
    """The index files of a snapshot: HASH indexes and deletion vectors."""
    if snapshot is None or snapshot.index_manifest is None:
        return []
    name = snapshot.index_manifest
    entries = index_manifest_from_bytes(_read(store, name), manifest_path(name))
    added = [entry for entry in entries if entry.kind == ADD]
    _refuse_external(store, ((entry.file_name, entry.external_path) for entry in added))
    return added


def _refuse_external(store: Store, files: Iterable[tuple[str, str | None]]) -> None:
    """Raise UnsupportedError for a file that is stored outside the table (`data-file.external-paths`)."""
    for name, place in files:
        if place:
            raise UnsupportedError(
                f"the file {name} is outside the table",
                table=store.location,
                file=place,
                why="lakebed reads and changes nothing outside a table's own folder",
                todo="Rewrite the table with Paimon's own engine, without data-file.external-paths",
            )


def _read_many(store: Store, names: list[str]) -> Sequence[bytes]:
    try:
        return store.read_many([manifest_path(name) for name in names])
    except FileNotFoundError:
        return [_read(store, name) for name in names]  # one by one, so that the error names the missing one


def _read(store: Store, name: str) -> bytes:
    path = manifest_path(name)
    try:
        return store.read(path)
    except FileNotFoundError as error:
        raise DataCleanedError(
            "a manifest is gone",
            table=store.location,
            file=path,
            why="the snapshot that holds it has expired",
            todo="Read a newer snapshot",
        ) from error


def key_hashes(store: Store, entry: IndexManifestEntry) -> Int32s:
    """The key hashes in a HASH index file. Raises DataCleanedError when the file is gone."""
    path = index_path(entry.file_name)
    try:
        return hashes_of(store.read(path))
    except FileNotFoundError as error:
        raise DataCleanedError(
            "an index file is gone", table=store.location, file=path, todo="Plan the write again"
        ) from error


def many_key_hashes(store: Store, entries: Sequence[IndexManifestEntry]) -> Sequence[Int32s]:
    """`key_hashes` of several files, which are read together."""
    return store.together(lambda entry: key_hashes(store, entry), entries)
