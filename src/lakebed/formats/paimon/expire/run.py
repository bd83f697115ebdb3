"""The expiry of snapshots, start to end: planned, written down, done.

Rules: Paimon's ExpireSnapshotsImpl, except for the order. First a list of the files to delete is kept in the table,
then the snapshot files are removed, then what they named. So no snapshot is ever there whose files are gone, and the
next expiry deletes from that list what a crash left.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakebed.errors import DataCleanedError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.commit.claim import write_earliest
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.expire.abandoned import abandoned_rows
from lakebed.formats.paimon.expire.plan import Retention, RetentionPlanner, stale_consumers
from lakebed.formats.paimon.expire.unused import UnusedFiles
from lakebed.formats.paimon.layout import OWN_FOLDER, branch_prefix, snapshot_path
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files import Store
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult, Skipped

_JOURNALS = f"{OWN_FOLDER}/expire"


@dataclass(slots=True)
class SnapshotExpiry:
    """Expires snapshots of one branch by its options. It can run many times, and reads less after the first."""

    history: History
    options: Options
    _planner: RetentionPlanner | None = None
    _oldest: Snapshot | None = None

    @looks_again
    def run(self, dry_run: bool = False) -> ExpireResult:
        """Expire the snapshots that may go now. UnsupportedError for a table whose changelog outlives its snapshots."""
        _refuse(self.history, self.options)
        store = self.history.store
        now = clock.now_ms()
        if not dry_run and self._is_due(now):  # something would go: make sure that our clock is not just ahead
            now = int(certain_now(store, OWN_FOLDER) * 1000)
        abandoned = self._abandoned(now)
        if not dry_run:
            store.delete_many(abandoned)
        finished = abandoned if dry_run else (*abandoned, *self._finish_interrupted())
        retention = self._plan(now)
        if retention is None or retention.end <= retention.earliest:
            holds = tuple(hold.skipped for hold in retention.holds) if retention else ()
            return ExpireResult((), finished, holds, dry_run)
        snapshots = [self.history.find(number) for number in range(retention.earliest, retention.end)]
        expiring = [snapshot for snapshot in snapshots if snapshot is not None]
        paths = UnusedFiles(self.history, self.options).of(expiring, self._oldest_kept(retention))
        names = [snapshot_path(self.history.branch, snapshot.id) for snapshot in expiring]
        tagged, notes = self._kept_tags(retention), tuple[str, ...]()
        if not dry_run:
            journal = f"{_JOURNALS}/{branch_prefix(self.history.branch).replace('/', '_')}{uuid.uuid4()}.json"
            store.write(journal, json.dumps({"snapshots": names, "files": paths}).encode())
            write_earliest(store, self.history.branch, retention.end)
            store.delete_many(names)

            def remove() -> None:
                store.delete_many(paths)
                store.delete(journal)

            notes = afterwards("files of the expired snapshots stay until the next expiry, which resumes it", remove)
        kept = [*(hold.skipped for hold in retention.holds), *tagged]
        expired = tuple(str(snapshot.id) for snapshot in expiring)
        return ExpireResult(expired, (*finished, *paths, *names), tuple(kept), dry_run, notes)

    def _oldest_kept(self, retention: Retention) -> Snapshot:
        """The oldest snapshot that stays. DataCleanedError when another expiry was faster."""
        snapshot = self.history.find(retention.end)
        if snapshot is None:
            raise DataCleanedError(
                f"snapshot {retention.end} has expired",
                table=self.history.store.location,
                instant=str(retention.end),
                why="another expiry is at work",
                todo="Nothing is lost. Expire again",
            )
        return snapshot

    def _plan(self, now: int) -> Retention | None:
        if self._planner is None:
            self._planner = RetentionPlanner(self.history, self.options)
        return self._planner.plan(now)

    def _abandoned(self, now: int) -> tuple[str, ...]:
        """Staged rows and consumer files that are old enough to be removed."""
        store = self.history.store
        return (*abandoned_rows(store, now / 1000), *stale_consumers(self.history, self.options, now))

    def _is_due(self, now: int) -> bool:
        """Whether anything is old enough to go at a time in milliseconds since 1970."""
        retention = self._plan(now)
        return bool(self._abandoned(now)) or (retention is not None and retention.end > retention.earliest)

    def look(self) -> None:
        """Read the oldest snapshot, which tells after a commit whether an expiry is due."""
        if self._oldest is None:
            self._oldest = self.history.earliest()

    def run_if_due(self, latest: Snapshot | None) -> None:
        """Expire after the commit of `latest`, where the oldest snapshot may go.

        The oldest one that was seen decides. When it has expired meanwhile, the others are newer and fewer, so nothing
        is due that would not be due with it.
        """
        if latest is None or self._oldest is None:
            return
        count, most = latest.id - self._oldest.id + 1, self.options[opt.SNAPSHOTS_MAX]
        is_old = clock.now_ms() - self._oldest.time_millis >= self.options[opt.SNAPSHOT_TIME]
        if (most is not None and count > most) or (is_old and count > self.options[opt.SNAPSHOTS_MIN]):
            self._oldest = None
            self.run()

    def _finish_interrupted(self) -> tuple[str, ...]:
        """Delete what expiries that died half way had left to delete, unless something needs it again."""
        store = self.history.store
        journals = interrupted_expiries(store)
        if not journals:
            return ()
        deleted: list[str] = []
        for journal in journals:
            with suppress(FileNotFoundError, ValueError):  # another expiry finished it, or it was never written whole
                listed = json.loads(store.read(journal))
                store.delete_many(listed["snapshots"])
                needed = set(UnusedFiles(self.history, self.options).all_needed())
                paths = [path for path in listed["files"] if path not in needed and store.exists(path)]
                store.delete_many(paths)
                deleted += paths
            store.delete(journal)
        return tuple(deleted)

    def _kept_tags(self, retention: Retention) -> Sequence[Skipped]:
        """The expiring snapshots whose files stay because a tag names them."""
        tagged = [(name, self.history.tag(name).id) for name in self.history.tags()]
        return [
            Skipped(f"files of snapshot {number}", f"tag {name!r} names it")
            for name, number in tagged
            if retention.earliest <= number < retention.end
        ]


def interrupted_expiries(store: Store) -> list[str]:
    """The paths of the file lists of expiries that died half way or are at work."""
    return [info.path for info in store.list(_JOURNALS).files]


def _refuse(history: History, options: Options) -> None:
    refuse_unserved(history.latest_schema(), options, Use.WRITE, history.store.location)
    for key in (opt.CHANGELOG_MIN, opt.CHANGELOG_MAX, opt.CHANGELOG_TIME):
        if options.given(key):
            raise UnsupportedError(
                f"lakebed does not expire snapshots of a table with {key.key}",
                table=history.store.location,
                why="its changelog outlives its snapshots, and lakebed cannot keep a changelog without its snapshot",
                todo="Expire with Paimon's own engine, or remove the option",
            )
