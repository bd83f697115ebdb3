"""Waiting is not computing: threads that wait for a store leave their processor to others.

A thread that decodes or encodes holds one of as many permits as there are processors. While a request of it is under
way it gives the permit back. So many more threads than processors can be at work on a remote table, and the processors
do not fight over the work.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache

_held = threading.local()


@contextmanager
def computing(processors: threading.Semaphore) -> Iterator[None]:
    """A block that computes: it holds a permit, except in its `waiting` blocks."""
    processors.acquire()
    _held.permits = processors
    try:
        yield
    finally:
        _held.permits = None
        processors.release()


@contextmanager
def waiting() -> Iterator[None]:
    """A block that waits for something other than a processor. The permit of the thread, if it has one, is free
    meanwhile."""
    permits: threading.Semaphore | None = getattr(_held, "permits", None)
    if permits is None:
        yield
        return
    _held.permits = None
    permits.release()
    try:
        yield
    finally:
        permits.acquire()
        _held.permits = permits


def one_of_many() -> bool:
    """Whether this thread is one of those that `computing` lets in, so many others are at work beside it."""
    return getattr(_held, "permits", None) is not None


class Budget:
    """Bytes that may be in flight at once. Safe for threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free = limit
        self._changed = threading.Condition()

    def take(self, size: int, force: bool = False) -> bool:
        """Take bytes if so many are free, or in any case with `force`. Whether they were taken."""
        with self._changed:
            if self._free < size and not force:
                return False
            self._free -= size
            return True

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._changed:
            self._free += size
            self._changed.notify_all()


@lru_cache
def budget(limit: int) -> Budget:
    """The process's budget of that many bytes, shared by all stores that have the same bound."""
    return Budget(limit)


class _Count:
    """A number that threads add to."""

    def __init__(self) -> None:
        self.number, self._lock = 0, threading.Lock()

    def add(self) -> None:
        with self._lock:
            self.number += 1


_made = _Count()


class Slots:
    """Permits for so many requests at once. A block that holds one makes a request, and is counted."""

    def __init__(self, requests: int) -> None:
        self._free = threading.BoundedSemaphore(requests)

    def __enter__(self) -> None:
        self._free.acquire()
        _made.add()

    def __exit__(self, *_: object) -> None:
        self._free.release()


@lru_cache
def slots(requests: int) -> Slots:
    """The process's permits for so many requests at once, shared by all stores that have the same bound."""
    return Slots(requests)


def requests_made() -> int:
    """How many requests this process has made of object stores so far. What the client repeats by itself is not in."""
    return _made.number


@lru_cache
def request_threads(requests: int) -> ThreadPoolExecutor:
    """The process's threads that wait for requests which somebody will want the answer of. They never wait for each
    other."""
    return ThreadPoolExecutor(requests, "lakebed-request")


@lru_cache
def hedge_threads(requests: int) -> ThreadPoolExecutor:
    """The process's threads for reads that may be asked twice. A thread for requests waits for them."""
    return ThreadPoolExecutor(2 * requests, "lakebed-hedge")


def _after_fork() -> None:
    """A forked process starts with nothing in flight, and has made no request: the threads of its parent are not in it,
    and one of them may have held a lock."""
    global _made
    _made = _Count()
    budget.cache_clear()
    slots.cache_clear()
    request_threads.cache_clear()
    hedge_threads.cache_clear()
    _held.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
