"""The commit: messages to manifests to one snapshot file, exactly once for a commit user and identifier.

Rules: Paimon's FileStoreCommitImpl and TableCommitImpl. One commit makes up to two snapshots with one identifier:
first what was written (APPEND, or OVERWRITE where files are deleted), then what was compacted (COMPACT). Files that a
landed commit may name are never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from lakebed.errors import NotInHistoryError, StorageError, UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.hash_index import hashes_of, index_bytes
from lakebed.formats.paimon.codec.manifest import (
    ADD,
    DELETE,
    DELETION_VECTORS,
    HASH_INDEX,
    DataFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.commit.attempt import Changes, Planned, SnapshotAttempt
from lakebed.formats.paimon.commit.callbacks import commits_after
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.overwrite import Replaced
from lakebed.formats.paimon.layout import NameFactory, index_path
from lakebed.formats.paimon.manifests import index_files, key_hashes
from lakebed.formats.paimon.references import held_files
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.arrays import Int32s
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.commit.callbacks import CommitCallback, OwedCallbacks
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.model.commit import BATCH_IDENTIFIER, CommitResult, Outcome
from lakebed.redaction import redacting_logger

_LOG = redacting_logger("lakebed.paimon")
_MOST_WAITING = 32 << 20
"""Bytes of index files that are held to be written together."""
_SKIPPED_EMPTY = "nothing to commit: no rows were written"
_SKIPPED_DONE = "this identifier was committed before"


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """How commits of one writer behave; the defaults are Paimon's.

    `ignore_empty`: make no snapshot of a commit without files; None: those of batches only. `expire_for_empty`: expire
    old snapshots after such a commit too. `check_appends`: look for conflicts before appends too. `rows_since`: fail
    when a snapshot after this one changed rows that the commit changes, by their row ids; None: not looked at.
    """

    ignore_empty: bool | None = None
    expire_for_empty: bool = True
    check_appends: bool = False
    rows_since: int | None = None


class Committer:
    """Commits of one user to one branch. The messages' files stay where they are whatever happens; only `abort` and a
    recognised replay remove any. What fails once a snapshot stands is a note of the result, never an error: the
    caller would write again."""

    def __init__(
        self,
        store: Store,
        history: History,
        schema: TableSchema,
        options: Options,
        user: str,
        callbacks: Sequence[CommitCallback] = (),
        settings: CommitSettings = CommitSettings(),
        maintain: Callable[[], object] | None = None,
    ) -> None:
        self._store, self._history, self._schema, self._options, self._user = store, history, schema, options, user
        self._callbacks = OwedCallbacks(store, callbacks)
        self._settings, self._maintain = settings, maintain
        self._last_safe: int | None = options[opt.LAST_SAFE_SNAPSHOT]
        self._scanned = 0
        self._committed: int | None = None

    def commit(
        self,
        identifier: int,
        messages: Sequence[PaimonMessage],
        *,
        replaced: Replaced | None = None,
    ) -> CommitResult:
        """Commit messages under an identifier; skipped when this user has committed it (batch commits are never taken
        for replays).

        Raises CommitConflictError when another writer's commit stands in the way, CommitUnknownError when the store
        does not say how it ended.
        """
        _check_identifier(identifier)
        if self._callbacks:
            self._callbacks.register(self._history.latest_id() or 0)
        if identifier != BATCH_IDENTIFIER and self._is_committed(identifier):
            result = self._skip_replay(identifier, messages)
        else:
            result = self._publish(identifier, messages, replaced, self._settings.check_appends)
        return replace(result, notes=(*result.notes, *self._followed(result.outcome is Outcome.COMMITTED)))

    def _followed(self, committed: bool) -> tuple[str, ...]:
        """What follows a commit: first the callbacks, then the expiry of what is due and they have seen. The notes say
        what failed; it is done after the next commit."""
        notes = self.call_owed()
        if self._maintain is not None and (committed or self._settings.expire_for_empty):
            notes += afterwards("old snapshots stay until the next expiry", self._maintain)
        return notes

    def call_owed(self) -> tuple[str, ...]:
        """Call the callbacks that are owed for any snapshot, after a crash or a failure; notes of those that failed."""
        if not self._callbacks:
            return ()
        return self._callbacks.call(lambda after: commits_after(self._history, self._options, after))

    def filter_and_commit(self, commits: Mapping[int, Sequence[PaimonMessage]]) -> int:
        """Commit, in order, the identifiers that this user has not committed; their number. The files of each must
        still be there. What a result's notes would say goes to the log."""
        for identifier in commits:
            _check_identifier(identifier)
        waiting = [identifier for identifier in sorted(commits) if not self._is_committed(identifier)]
        for identifier in waiting:
            self._check_files(commits[identifier])
        if self._callbacks:
            self._callbacks.register(self._history.latest_id() or 0)
        for identifier in waiting:
            self._publish(identifier, commits[identifier], None, True)
        for note in self._followed(bool(waiting)):
            _LOG.warning("%s: %s", self._store.location, note)
        return len(waiting)

    def abort(self, messages: Sequence[PaimonMessage]) -> None:
        """Remove the files of messages, but those that the table holds, whichever snapshot brought them; when that
        cannot be seen, all stay and the error is raised."""
        if any(not message.is_empty for message in messages):
            remove_files(self._store, messages, keep=held_files(self._history))

    # ---- exactly once ----

    def _is_committed(self, identifier: int) -> bool:
        """Whether this user committed that identifier or a later one. Snapshots looked at once are not looked at
        again."""
        newest = self._history.latest_id() or 0
        if newest > self._scanned:
            found = self._history.latest_of_user(self._user, self._scanned)
            if found is not None:
                self._committed = found.commit_identifier
            self._scanned = newest
        return self._committed is not None and identifier <= self._committed

    def _skip_replay(self, identifier: int, messages: Sequence[PaimonMessage]) -> CommitResult:
        """A replay wrote its files anew: they go, but for those that the table holds. All stay when the commit that
        landed is no longer to be seen."""

        def clean() -> None:
            if any(map(landed, self._history.backwards())):
                self.abort(messages)

        def landed(snapshot: Snapshot) -> bool:
            return snapshot.commit_user == self._user and snapshot.commit_identifier == identifier

        return CommitResult("", Outcome.SKIPPED, (_SKIPPED_DONE, *afterwards("files of the replay stay", clean)))

    def _check_files(self, messages: Sequence[PaimonMessage]) -> None:
        for message in messages:
            for file in message.written_files():
                path = f"{message.folder}/{file.file_name}"
                if not self._store.exists(path):
                    raise NotInHistoryError(
                        "files of a commit to recover were deleted", table=self._store.location, file=path,
                        todo="The data must be written again from its source",
                    )  # fmt: skip

    # ---- publishing ----

    def _publish(
        self, identifier: int, messages: Sequence[PaimonMessage], replaced: Replaced | None, check_appends: bool
    ) -> CommitResult:
        made: Snapshot | None = None
        notes: tuple[str, ...] = ()
        appends = [message for message in messages if message.appends]
        compacts = [message for message in messages if message.compacts]
        if appends or replaced is not None or (not compacts and not self._ignores_empty(identifier)):
            kind = CommitKind.OVERWRITE if replaced is not None or any(map(_deletes, appends)) else CommitKind.APPEND
            changes = _append_changes(appends, self._write_indexes(appends, replaced is not None))
            made = self._attempt(identifier, kind, changes, replaced, check_appends, self._planned(appends, replaced))
        if compacts and made is None:
            made = self._attempt(identifier, CommitKind.COMPACT, _compact_changes(compacts), None, True)
        elif compacts:  # the rows are visible already: without the compaction reads only cost more
            what = "what it compacted is not replaced, and rewrite does it again"
            notes = afterwards(
                what, lambda: self._attempt(identifier, CommitKind.COMPACT, _compact_changes(compacts), None, True)
            )
        if made is None:
            return CommitResult("", Outcome.SKIPPED, (_SKIPPED_EMPTY,))
        return CommitResult(str(made.id), Outcome.COMMITTED, notes)

    def _attempt(
        self,
        identifier: int,
        kind: CommitKind,
        changes: Changes,
        replaced: Replaced | None,
        check_appends: bool,
        planned: Planned | None = None,
    ) -> Snapshot:
        made = SnapshotAttempt(
            self._store,
            self._history,
            self._schema,
            self._options,
            self._user,
            identifier,
            kind,
            changes,
            replaced,
            planned,
            check_appends,
            self._settings.rows_since,
            self._last_safe,
        ).run()
        if self._last_safe is not None:
            self._last_safe = made.id
        return made

    def _write_indexes(self, messages: Sequence[PaimonMessage], anew: bool) -> tuple[IndexManifestEntry, ...]:
        """The HASH index of each bucket that gained keys, written whole; `anew` when the old ones are replaced."""
        gained: dict[tuple[bytes, int], list[Int32s]] = {}
        for message in messages:
            if message.new_hashes:
                gained.setdefault((message.partition, message.bucket), []).append(hashes_of(message.new_hashes))
        if not gained:
            return ()
        names = NameFactory("index-")
        old = (
            {}
            if anew
            else {
                (e.partition, e.bucket): e
                for e in index_files(self._store, self._history.latest())
                if e.index_type == HASH_INDEX
            }
        )
        made: list[IndexManifestEntry] = []
        files: dict[str, bytes] = {}
        for (partition, bucket), parts in gained.items():
            known = old.get((partition, bucket))
            whole = np.concatenate([*([key_hashes(self._store, known)] if known else []), *parts])
            data, name = index_bytes(whole), names()
            files[index_path(name)] = data
            if sum(map(len, files.values())) >= _MOST_WAITING:
                self._store.write_many(files)
                files = {}
            made.append(IndexManifestEntry(ADD, partition, bucket, HASH_INDEX, name, len(data), len(whole)))
        self._store.write_many(files)
        return tuple(made)

    def _planned(self, messages: Sequence[PaimonMessage], replaced: Replaced | None) -> Planned | None:
        """What the buckets of dynamic messages rest on; nothing for an overwrite, which starts afresh."""
        bases = [message.planned_on for message in messages if message.planned_on is not None]
        if not bases or replaced is not None:
            return None
        whole = set(self._schema.partition_keys) <= set(self._schema.primary_keys)
        return Planned(min(bases), frozenset(message.partition for message in messages) if whole else None)

    def _ignores_empty(self, identifier: int) -> bool:
        """Batch commits without files leave no snapshot; those of a stream do, for its identifier."""
        given = self._settings.ignore_empty
        if self._options[opt.IGNORE_EMPTY_COMMIT] is not None:
            given = self._options[opt.IGNORE_EMPTY_COMMIT]
        batch = identifier == BATCH_IDENTIFIER if given is None else bool(given)
        return batch and not self._options[opt.FORCE_SNAPSHOT]


