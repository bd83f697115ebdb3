"""One archiver at a time: by the lock file that the table's writers share, or else by a lease of our own.

Hudi's `FileSystemBasedLockProvider` locks a table by creating the file `lock`, in `.hoodie` or in the folder that an
option names, only if it is not there; it unlocks by deleting the file. Other kinds of lock (ZooKeeper, DynamoDB, the
Hive metastore, conditional writes) need clients of their own. They are refused; the caller may hold such a lock itself.

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

import functools
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
from lakebed.formats.hudi.archive.options import ARCHIVE_LOCK, LEASE_TIME, LOCK_FOLDER, LOCK_PROVIDER, LOCK_WAIT
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.files.age import store_now
from lakebed.kernel.options import Options
from lakebed.redaction import redacting_logger

LEASES = f"{HOODIE}/.lakebed"
"""The folder of leases. Hudi's engines do not look into it."""
_PREFIX = "archiver-"
_LOCK_FILE = "lock"
_POLL = 0.25
_COARSE = 2.0
"""How coarse the times of a store may be, in seconds."""
_IN_PROCESS = ("InProcessLockProvider", "NoopLockProvider")

_LOG = redacting_logger("lakebed.hudi")

StillHeld = Callable[[], None]
"""Raises CommitConflictError when the lock was lost. It is called before each step that others can see."""


@contextmanager
def archiver_lock(store: Store, options: Options) -> Iterator[StillHeld]:
    """Hold the lock during the block. CommitConflictError when another process holds it for longer than the options
    allow to wait, UnsupportedError for a kind of lock that lakebed has no client for."""
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
    created = clock.moment().strftime("%Y-%m-%d %H:%M:%S")
    mark = json.dumps({"lockCreateTime": created, "lockThreadName": f"lakebed {_token()}"})
    ends = clock.steady() + options[LOCK_WAIT] / 1000
    while store.put_if_absent(path, mark.encode()) is not PutOutcome.CREATED:
        if clock.steady() > ends:
            todo = "Try again when it is done; if that process died, remove the file by hand"
            raise _held_elsewhere(store, path, "another process holds the table's lock", todo)
        time.sleep(_POLL * random.uniform(0.5, 1.5))

    def is_ours() -> bool:
        try:
            return store.read(path) == mark.encode()
        except FileNotFoundError:
            return False

    def held() -> None:
        if not is_ours():  # Hudi's engine breaks a lock that is older than its own setting allows
            todo = "Nothing is lost: archive again"
            raise _held_elsewhere(store, path, "the table's lock was taken away from the archiver", todo)

    try:
        yield held
    finally:
        try:
            if is_ours():
                store.delete(path)
        except Exception as error:  # noqa: BLE001 - the instants are archived, whatever becomes of the lock
            _LOG.warning("%s: cannot release the lock %s, remove it by hand: %s", store.location, path, error)


def _inside(store: Store, folder: str) -> str:
    """The lock's folder as a path inside the table; UnsupportedError for one elsewhere."""
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
    """The error for a lock that somebody else holds, with the content of its file."""
    try:
        owner = store.read(path, 0, 300).decode("utf-8", "replace")
    except (OSError, StorageError):
        owner = ""
    return CommitConflictError(what, table=store.location, file=path, why=owner, todo=todo)


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
            raise _held_elsewhere(store, rival, "another archiver is at work on this table", todo)
        time.sleep(_POLL * random.uniform(0.5, 1.5))
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


@functools.cache
def _machine() -> str:
    """What tells this machine, or this container, from any other: its name, its boot, and its process namespace."""
    marks = [socket.gethostname()]
    with suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            marks.append(file.read().strip())
        marks.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(marks)


def _identity() -> dict[str, Any]:
    return {"owner": _machine(), "process": os.getpid()}


def _is_dead(owner: Mapping[str, Any], path: str) -> bool:
    """Whether the owner was a process of this machine that no longer runs."""
    process = owner.get("process")
    if owner.get("owner") != _machine() or not isinstance(process, int):
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
