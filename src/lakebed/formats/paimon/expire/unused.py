"""The files that only expiring snapshots need.

Rules: Paimon's SnapshotDeletion and ExpireSnapshotsImpl.expireUntil. A data file is needed until the snapshot that
deletes it is the oldest one. Tags need the files of their snapshot. So do branches, which share data and manifests with
the main branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon.codec.manifest import ADD, ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.layout import (
    MAIN_BRANCH,
    bucket_folder,
    index_path,
    manifest_path,
    statistics_path,
)
from lakebed.formats.paimon.manifests import entries_of, index_files, live_files, manifest_metas
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.options import Options


@dataclass(slots=True)
class UnusedFiles:
    """Finds the files that can be deleted with expiring snapshots of one branch."""

    history: History
    options: Options
    _folders: PartitionFolders | None = None

    def of(self, expiring: Sequence[Snapshot], oldest_kept: Snapshot) -> list[str]:
        """The paths of the files that nothing needs once `expiring` (ascending) are gone: data files first, then
        changelog, index and manifest files, lists last."""
        data: dict[str, None] = {}
        for snapshot in [*expiring[1:], oldest_kept]:
            data.update(dict.fromkeys(self._deleted_by(snapshot)))
        changelog = [path for snapshot in expiring for path in self._changelog_files(snapshot)]
        metadata: dict[str, None] = {}
        for snapshot in expiring:
            metadata.update(dict.fromkeys(self._metadata(snapshot)))
        holders = self._holders(oldest_kept)
        needed = {path for snapshot in holders for path in self._metadata(snapshot)}
        if data:
            needed |= {path for holder in holders[1:] for path in self._live(holder)}
        return [path for path in (*data, *changelog, *metadata) if path not in needed]

    def _holders(self, oldest_kept: Snapshot) -> list[Snapshot]:
        """The snapshots whose files stay: the oldest one kept, those of tags, and all of other branches."""
        tagged = [self.history.tag(name) for name in self.history.tags()]
        return [oldest_kept, *tagged, *self._of_other_branches()]

    def all_needed(self) -> Iterator[str]:
        """Every file that a snapshot of any branch or a tag needs."""
        own = self.history.snapshots()
        tagged = [self.history.tag(name) for name in self.history.tags()]
        for snapshot in (*own, *tagged, *self._of_other_branches()):
            yield from self._metadata(snapshot)
            yield from self._live(snapshot)
        for snapshot in own:
            yield from self._changelog_files(snapshot)

    def _of_other_branches(self) -> Iterator[Snapshot]:
        for branch in [MAIN_BRANCH, *self.history.branches()]:
            if branch != self.history.branch:
                other = History(self.history.store, branch)
                yield from other.snapshots()
                yield from map(other.tag, other.tags())

    def _deleted_by(self, snapshot: Snapshot) -> list[str]:
        """The files that a snapshot deleted, without those that only changed their level."""
        entries = self._entries(snapshot.delta_manifest_list)
        added = {entry.file.file_name for entry in entries if entry.kind == ADD}
        deleted = [entry for entry in entries if entry.kind != ADD and entry.file.file_name not in added]
        return [path for entry in deleted for path in self._paths(entry)]

    def _changelog_files(self, snapshot: Snapshot) -> list[str]:
        if snapshot.changelog_manifest_list is None:
            return []
        return [path for e in self._entries(snapshot.changelog_manifest_list) for path in self._paths(e)]

    def _live(self, snapshot: Snapshot) -> list[str]:
        return [path for entry in live_files(self.history.store, snapshot) for path in self._paths(entry)]

    def _metadata(self, snapshot: Snapshot) -> Iterator[str]:
        """The metadata files that a snapshot names, each before the file that names it."""
        with suppress(DataCleanedError):  # a list that is gone names nothing any more
            for entry in index_files(self.history.store, snapshot):
                yield index_path(entry.file_name)
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list]
        for name in filter(None, lists):
            with suppress(DataCleanedError):
                for meta in manifest_metas(self.history.store, name):
                    yield manifest_path(meta.file_name)
            yield manifest_path(name)
        if snapshot.index_manifest is not None:
            yield manifest_path(snapshot.index_manifest)
        if snapshot.statistics is not None:
            yield statistics_path(snapshot.statistics)

    def _entries(self, list_name: str) -> list[ManifestEntry]:
        with suppress(DataCleanedError):  # an earlier expiry was cut short behind it
            return entries_of(self.history.store, manifest_metas(self.history.store, list_name))
        return []

    def _paths(self, entry: ManifestEntry) -> Iterable[str]:
        folder = self._folder(entry.partition, entry.bucket)
        return [f"{folder}/{name}" for name in (entry.file.file_name, *entry.file.extra_files)]

    def _folder(self, partition: bytes, bucket: int) -> str:
        if self._folders is None:
            self._folders = PartitionFolders.of(self.history.store, self.history.latest_schema(), self.options)
        return bucket_folder(self._folders.of_row(partition), bucket)