def remove_files(store: Store, messages: Iterable[PaimonMessage], keep: Iterable[str] = ()) -> None:
    """Remove the files that the writers of messages made, but those named in `keep`; what cannot be removed stays for
    orphan cleaning."""
    kept = set(keep)
    paths: list[str] = []
    for message in messages:
        for file in message.written_files():
            if file.file_name not in kept:
                paths += [f"{message.folder}/{name}" for name in (file.file_name, *file.extra_files)]
        paths += [index_path(entry.file_name) for entry in message.written_index_files() if entry.file_name not in kept]
    with suppress(StorageError):
        store.delete_many(paths)


def _check_identifier(identifier: object) -> None:
    if isinstance(identifier, bool) or not isinstance(identifier, int) or not -(2**63) <= identifier < 2**63:
        raise UsageError(
            f"{identifier!r} cannot be a commit identifier", todo="Give whole numbers that grow from commit to commit"
        )


def _deletes(message: PaimonMessage) -> bool:
    """Whether an append replaces files or marks rows as deleted, which makes it an OVERWRITE."""
    return bool(message.deleted_files) or any(entry.index_type == DELETION_VECTORS for entry in message.new_index_files)


def _append_changes(messages: Sequence[PaimonMessage], indexes: tuple[IndexManifestEntry, ...]) -> Changes:
    return Changes(
        tuple(
            entry
            for message in messages
            for entry in (*_entries(DELETE, message, message.deleted_files), *_entries(ADD, message, message.new_files))
        ),
        tuple(entry for message in messages for entry in _entries(ADD, message, message.changelog_files)),
        (*(entry for message in messages for entry in message.new_index_files), *indexes),
        tuple(entry for message in messages for entry in message.deleted_index_files),
    )


def _compact_changes(messages: Sequence[PaimonMessage]) -> Changes:
    return Changes(
        tuple(
            entry
            for message in messages
            for entry in (
                *_entries(DELETE, message, message.compact_before),
                *_entries(ADD, message, message.compact_after),
            )
        ),
        tuple(entry for message in messages for entry in _entries(ADD, message, message.compact_changelog)),
        tuple(entry for message in messages for entry in message.compact_new_index_files),
        tuple(entry for message in messages for entry in message.compact_deleted_index_files),
    )


def _entries(kind: int, message: PaimonMessage, files: Sequence[DataFileMeta]) -> list[ManifestEntry]:
    return [ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file) for file in files]
