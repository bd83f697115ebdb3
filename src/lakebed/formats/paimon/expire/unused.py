"""The files that only expiring snapshots need.

Rules: Paimon's SnapshotDeletion, ChangelogDeletion and ExpireSnapshotsImpl.expireUntil. A data file is needed until the
snapshot that deletes it is the oldest one. Tags need the files of their snapshot, and so do branches, which share data
and manifests with the main branch. A changelog that outlives its snapshot needs the changelog files that it lists;
in a table without a changelog producer it needs the files that its snapshot appended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import ADD, SOURCE_COMPACT, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.expire.changelogs import ChangelogPlan
from lakebed.formats.paimon.expire.named_files import NamedFiles
from lakebed.formats.paimon.layout import MAIN_BRANCH, bucket_folder
from lakebed.formats.paimon.manifests import base_list, changelog_lists, checked_live, delta_list
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.references import kept_changelogs
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.options import Options

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
    _of_branches: Sequence[Run] | None = None
    _named: NamedFiles = field(init=False)
    _changes: dict[str, _Changes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._named = NamedFiles(self.history.store)

    def of(self, expiring: Sequence[Snapshot], oldest_kept: Snapshot, changelogs: ChangelogPlan) -> list[str]:
        """The paths of the files that nothing needs once `expiring` (ascending) and the changelogs that end are gone:
        data files first, then changelog, index and manifest files, lists last."""
        ending, becoming = changelogs.ending, changelogs.becoming
        looks: tuple[Callable[[], Any], ...] = (
            self._other_runs,
            lambda: self._changelogs({changelog.id for changelog in (*ending, *becoming)}),
            lambda: self._named.look([*expiring, oldest_kept, *ending]),
        )
        runs, kept, _ = self.history.store.together(lambda look: look(), looks)
        others, kept = [snapshot for run in runs for snapshot in run], [*kept, *becoming]
        self._named.look([*others, *kept])
        self._named.share(self._split(runs)[0])
        deleting = _unique([*expiring[1:], *([oldest_kept] if expiring else []), *ending])
        data = [path for changes in self._changes_of(deleting) for path in changes.deleted]
        outliving = {changelog.id for changelog in becoming}
        gone = _unique([*expiring, *ending])
        changelog = self._changelog_files(self._alone([one for one in gone if one.id not in outliving]))
        metadata = [path for snapshot in gone for path in self._named.metadata(snapshot)]
        needed = {path for snapshot in (oldest_kept, *others) for path in self._named.metadata(snapshot)}
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
        self._named.look([target, *gone, *others, *changelogs])
        self._named.share([target, *self._split(runs)[0], *tags.values()])
        data = {path: None for changes in self._changes_of(removed) for path in changes.added}
        data.update(dict.fromkeys(self._live_of([[tagged] for tagged in tags.values()])))
        data.update(dict.fromkeys(self._changelog_files(self._alone(gone))))
        metadata = {path: None for snapshot in gone for path in self._named.metadata(snapshot)}
        needed = {path for holder in (target, *others) for path in self._named.metadata(holder)}
        needed |= self._live_of([[target], *runs])
        needed.update(self._of_changelogs(changelogs))
        return [path for path in (*data, *metadata) if path not in needed]

    def of_tag(self, tagged: Snapshot) -> list[str]:
        """The paths of all files that a tag needs, in the order of `of`."""
        self._named.look([tagged])
        return [*self._live_of([[tagged]]), *self._named.metadata(tagged)]

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
        self._named.look([*holders, *changelogs])
        needed = {path for holder in holders for path in self._named.metadata(holder)} | self._live_of(runs)
        return needed.union(self._of_changelogs(changelogs))

    def tagged(self) -> dict[str, Snapshot]:
        """The snapshots of the branch's tags by name."""
        if self._tagged is None:
            self._tagged = self.history.tagged()
        return self._tagged

    def all_needed(self) -> Iterator[str]:
        """Every file that a snapshot of any branch, a tag or a changelog needs. A tag does not need the changelog
        files of its snapshot: nobody reads changes by it."""
        own, others = self.history.snapshots(), self._other_runs()
        read = [*own, *(snapshot for run in self._of_branches or () for snapshot in run)]
        yield from self._needed([own, *others], [*{one.changelog_manifest_list: one for one in read}.values()])

    def all_named(self) -> Iterator[str]:
        """Every file that a snapshot of any branch, a tag or a changelog names, needed or not."""
        runs = [self.history.snapshots(), *self._other_runs()]
        yield from self._needed(runs, [snapshot for run in runs for snapshot in run])

    def _needed(self, runs: Sequence[Run], with_changes: Sequence[Snapshot]) -> Iterator[str]:
        changelogs, holders = self._changelogs(), [snapshot for run in runs for snapshot in run]
        self._named.look([*holders, *changelogs])
        for snapshot in holders:
            yield from self._named.metadata(snapshot)
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
            yield from self._named.in_lists(changelog_lists(changelog))
        yield from self._changelog_files(changelogs)
        for changelog in without:
            yield from self._named.in_lists([base_list(changelog), delta_list(changelog)])
        yield from (path for changes in self._changes_of(without) for path in changes.appended)

    def _other_runs(self) -> list[Run]:
        """The snapshots of tags and of other branches, whose files stay."""
        looks: tuple[Callable[[], Any], ...] = self.tagged, self._of_other_branches
        tagged, of_branches = self.history.store.together(lambda look: look(), looks)
        return [*([snapshot] for snapshot in tagged.values()), *of_branches]

    def _alone(self, snapshots: Iterable[Snapshot]) -> list[Snapshot]:
        """Those whose changelog no other branch has. A branch that was made of a tag, or put where another is, has the
        same snapshots, and its streams read them."""
        shared = {snapshot.changelog_manifest_list for run in self._of_branches or () for snapshot in run}
        return [snapshot for snapshot in snapshots if snapshot.changelog_manifest_list not in shared - {None}]

    def _of_other_branches(self) -> list[Run]:
        branches = [name for name in (MAIN_BRANCH, *self.history.branches()) if name != self.history.branch]
        others = [History(self.history.store, branch) for branch in branches]
        together = self.history.store.together
        snapshots: Sequence[Run] = together(lambda other: other.snapshots(), others)
        tagged = together(lambda other: other.tagged(), others)
        self._of_branches = snapshots
        return [*snapshots, *([snapshot] for tags in tagged for snapshot in tags.values())]

    def _changes_of(self, snapshots: Sequence[Snapshot]) -> list[_Changes]:
        """The changes of each snapshot. A snapshot whose list or manifest is gone has none."""
        lists = {name: file for file in map(delta_list, snapshots) if (name := file.name) not in self._changes}
        for name, entries in zip(lists, self._named.entries([*lists.values()]), strict=True):
            self._changes[name] = self._summed(entries)
        return [self._changes[snapshot.delta_manifest_list] for snapshot in snapshots]

    def _summed(self, entries: Sequence[ManifestEntry]) -> _Changes:
        added = [entry for entry in entries if entry.kind == ADD]
        names = {entry.file.file_name for entry in added}
        appended = [entry for entry in added if entry.file.file_source != SOURCE_COMPACT]
        deleted = [entry for entry in entries if entry.kind != ADD and entry.file.file_name not in names]
        return _Changes(
            *(
                [path for entry in entries_of_kind for path in self._paths(entry)]
                for entries_of_kind in (added, appended, deleted)
            )
        )

    def _changelog_files(self, snapshots: Iterable[Snapshot]) -> list[str]:
        lists = [file for snapshot in snapshots for file in changelog_lists(snapshot)]
        return [path for entries in self._named.entries(lists) for entry in entries for path in self._paths(entry)]

    def _live_of(self, runs: Iterable[Run]) -> set[str]:
        """The data files of snapshots. DataCleanedError when a list or a manifest of one is gone.

        Of snapshots that follow each other, the first one has files, and each later one those that it adds.
        """
        whole, later = self._split(runs)
        self._named.share(whole)
        paths: set[str] = set()
        for snapshot, entries in zip(whole, self._named.data_entries(whole), strict=True):
            live = checked_live(self.history.store, snapshot, entries)
            paths.update(path for entry in live for path in self._paths(entry))
        paths.update(path for changes in self._changes_of(later) for path in changes.added)
        return paths

    def _split(self, runs: Iterable[Run]) -> tuple[list[Snapshot], list[Snapshot]]:
        """The snapshots that follow no other one, and those that do."""
        whole: list[Snapshot] = []
        later: list[Snapshot] = []
        for run in runs:
            by_id = {snapshot.id: snapshot for snapshot in run}
            for snapshot in run:
                earlier = by_id.get(snapshot.id - 1)
                follows = earlier is not None and self._named.follows(snapshot, earlier)
                (later if follows else whole).append(snapshot)
        return whole, later

    def _paths(self, entry: ManifestEntry) -> Iterable[str]:
        folder = self._folder(entry.partition, entry.bucket)
        return [f"{folder}/{name}" for name in entry.file.names]

    def _folder(self, partition: bytes, bucket: int) -> str:
        if self._folders is None:
            self._folders = PartitionFolders.of(self.history.store, self.schema, self.options)
        return bucket_folder(self._folders.of_row(partition), bucket)


def _unique(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """The snapshots of one branch, without repeats."""
    return [*{snapshot.id: snapshot for snapshot in snapshots}.values()]


def _id(snapshot: Snapshot) -> int:
    return snapshot.id
