"""The expiry of snapshots, start to end: planned, written down, done.

Rules: Paimon's ExpireSnapshotsImpl and ExpireChangelogImpl, except for the order. First the snapshots are copied whose
changelogs outlive them, and a list of the files to delete is kept in the table. Then the files of snapshots and
changelogs are removed, then what they named. So no snapshot is ever there whose files are gone, and the next expiry
deletes from that list what a crash left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.commit.claim import write_earliest
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.expire.abandoned import abandoned_rows
from lakebed.formats.paimon.expire.changelogs import ChangelogPlan, ChangelogRetention, keep_changelogs
from lakebed.formats.paimon.expire.journal import finish
from lakebed.formats.paimon.expire.plan import Readers, Retention, RetentionPlanner, readers
from lakebed.formats.paimon.expire.unused import UnusedFiles
from lakebed.formats.paimon.journal import interrupted, write_journal
from lakebed.formats.paimon.layout import OWN_FOLDER, snapshot_path
from lakebed.formats.paimon.references import kept_changelogs
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult, Skipped


@dataclass(slots=True)
class SnapshotExpiry:
    """Expires snapshots of one branch by its options. It can run many times, and reads less after the first."""

    history: History
    schema: TableSchema
    options: Options
    _planner: RetentionPlanner = field(init=False)
    _oldest: Snapshot | None = None

    def __post_init__(self) -> None:
        self._planner = RetentionPlanner(self.history, self.options)

    @looks_again
    def run(self, dry_run: bool = False) -> ExpireResult:
        """Expire the snapshots, and the changelogs that outlived theirs, that may go now."""
        refuse_unserved(self.schema, self.options, Use.UPKEEP, self.history.store.location)
        store, now = self.history.store, clock.now_ms()
        due = self._look(now)
        finished: tuple[str, ...] = ()
        if due.interrupted and not dry_run:
            finished = finish(self.history, self.schema, self.options, due.interrupted)
            due = self._look(now)
        if dry_run:
            unused = self._unused(due)
        elif due:
            # What to delete is found while the store is asked for its time, which rarely changes what is due.
            looks: tuple[Callable[[], Any], ...] = lambda: certain_now(store, OWN_FOLDER), lambda: self._unused(due)
            certain, unused = store.together(lambda act: act(), looks)
            if certain * 1000 < now:  # our clock is ahead
                due = self._look(int(certain * 1000))
                unused = self._unused(due)
            store.delete_many(due.abandoned)
        else:
            unused = _Unused()
        finished += due.abandoned
        branch, changelogs = self.history.branch, unused.changelogs
        names = [*(snapshot_path(branch, snapshot.id) for snapshot in unused.expiring), *changelogs.paths(branch)]
        notes = () if dry_run or not names else self._remove(names, unused)
        notes = (*_told(changelogs, dry_run), *notes)
        holds = due.retention.holds if due.retention else ()
        kept = [*(hold.skipped for hold in holds), *unused.tagged, *due.changelogs.kept]
        expired = tuple(str(snapshot.id) for snapshot in unused.expiring)
        return ExpireResult(expired, (*finished, *unused.paths, *names), tuple(kept), dry_run, notes)

    def _look(self, now: int) -> _Due:
        """What may go at a time in milliseconds since 1970. What does not depend on each other is read together."""
        store = self.history.store
        read: list[Readers] = []

        def look() -> Readers:
            if not read:
                read.append(readers(self.history, self.options, now))
            return read[0]

        looks: list[Callable[[], Any]] = [
            self.history.ends,
            lambda: interrupted(store),
            lambda: abandoned_rows(store, now / 1000),
        ]
        kept = ChangelogRetention.of(self.options)
        changelogs: list[Snapshot] = []
        if kept is not None:
            looks += [look, lambda: changelogs.extend(kept_changelogs(self.history))]
        elif self.options[opt.CONSUMER_TIME] is not None:
            looks.append(look)
        ends, journals, abandoned, *_ = store.together(lambda act: act(), looks)
        retention = self._planner.plan(now, ends, look)
        plan = ChangelogPlan()
        if kept is not None and ends is not None and retention is not None:
            expiring = self._planner.exactly(range(retention.earliest, retention.end))
            plan = kept.plan(changelogs, expiring, ends[1].id, now, look().consumers)
        stale = read[0].stale if read else ()
        return _Due(retention, (*abandoned, *stale), journals, plan)

    def _unused(self, due: _Due) -> _Unused:
        """What goes with the snapshots that are due. DataCleanedError when another expiry was faster."""
        retention = due.retention
        if retention is None or not due.has_snapshots:
            return _Unused()
        *expiring, oldest_kept = self._planner.exactly(range(retention.earliest, retention.end + 1))
        if oldest_kept.id != retention.end:
            raise self._gone(retention.end)
        unused = UnusedFiles(self.history, self.schema, self.options)
        paths = unused.of(expiring, oldest_kept, due.changelogs)
        tagged = [
            Skipped(f"files of snapshot {snapshot.id}", f"tag {name!r} names it")
            for name, snapshot in unused.tagged().items()
            if retention.earliest <= snapshot.id < retention.end
        ]
        tags = frozenset(unused.tagged())
        return _Unused(oldest_kept, tuple(expiring), tuple(paths), tuple(tagged), due.changelogs, tags)

    def _remove(self, names: Sequence[str], unused: _Unused) -> tuple[str, ...]:
        """Remove snapshots and changelogs, and then their files, both by what was written down before. The note says
        when files stay.

        The oldest one that stays is looked for once more, since a rollback may have taken it: `journal.py` says why no
        later look is needed. DataCleanedError where it is gone, with nothing removed.
        """
        store, branch, paths = self.history.store, self.history.branch, unused.paths
        keep_changelogs(store, branch, unused.changelogs.becoming)
        journal, kept = write_journal(store, branch, names, paths), unused.kept
        if kept is not None and not kept.is_at(self.history.find(kept.id)):
            store.delete(journal)
            raise self._gone(kept.id)
        # The hint is only where a reader looks first: whether it or the snapshots are seen to change first is the same.
        removals: tuple[Callable[[], None], ...] = (
            lambda: write_earliest(store, branch, kept.id) if kept is not None else None,
            lambda: unused.changelogs.write_earliest(store, branch),
            lambda: store.delete_many(names),
        )
        store.together(lambda act: act(), removals)

        def remove() -> None:
            store.delete_many(self._without_new_tags(unused))
            store.delete(journal)

        return afterwards("files of the expired snapshots stay until the next expiry, which resumes it", remove)

    def _without_new_tags(self, unused: _Unused) -> Sequence[str]:
        """The files to delete, without those of tags that were made since the search. A process that tags a snapshot
        checks afterwards whether the snapshot still exists."""
        if unused.tags.issuperset(self.history.tags()):
            return unused.paths
        needed = {*UnusedFiles(self.history, self.schema, self.options).all_needed()}
        return [path for path in unused.paths if path not in needed]

    def _gone(self, snapshot_id: int) -> DataCleanedError:
        return DataCleanedError(
            f"snapshot {snapshot_id} is gone",
            table=self.history.store.location,
            instant=str(snapshot_id),
            why="another expiry or a rollback is at work",
            todo="Nothing is lost. Expire again",
        )

    def look(self) -> None:
        """Read the oldest snapshot, which tells after a commit whether an expiry is due."""
        if self._oldest is None and not self.history.seemed_empty:
            self._oldest = self.history.earliest()

    def run_if_due(self, latest: Snapshot | None) -> bool:
        """Expire after the commit of `latest`, where the oldest snapshot may go. Returns whether it may.

        The oldest one that was seen decides. When it has expired meanwhile, the others are newer and fewer, so nothing
        is due that would not be due with it.
        """
        if latest is None or self._oldest is None:
            return False
        count, most = latest.id - self._oldest.id + 1, self.options[opt.SNAPSHOTS_MAX]
        is_old = clock.now_ms() - self._oldest.time_millis >= self.options[opt.SNAPSHOT_TIME]
        if (most is not None and count > most) or (is_old and count > self.options[opt.SNAPSHOTS_MIN]):
            self._oldest = None
            self.run()
            return True
        return False


@dataclass(frozen=True, slots=True)
class _Due:
    """What may go: snapshots, the paths of `abandoned` files, the file lists of `interrupted` expiries, and
    changelogs."""

    retention: Retention | None
    abandoned: tuple[str, ...]
    interrupted: tuple[str, ...]
    changelogs: ChangelogPlan

    @property
    def has_snapshots(self) -> bool:
        """Whether a snapshot or a changelog may go."""
        retention = self.retention
        return bool(self.changelogs.ending) or (retention is not None and retention.end > retention.earliest)

    def __bool__(self) -> bool:
        """Whether anything of it is old enough to go."""
        return bool(self.abandoned) or self.has_snapshots


@dataclass(frozen=True, slots=True)
class _Unused:
    """The oldest snapshot that stays, the ones before it that go, the files that only they and changelogs that end
    need, the ones whose files a tag holds, and the names of all tags."""

    kept: Snapshot | None = None
    expiring: tuple[Snapshot, ...] = ()
    paths: tuple[str, ...] = ()
    tagged: tuple[Skipped, ...] = ()
    changelogs: ChangelogPlan = field(default_factory=ChangelogPlan)
    tags: frozenset[str] = frozenset()


def _told(changelogs: ChangelogPlan, dry_run: bool) -> Iterator[str]:
    """The notes about changelogs."""
    if changelogs.becoming:
        kept, end = changelogs.becoming, "would outlive" if dry_run else "outlive"
        yield f"the changelogs of snapshots {kept[0].id} to {kept[-1].id} {end} them"
    if changelogs.ending:
        gone, end = changelogs.ending, "would go" if dry_run else "went"
        yield f"the changelogs {gone[0].id} to {gone[-1].id} {end}"
