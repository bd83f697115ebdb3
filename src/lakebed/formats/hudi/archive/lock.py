"""One archiver at a time: by the lock file that the table's writers share, or else by a lease of our own.

The lock file is the one of Hudi's `FileSystemBasedLockProvider` or `StorageBasedLockProvider` (`commit/lock.py`).
Other kinds of lock (ZooKeeper, DynamoDB, the Hive metastore) need clients of their own. They are refused; the caller
may hold such a lock itself.

A lease is a file of one owner. It says for how long it is valid after it was written. To take the lease, an archiver
writes its file and then looks for other valid ones; if there is one, it removes its own. Of two archivers that come at
the same time at least one sees the other, so there are never two holders. If both give way, both try again after
different waits.

The clocks of two machines are never compared. Whether another lease has ended is judged by the store's clock alone: it
stamped the file, and it stamps a new one to tell the time. How long the own lease is still valid is measured by a local
clock that never goes back. A holder checks before each step that its own file is still there, and stops if somebody
removed it.
"""

from __future__ import annotations

import json
import os
import random
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lakebed.errors import CommitConflictError, StorageError, UnsupportedError
from lakebed.formats.hudi.archive.options import ARCHIVE_LOCK, LEASE_TIME
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.formats.hudi.commit.lock import held_elsewhere, shared_lock
from lakebed.formats.hudi.commit.options import FILE_LOCK, IN_PROCESS, LOCK_WAIT, STORAGE_LOCK, provider_of
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel import clock
from lakebed.kernel.files import Store
from lakebed.kernel.files.age import store_now
from lakebed.kernel.machine import is_running, this_machine
from lakebed.kernel.options import Options

LEASES = f"{HOODIE}/.lakebed"
"""The folder of leases. Hudi's engines do not look into it."""
_PREFIX = "archiver-"
_POLL = 0.25
_COARSE = 2.0
"""How coarse the times of a store may be, in seconds."""


@contextmanager
def archiver_lock(store: Store, options: Options) -> Iterator[StillHeld]:
    """Hold the lock during the block. CommitConflictError when another process holds it for longer than the options
    allow to wait, UnsupportedError for a kind of lock that lakebed has no client for."""
    provider = provider_of(options)
    kind = options[ARCHIVE_LOCK]
    if kind == "none":
        yield _nothing
    elif kind == "lease" or not provider or provider in IN_PROCESS:
        with _lease(store, options) as held:
            yield held
    elif provider in (FILE_LOCK, STORAGE_LOCK):
        elsewhere = f"Put it below the table, or hold the lock yourself and set {ARCHIVE_LOCK.key}=none"
        lost = "Nothing is lost: archive again"
        with shared_lock(store, options, lost, elsewhere=elsewhere, retries=False) as held:
            yield held
    else:
        raise UnsupportedError(
            f"lakebed cannot take the lock {provider}",
            table=store.location,
            why="it has clients for locks that are files only",
            todo=f"Archive in the writer that uses this lock, or stop the writers and set {ARCHIVE_LOCK.key}=lease; a "
            f"caller that holds the lock itself sets {ARCHIVE_LOCK.key}=none",
        )


def _nothing() -> None:
    return None


# ---- our own lease ---------------------------------------------------------------------------------------------------


@dataclass
class _Lease:
    store: Store
    path: str
    seconds: float
    ends: float = 0.0
    """When it ends, by our steady clock."""

    def renew(self) -> None:
        """Write the file, from which moment on the lease counts again."""
        began = clock.steady()
        owner = {**_identity(), "seconds": self.seconds, "ends": clock.now() + self.seconds}
        self.store.write(self.path, json.dumps(owner).encode())
        self.ends = began + self.seconds

    def still_held(self) -> None:
        """Renew the lease in its second half. CommitConflictError when it ran out, or its file was removed."""
        left = self.ends - clock.steady()
        if left <= 0 or not self.store.exists(self.path):
            raise CommitConflictError(
                "the archiver's lease ran out",
                table=self.store.location,
                file=self.path,
                why="the run took longer than its lease, so another archiver may have begun",
                todo=f"Nothing is lost: archive again, with a longer {LEASE_TIME.key} if it is slow",
            )
        if left < self.seconds / 2:
            self.renew()


@contextmanager
def _lease(store: Store, options: Options) -> Iterator[StillHeld]:
    lease = _Lease(store, f"{LEASES}/{_PREFIX}{_token()}.json", options[LEASE_TIME] / 1000)
    _ours.add(lease.path)
    try:
        _acquire(lease, options)
        yield lease.still_held
    finally:
        _ours.discard(lease.path)
        with suppress(StorageError):  # a lease ends by itself
            store.delete(lease.path)


def _acquire(lease: _Lease, options: Options) -> None:
    store = lease.store
    ends = clock.steady() + options[LOCK_WAIT] / 1000
    rival = ""  # the first try only looks after it wrote: mostly there is nobody
    while True:
        if not rival:
            lease.renew()
            rival = _rival(store, lease)
            if not rival:
                return
            store.delete(lease.path)
        if clock.steady() > ends:
            todo = "Nothing was changed. Try again when it is done; the lease of a dead archiver ends by itself"
            raise held_elsewhere(store, rival, "another archiver is at work on this table", todo)
        clock.pause(_POLL * random.uniform(0.5, 1.5))
        rival = _rival(store, lease)


def _rival(store: Store, own: _Lease) -> str:
    """The file of another lease that has not ended, "" without one. Ended leases are removed on the way."""
    now: float | None = None
    for info in store.list(LEASES).files:
        if info.path == own.path or not info.name.startswith(_PREFIX):
            continue
        try:
            owner = json.loads(store.read(info.path))
            seconds = float(owner.get("seconds", own.seconds))  # earlier releases did not write it
            ended = _is_dead(owner, info.path)
            if not ended:
                now = store_now(store, LEASES) if now is None else now
                ended = now - store.modified(info.path) > seconds + _COARSE
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError, AttributeError):
            return info.path
        if not ended:
            return info.path
        store.delete(info.path)
    return ""


_ours: set[str] = set()
"""The leases that this process holds or wants to take."""


def _identity() -> dict[str, Any]:
    return {"owner": this_machine(), "process": os.getpid()}


def _is_dead(owner: Mapping[str, Any], path: str) -> bool:
    """Whether the owner was a process of this machine that no longer runs."""
    process = owner.get("process")
    if owner.get("owner") != this_machine() or not isinstance(process, int):
        return False
    if process == os.getpid():
        return path not in _ours
    return not is_running(process)


def _token() -> str:
    return secrets.token_hex(8)
