"""From a snapshot to its files: reads manifest lists and manifests, and merges their entries.

Rules: Paimon's FileEntry.mergeEntries (a DELETE cancels an earlier ADD of the same file), IndexFileHandler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lakebed.errors import CorruptError, DataCleanedError, UnsupportedError
from lakebed.formats.paimon.codec.entry_columns import decode_entries
from lakebed.formats.paimon.codec.hash_index import hashes_of
from lakebed.formats.paimon.codec.manifest import (
    ADD,
    DELETE,
    Identity,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from lakebed.formats.paimon.codec.manifest_avro import (
    index_manifest_from_bytes,
    manifest_from_bytes,
    manifest_list_from_bytes,
)
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.entries import Entries, KeepBuckets
from lakebed.formats.paimon.layout import index_path, manifest_path
from lakebed.kernel.arrays import Int32s
from lakebed.kernel.decoding import Stated, decoding
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import FileInfo, Store

_READ_AT_ONCE = 64
"""The most manifests whose bytes are in memory at a time."""
_COLUMNS_FROM = 1 << 20
"""Manifests with at least so many bytes together are decoded as columns; of fewer entries values are made sooner."""
_RUN_BYTES = 8 << 20
"""Bytes of compressed manifests that are decoded at once. They take about five times as much as columns."""


class MetadataFile(NamedTuple):
    """A manifest, manifest list or index manifest: its name, and its size in bytes where the metadata states it."""

    name: str
    size: int | None = None


KeepManifests = Callable[[Sequence[ManifestFileMeta]], list[ManifestFileMeta]]
"""Picks the wanted ones among manifests."""


def base_list(snapshot: Snapshot) -> MetadataFile:
    """The manifest list of what a snapshot keeps of those before it."""
    return MetadataFile(snapshot.base_manifest_list, snapshot.base_manifest_list_size)


def delta_list(snapshot: Snapshot) -> MetadataFile:
    """The manifest list of what a snapshot changes."""
    return MetadataFile(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)


def changelog_lists(snapshot: Snapshot) -> list[MetadataFile]:
    """The manifest list of a snapshot's changelog, if it has one."""
    name = snapshot.changelog_manifest_list
    return [] if name is None else [MetadataFile(name, snapshot.changelog_manifest_list_size)]


def manifest_file(meta: ManifestFileMeta) -> MetadataFile:
    """A manifest's file."""
    return MetadataFile(meta.file_name, meta.file_size)


def manifest_metas(store: Store, file: MetadataFile) -> list[ManifestFileMeta]:
    """The manifests of a manifest list."""
    return next(metas_of_lists(store, [file]))


def metas_of_lists(store: Store, lists: Sequence[MetadataFile]) -> Iterator[list[ManifestFileMeta]]:
    """The manifests of each manifest list, which are read together."""
    for file, data in _read(store, lists):
        yield list(manifest_list_from_bytes(data, manifest_path(file.name)))


