"""One archiver at a time: the lock that the table's writers share where it is a file, else a lease of our own.

Hudi's `FileSystemBasedLockProvider` claims `lock` in the folder `.hoodie` (or another one by option) by making the file
only if it is not there, and deletes it. Other kinds (ZooKeeper, DynamoDB, the Hive metastore, conditional writes) need
their own clients: they are refused, and the caller may hold such a lock itself.

The lease is a file of one owner with an end. Claiming it is to put the own file and then to look for others that still
hold: whoever sees one steps back. Of two that come at the same time at least one sees the other, so there are never
two holders; if both step back, both try again after different waits. Ends are compared by the machines' clocks.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lakebed.errors import CommitConflictError, StorageError, UnsupportedError
from lakebed.formats.hudi.layout import HOODIE
from lakebed.formats.hudi.options import ARCHIVE_LOCK, LEASE_TIME, LOCK_FOLDER, LOCK_PROVIDER, LOCK_WAIT
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.options import Options

LEASES = f"{HOODIE}/.lakebed"
"""The folder of leases; Hudi's engines do not look into it."""
_PREFIX = "archiver-"
_LOCK_FILE = "lock"
_POLL = 0.25
_IN_PROCESS = ("InProcessLockProvider", "NoopLockProvider")

StillHeld = Callable[[], None]
"""Raises CommitConflictError when the lock was lost; called before each step that others could see."""


@contextmanager
def archiver_lock(store: Store, options: Options) -> Iterator[StillHeld]:
    """Holds the lock for the block. CommitConflictError when another holds it longer than the wait that the options
    allow, UnsupportedError for a kind of lock that lakebed has no client for."""
    provider = options[LOCK_PROVIDER].rpartition(".")[2]
    kind = options[ARCHIVE_LOCK]
    if kind == "none":
        yield _nothing
    elif kind == "lease" or not provider or provider in _IN_PROCESS:
        with _lease(store, options) as held:
            yield held
    elif provider == "FileSystemBasedLockProvider":
        with _lock_file(store, options) as held:
            yield held
    else:
        raise UnsupportedError(
            f"lakebed cannot take the lock {provider}",
            table=store.location,
            why="it has clients for file system locks only",
            todo=f"Archive in the writer that uses this lock, or stop the writers and set {ARCHIVE_LOCK.key}=lease; a "
            f"caller that holds the lock itself sets {ARCHIVE_LOCK.key}=none",
        )


def _nothing() -> None:
    return None


# ---- Hudi's lock file ------------------------------------------------------------------------------------------------


@contextmanager
def _lock_file(store: Store, options: Options) -> Iterator[StillHeld]:
    path = f"{_inside(store, options[LOCK_FOLDER]) or HOODIE}/{_LOCK_FILE}"
    mark = json.dumps({"lockCreateTime": time.strftime("%Y-%m-%d %H:%M:%S"), "lockThreadName": f"lakebed {_token()}"})
    ends = time.monotonic() + options[LOCK_WAIT] / 1000
    while store.put_if_absent(path, mark.encode()) is not PutOutcome.CREATED:
        if time.monotonic() > ends:
            todo = "Try again when it is done; if that process died, remove the file by hand"
            raise _held_elsewhere(store, path, "another process holds the table's lock", todo)
        time.sleep(_POLL * random.uniform(0.5, 1.5))
    try:
        yield _nothing  # such a lock has no end
    finally:
        store.delete(path)


def _inside(store: Store, folder: str) -> str:
    """The lock's folder as a path in the table; UnsupportedError for one elsewhere."""
    if not folder:
        return ""
    root = store.location.rstrip("/")
    plain = folder.removeprefix("file:").rstrip("/")
    plain = "/" + plain.lstrip("/") if folder.startswith("file:") else plain
    if plain == root or plain.startswith(f"{root}/"):
        return plain[len(root) + 1 :]
    raise UnsupportedError(
        f"the lock's folder {folder} is not in the table",
        table=store.location,
        todo=f"Put it below the table, or hold the lock yourself and set {ARCHIVE_LOCK.key}=none",
    )


def _held_elsewhere(store: Store, path: str, what: str, todo: str) -> CommitConflictError:
    """The error for a lock that somebody else holds, with what its file says."""
    try:
        said = store.read(path, 0, 300).decode("utf-8", "replace")
    except (OSError, StorageError):
        said = ""
    return CommitConflictError(what, table=store.location, file=path, why=said, todo=todo)


# ---- our own lease ---------------------------------------------------------------------------------------------------


@dataclass
class _Lease:
    store: Store
    path: str
    seconds: float
    ends: float = 0.0

    def renew(self) -> None:
        self.ends = time.time() + self.seconds
        owner = {"owner": socket.gethostname(), "process": os.getpid(), "ends": self.ends}
        self.store.write(self.path, json.dumps(owner).encode())

    def still_held(self) -> None:
        """Renews in the second half of the lease; a lease that ran out, or was taken away, is lost."""
        left = self.ends - time.time()
        if left <= 0 or (left < self.seconds / 2 and not self.store.exists(self.path)):
            raise CommitConflictError(
                "the archiver's lease ran out",
                table=self.store.location,
                file=self.path,
                why="the run took longer than its lease, so that another archiver may have begun",
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
        with suppress(StorageError):  # it ends by itself
            store.delete(lease.path)


def _acquire(lease: _Lease, options: Options) -> None:
    store = lease.store
    ends = time.monotonic() + options[LOCK_WAIT] / 1000
    while True:
        rival = _rival(store, lease.path)
        if not rival:
            lease.renew()
            rival = _rival(store, lease.path)
            if not rival:
                return
            store.delete(lease.path)
        if time.monotonic() > ends:
            todo = "Nothing was changed. Try again when it is done; a dead one's lease ends by itself"
            raise _held_elsewhere(store, rival, "another archiver is at work on this table", todo)
        time.sleep(_POLL * random.uniform(0.5, 1.5))


def _rival(store: Store, own: str) -> str:
    """The lease file of somebody else that has not ended, "" without one; ended ones are removed on the way."""
    for info in store.list(LEASES).files:
        if info.path == own or not info.name.startswith(_PREFIX):
            continue
        try:
            owner = json.loads(store.read(info.path))
            held = float(owner["ends"]) > time.time() and not _is_dead(owner, info.path)
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            return info.path
        if held:
            return info.path
        store.delete(info.path)
    return ""


_ours: set[str] = set()
"""The leases that this process holds or wants."""


def _is_dead(owner: Mapping[str, Any], path: str) -> bool:
    """Whether the owner was a process of this machine that is no more."""
    process = owner.get("process")
    if owner.get("owner") != socket.gethostname() or not isinstance(process, int):
        return False
    if process == os.getpid():
        return path not in _ours
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _token() -> str:
    return secrets.token_hex(8)
