"""How old files are, by the clock that stamps them.

A file's time is the store's (a server's, or the disk's), and this machine's clock may be off. So before something goes
for its age the store is asked what time it is: by a file that is made for it, looked at and removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from lakebed.errors import RetryableError, StorageError
from lakebed.kernel import clock
from lakebed.kernel.files.store import Store

PROBE = "lakebed-clock"
"""The name of the file that is made to see the store's time; one name, so that the next look removes what a crash
left."""
_TRIES = 5
_AGREE_SECONDS = 60.0


def store_now(store: Store, folder: str) -> float:
    """Seconds since 1970 by the store's clock; some stores cut them to whole seconds. Writes a small file into
    `folder` and removes it."""
    path = f"{folder}/{PROBE}" if folder else PROBE
    for _ in range(_TRIES):
        store.write(path, b"what time is it?")
        with suppress(FileNotFoundError):  # another process has just seen the time, and removed it
            time = store.modified(path)
            with suppress(StorageError):
                store.delete(path)
            return time
    raise RetryableError("cannot see the store's time", table=store.location, file=path, todo="Try again")


def certain_now(store: Store, folder: str) -> float:
    """A time that is not ahead of the store's: this machine's clock, or the store's where ours is more than a minute
    ahead of it. For deciding that something is old enough to go."""
    here, there = clock.now(), store_now(store, folder)
    return here if here - there <= _AGREE_SECONDS else there


def older_than(store: Store, paths: Iterable[str], moment: float) -> list[str]:
    """Those files that were last written before a time in seconds since 1970; files that are gone are left out."""
    old: list[str] = []
    for path in paths:
        with suppress(FileNotFoundError):
            if store.modified(path) < moment:
                old.append(path)
    return old
