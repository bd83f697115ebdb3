"""Read tasks in threads and hand their batches to one consumer, with a bounded number of batches in between."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")
_POLL_SECONDS = 0.1


def interleave(
    read: Callable[[T], Iterator[pa.RecordBatch]], tasks: Sequence[T], threads: int, depth: int = 4
) -> Iterator[pa.RecordBatch]:
    """The batches of all tasks, read by `threads` threads. Those of one task stay in order, tasks interleave.

    At most `depth` batches per thread wait for the consumer, so memory is bounded by what the running tasks hold. An
    error of a task is raised here. Closing the iterator stops the threads.
    """
    if threads <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield from read(task)
        return
    yield from _Pump(read, tasks, min(threads, len(tasks)), depth)


class _Pump:
    """Threads that take one task after the other and put its batches into a bounded queue."""

    def __init__(
        self, read: Callable[[T], Iterator[pa.RecordBatch]], tasks: Sequence[T], threads: int, depth: int
    ) -> None:
        self._read, self._tasks = read, iter(tasks)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._queue: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(threads * depth)
        self._threads = [
            threading.Thread(target=self._work, name=f"lakebed-read-{n}", daemon=True) for n in range(threads)
        ]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        running = len(self._threads)
        try:
            for thread in self._threads:
                thread.start()
            while running:
                item = self._queue.get()
                if item is None:
                    running -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield item
        finally:
            self._stop.set()
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join()

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                with self._lock:
                    task = next(self._tasks, None)
                if task is None:
                    break
                for batch in self._read(task):
                    if not self._put(batch):
                        return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            self._put(error)

    def _put(self, item: pa.RecordBatch | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False
