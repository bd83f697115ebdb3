"""The engine that runs tasks. It has one method, and no other code knows which engine it runs on."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Runs one function on many tasks, wherever it does."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        ...

    def map(self, fn: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results in the order of the tasks. Nothing runs before the first result is asked for.

        `fn` and the tasks must be picklable, and `fn` may run more than once for a task. The first error of a task ends
        the iteration: no further task starts, and those that are running are waited for.
        """
        ...


@runtime_checkable
class MaybeNear(Protocol):
    """An engine whose tasks may run on this machine's processors, in other processes."""

    def in_this_process(self) -> LocalEngine | None:
        """Threads for the same processors; None where the tasks run on other machines."""
        ...


def nearest(engine: Engine) -> Engine:
    """The engine to run whole files of work on: threads of this process where the tasks of the given one would run on
    this machine too. To hand a job to other processes then only costs."""
    return (engine.in_this_process() if isinstance(engine, MaybeNear) else None) or engine


class LocalEngine:
    """The default engine: a thread pool in this process. It needs no JVM and starts at once.

    `threads` is how many tasks run at once, by default one per processor. Arrow and the storage client release the GIL,
    so threads are enough.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and (not isinstance(threads, int) or threads < 1):
            raise ValueError(f"threads is {threads!r}: expected a whole number of at least 1")
        self._threads = threads or os.cpu_count() or 1

    @property
    def parallelism(self) -> int:
        """The number of threads."""
        return self._threads

    def map(self, fn: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results in the order of the tasks. At most two per thread are running or waiting to be taken. A task that
        is the only one runs in the caller's own thread."""
        rest = iter(tasks)
        first = [*itertools.islice(rest, 2)]
        if len(first) < 2:
            yield from map(fn, first)
            return
        pending: deque[Future[R]] = deque()
        failed = threading.Event()

        def work(task: T) -> R:
            if failed.is_set():
                raise CancelledError  # nobody sees it: the error of the failed task comes first
            try:
                return fn(task)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(self._threads, thread_name_prefix="lakebed") as pool:
            try:
                for task in itertools.chain(first, rest):
                    pending.append(pool.submit(work, task))
                    if failed.is_set():
                        break
                    if len(pending) >= 2 * self._threads:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()
