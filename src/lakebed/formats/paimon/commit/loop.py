"""The commit loop: attempts at a snapshot until one stands, its outcome made certain.

Rules: Paimon's FileStoreCommitImpl.tryCommit. An attempt that loses the race for the snapshot's name looks at the
newest snapshot again and writes anew what depends on it. The metadata files of an attempt that certainly did not land
are removed; after an unknown outcome all files stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from lakebed.errors import CommitUnknownError, DataCleanedError, LakebedError, NotWrittenError, StorageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.commit.attempt import Attempt
from lakebed.formats.paimon.commit.claim import claim_snapshot, write_hints
from lakebed.formats.paimon.commit.delta import Delta, is_fixed
from lakebed.formats.paimon.commit.kinds import NewSnapshot
from lakebed.formats.paimon.commit.succession import Place, place_of
from lakebed.formats.paimon.commit.user_commits import look_back
from lakebed.formats.paimon.layout import snapshot_path
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel import clock
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.commit.claim import ask_again
from lakebed.kernel.commit.retry import Lost, RetryPolicy, Won, with_retries
from lakebed.kernel.files import PutOutcome
from lakebed.kernel.options import Options
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.redaction import redacting_logger

_LOG = redacting_logger("lakebed.paimon")
_SOON_SECONDS = 5.0
"""How soon after a look nobody has expired what was the newest snapshot: retention is by hours or by many snapshots."""


class ReplayedError(LakebedError):
    """Another process of the same commit user has committed this identifier meanwhile, or a later one, as `landed`."""

    def __init__(self, landed: Snapshot) -> None:
        super().__init__(
            "another process of this commit user has committed this identifier, or a later one", instant=str(landed.id)
        )
        self.landed = landed


def commit_snapshot(
    history: History,
    schema: TableSchema,
    options: Options,
    new: NewSnapshot,
    latest: Snapshot | None,
    another_follows: bool = False,
    delta: Delta | None = None,
    was_unseen: Callable[[], bool] | None = None,
) -> Snapshot:
    """Make a new snapshot at the head of a branch.

    `latest` is the newest snapshot as the caller has just seen it, None for a table without one. The first attempt
    builds on it without another look: when a newer one has come meanwhile, its name is taken and the race is lost.
    With `another_follows` the hints are left to the snapshot that the caller makes next. `delta` has the manifests of
    the changes, where the caller has made them ahead. `was_unseen` is asked where snapshots have come and expired
    since the first attempt: whether one of them was this commit, by another process of the user.

    Raises CommitConflictError when another writer's commit stands in the way, ReplayedError when it is that of another
    process of the same user under the same identifier, CommitUnknownError when the store does not say how it ended.
    """
    if delta is None and not new.merges_manifests and is_fixed(options, new.replaced is not None):
        delta = Delta(history.store, schema, options, new.changes)
    loop = _CommitLoop(history, schema, options, new, latest, another_follows, delta, was_unseen)
    try:
        return with_retries(loop.attempt, retry_policy(options), history.store.location, loop.forget)
    finally:
        if delta is not None:
            delta.remove()


def retry_policy(options: Options) -> RetryPolicy:
    """How often a commit is tried again, by the options `commit.*`."""
    timeout = options[opt.COMMIT_TIMEOUT]
    return RetryPolicy(
        options[opt.COMMIT_MAX_RETRIES],
        options[opt.COMMIT_MIN_WAIT] / 1000,
        options[opt.COMMIT_MAX_WAIT] / 1000,
        None if timeout is None else timeout / 1000,
        (opt.COMMIT_MAX_RETRIES.key, opt.COMMIT_TIMEOUT.key),
    )


class _CommitLoop:
    """One commit over all its attempts."""

    def __init__(
        self,
        history: History,
        schema: TableSchema,
        options: Options,
        new: NewSnapshot,
        latest: Snapshot | None,
        another_follows: bool,
        delta: Delta | None,
        was_unseen: Callable[[], bool] | None,
    ) -> None:
        self._another_follows, self._delta, self._was_unseen = another_follows, delta, was_unseen
        self._history, self._schema, self._options, self._new = history, schema, options, new
        self._store = history.store
        self._first_latest, self._first_seen = latest, latest.id if latest else 0
        self._looks, self._looked = False, clock.steady()
        self._tried: set[str] = set()
        """The delta manifest lists of all attempts, by which their snapshots are known again."""

    def forget(self) -> None:
        """Let the first attempt look at the table too."""
        self._looks = True

    def attempt(self, number: int) -> Won[Snapshot] | Lost:
        """Attempt `number`, counted from 0."""
        latest = self._first_latest
        if number or self._looks:
            self._looked, latest = clock.steady(), self._history.latest()
        if number:
            landed = self._landed(latest)
            if landed is not None:
                self._name_delta(True)
                return Won(landed)
        try:
            return self._try_after(latest)
        except DataCleanedError:
            if latest is None or (self._history.latest_id() or 0) <= latest.id:
                raise
            return Lost(f"snapshot {latest.id}, on which it was based, expired meanwhile")

    def _landed(self, latest: Snapshot | None) -> Snapshot | None:
        """This commit's own snapshot among those since the first attempt: an earlier put landed although it seemed not
        to. ReplayedError when another process of the same user has made one under the same identifier, and for a
        compaction under a later one too: the user's newest snapshot tells which identifiers are committed."""
        new, later = self._new, list[Snapshot]()
        is_numbered = new.identifier != BATCH_IDENTIFIER

        def is_ours(snapshot: Snapshot) -> bool:
            of_user = is_numbered and snapshot.commit_user == new.user
            if of_user and new.identifier < snapshot.commit_identifier < BATCH_IDENTIFIER:
                later.append(snapshot)
            twin = of_user and snapshot.commit_identifier == new.identifier and snapshot.commit_kind is new.kind
            return twin or snapshot.delta_manifest_list in self._tried

        landed, is_whole = look_back(self._history, self._first_seen, latest, is_ours)
        if landed is not None and landed.delta_manifest_list not in self._tried:
            raise ReplayedError(landed)
        if landed is not None or latest is None:
            return landed
        if not is_whole and self._was_unseen is not None and self._was_unseen():
            raise ReplayedError(latest)
        if new.kind is CommitKind.COMPACT and later:
            raise ReplayedError(later[0])
        return None

    def _try_after(self, latest: Snapshot | None) -> Won[Snapshot] | Lost:
        attempt = Attempt(self._history, self._schema, self._options, self._new, latest, self._delta)
        try:
            snapshot = attempt.write_metadata()
        except Exception:
            self._remove(attempt.written)
            raise
        self._tried.add(snapshot.delta_manifest_list)
        return self._claim(snapshot, attempt)

    def _claim(self, snapshot: Snapshot, attempt: Attempt) -> Won[Snapshot] | Lost:
        self._name_delta(True)
        try:
            publisher, branch = self._history.publisher, self._history.branch
            if publisher is None:
                with self._history.lock():
                    outcome = claim_snapshot(self._store, branch, snapshot)
            else:
                outcome = publisher(branch, snapshot, attempt.entries, self._schema)
        except NotWrittenError:
            self._name_delta(False)
            self._remove(attempt.written)
            raise
        if outcome is PutOutcome.UNKNOWN:
            outcome = self._look(snapshot)
        if outcome is PutOutcome.CREATED:
            place = self._place_and_hints(snapshot, attempt)
            if place is Place.DOUBLE and self._new.identifier != BATCH_IDENTIFIER:
                raise self._double(snapshot)
            if place is not Place.IN_LINE:
                return self._withdrawn(snapshot, attempt)
            self._history.committed(snapshot)
            self._report(attempt.entries)
            return Won(snapshot)
        self._name_delta(False)
        self._remove(attempt.written)
        return Lost(f"snapshot {snapshot.id} was taken by another writer")

    def _place_and_hints(self, snapshot: Snapshot, attempt: Attempt) -> Place | None:
        """Where a claimed snapshot is, also one that a catalog's server has put: Paimon's own looks whether the number
        is free, and not whether it has expired. Where it is in line its hints are written.

        A hint that names one which came late makes readers take it for the newest, for good if we die. So on a disk
        hints come after the look, and at a distance they save its time only where the claim followed so soon upon the
        look at the newest snapshot that this one has hardly expired.
        """
        if self._store.at_once > 1 and clock.steady() - self._looked < _SOON_SECONDS:
            looks: tuple[Callable[[], Place | None], ...] = (
                lambda: self._place(snapshot, attempt),
                lambda: self._write_hints(snapshot, attempt),
            )
            return self._store.together(lambda act: act(), looks)[0]
        place = self._place(snapshot, attempt)
        if place is Place.IN_LINE:
            self._write_hints(snapshot, attempt)
        return place

    def _name_delta(self, is_named: bool) -> None:
        """Record whether a snapshot may name the delta's files from now on."""
        if self._delta is not None:
            self._delta.is_named = is_named

    def _write_hints(self, snapshot: Snapshot, attempt: Attempt) -> None:
        is_first = attempt.latest is None
        if is_first or not self._another_follows:
            write_hints(self._store, self._history.branch, snapshot.id, first=is_first)

    def _withdrawn(self, snapshot: Snapshot, attempt: Attempt) -> Lost:
        """Take a claimed snapshot back that leads nowhere, and its hint. The delta stays for the next attempt.

        What it names goes after it: a snapshot that leads to files which are gone stops every later clean-up.
        CommitUnknownError where the store does not remove it.
        """
        self._take_back(snapshot)
        self._remove(attempt.written)
        self._hint_newest()
        return Lost(f"snapshot {snapshot.id - 1}, on which it was based, expired or was rolled back meanwhile")

    def _double(self, snapshot: Snapshot) -> ReplayedError:
        """Take a claimed snapshot back that expired before it came, as that of another process of the user did, or that
        is the oldest one. Its rows are in the table either way."""
        self._take_back(snapshot)
        newest = self._hint_newest()
        return ReplayedError(snapshot if newest is None else newest)

    def _hint_newest(self) -> Snapshot | None:
        """Make the hints name the newest snapshot again, which is returned."""
        newest = self._history.latest_now()
        write_hints(self._store, self._history.branch, 0 if newest is None else newest.id, first=False)
        return newest

    def _take_back(self, snapshot: Snapshot) -> None:
        """Remove the file of a claimed snapshot. A store that fails is asked again."""
        path = snapshot_path(self._history.branch, snapshot.id)
        try:
            ask_again(lambda: self._store.delete(path))
        except StorageError as failure:
            raise CommitUnknownError(
                f"snapshot {snapshot.id} came too late, and the store does not take it back",
                table=self._store.location,
                instant=str(snapshot.id),
                file=path,
                why=str(failure),
                todo="Delete this file, and write the rows again: later snapshots do not have them",
            ) from failure

    def _place(self, snapshot: Snapshot, attempt: Attempt) -> Place:
        """Where a claimed snapshot stands. If the store fails it is asked again; if it never answers, the commit
        counts."""
        with suppress(Exception):  # it was claimed: whatever fails from here on is no failure of the commit
            return ask_again(
                lambda: place_of(self._history, snapshot, attempt.latest, attempt.entries, attempt.written)
            )
        return Place.IN_LINE

    def _report(self, entries: Sequence[ManifestEntry]) -> None:
        """Tell the catalog about a committed snapshot. Failures go to the log."""
        reporter = self._history.reporter
        if reporter is not None:
            notes = afterwards("its catalog was not told of new partitions", lambda: reporter(entries, self._schema))
            for note in notes:
                _LOG.warning("%s: %s", self._store.location, note)

    def _look(self, snapshot: Snapshot) -> PutOutcome:
        """What became of a put that the store does not vouch for. CommitUnknownError when the snapshot's file cannot be
        seen."""
        with suppress(StorageError):
            visible = self._history.find(snapshot.id)
            if visible is not None:
                return PutOutcome.CREATED if snapshot.is_at(visible) else PutOutcome.EXISTS
        raise CommitUnknownError(
            f"the store does not say whether snapshot {snapshot.id} was written",
            table=self._store.location,
            instant=str(snapshot.id),
            why="its put failed, and the file cannot be seen; all files of the commit are kept",
            todo=f"Commit the same messages again as user {self._new.user} and identifier {self._new.identifier} "
            f"(filter_and_commit): they are committed once, whatever became of this attempt",
        )

    def _remove(self, paths: Sequence[str]) -> None:
        """Remove metadata files of an attempt that did not land; orphan-file removal cleans up any leftovers."""
        if paths:
            with suppress(StorageError):
                self._store.delete_many(paths)
