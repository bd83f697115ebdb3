"""The files that only expiring snapshots need.

Rules: Paimon's SnapshotDeletion, ChangelogDeletion and ExpireSnapshotsImpl.expireUntil. A data file is needed until the
snapshot that deletes it is the oldest one. Tags need the files of their snapshot, and so do branches, which share data
and manifests with the main branch. A changelog that outlives its snapshot needs the changelog files that it lists;
in a table without a changelog producer it needs the files that its snapshot appended.

Each manifest list and each manifest is read once, however many snapshots name it, and all that are known to be needed
at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import ADD, SOURCE_COMPACT, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.expire.changelogs import ChangelogPlan
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


Run = Sequence[Snapshot]
"""Snapshots of one branch, which may follow one another."""


class _Changes(NamedTuple):
    """The paths of the data files that a snapshot added, those of them that no compaction wrote, and those that it
    deleted, without files that only changed their level."""

    added: list[str]
    appended: list[str]
    deleted: list[str]


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
    _changes: dict[str, _Changes] = field(default_factory=dict)

    def of(self, expiring: Sequence[Snapshot], oldest_kept: Snapshot, changelogs: ChangelogPlan) -> list[str]:
        """The paths of the files that nothing needs once `expiring` (ascending) and the changelogs that end are gone:
        data files first, then changelog, index and manifest files, lists last."""
        ending, becoming = changelogs.ending, changelogs.becoming
        looks: tuple[Callable[[], Any], ...] = (
            self._other_runs,
            lambda: self._changelogs({changelog.id for changelog in (*ending, *becoming)}),
            lambda: self._look([*expiring, oldest_kept, *ending]),
        )
        runs, kept, _ = self.history.store.together(lambda look: look(), looks)
        others, kept = [snapshot for run in runs for snapshot in run], [*kept, *becoming]
        self._look([*others, *kept])
        deleting = _unique([*expiring[1:], *([oldest_kept] if expiring else []), *ending])
        data = [path for changes in self._changes_of(deleting) for path in changes.deleted]
        outliving = {changelog.id for changelog in becoming}
        gone = _unique([*expiring, *ending])
        changelog = self._changelog_files([snapshot for snapshot in gone if snapshot.id not in outliving])
        metadata = [path for snapshot in gone for path in self._metadata(snapshot)]
        needed = {path for snapshot in (oldest_kept, *others) for path in self._metadata(snapshot)}
        if data:
            needed |= self._live_of(runs)
        needed.update(self._of_changelogs(kept))
        return [path for path in dict.fromkeys((*data, *changelog, *metadata)) if path not in needed]

    def after_rollback(self, removed: Sequence[Snapshot], target: Snapshot, tags: Mapping[str, Snapshot]) -> list[str]:
        """The paths of the files that nothing needs once the branch is back at `target`, in the order of `of`.

        `removed` are the snapshots and changelogs after it, `tags` those of later snapshots, which go as well. What a
        removed snapshot shares with an earlier one, it shares with the target too.
        """
        gone = [*removed, *tags.values()]
        runs = [[tagged] for name, tagged in self.tagged().items() if name not in tags] + self._of_other_branches()
        others = [snapshot for run in runs for snapshot in run]
        changelogs = self._changelogs({changelog.id for changelog in removed})
        self._look([target, *gone, *others, *changelogs])
        data = {path: None for changes in self._changes_of(removed) for path in changes.added}
        data.update(dict.fromkeys(self._live_of([[tagged] for tagged in tags.values()])))
        data.update(dict.fromkeys(self._changelog_files(gone)))
        metadata = {path: None for snapshot in gone for path in self._metadata(snapshot)}
        needed = {path for holder in (target, *others) for path in self._metadata(holder)}
        needed |= self._live_of([[target], *runs])
        needed.update(self._of_changelogs(changelogs))
        return [path for path in (*data, *metadata) if path not in needed]

    def of_tag(self, tagged: Snapshot) -> list[str]:
        """The paths of all files that a tag needs, in the order of `of`."""
        self._look([tagged])
        return [*self._live_of([[tagged]]), *self._metadata(tagged)]

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
        runs = [*([snapshot] for snapshot in nearest), *self._of_other_branches()]
        holders = [snapshot for run in runs for snapshot in run]
        changelogs = self._changelogs()
        self._look([*holders, *changelogs])
        needed = {path for holder in holders for path in self._metadata(holder)} | self._live_of(runs)
        return needed.union(self._of_changelogs(changelogs))

    def tagged(self) -> dict[str, Snapshot]:
        """The snapshots of the branch's tags by name."""
        if self._tagged is None:
            self._tagged = self.history.tagged()
        return self._tagged

    def all_needed(self) -> Iterator[str]:
        """Every file that a snapshot of any branch, a tag or a changelog needs. A tag does not need the changelog
        files of its snapshot, and neither does another branch: nobody reads changes by them."""
        own, others = self.history.snapshots(), self._other_runs()
        yield from self._needed([own, *others], own)

    def all_named(self) -> Iterator[str]:
        """Every file that a snapshot of any branch, a tag or a changelog names, needed or not."""
        runs = [self.history.snapshots(), *self._other_runs()]
        yield from self._needed(runs, [snapshot for run in runs for snapshot in run])

    def _needed(self, runs: Sequence[Run], with_changes: Sequence[Snapshot]) -> Iterator[str]:
        changelogs, holders = self._changelogs(), [snapshot for run in runs for snapshot in run]
        self._look([*holders, *changelogs])
        for snapshot in holders:
            yield from self._metadata(snapshot)
        yield from self._live_of(runs)
        yield from self._changelog_files(with_changes)
        yield from self._of_changelogs(changelogs)

    def _changelogs(self, without: Collection[int] = ()) -> list[Snapshot]:
        """The changelogs of all branches that outlive their snapshots, without those of this branch with some ids."""
        store, own = self.history.store, self.history.branch
        branches = [*dict.fromkeys([MAIN_BRANCH, *self.history.branches()])]
        kept = store.together(lambda branch: kept_changelogs(History(store, branch)), branches)
        return [
            changelog
            for branch, of_branch in zip(branches, kept, strict=True)
            for changelog in of_branch
            if branch != own or changelog.id not in without
        ]

    def _of_changelogs(self, changelogs: Sequence[Snapshot]) -> Iterator[str]:
        """What changelogs need: the files that they list. In a table without a changelog producer those that their
        snapshot appended, which are its changes."""
        without = [changelog for changelog in changelogs if changelog.changelog_manifest_list is None]
        if self.options[opt.CHANGELOG_PRODUCER] != "none":
            without = []
        for changelog in changelogs:
            yield from self._in_lists(changelog_lists(changelog))
        yield from self._changelog_files(changelogs)
        for changelog in without:
            yield from self._in_lists([base_list(changelog), delta_list(changelog)])
        yield from (path for changes in self._changes_of(without) for path in changes.appended)

    def _other_runs(self) -> list[Run]:
        """The snapshots of tags and of other branches, whose files stay."""
        looks: tuple[Callable[[], Any], ...] = self.tagged, self._of_other_branches
        tagged, of_branches = self.history.store.together(lambda look: look(), looks)
        return [*([snapshot] for snapshot in tagged.values()), *of_branches]

    def _of_other_branches(self) -> list[Run]:
        branches = [name for name in (MAIN_BRANCH, *self.history.branches()) if name != self.history.branch]
        others = [History(self.history.store, branch) for branch in branches]
        together = self.history.store.together
        snapshots: Sequence[Run] = together(lambda other: other.snapshots(), others)
        tagged = together(lambda other: other.tagged(), others)
        return [*snapshots, *([snapshot] for tags in tagged for snapshot in tags.values())]

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

    def _changes_of(self, snapshots: Sequence[Snapshot]) -> list[_Changes]:
        """What each snapshot changed. Nothing where a list or a manifest is gone."""
        lists = {name: file for file in map(delta_list, snapshots) if (name := file.name) not in self._changes}
        for name, entries in zip(lists, self._entries([*lists.values()]), strict=True):
            self._changes[name] = self._summed(entries)
        return [self._changes[snapshot.delta_manifest_list] for snapshot in snapshots]

    def _summed(self, entries: Sequence[ManifestEntry]) -> _Changes:
        added = [entry for entry in entries if entry.kind == ADD]
        names = {entry.file.file_name for entry in added}
        appended = [entry for entry in added if entry.file.file_source != SOURCE_COMPACT]
        deleted = [entry for entry in entries if entry.kind != ADD and entry.file.file_name not in names]
        return _Changes(
            *([path for entry in some for path in self._paths(entry)] for some in (added, appended, deleted))
        )

    def _changelog_files(self, snapshots: Iterable[Snapshot]) -> list[str]:
        lists = [file for snapshot in snapshots for file in changelog_lists(snapshot)]
        return [path for entries in self._entries(lists) for entry in entries for path in self._paths(entry)]

    def _live_of(self, runs: Iterable[Run]) -> set[str]:
        """The data files of snapshots. DataCleanedError when a list or a manifest of one is gone.

        Of snapshots without a gap, the first one has files, and each later one those that it adds.
        """
        whole: list[Snapshot] = []
        later: list[Snapshot] = []
        for run in runs:
            ids = {snapshot.id for snapshot in run}
            for snapshot in run:
                (later if snapshot.id - 1 in ids else whole).append(snapshot)
        store, files_of = self.history.store, list[list[MetadataFile]]()
        for snapshot in whole:
            files_of.append(
                [manifest for file in (base_list(snapshot), delta_list(snapshot)) for manifest in self._in(file)]
            )
        manifests = {file.name: file for files in files_of for file in files}
        entries = dict(zip(manifests, entries_by_manifest(store, [*manifests.values()]), strict=True))
        paths = {path for changes in self._changes_of(later) for path in changes.added}
        for snapshot, files in zip(whole, files_of, strict=True):
            merged = checked_live(store, snapshot, (entry for file in files for entry in entries[file.name]))
            paths.update(path for entry in merged for path in self._paths(entry))
        return paths

    def _in(self, file: MetadataFile) -> Sequence[MetadataFile]:
        """The manifests of a list. DataCleanedError when it is gone."""
        known = self._manifests[file.name]
        if known is not None:
            return known
        return [manifest_file(meta) for metas in metas_of_lists(self.history.store, [file]) for meta in metas]

    def _metadata(self, snapshot: Snapshot) -> Iterator[str]:
        """The metadata files that a snapshot names, each before the file that names it."""
        if snapshot.index_manifest is not None:
            yield from (index_path(entry.file_name) for entry in self._indexes[snapshot.index_manifest])
        yield from self._in_lists([base_list(snapshot), delta_list(snapshot), *changelog_lists(snapshot)])
        if snapshot.index_manifest is not None:
            yield manifest_path(snapshot.index_manifest)
        if snapshot.statistics is not None:
            yield statistics_path(snapshot.statistics)

    def _in_lists(self, lists: Iterable[MetadataFile]) -> Iterator[str]:
        """The manifests of lists, each before its list."""
        for file in lists:
            yield from (manifest_path(manifest.name) for manifest in self._manifests[file.name] or ())
            yield manifest_path(file.name)

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


def _unique(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """Each snapshot of one branch once."""
    return [*{snapshot.id: snapshot for snapshot in snapshots}.values()]


def _id(snapshot: Snapshot) -> int:
    return snapshot.id
