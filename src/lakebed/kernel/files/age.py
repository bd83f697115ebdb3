"""How old files are, by the clock that stamped them.

The time of a file is the store's (a server's, or the disk's), and this machine's clock may differ. So before anything
is deleted for its age, we ask the store for its time: we write a small file, look at its time, and remove it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from lakebed.errors import RetryableError, StorageError
from lakebed.kernel import clock
from lakebed.kernel.files.store import Store

PROBE = "lakebed-clock"
"""The name of the file that shows the store's time. It is always the same, so the next look removes what a crash
left."""
_TRIES = 5
_AGREE_SECONDS = 60.0


def store_now(store: Store, folder: str) -> float:
    """Seconds since 1970 by the store's clock; some stores give whole seconds only.

    Writes a small file into `folder` and removes it. RetryableError when the store's time cannot be seen.
    """
    path = f"{folder}/{PROBE}" if folder else PROBE
    for _ in range(_TRIES):
        store.write_briefly(path, b"what time is it?")
        with suppress(FileNotFoundError):  # another process looked at the time too, and removed the file
            time = store.modified(path)
            with suppress(StorageError):
                store.delete(path)
            return time
    raise RetryableError("cannot see the store's time", table=store.location, file=path, todo="Try again")


def certain_now(store: Store, folder: str) -> float:
    """A time that is not ahead of the store's, for deciding what is old enough to be deleted.

    It is this machine's clock, or the store's where ours is more than a minute ahead.
    """
    ours, stores = clock.now(), store_now(store, folder)
    return ours if ours - stores <= _AGREE_SECONDS else stores


def older_than(store: Store, paths: Iterable[str], moment: float) -> list[str]:
    """The files that were last written before a time in seconds since 1970. Files that are gone are left out."""

    def is_old(path: str) -> bool:
        try:
            return store.modified(path) < moment
        except FileNotFoundError:
            return False

    paths = [*paths]
    return [path for path, old in zip(paths, store.together(is_old, paths), strict=True) if old]
