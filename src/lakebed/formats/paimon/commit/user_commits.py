"""Which commits of a user are in the table: its snapshots tell, and where these have expired, the files of messages.

Rule for snapshots: Paimon's FileStoreCommitImpl.filterCommitted. A user's newest one names its last identifier.

Two processes of one user may commit the same messages, as when a job is started again while its first driver still
hangs. The second one knows the first one's snapshot by its user and identifier. If that has expired, it looks for the
files: those that the table has are committed, and those that are gone were committed and compacted since, or given up.
Paimon's engines do not look, and name files that are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from lakebed.errors import CommitUnknownError, NotInHistoryError, RetryableError
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.succession import was_left_behind
from lakebed.formats.paimon.journal import condemned
from lakebed.formats.paimon.manifests import index_files, live_files
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.again import LOOKS
from lakebed.kernel.arrays import Bools, Int64s

_DAY = 24 * 60 * 60 * 1000


class LookBack(NamedTuple):
    """The newest snapshot that was wanted, and whether all were seen down to it, or to the last one to look at."""

    found: Snapshot | None
    is_whole: bool


def look_back(history: History, after: int, latest: Snapshot | None, is_wanted: Callable[[Snapshot], bool]) -> LookBack:
    """Look for a snapshot among those with an id above `after`, from the latest one on."""
    last = latest.id + 1 if latest is not None else after + 1
    is_whole = True
    for snapshot in history.backwards(after, latest):
        is_whole, last = is_whole and snapshot.id == last - 1, snapshot.id
        if is_wanted(snapshot):
            return LookBack(snapshot, is_whole)
    return LookBack(None, is_whole and last <= after + 1)


class CommitsOfUser:
    """The identifiers that one user has committed to a branch, as far as snapshots show. Each snapshot is read once."""

    def __init__(self, history: History, user: str) -> None:
        self._history, self._user = history, user
        self._seen_until = 0
        self._last: int | None = None
        self.may_have_more = False
        """Whether a snapshot that expired before it was seen may have a later identifier."""

    def has(self, identifier: int, latest: Snapshot | None) -> bool:
        """Whether the user has committed an identifier or a later one, by the snapshots up to `latest`."""
        if latest is not None and latest.id > self._seen_until:
            last, is_whole = look_back(
                self._history, self._seen_until, latest, lambda one: one.commit_user == self._user
            )
            follows = last is not None and 0 < self._seen_until >= last.id - 1  # as this process's own commits do
            if last is not None and (follows or not was_left_behind(self._history, last)):
                self._last, self.may_have_more = last.commit_identifier, False
            self.may_have_more |= not is_whole
            self._seen_until = latest.id
        return self._last is not None and identifier <= self._last


def was_unseen(history: History, messages: Sequence[PaimonMessage]) -> bool:
    """Whether a snapshot that has expired had files of messages.

    Such a file is in the oldest snapshot, or was removed by one that has expired too. Then a tag may hold it.
    Raises CommitUnknownError where none of these has any, and a file is gone or an expiry is about to remove it.
    """
    for _ in range(LOOKS):
        with suppress(NotInHistoryError):  # a snapshot or tag went while it was looked at
            if _is_held(history, messages):
                return True
            lost = _first_lost(history, messages)
            if lost is not None:
                raise outcome_unknown(history, lost)
            return False
    raise RetryableError(
        "cannot tell whether this commit is in the table already",
        table=history.store.location,
        why=f"snapshots expired while they were read, {LOOKS} times",
        todo="Try again",
    )


def _is_held(history: History, messages: Sequence[PaimonMessage]) -> bool:
    """Whether the oldest snapshot has a file of messages, or an older one that a tag keeps."""
    store, ids = history.store, set(history.snapshot_ids())
    oldest = max((number for number in ids if number - 1 not in ids), default=None)  # before it, only late ones are
    appended = {name for message in messages for name in message.appended_names}
    touched = {(message.partition, message.bucket) for message in messages}

    def keep(partitions: Sequence[bytes], buckets: Int64s) -> Bools:
        return np.array([place in touched for place in zip(partitions, buckets.tolist(), strict=True)], np.bool_)

    def has_files(snapshot: Snapshot) -> bool:
        names = {entry.file.file_name for entry in live_files(store, snapshot, keep)}
        return not appended.isdisjoint(names | {entry.file_name for entry in index_files(store, snapshot)})

    if oldest is None:
        return False
    return any(map(has_files, (history.snapshot(oldest), *_tagged_before(history, messages, oldest))))


def outcome_unknown(history: History, path: str) -> CommitUnknownError:
    """The error for messages that may have been committed, where one of their files is gone."""
    return CommitUnknownError(
        "files of this commit are gone, and so are the snapshots that may have had them",
        table=history.store.location,
        file=path,
        why="another process of this user may have committed the same messages, and snapshots have expired since",
        todo="Look whether the rows are in the table. If they are not, write them again from their source, under a new "
        "identifier",
    )


def _tagged_before(history: History, messages: Sequence[PaimonMessage], oldest: int) -> list[Snapshot]:
    """The snapshots, before the oldest one, that tags keep, without those that are older than the messages by more than
    clocks may differ."""
    times = [file.creation_time or 0 for message in messages for file in message.new_files]
    since = min(times, default=0) - _DAY
    return [one for one in history.tagged().values() if one.id < oldest and one.time_millis >= since]


def _first_lost(history: History, messages: Sequence[PaimonMessage]) -> str | None:
    """A file of messages that is gone, or that an expiry has on its list. Lists are read first: an expiry writes its
    own before snapshots go, and removes it when the files are gone."""
    store = history.store
    going = condemned(store)
    paths = [f"{m.folder}/{name}" for m in messages for file in m.written_files() for name in file.names]
    for path, is_there in zip(paths, store.together(store.exists, paths), strict=True):
        if path in going or not is_there:
            return path
    return None
