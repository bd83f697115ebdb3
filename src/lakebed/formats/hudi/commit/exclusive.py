"""One lakebed writer at a time chooses an instant, takes failed ones back, or completes one.

A file that is put if absent is the lock. It is held for these moments only, never while data files are written. A
holder that died holds nobody up: on its own machine its process is looked for, elsewhere the store's clock tells how
old the file is. Hudi's own writers do not know this lock: where they write the same table at the same time, the table
needs a lock that all of them share.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakebed.errors import CommitConflictError, LakebedError
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.files.age import store_now

_FOLDER = f"{HOODIE}/.lakebed"
_FILE = f"{_FOLDER}/writer.lock"
_WAIT = 60.0
"""How many seconds a writer waits for another one, and after how many a holder on another machine counts as dead."""
_POLL = 0.02
_ours: set[str] = set()
"""The tokens of locks that this process holds."""
_deciding = threading.Lock()


@contextmanager
def exclusive(store: Store) -> Iterator[None]:
    """Hold the lock in the block. CommitConflictError when another writer holds it for too long."""
    token = secrets.token_hex(8)
    mark = json.dumps({"machine": _machine(), "process": os.getpid(), "token": token}).encode()
    ends = clock.steady() + _WAIT
    _ours.add(token)
    try:
        while store.put_if_absent(_FILE, mark) is not PutOutcome.CREATED:
            if _holds(store, mark):
                break
            with _deciding:
                if _took_over(store, mark):
                    continue
            if clock.steady() > ends:
                raise CommitConflictError(
                    "another writer is choosing or completing an instant",
                    table=store.location,
                    file=_FILE,
                    todo="Write again; remove the file by hand if that writer has died",
                )
            time.sleep(_POLL * random.uniform(0.5, 1.5))
        try:
            yield
        finally:
            with suppress(LakebedError, OSError):
                if store.read(_FILE) == mark:
                    store.delete(_FILE)
    finally:
        _ours.discard(token)


def _holds(store: Store, mark: bytes, path: str = _FILE) -> bool:
    """Whether a file is ours, though the store did not say so."""
    try:
        return store.read(path) == mark
    except FileNotFoundError:
        return False


def _took_over(store: Store, mark: bytes) -> bool:
    """Remove the lock of a holder that died. False where it is alive, or the lock is free by now.

    Who removes it is claimed under a name that only the dead holder's lock has. So of several that find it dead one
    removes it, and nobody removes the lock of whoever comes next.
    """
    try:
        content = store.read(_FILE)
    except FileNotFoundError:
        return False
    if not _is_dead(store, _FILE, content):
        return False
    claim = f"{_FILE}.{hashlib.sha256(content).hexdigest()[:16]}"
    if store.put_if_absent(claim, mark) is not PutOutcome.CREATED and not _holds(store, mark, claim):
        with suppress(FileNotFoundError):
            if _is_dead(store, claim, store.read(claim)):
                store.delete(claim)
        return False
    with suppress(FileNotFoundError):
        if store.read(_FILE) == content:
            store.delete(_FILE)
    store.delete(claim)
    return True


def _is_dead(store: Store, path: str, content: bytes) -> bool:
    """Whether the holder that wrote a file has died."""
    try:
        owner = json.loads(content)
        if owner["machine"] != _machine():
            return store_now(store, _FOLDER) - store.modified(path) > _WAIT
        process, token = int(owner["process"]), owner["token"]
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        return True
    if process == os.getpid():
        return token not in _ours
    with suppress(PermissionError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
    return False


@functools.cache
def _machine() -> str:
    """What tells this machine, or this container, from any other."""
    marks = [socket.gethostname()]
    with suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            marks.append(file.read().strip())
        marks.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(marks)
