"""The commit: messages to manifests to one snapshot file, exactly once for a commit user and identifier.

Rules: Paimon's FileStoreCommitImpl and TableCommitImpl. Files that a landed commit may name are never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

from lakebed.errors import CommitConflictError, LakebedError, NotInHistoryError, UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.commit.callbacks import commits_after
from lakebed.formats.paimon.commit.conflicts import check_columns
from lakebed.formats.paimon.commit.delta import Delta, is_fixed
from lakebed.formats.paimon.commit.hash_indexes import write_hash_indexes
from lakebed.formats.paimon.commit.kinds import (
    ORIGIN,
    AssignmentBase,
    Changes,
    NewSnapshot,
    append_changes,
    compact_changes,
    kind_of_append,
)
from lakebed.formats.paimon.commit.leftovers import remove_files
from lakebed.formats.paimon.commit.loop import ReplayedError, commit_snapshot
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.commit.overwrite import ReplacedPartitions
from lakebed.formats.paimon.commit.user_commits import CommitsOfUser, outcome_unknown, was_unseen
from lakebed.formats.paimon.references import held_files
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.tag_options import END_WATERMARK
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.commit.callbacks import OwedCallbacks
from lakebed.kernel.commit.replay import check_origin, refuse_lost_files
from lakebed.kernel.commit.turns import turn
from lakebed.kernel.options import Options
from lakebed.model.commit import BATCH_IDENTIFIER, CommitResult, Outcome
from lakebed.redaction import redacting_logger

_LOG = redacting_logger("lakebed.paimon")
_SKIPPED_EMPTY = "nothing to commit: no rows were written"
_SKIPPED_DONE = "this identifier was committed before"


class Committer:
    """Commits of one user to one branch.

    The files of messages stay: only `abort` and a recognized replay remove any. If something fails after the snapshot
    is committed, the result has a note. An error would make the caller write again.
    """

    def __init__(self, history: History, schema: TableSchema, options: Options, commit: CommitOptions) -> None:
        self._history, self._schema, self._options, self._commit = history, schema, options, commit
        self._store = history.store
        self._callbacks = OwedCallbacks(history.store, commit.every_callback)
        self._last_safe: int | None = options[opt.LAST_SAFE_SNAPSHOT]
        self._before = CommitsOfUser(history, commit.user)

    def commit(
        self,
        identifier: int,
        messages: Sequence[PaimonMessage],
        replaced: ReplacedPartitions | None = None,
        origin: str = "",
    ) -> CommitResult:
        """Commit messages under an identifier. It is skipped when this user has committed the identifier; a batch
        commit is never taken for a replay.

        Raises CommitConflictError when another writer's commit stands in the way, or this user's own with rows of
        another origin, CommitUnknownError when the store
        does not say how it ended.
        """
        _check_identifier(identifier)
        delta = self._delta_ahead(messages, replaced)
        try:
            with turn(self._store.location):
                latest = self._look()
                self._register_callbacks(latest)
                replayed = identifier != BATCH_IDENTIFIER and self._before.has(identifier, latest)
                if not replayed:
                    try:
                        checks = self._commit.check_appends
                        result, latest = self._publish(identifier, messages, latest, replaced, checks, origin, delta)
                    except ReplayedError as error:
                        replayed, latest = True, error.landed
        finally:
            if delta is not None:
                delta.remove()
        if replayed:
            result = self._skip_replay(identifier, messages, origin)
        notes = self._follow_up(identifier, result.outcome is Outcome.COMMITTED, latest)
        return replace(result, notes=(*result.notes, *notes))

    def filter_and_commit(self, commits: Mapping[int, Sequence[PaimonMessage]]) -> int:
        """Commit, in ascending order, the identifiers that this user has not committed; returns their number. The files
        of each must still be there. What a result's notes would say goes to the log."""
        for identifier in commits:
            _check_identifier(identifier)
        with turn(self._store.location):
            latest, waiting = self._waiting(commits)
            self._register_callbacks(latest)
            count = 0
            for identifier in waiting:
                try:
                    _, latest = self._publish(identifier, commits[identifier], latest, None, True)
                    count += 1
                except ReplayedError as error:
                    latest = error.landed
                    self._skip_replay(identifier, commits[identifier])
        for note in self._follow_up(max(commits, default=0), bool(count), latest):
            _LOG.warning("%s: %s", self._store.location, note)
        return count

    def abort(self, messages: Sequence[PaimonMessage]) -> None:
        """Remove the files of messages, except those that the table holds, whichever snapshot brought them. When that
        cannot be seen, all stay and the error is raised."""
        if any(not message.is_empty for message in messages):
            remove_files(self._store, messages, keep=held_files(self._history))

    # ---- before and after the commit ----

    def _look(self) -> Snapshot | None:
        """The newest snapshot; all of a commit builds on this one look. What tells whether an expiry is due is read at
        the same time."""
        looks: list[Callable[[], Any]] = [self._history.latest_now]
        if self._commit.expire is not None:
            looks.append(self._commit.expire.look)
        latest: Snapshot | None = self._store.together(lambda look: look(), looks)[0]
        return latest

    def _register_callbacks(self, latest: Snapshot | None) -> None:
        if self._callbacks:
            self._callbacks.register(latest.id if latest is not None else 0)

    def _follow_up(self, identifier: int, committed: bool, latest: Snapshot | None) -> tuple[str, ...]:
        """What follows a commit: first the partitions that are too old, then the callbacks, then the expiry of what is
        due and they have seen, then the tags. The notes say what failed; the next commit does it again."""
        commit, newest, expired = self._commit, latest, False
        expires = committed or commit.expire_for_empty

        def expire_partitions() -> None:
            nonlocal newest
            if commit.partitions is not None and expires:
                newest = commit.partitions.run_if_due(commit.user, identifier, latest)

        def expire_snapshots() -> None:
            nonlocal expired
            if commit.expire is not None and expires:
                expired = commit.expire.run_if_due(newest)

        notes = afterwards("old partitions stay until the next expiry", expire_partitions)
        notes += self._call_callbacks()
        notes += afterwards("old snapshots stay until the next expiry", expire_snapshots)
        if commit.tags is not None:
            notes += commit.tags.run(newest, identifier == BATCH_IDENTIFIER, expires, expired)
        return notes

    def _call_callbacks(self) -> tuple[str, ...]:
        """Call the callbacks that are owed for any snapshot, also after a crash or a failure; notes of those that
        failed."""
        if not self._callbacks:
            return ()
        return self._callbacks.call(lambda after: commits_after(self._history, self._options, after))

    # ---- exactly once ----

    def _waiting(self, commits: Mapping[int, Sequence[PaimonMessage]]) -> tuple[Snapshot | None, list[int]]:
        """The newest snapshot, and the identifiers that this user has not committed, in ascending order. Their files
        are there. Another process of the user may commit one meanwhile, and remove the files of what it compacted: so
        the table is looked at again before files are called lost."""
        before: list[int] | None = None
        while True:
            latest = self._look()
            waiting = [identifier for identifier in sorted(commits) if not self._before.has(identifier, latest)]
            try:
                self._check_files([message for identifier in waiting for message in commits[identifier]])
                return latest, waiting
            except NotInHistoryError as error:
                if waiting == before and self._before.may_have_more:
                    raise outcome_unknown(self._history, error.file) from error
                if waiting == before:
                    raise
                before = waiting

    def _skip_replay(self, identifier: int, messages: Sequence[PaimonMessage], origin: str = "") -> CommitResult:
        """A replay wrote its files again: they are removed, except those that the table holds. All stay when the commit
        that landed can no longer be seen. Where the table holds rows of these very messages, another process has
        committed them and may be about to commit what they compacted, whose files stay too. CommitConflictError where
        the commit has rows of another origin."""

        def landed(snapshot: Snapshot) -> bool:
            return snapshot.commit_user == self._commit.user and snapshot.commit_identifier == identifier

        def clean() -> None:
            if find() is None or all(message.is_empty for message in messages):
                return
            held = held_files(self._history)
            landed_here = any(name in held for message in messages for name in message.appended_names)
            compacted = {name for message in messages for name in message.compacted_names} if landed_here else set()
            remove_files(self._store, messages, keep=held | compacted)

        @cache
        def find() -> Snapshot | None:
            return next(filter(landed, self._history.backwards()), None)

        there = find() if origin else None
        if there is not None:
            check_origin(identifier, origin, dict(there.properties).get(ORIGIN), self._store.location, str(there.id))

        return CommitResult("", Outcome.SKIPPED, (_SKIPPED_DONE, *afterwards("files of the replay stay", clean)))

    def _check_files(self, messages: Sequence[PaimonMessage]) -> None:
        paths = [f"{m.folder}/{name}" for m in messages for file in m.written_files() for name in file.names]
        refuse_lost_files(paths, self._store.exists, self._store.together, self._store.location)

    # ---- publishing ----

    def _delta_ahead(self, messages: Sequence[PaimonMessage], replaced: ReplacedPartitions | None) -> Delta | None:
        """The manifests of what messages append, made before this writer has its turn, in which others wait for it. A
        disk has them then; a remote store takes them together with the others."""
        appends = [message for message in messages if message.appends]
        if not appends or not is_fixed(self._options, replaced is not None):
            return None
        delta = Delta(self._store, self._schema, self._options, append_changes(appends, ()))
        if self._store.at_once == 1:
            try:
                delta.write()
            except Exception:
                delta.remove()
                raise
        return delta

    def _publish(
        self,
        identifier: int,
        messages: Sequence[PaimonMessage],
        latest: Snapshot | None,
        replaced: ReplacedPartitions | None,
        check_appends: bool,
        origin: str = "",
        delta: Delta | None = None,
    ) -> tuple[CommitResult, Snapshot | None]:
        """Make the snapshots of a commit after `latest`; also returns the newest snapshot then."""
        snapshot: Snapshot | None = None
        notes: tuple[str, ...] = ()
        appends = [message for message in messages if message.appends]
        compacts = [message for message in messages if message.compacts]
        look = self._look_for_expired(identifier, appends, latest)
        if any(message.deleted_files for message in appends):
            check_columns(self._history, [replace(message, compact_before=(), compact_after=()) for message in appends])
        if appends or replaced is not None or (not compacts and not self._ignores_empty(identifier, latest)):
            indexes = write_hash_indexes(self._store, latest, appends, replaced is not None)
            kind, changes = kind_of_append(appends, replaced), append_changes(appends, indexes)
            new = replace(
                self._new_snapshot(identifier, kind, changes, origin),
                replaced=replaced,
                assigned_on=self._assigned_on(appends, replaced),
                check_appends=check_appends,
                routed_on=_routed_on(appends) if replaced is None else None,
            )
            snapshot = latest = self._commit_snapshot(new, latest, bool(compacts), delta, look)

        def compact() -> None:
            nonlocal latest
            new = self._new_snapshot(identifier, CommitKind.COMPACT, compact_changes(compacts), origin)
            try:
                check_columns(self._history, compacts)
                latest = self._commit_snapshot(new, latest)
            except (CommitConflictError, ReplayedError):
                if snapshot is not None:  # the appends stand, and their files are not the compaction's
                    self._remove_compaction(identifier, compacts)
                raise

        if compacts and snapshot is None:
            compact()
            snapshot = latest
        elif compacts:  # the rows are visible already: without the compaction reads only cost more
            notes = afterwards("what it compacted is not replaced, and a later compaction does it again", compact)
        if snapshot is None:
            return CommitResult("", Outcome.SKIPPED, (_SKIPPED_EMPTY,)), latest
        files = [file for message in appends for file in message.new_files]
        rows = sum(file.row_count for file in files)
        return CommitResult(str(snapshot.id), Outcome.COMMITTED, notes, rows, len(files)), latest

    def _look_for_expired(
        self, identifier: int, appends: Sequence[PaimonMessage], latest: Snapshot | None
    ) -> Callable[[], bool] | None:
        """What looks whether an expired snapshot of this user had these rows; None where none can have had them.
        ReplayedError where one had them before this commit began."""
        if identifier == BATCH_IDENTIFIER or not appends:
            return None
        look = partial(was_unseen, self._history, appends)
        if latest is not None and self._before.may_have_more and look():
            raise ReplayedError(latest)
        return look

    def _new_snapshot(self, identifier: int, kind: CommitKind, changes: Changes, origin: str) -> NewSnapshot:
        commit, watermark = self._commit, self._watermark(identifier)
        return NewSnapshot(
            commit.user,
            identifier,
            kind,
            changes,
            rows_since=commit.rows_since,
            last_safe=self._last_safe,
            watermark=watermark,
            origin=origin,
        )

    def _remove_compaction(self, identifier: int, compacts: Sequence[PaimonMessage]) -> None:
        """Remove the files of a compaction that was not committed: here, that is. Another process of this user may have
        committed it. Files that cannot be removed stay until orphan-file removal."""
        compactions = [message.compaction for message in compacts]
        if identifier == BATCH_IDENTIFIER:
            remove_files(self._store, compactions)
            return
        with suppress(LakebedError):
            self.abort(compactions)

    def _commit_snapshot(
        self,
        new: NewSnapshot,
        latest: Snapshot | None,
        another_follows: bool = False,
        delta: Delta | None = None,
        look: Callable[[], bool] | None = None,
    ) -> Snapshot:
        history, options = self._history, self._options
        snapshot = commit_snapshot(history, self._schema, options, new, latest, another_follows, delta, look)
        if self._last_safe is not None:
            self._last_safe = snapshot.id
        return snapshot

    def _watermark(self, identifier: int) -> int | None:
        """The watermark that the writer gives."""
        given = self._commit.watermark
        return self._options[END_WATERMARK] if given is None and identifier == BATCH_IDENTIFIER else given

    def _assigned_on(
        self, messages: Sequence[PaimonMessage], replaced: ReplacedPartitions | None
    ) -> AssignmentBase | None:
        """What the dynamic buckets of messages were assigned on; None for an overwrite, which starts afresh."""
        bases = [m.planned_on for m in messages if m.planned_on is not None and m.total_buckets < 0]
        if not bases or replaced is not None:
            return None
        in_partition = set(self._schema.partition_keys) <= set(self._schema.primary_keys)
        partitions = frozenset(message.partition for message in messages) if in_partition else None
        return AssignmentBase(min(bases), partitions, frozenset(m.write_id for m in messages if m.write_id))

    def _ignores_empty(self, identifier: int, latest: Snapshot | None) -> bool:
        """Whether a commit without files leaves no snapshot: that of a batch; a stream's does, for its identifier."""
        given = self._commit.ignore_empty
        if self._options[opt.IGNORE_EMPTY_COMMIT] is not None:
            given = self._options[opt.IGNORE_EMPTY_COMMIT]
        ignores = identifier == BATCH_IDENTIFIER if given is None else bool(given)
        if not ignores or self._options[opt.FORCE_SNAPSHOT]:
            return False
        tags = self._commit.tags
        return identifier == BATCH_IDENTIFIER or tags is None or not tags.forces_snapshot(latest)


def _routed_on(messages: Sequence[PaimonMessage]) -> int | None:
    """The oldest snapshot that rows of messages got fixed buckets on; None where that is not known."""
    fixed = (message.planned_on for message in messages if message.total_buckets > 0)
    return min((snapshot for snapshot in fixed if snapshot is not None), default=None)


def _check_identifier(identifier: object) -> None:
    if isinstance(identifier, bool) or not isinstance(identifier, int) or not -(2**63) <= identifier < 2**63:
        raise UsageError(
            f"{identifier!r} cannot be a commit identifier", todo="Give whole numbers that grow from commit to commit"
        )
