"""A table back at an earlier snapshot: later snapshots, changelogs and tags go, and the files that only they need.

Rules: Paimon's FileStoreTable.rollbackTo and RollbackHelper, except for the order, which no crash can spoil. What is
going to be deleted is written down first. Then later tags go, so that none ever names a snapshot that was taken back.
The hint LATEST names the snapshot that stays, and the later ones go one by one, newest first, so at each moment the
newest of those that are there is whole. Files go last; what a crash leaves, the next rollback or expiry deletes.

Where another writer or an expiry is found at work once the snapshots are gone, they and their tags come back: files are
still there then. A writer looks for the snapshot that its own follows in turn, and an expiry for the one that it keeps.

A tag outlives its snapshot. A rollback to such a tag first makes its snapshot again.

Consumers that have read what goes read on after the snapshot that stays. Paimon leaves them, and they skip the next
snapshots as soon as there are so many again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakebed.errors import CommitConflictError, NotInHistoryError
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_from_json, snapshot_to_json
from lakebed.formats.paimon.commit.claim import claim_snapshot, write_earliest, write_hints, write_latest_changelog
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.expire.journal import finish
from lakebed.formats.paimon.expire.unused import UnusedFiles
from lakebed.formats.paimon.journal import expiring, interrupted, write_journal
from lakebed.formats.paimon.layout import branch_prefix, numbered, snapshot_path, tag_path
from lakebed.formats.paimon.read.consumers import consumers, set_next_snapshot
from lakebed.formats.paimon.snapshot import History, Position
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.commit.turns import turn
from lakebed.kernel.files import PutOutcome
from lakebed.kernel.options import Options
from lakebed.model.upkeep import RollbackResult


@dataclass(frozen=True, slots=True)
class PaimonRollback:
    """Rolls one branch of a table back."""

    history: History
    schema: TableSchema
    options: Options

    @looks_again
    def run(self, to: Position, dry_run: bool = False) -> RollbackResult:
        """Roll back to a snapshot id, a tag, an instant or a time.

        NotInHistoryError when there is no such snapshot, CommitConflictError when another writer commits meanwhile.
        """
        history, store = self.history, self.history.store
        refuse_unserved(self.schema, self.options, Use.UPKEEP, store.location)
        target = self._target(to)
        finished = () if dry_run else finish(history, self.schema, self.options, interrupted(store))
        later = _Later.than(target, history)
        unused = UnusedFiles(history, self.schema, self.options)
        files = unused.after_rollback([*later.snapshots, *later.changelogs], target, later.tags)
        kept = [number for number in history.snapshot_ids() if number < target.id]
        notes = tuple(f"tag {name!r} of snapshot {tagged.id} goes too" for name, tagged in later.tags.items())
        notes += tuple(
            f"consumer {name!r}, which was at snapshot {number}, reads on at {target.id + 1}; what it has read of "
            "snapshots that go is not taken back"
            for name, number in later.consumers.items()
        )
        paths = later.paths(history.branch)
        if not dry_run:
            with turn(self.history.store.location):
                notes += self._remove(target, later, files)
        return RollbackResult(
            str(target.id),
            tuple(str(snapshot.id) for snapshot in later.snapshots),
            tuple(map(str, (target.id, *reversed(kept)))),
            (*finished, *files, *paths),
            dry_run,
            notes,
        )

    def _target(self, to: Position) -> Snapshot:
        """The snapshot of a position. A tag replaces a snapshot of its id that has expired."""
        try:
            target = self.history.at(to)
        except NotInHistoryError:
            wanted = str(to if isinstance(to, str | int) else getattr(to, "time", to))
            tagged = [snapshot for snapshot in self.history.tagged().values() if str(snapshot.id) == wanted]
            if not tagged:
                raise
            target = tagged[0]
        if target is None:
            raise NotInHistoryError("there is no snapshot to go back to", table=self.history.store.location)
        return target

    def _remove(self, target: Snapshot, later: _Later, files: Sequence[str]) -> tuple[str, ...]:
        """Make `target` the newest snapshot. The notes say what stays."""
        store, branch = self.history.store, self.history.branch
        journal = write_journal(store, branch, (), files)
        is_missing = self.history.find(target.id) is None
        if is_missing:
            self._make(target, journal)
        tags = [tag_path(branch, name) for name in later.tags]
        contents = dict(zip(tags, store.read_many(tags), strict=True))
        ids = self.history.snapshot_ids()
        if newer := self._newer_than(max((snapshot.id for snapshot in later.snapshots), default=target.id), ids):
            self._put_back({}, target if is_missing else None, journal)
            raise self._conflict(newer)
        ours = [snapshot for snapshot in later.snapshots if snapshot.id in ids]
        contents |= {snapshot_path(branch, snapshot.id): snapshot_to_json(snapshot) for snapshot in ours}
        store.delete_many(tags)
        write_hints(store, branch, target.id, first=False)
        store.delete_in_order(snapshot_path(branch, snapshot.id) for snapshot in later.snapshots)
        if rival := self._newer_than(target.id, self.history.snapshot_ids()) or self._expiry_of(target):
            self._put_back(contents, target if is_missing else None, journal)
            raise self._conflict(rival)
        self.history.committed(target)

        def remove() -> None:
            if later.changelogs:
                write_latest_changelog(store, branch, later.kept_changelog)
                store.delete_many(later.changelog_paths(branch))
            for consumer in later.consumers:
                set_next_snapshot(self.history, consumer, target.id + 1)
            store.delete_many(files)
            store.delete(journal)

        return afterwards("files of the removed snapshots stay; roll back again, and they go", remove)

    def _make(self, target: Snapshot, journal: str) -> None:
        """Make the snapshot of a tag again; NotInHistoryError where the tag is gone by now, with its files."""
        store, branch = self.history.store, self.history.branch
        if claim_snapshot(store, branch, target) is not PutOutcome.CREATED:
            raise self._conflict(f"snapshot {target.id} could not be made from its tag")
        if not any(target.is_at(tagged) for tagged in self.history.tagged().values()):
            self._put_back({}, target, journal)
            raise NotInHistoryError(
                f"snapshot {target.id} has expired meanwhile", table=store.location, todo="Roll back to a later one"
            )
        write_earliest(store, branch, target.id)

    def _newer_than(self, number: int, there: Sequence[int]) -> str:
        """Why the rollback gives way: the snapshot that a writer has committed after this number. "" where none has."""
        return f"snapshot {there[-1]} was committed meanwhile" if there and there[-1] > number else ""

    def _expiry_of(self, target: Snapshot) -> str:
        """Why the rollback gives way: an expiry that deletes the snapshot that stays. "" where there is none."""
        is_going = snapshot_path(self.history.branch, target.id) in expiring(self.history)
        snapshot = None if is_going else self.history.find(target.id)
        return "" if target.is_at(snapshot) else f"an expiry deletes snapshot {target.id}"

    def _put_back(self, contents: Mapping[str, bytes], made: Snapshot | None, journal: str) -> None:
        """Undo what was done: snapshots come back, the oldest first, and then tags. `made` goes, the snapshot that was
        made of a tag."""
        store, branch = self.history.store, self.history.branch
        for path in reversed([*contents]):
            store.put_if_absent(path, contents[path])
        ids = [number for number in self.history.snapshot_ids() if made is None or number != made.id]
        if made is not None and ids:
            store.delete(snapshot_path(branch, made.id))
            write_earliest(store, branch, ids[0])
        if ids:
            write_hints(store, branch, ids[-1], first=False)
        store.delete(journal)

    def _conflict(self, why: str) -> CommitConflictError:
        return CommitConflictError(
            "the table was not rolled back",
            table=self.history.store.location,
            why=why,
            todo="Stop its writers and roll back again",
        )


@dataclass(frozen=True, slots=True)
class _Later:
    """What is newer than a snapshot: snapshots and changelogs, newest first, tags by name, and consumers that have read
    later snapshots, with the next one of each. `kept_changelog` is the newest of the changelogs that stay, -1 for none.
    """

    snapshots: tuple[Snapshot, ...]
    changelogs: tuple[Snapshot, ...]
    tags: dict[str, Snapshot]
    consumers: dict[str, int]
    kept_changelog: int

    @classmethod
    def than(cls, target: Snapshot, history: History) -> _Later:
        store = history.store
        snapshots = [snapshot for snapshot in history.snapshots() if snapshot.id > target.id]
        folder = f"{branch_prefix(history.branch)}changelog"
        every = numbered(store.list(folder).names, "changelog")
        numbers = [number for number in every if number > target.id]
        changelogs = [snapshot_from_json(store.read(f"{folder}/changelog-{number}")) for number in numbers]
        tags = {name: tagged for name, tagged in history.tagged().items() if tagged.id > target.id}
        ahead = {name: number for name, number in consumers(history).items() if number > target.id + 1}
        kept = max((number for number in every if number <= target.id), default=-1)
        return cls(tuple(reversed(snapshots)), tuple(reversed(changelogs)), tags, ahead, kept)

    def changelog_paths(self, branch: str) -> list[str]:
        return [f"{branch_prefix(branch)}changelog/changelog-{changelog.id}" for changelog in self.changelogs]

    def paths(self, branch: str) -> list[str]:
        """The paths of all of it, snapshots first."""
        snapshots = [snapshot_path(branch, snapshot.id) for snapshot in self.snapshots]
        return [*snapshots, *(tag_path(branch, name) for name in self.tags), *self.changelog_paths(branch)]
