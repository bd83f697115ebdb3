"""What snapshots name: the metadata files of each, and the entries of their manifests.

Each manifest list, index manifest and manifest is read once, however many snapshots name it. What was read of the
manifests that several uses need (`share`) stays in memory, of the others only what the caller keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon.codec.manifest import IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.layout import index_path, manifest_path, statistics_path
from lakebed.formats.paimon.manifests import (
    MetadataFile,
    base_list,
    changelog_lists,
    delta_list,
    entries_by_manifest,
    index_files,
    index_files_of,
    manifest_file,
    metas_of_lists,
)
from lakebed.kernel.files import Store

_LISTS_AT_ONCE = 64
"""The manifests of so many lists are read at a time."""


@dataclass(slots=True)
class NamedFiles:
    """Reads what snapshots name. Call `look` with them first."""

    store: Store
    _manifests: dict[str, Sequence[MetadataFile] | None] = field(default_factory=dict)
    _indexes: dict[str, Sequence[IndexManifestEntry]] = field(default_factory=dict)
    _shared: dict[str, Sequence[ManifestEntry] | None] = field(default_factory=dict)

    def look(self, snapshots: Iterable[Snapshot]) -> None:
        """Read the manifest lists and index manifests of snapshots together, where that was not done before."""
        lists: dict[str, MetadataFile] = {}
        indexes: dict[str, Snapshot] = {}
        for snapshot in snapshots:
            for file in (base_list(snapshot), delta_list(snapshot), *changelog_lists(snapshot)):
                if file.name not in self._manifests:
                    lists[file.name] = file
            if snapshot.index_manifest is not None and snapshot.index_manifest not in self._indexes:
                indexes[snapshot.index_manifest] = snapshot
        looks: list[Callable[[], Any]] = []
        if lists:
            looks.append(lambda: self._manifests.update(self._read_lists([*lists.values()])))
        if indexes:
            looks.append(lambda: self._indexes.update(self._read_indexes(indexes)))
        self.store.together(lambda look: look(), looks)

    def share(self, snapshots: Iterable[Snapshot]) -> None:
        """Keep the entries of the data manifests of these snapshots once they are read."""
        for snapshot in snapshots:
            for file in _data_lists(snapshot):
                for manifest in self._manifests[file.name] or ():
                    self._shared.setdefault(manifest.name)

    def follows(self, snapshot: Snapshot, earlier: Snapshot) -> bool:
        """Whether a snapshot surely adds nothing but its own changes to the files of an earlier one: it names the
        manifests of that one. So it does not where these were merged, or lists of the earlier one are gone; and where
        that came late, after its number had expired, it does not follow it at all. A snapshot whose own lists are gone
        has expired, whatever brought its file back: it adds nothing."""
        base, delta, *before = (self._manifests[file.name] for one in (snapshot, earlier) for file in _data_lists(one))
        if base is None or delta is None:
            return True
        named = {manifest.name for manifests in before for manifest in manifests or ()}
        return None not in before and {manifest.name for manifest in base} == named

    def metadata(self, snapshot: Snapshot) -> Iterator[str]:
        """The paths of the metadata files that a snapshot names, each before the file that names it."""
        if snapshot.index_manifest is not None:
            yield from (index_path(entry.file_name) for entry in self._indexes[snapshot.index_manifest])
        yield from self.in_lists([base_list(snapshot), delta_list(snapshot), *changelog_lists(snapshot)])
        if snapshot.index_manifest is not None:
            yield manifest_path(snapshot.index_manifest)
        if snapshot.statistics is not None:
            yield statistics_path(snapshot.statistics)

    def in_lists(self, lists: Iterable[MetadataFile]) -> Iterator[str]:
        """The paths of the manifests of lists, each before its list."""
        for file in lists:
            yield from (manifest_path(manifest.name) for manifest in self._manifests[file.name] or ())
            yield manifest_path(file.name)

    def entries(self, lists: Sequence[MetadataFile]) -> Iterator[list[ManifestEntry]]:
        """The entries of each manifest list. None where a manifest is gone: an earlier expiry was cut short behind
        it."""
        for start in range(0, len(lists), _LISTS_AT_ONCE):
            wave = [self._manifests[file.name] or () for file in lists[start : start + _LISTS_AT_ONCE]]
            try:
                read = self._by_manifest([file for files in wave for file in files])
                entries_of_waves = [[entry for file in files for entry in read[file.name]] for files in wave]
            except DataCleanedError:
                entries_of_waves = [self._entries_there(files) for files in wave]
            yield from entries_of_waves

    def data_entries(self, snapshots: Sequence[Snapshot]) -> Iterator[Iterator[ManifestEntry]]:
        """The entries of all data manifests of each snapshot, unmerged. DataCleanedError when a list or a manifest of
        one is gone."""
        of_snapshots = [
            [manifest for file in (base_list(snapshot), delta_list(snapshot)) for manifest in self._in(file)]
            for snapshot in snapshots
        ]
        read = self._by_manifest([manifest for manifests in of_snapshots for manifest in manifests])
        for manifests in of_snapshots:
            yield (entry for manifest in manifests for entry in read[manifest.name])

    def _in(self, file: MetadataFile) -> Sequence[MetadataFile]:
        """The manifests of a list. DataCleanedError when it is gone."""
        known = self._manifests[file.name]
        if known is not None:
            return known
        return [manifest_file(meta) for metas in metas_of_lists(self.store, [file]) for meta in metas]

    def _by_manifest(self, files: Iterable[MetadataFile]) -> dict[str, Sequence[ManifestEntry]]:
        """The entries of manifests by name."""
        known: dict[str, Sequence[ManifestEntry]] = {}
        missing: dict[str, MetadataFile] = {}
        for file in files:
            shared = self._shared.get(file.name)
            if shared is None:
                missing[file.name] = file
            else:
                known[file.name] = shared
        for name, entries in zip(missing, entries_by_manifest(self.store, [*missing.values()]), strict=True):
            known[name] = entries
            if name in self._shared:
                self._shared[name] = entries
        return known

    def _entries_there(self, files: Sequence[MetadataFile]) -> list[ManifestEntry]:
        with suppress(DataCleanedError):
            read = self._by_manifest(files)
            return [entry for file in files for entry in read[file.name]]
        return []

    def _read_lists(self, lists: Sequence[MetadataFile]) -> dict[str, Sequence[MetadataFile] | None]:
        """The manifests of each list, by its name. None for a list that is gone: it names nothing any more."""

        def read(file: MetadataFile) -> Sequence[MetadataFile] | None:
            with suppress(DataCleanedError):
                return [manifest_file(meta) for metas in metas_of_lists(self.store, [file]) for meta in metas]
            return None

        names = [file.name for file in lists]
        with suppress(DataCleanedError):
            every = metas_of_lists(self.store, lists)
            return {name: [*map(manifest_file, metas)] for name, metas in zip(names, every, strict=True)}
        return dict(zip(names, self.store.together(read, lists), strict=True))

    def _read_indexes(self, naming: Mapping[str, Snapshot]) -> dict[str, Sequence[IndexManifestEntry]]:
        """The index files in each index manifest, given by name with a snapshot that names it."""

        def read(snapshot: Snapshot) -> Sequence[IndexManifestEntry]:
            with suppress(DataCleanedError):
                return index_files(self.store, snapshot)
            return ()

        snapshots = [*naming.values()]
        with suppress(DataCleanedError):
            return dict(zip(naming, index_files_of(self.store, snapshots), strict=True))
        return dict(zip(naming, self.store.together(read, snapshots), strict=True))


def _data_lists(snapshot: Snapshot) -> tuple[MetadataFile, MetadataFile]:
    return base_list(snapshot), delta_list(snapshot)
