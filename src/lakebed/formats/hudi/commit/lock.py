"""Hudi's lock file, which all writers of a table share, whatever engine they use.

Hudi's `FileSystemBasedLockProvider` locks a table by creating the file `lock`, in `.hoodie` or in the folder that an
option names, only if it is not there; it unlocks by deleting the file. The releases delete it once more right after
that, when their `LockManager` closes the provider: a lock file that another writer made in between is deleted with it.
So lakebed holds a lock only once its file is still there a moment later. Where an option says so, a file that is older
than some minutes is abandoned, and whoever waits removes it. A lock file of lakebed also says which process made it, so
that on one machine the lock of a process that was killed is free at once. lakebed's processes remove an abandoned one
under their own lock (`exclusive.py`), so that they do not remove each other's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakebed.errors import CommitConflictError, StorageError
from lakebed.formats.hudi.commit.exclusive import StillHeld, exclusive
from lakebed.formats.hudi.commit.options import (
    LOCK_EXPIRE,
    LOCK_RETRIES,
    LOCK_RETRY_WAIT,
    LOCK_WAIT,
    STORAGE_LOCK,
    lock_folder,
    provider_of,
)
from lakebed.formats.hudi.commit.storage_lock import storage_lock
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.machine import Holder, is_gone
from lakebed.kernel.options import Options
from lakebed.redaction import redacting_logger

_LOCK_FILE = "lock"
_POLL = 0.25
_SETTLED = 0.05
"""Seconds after which a release has deleted a lock file for the second time."""
_LOOKS = 8
"""How often a waiting process asks for the lock before it looks whether it was abandoned."""
_LOG = redacting_logger("lakebed.hudi")


@dataclass(frozen=True, slots=True)
class LockFile:
    """Where a table's lock file is, how long to wait for it, and when it is abandoned. `minutes` is 0 for never."""

    path: str
    wait: float
    minutes: int = 0

    @classmethod
    def of(cls, store: Store, options: Options, *, elsewhere: str, retries: bool = True) -> LockFile:
        """From the options of commits. UnsupportedError for a folder that is not in the table; `elsewhere` says what to
        do then. With `retries` the wait is that of Hudi's `LockManager`, as far as it is longer."""
        path = f"{lock_folder(store.location, options, elsewhere)}/{_LOCK_FILE}"
        wait = options[LOCK_WAIT]
        if retries and not options.given(LOCK_WAIT):
            wait = max(wait, options[LOCK_RETRIES] * options[LOCK_RETRY_WAIT])
        return cls(path, wait / 1000, options[LOCK_EXPIRE])


@contextmanager
def shared_lock(
    store: Store, options: Options, lost: str, *, elsewhere: str, retries: bool = True
) -> Iterator[StillHeld]:
    """Hold the lock that the options name, of those that engines share, during the block: the lock file, or the storage
    lock (`storage_lock.py`). `lost` says what to do when the lock was taken away. Raises as `LockFile.of` and both
    locks do."""
    if provider_of(options) == STORAGE_LOCK:
        with storage_lock(store, options, lost) as held:
            yield held
    else:
        with lock_file(store, LockFile.of(store, options, elsewhere=elsewhere, retries=retries), lost) as held:
            yield held


@contextmanager
def lock_file(store: Store, lock: LockFile, lost: str) -> Iterator[StillHeld]:
    """Hold Hudi's lock file during the block. `lost` says what to do when the lock was taken away.

    CommitConflictError when another process holds it for longer than may be waited.
    """
    path, holder = lock.path, Holder()
    created = clock.moment().strftime("%Y-%m-%d %H:%M:%S")
    mark = holder.mark({"lockCreateTime": created, "lockThreadName": f"lakebed {holder.token}"})

    def is_ours() -> bool:
        return _read(store, path) == mark

    def held() -> None:
        if not is_ours():  # Hudi's engine breaks a lock that is older than its own setting allows
            raise held_elsewhere(store, path, "the table's lock was taken away", lost)

    with holder:
        _acquire(store, lock, mark)
        try:
            yield held
        finally:
            try:
                if is_ours():
                    store.delete(path)
            except Exception as error:  # noqa: BLE001 - what was done under the lock stands, whatever becomes of it
                _LOG.warning("%s: cannot release the lock %s, remove it by hand: %s", store.location, path, error)


def _acquire(store: Store, lock: LockFile, mark: bytes) -> None:
    ends, tries = clock.steady() + lock.wait, 0
    while True:
        outcome = store.put_if_absent(lock.path, mark)
        if outcome is PutOutcome.CREATED:
            clock.pause(_SETTLED)
        other = _read(store, lock.path)
        if outcome is not PutOutcome.EXISTS and other == mark:
            return
        if tries % _LOOKS == 0 and other and _abandoned(store, lock, other):
            with exclusive(store):
                if _read(store, lock.path) == other and _abandoned(store, lock, other):
                    _LOG.warning("%s: the lock %s was abandoned, it is removed", store.location, lock.path)
                    store.delete(lock.path)
            tries += 1
            continue
        tries += 1
        if clock.steady() > ends:
            todo = "Try again when it is done; if that process died, remove the file by hand"
            raise held_elsewhere(store, lock.path, "another process holds the table's lock", todo)
        clock.pause(_POLL * random.uniform(0.5, 1.5))


def _abandoned(store: Store, lock: LockFile, mark: bytes) -> bool:
    """Whether the process that made a lock file is gone, or the file is older than an option allows."""
    if is_gone(mark):
        return True
    if not lock.minutes:
        return False
    try:
        return certain_now(store, f"{HOODIE}/.lakebed") - store.modified(lock.path) > lock.minutes * 60
    except FileNotFoundError:
        return False


def _read(store: Store, path: str) -> bytes:
    try:
        return store.read(path)
    except FileNotFoundError:
        return b""


def held_elsewhere(store: Store, path: str, what: str, todo: str) -> CommitConflictError:
    """The error for a lock that somebody else holds, with the content of its file."""
    try:
        owner = store.read(path, 0, 300).decode("utf-8", "replace")
    except (OSError, StorageError):
        owner = ""
    return CommitConflictError(what, table=store.location, file=path, why=owner, todo=todo)
