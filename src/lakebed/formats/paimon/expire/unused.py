"""The files that only expiring snapshots need.

Rules: Paimon's SnapshotDeletion and ExpireSnapshotsImpl.expireUntil. A data file is needed until the snapshot that
deletes it is the oldest one. Tags need the files of their snapshot. So do branches, which share data and manifests with
the main branch, and changelogs that outlive their snapshots.

Each manifest list is read once, however many snapshots name it, and all that are known to be needed at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon.codec.manifest import ADD, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.layout import (
    MAIN_BRANCH,
    bucket_folder,
    index_path,
    manifest_path,
    statistics_path,
)
from lakebed.formats.paimon.manifests import (
    MetadataFile,
    base_list,
    changelog_lists,
    checked_live,
    delta_list,
    entries_by_manifest,
    index_files,
    index_files_of,
    manifest_file,
    metas_of_lists,
)
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.references import kept_changelogs
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.options import Options

_LISTS_AT_ONCE = 64
"""The manifests of so many lists are read at a time."""


@dataclass(slots=True)
class UnusedFiles:
    """Finds the files that can be deleted with expiring snapshots of one branch."""

    history: History
    schema: TableSchema
    options: Options
    _folders: PartitionFolders | None = None
    _tagged: dict[str, Snapshot] | None = None
    _manifests: dict[str, Sequence[MetadataFile] | None] = field(default_factory=dict)
    _indexes: dict[str, Sequence[IndexManifestEntry]] = field(default_factory=dict)

    def of(self, expiring: Sequence[Snapshot], oldest_kept: Snapshot) -> list[str]:
        """The paths of the files that nothing needs once `expiring` (ascending) are gone: data files first, then
        changelog, index and manifest files, lists last."""
        looks: tuple[Callable[[], Any], ...] = (
            self._other_holders,
            self._changelogs,
            lambda: self._look([*expiring, oldest_kept]),
        )
        others, changelogs, _ = self.history.store.together(lambda look: look(), looks)
        self._look([*others, *changelogs])
        data: dict[str, None] = {}
        for entries in self._entries([*map(delta_list, [*expiring[1:], oldest_kept])]):
            data.update(dict.fromkeys(self._deleted(entries)))
        changelog = self._changelog_files(expiring)
        metadata: dict[str, None] = {}
        for snapshot in expiring:
            metadata.update(dict.fromkeys(self._metadata(snapshot)))
        needed = {path for snapshot in (oldest_kept, *others) for path in self._metadata(snapshot)}
        if data:
            needed |= {path for holder in others for path in self._live(holder)}
        needed.update(self._of_changelogs(changelogs))
        return [path for path in (*data, *changelog, *metadata) if path not in needed]

    def after_rollback(self, removed: Sequence[Snapshot], target: Snapshot, tags: Mapping[str, Snapshot]) -> list[str]:
        """The paths of the files that nothing needs once the branch is back at `target`, in the order of `of`.

        `removed` are the snapshots and changelogs after it, `tags` those of later snapshots, which go as well. What a
        removed snapshot shares with an earlier one, it shares with the target too.
        """
        gone = [*removed, *tags.values()]
        others = [tagged for name, tagged in self.tagged().items() if name not in tags] + self._of_other_branches()
        ended = {changelog.id for changelog in removed}
        changelogs = [changelog for changelog in self._changelogs() if changelog.id not in ended]
        self._look([target, *gone, *others, *changelogs])
        data = {
            path: None
            for entries in self._entries([*map(delta_list, removed)])
            for entry in entries
            if entry.kind == ADD
            for path in self._paths(entry)
        }
        for tagged in tags.values():
            data.update(dict.fromkeys(self._live(tagged)))
        data.update(dict.fromkeys(self._changelog_files(gone)))
        metadata = {path: None for snapshot in gone for path in self._metadata(snapshot)}
        needed = {path for holder in (target, *others) for path in (*self._metadata(holder), *self._live(holder))}
        needed.update(self._of_changelogs(changelogs))
        return [path for path in (*data, *metadata) if path not in needed]

    def of_tag(self, tagged: Snapshot) -> list[str]:
        """The paths of all files that a tag needs, in the order of `of`."""
        self._look([tagged])
        return [*self._live(tagged), *self._metadata(tagged)]

    def needed_beside(self, tagged: Snapshot, name: str = "") -> set[str]:
        """The paths of the files that something else needs of those of a tag whose snapshot has expired. `name` is
        that of the tag, where it is still there.

        A file is in snapshots without a gap. So of the branch's own, the nearest on both sides tell.
        """
        ends = [snapshot for snapshot in (self.history.earliest(), self.history.latest()) if snapshot is not None]
        own = [*ends, *(snapshot for other, snapshot in self.tagged().items() if other != name)]
        older = [snapshot for snapshot in own if snapshot.id <= tagged.id]
        newer = [snapshot for snapshot in own if snapshot.id > tagged.id]
        nearest = [*sorted(older, key=_id)[-1:], *sorted(newer, key=_id)[:1], *ends[:1]]
        holders = [*nearest, *self._of_other_branches()]
        changelogs = self._changelogs()
        self._look([*holders, *changelogs])
        needed = {path for holder in holders for path in (*self._metadata(holder), *self._live(holder))}
        return needed.union(self._of_changelogs(changelogs))

    def tagged(self) -> dict[str, Snapshot]:
        """The snapshots of the branch's tags by name."""
        if self._tagged is None:
            self._tagged = self.history.tagged()
        return self._tagged

    def _other_holders(self) -> list[Snapshot]:
        """The snapshots of tags and of other branches, whose files stay."""
        looks: tuple[Callable[[], Any], ...] = self.tagged, self._of_other_branches
        tagged, of_branches = self.history.store.together(lambda look: look(), looks)
        return [*tagged.values(), *of_branches]

    def all_needed(self) -> Iterator[str]:
        """Every file that a snapshot of any branch, a tag or a changelog needs. A tag does not need the changelog
        files of its snapshot, and neither does another branch: nobody reads changes by them."""
        own = self.history.snapshots()
        yield from self._needed([*own, *self._other_holders()], own)

    def all_named(self) -> Iterator[str]:
        """Every file that a snapshot of any branch, a tag or a changelog names, needed or not."""
        every = [*self.history.snapshots(), *self._other_holders()]
        yield from self._needed(every, every)

    def _needed(self, holders: Sequence[Snapshot], with_changes: Sequence[Snapshot]) -> Iterator[str]:
        changelogs = self._changelogs()
        self._look([*holders, *changelogs])
        for snapshot in holders:
            yield from self._metadata(snapshot)
            yield from self._live(snapshot)
        yield from self._changelog_files(with_changes)
        yield from self._of_changelogs(changelogs)

    def _changelogs(self) -> list[Snapshot]:
        """The changelogs of all branches that outlive their snapshots."""
        store, branches = self.history.store, dict.fromkeys([MAIN_BRANCH, *self.history.branches()])
        found = store.together(lambda branch: kept_changelogs(History(store, branch)), [*branches])
        return [changelog for of_branch in found for changelog in of_branch]

    def _of_changelogs(self, changelogs: Sequence[Snapshot]) -> Iterator[str]:
        """What changelogs need: their metadata, and the files that they list, or that their snapshot added."""
        for changelog in changelogs:
            yield from self._metadata(changelog)
        yield from self._changelog_files(changelogs)
        for entries in self._entries([*map(delta_list, changelogs)]):
            for entry in entries:
                if entry.kind == ADD:
                    yield from self._paths(entry)

    def _of_other_branches(self) -> list[Snapshot]:
        branches = [name for name in (MAIN_BRANCH, *self.history.branches()) if name != self.history.branch]
        others = [History(self.history.store, branch) for branch in branches]
        looks = [look for other in others for look in (other.snapshots, lambda other=other: [*other.tagged().values()])]
        return [snapshot for found in self.history.store.together(lambda look: look(), looks) for snapshot in found]

    def _look(self, snapshots: Iterable[Snapshot]) -> None:
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
        self.history.store.together(lambda look: look(), looks)

    def _read_lists(self, lists: Sequence[MetadataFile]) -> dict[str, Sequence[MetadataFile] | None]:
        """The manifests of each list, by its name. None for a list that is gone: it names nothing any more."""
        store = self.history.store

        def read(file: MetadataFile) -> Sequence[MetadataFile] | None:
            with suppress(DataCleanedError):
                return [manifest_file(meta) for metas in metas_of_lists(store, [file]) for meta in metas]
            return None

        names = [file.name for file in lists]
        with suppress(DataCleanedError):
            every = metas_of_lists(store, lists)
            return {name: [*map(manifest_file, metas)] for name, metas in zip(names, every, strict=True)}
        return dict(zip(names, store.together(read, lists), strict=True))

    def _read_indexes(self, naming: Mapping[str, Snapshot]) -> dict[str, Sequence[IndexManifestEntry]]:
        """The index files in each index manifest, given by name with a snapshot that names it."""
        store = self.history.store

        def read(snapshot: Snapshot) -> Sequence[IndexManifestEntry]:
            with suppress(DataCleanedError):
                return index_files(store, snapshot)
            return ()

        snapshots = [*naming.values()]
        with suppress(DataCleanedError):
            return dict(zip(naming, index_files_of(store, snapshots), strict=True))
        return dict(zip(naming, store.together(read, snapshots), strict=True))

    def _deleted(self, entries: Sequence[ManifestEntry]) -> list[str]:
        """The files that a snapshot with these changes deleted, without those that only changed their level."""
        added = {entry.file.file_name for entry in entries if entry.kind == ADD}
        deleted = [entry for entry in entries if entry.kind != ADD and entry.file.file_name not in added]
        return [path for entry in deleted for path in self._paths(entry)]

    def _changelog_files(self, snapshots: Iterable[Snapshot]) -> list[str]:
        lists = [file for snapshot in snapshots for file in changelog_lists(snapshot)]
        return [path for entries in self._entries(lists) for entry in entries for path in self._paths(entry)]

    def _live(self, snapshot: Snapshot) -> list[str]:
        """The data files of a snapshot. DataCleanedError when a list or a manifest of it is gone."""
        store, files = self.history.store, list[MetadataFile]()
        for file in (base_list(snapshot), delta_list(snapshot)):
            known = self._manifests[file.name]
            files += (
                [manifest_file(m) for metas in metas_of_lists(store, [file]) for m in metas] if known is None else known
            )
        entries = (entry for of_manifest in entries_by_manifest(store, files) for entry in of_manifest)
        return [path for entry in checked_live(store, snapshot, entries) for path in self._paths(entry)]

    def _metadata(self, snapshot: Snapshot) -> Iterator[str]:
        """The metadata files that a snapshot names, each before the file that names it."""
        if snapshot.index_manifest is not None:
            yield from (index_path(entry.file_name) for entry in self._indexes[snapshot.index_manifest])
        for file in (base_list(snapshot), delta_list(snapshot), *changelog_lists(snapshot)):
            yield from (manifest_path(manifest.name) for manifest in self._manifests[file.name] or ())
            yield manifest_path(file.name)
        if snapshot.index_manifest is not None:
            yield manifest_path(snapshot.index_manifest)
        if snapshot.statistics is not None:
            yield statistics_path(snapshot.statistics)

    def _entries(self, lists: Sequence[MetadataFile]) -> Iterator[list[ManifestEntry]]:
        """The entries of each manifest list. None where a manifest is gone: an earlier expiry was cut short behind
        it."""
        for start in range(0, len(lists), _LISTS_AT_ONCE):
            wave = [self._manifests[file.name] or () for file in lists[start : start + _LISTS_AT_ONCE]]
            try:
                read = iter([*entries_by_manifest(self.history.store, [file for files in wave for file in files])])
                found = [[entry for _ in files for entry in next(read)] for files in wave]
            except DataCleanedError:
                found = [self._entries_there(files) for files in wave]
            yield from found

    def _entries_there(self, files: Sequence[MetadataFile]) -> list[ManifestEntry]:
        with suppress(DataCleanedError):
            return [entry for of_manifest in entries_by_manifest(self.history.store, files) for entry in of_manifest]
        return []

    def _paths(self, entry: ManifestEntry) -> Iterable[str]:
        folder = self._folder(entry.partition, entry.bucket)
        return [f"{folder}/{name}" for name in entry.file.names]

    def _folder(self, partition: bytes, bucket: int) -> str:
        if self._folders is None:
            self._folders = PartitionFolders.of(self.history.store, self.schema, self.options)
        return bucket_folder(self._folders.of_row(partition), bucket)


def _id(snapshot: Snapshot) -> int:
    return snapshot.id
