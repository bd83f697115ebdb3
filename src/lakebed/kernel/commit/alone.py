"""One run at a time: a lock of this machine that nobody waits for, such as for two runs of cron on one table.

It spares work and guards nothing: what is committed stays right without it. So where a machine has no such locks, or
the lock cannot be made, everybody is alone. The system takes a lock back when its holder dies.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakebed.kernel.commit import turns

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]


@contextmanager
def alone(purpose: str, place: str) -> Iterator[bool]:
    """A block that is the only one of this user on this machine for a purpose and a place (a location or name).

    Yields False at once where another one is under way, and the block then has no lock.
    """
    lock = _opened(purpose, place)
    if lock is None:
        yield True
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            yield True
            return
        yield True
    finally:
        with suppress(OSError):
            os.close(lock)


def _opened(purpose: str, place: str) -> int | None:
    """The descriptor of the lock's file, which stays for the next run. None where there can be none."""
    if fcntl is None:
        return None
    name = f"{purpose}-{hashlib.sha256(place.encode()).hexdigest()[:32]}"
    try:
        return os.open(f"{turns.lock_folder()}/{name}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