def data_manifests(store: Store, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """All manifests of a snapshot: first those of the base list, then those of the delta list."""
    return [meta for metas in metas_of_lists(store, [base_list(snapshot), delta_list(snapshot)]) for meta in metas]


def entries_of(
    store: Store, metas: Iterable[ManifestFileMeta], keep: KeepBuckets | None = None, stats: bool = True
) -> Sequence[ManifestEntry]:
    """The entries of manifests in order, unmerged; those of the buckets that `keep` accepts.

    Many entries come as `Entries`, without statistics unless `stats` asks for them.
    """
    metas = [*metas]
    if sum(meta.file_size for meta in metas) >= _COLUMNS_FROM:
        return _columns_of(store, metas, keep, stats)
    files = [*map(manifest_file, metas)]
    entries = [entry for of_manifest in entries_by_manifest(store, files) for entry in of_manifest]
    if keep is None or not entries:
        return entries
    wanted = keep([entry.partition for entry in entries], np.array([entry.bucket for entry in entries], np.int64))
    return [entry for entry, is_wanted in zip(entries, wanted.tolist(), strict=True) if is_wanted]


def _columns_of(store: Store, metas: Sequence[ManifestFileMeta], keep: KeepBuckets | None, stats: bool) -> Entries:
    """The entries of manifests as columns. Some runs of manifests are read and decoded at once; of each only what is
    kept stays in memory."""

    def decoded(run: Sequence[ManifestFileMeta]) -> Entries:
        read = manifest_bytes(store, [*map(manifest_file, run)])
        contents = [(manifest_path(file.name), data) for file, data in read]
        entries = Entries(decode_entries(contents, stats))
        refuse_external(store, entries.external_files())
        return entries if keep is None else entries.in_buckets(keep)

    runs = [*runs_of(metas)]
    return Entries.joined([*LocalEngine().map(decoded, runs)] if len(runs) > 1 else [decoded(metas)])


def runs_of(metas: Iterable[ManifestFileMeta]) -> Iterator[list[ManifestFileMeta]]:
    """Neighbouring manifests that are decoded at once."""
    run: list[ManifestFileMeta] = []
    size = 0
    for meta in metas:
        if run and size + meta.file_size > _RUN_BYTES:
            yield run
            run, size = [], 0
        run.append(meta)
        size += meta.file_size
    if run:
        yield run


def entries_by_manifest(store: Store, files: Sequence[MetadataFile]) -> Iterator[Sequence[ManifestEntry]]:
    """The entries of each manifest, unmerged. Manifests are read together; a large one comes as `Entries`."""
    for file, data in manifest_bytes(store, files):
        path = manifest_path(file.name)
        if len(data) >= _COLUMNS_FROM:
            entries = Entries(decode_entries([(path, data)]))
            refuse_external(store, entries.external_files())
            yield entries
            continue
        of_manifest = list(manifest_from_bytes(data, path))
        refuse_external(store, ((entry.file.file_name, entry.file.external_path) for entry in of_manifest))
        yield of_manifest


def manifest_bytes(store: Store, files: Sequence[MetadataFile]) -> Iterator[tuple[MetadataFile, bytes]]:
    """Each manifest with its bytes. Manifests are read together."""
    return _read(store, files)


def merge(entries: Iterable[ManifestEntry]) -> Sequence[ManifestEntry]:
    """The entries that remain after each DELETE has cancelled its ADD. A DELETE without an ADD stays."""
    if isinstance(entries, Entries):
        return entries.merged()
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


def live_files(store: Store, snapshot: Snapshot | None, keep: KeepBuckets | None = None) -> Sequence[ManifestEntry]:
    """The data files of a snapshot, oldest entry first; those of the buckets that `keep` accepts.

    Raises CorruptError for a DELETE without an ADD, DataCleanedError when a manifest is gone.
    """
    if snapshot is None:
        return []
    return checked_live(store, snapshot, entries_of(store, data_manifests(store, snapshot), keep))


def live_and_index_files(
    store: Store,
    snapshot: Snapshot | None,
    keep_manifests: KeepManifests | None = None,
    keep: KeepBuckets | None = None,
    stats: bool = True,
) -> tuple[Sequence[ManifestEntry], list[IndexManifestEntry]]:
    """As `live_files` and `index_files`, whose first files are read together.

    `keep_manifests` may leave out manifests without a bucket that `keep` accepts. Many files come as `Entries`, without
    statistics unless `stats` asks for them.
    """
    if snapshot is None:
        return [], []
    metas, indexes = data_manifests_and_index_files(store, snapshot)
    if keep_manifests is not None:
        metas = keep_manifests(metas)
    return checked_live(store, snapshot, entries_of(store, metas, keep, stats)), indexes


def data_manifests_and_index_files(
    store: Store, snapshot: Snapshot
) -> tuple[list[ManifestFileMeta], list[IndexManifestEntry]]:
    """The results of `data_manifests` and `index_files`, whose files are read together."""
    files = [base_list(snapshot), delta_list(snapshot), *_index_manifests(snapshot)]
    (base, in_base), (delta, in_delta), *indexes = _read(store, files)
    metas = [
        *manifest_list_from_bytes(in_base, manifest_path(base.name)),
        *manifest_list_from_bytes(in_delta, manifest_path(delta.name)),
    ]
    return metas, [entry for index in indexes for entry in _added(store, *index)]


def checked_live(store: Store, snapshot: Snapshot, entries: Iterable[ManifestEntry]) -> Sequence[ManifestEntry]:
    """The data files that remain of the entries of a snapshot. CorruptError for a DELETE without an ADD."""
    merged = merge(entries)
    for entry in merged.of_kind(DELETE)[:1] if isinstance(merged, Entries) else merged:
        if entry.kind != ADD:
            raise CorruptError(
                f"manifests delete the file {entry.file.file_name}, but never added it",
                table=store.location,
                instant=str(snapshot.id),
            )
    return merged


def index_files(store: Store, snapshot: Snapshot | None) -> list[IndexManifestEntry]:
    """The index files of a snapshot: HASH indexes and deletion vectors."""
    return [] if snapshot is None else next(index_files_of(store, [snapshot]))


def index_files_of(store: Store, snapshots: Sequence[Snapshot]) -> Iterator[list[IndexManifestEntry]]:
    """The index files of each snapshot, whose index manifests are read together."""
    names = [_index_manifests(snapshot) for snapshot in snapshots]
    contents = _read(store, [file for of_snapshot in names for file in of_snapshot])
    for of_snapshot in names:
        yield _added(store, *next(contents)) if of_snapshot else []


def _index_manifests(snapshot: Snapshot) -> list[MetadataFile]:
    return [] if snapshot.index_manifest is None else [MetadataFile(snapshot.index_manifest)]


def _added(store: Store, file: MetadataFile, data: bytes) -> list[IndexManifestEntry]:
    """The index files that an index manifest adds."""
    entries = index_manifest_from_bytes(data, manifest_path(file.name))
    added = [entry for entry in entries if entry.kind == ADD]
    refuse_external(store, ((entry.file_name, entry.external_path) for entry in added))
    return added


def refuse_external(store: Store, files: Iterable[tuple[str, str | None]]) -> None:
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


def _read(store: Store, files: Sequence[MetadataFile]) -> Iterator[tuple[MetadataFile, bytes]]:
    """The bytes of metadata files, several read at once. DataCleanedError names one that is gone, CorruptError one that
    does not have its stated size: an Avro file that ends after any of its blocks is whole in itself."""
    for start in range(0, len(files), _READ_AT_ONCE):
        wave = files[start : start + _READ_AT_ONCE]
        try:
            contents = _read_together(store, wave)
        except FileNotFoundError:
            contents = [_read_alone(store, file.name) for file in wave]  # so that the error names the missing one
        for (name, size), data in zip(wave, contents, strict=True):
            if size is not None:
                Stated(size).check_size(len(data), "a manifest", table=store.location, file=manifest_path(name))
        yield from zip(wave, contents, strict=True)


def _read_together(store: Store, files: Sequence[MetadataFile]) -> Sequence[bytes]:
    sized = [FileInfo(manifest_path(name), size) for name, size in files if size is not None]
    if len(sized) == len(files):
        return store.read_immutable(sized)
    if not sized or store.at_once == 1:
        return store.read_many([manifest_path(file.name) for file in files])
    return store.together(lambda file: _read_together(store, [file])[0], files)


def _read_alone(store: Store, name: str) -> bytes:
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
    """The key hashes in a HASH index file. Raises DataCleanedError when the file is gone, CorruptError when it does not
    have as many as the index manifest states."""
    path = index_path(entry.file_name)
    try:
        with decoding("an index of keys cannot be read", file=path, table=store.location):
            hashes = hashes_of(store.read(path))
            Stated(rows=entry.row_count).check_rows(len(hashes), "an index of keys")
            return hashes
    except FileNotFoundError as error:
        raise DataCleanedError(
            "an index file is gone", table=store.location, file=path, todo="Plan the write again"
        ) from error


def many_key_hashes(store: Store, entries: Sequence[IndexManifestEntry]) -> Sequence[Int32s]:
    """`key_hashes` of several files, which are read together."""
    return store.together(lambda entry: key_hashes(store, entry), entries)
