"""Read tasks in threads and hand their batches to one consumer, with a bounded number of batches in between."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import TypeVar

import pyarrow as pa

from lakebed.kernel.files.waiting import computing, waiting

T = TypeVar("T")
_POLL_SECONDS = 0.1
_DEPTH = 2


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many tasks may be open at once while they wait for requests, and how many bytes these may have together.

    On a disk a task that waits keeps its processor, so there it is one task per thread that decodes: `Overlap()`.
    """

    at_once: int = 1
    in_flight: int = 256 << 20


def interleave(
    read: Callable[[T], Iterator[pa.RecordBatch]],
    tasks: Sequence[T],
    threads: int,
    overlap: Overlap = Overlap(),
    sizes: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The batches of all tasks. Those of one task stay in order, tasks interleave.

    `threads` tasks are decoded at once. With an `overlap` more tasks are open, of which the others wait for requests:
    as many as it allows, while their `sizes` in bytes stay within its bound, but at least `threads`. A few batches per
    thread wait for the consumer, so memory is bounded by what the open tasks hold. An error of a task is raised here.
    Closing the iterator stops the threads.
    """
    lanes = min(max(threads, _open_at_once(overlap, tasks, sizes)), len(tasks))
    if lanes <= 1:
        for task in tasks:
            yield from read(task)
        return
    sized = zip(tasks, repeat(0) if sizes is None else sizes, strict=False)
    yield from _Pump(read, sized, threads, lanes, _Admission(threads, overlap.in_flight))


def interleave_stream(
    read: Callable[[T], Iterator[pa.RecordBatch]],
    sized: Iterator[tuple[T, int]],
    threads: int,
    overlap: Overlap = Overlap(),
) -> Iterator[pa.RecordBatch]:
    """As `interleave`, of tasks that come with their sizes one by one, and are more than can be open at once."""
    lanes = max(threads, overlap.at_once)
    return iter(_Pump(read, sized, threads, lanes, _Admission(threads, overlap.in_flight)))


def _open_at_once(overlap: Overlap, tasks: Sequence[T], sizes: Sequence[int] | None) -> int:
    """How many tasks can be open at once. More threads would do no more, and each keeps memory of its own."""
    if overlap.at_once <= 1:
        return overlap.at_once
    smallest = accumulate(sorted(sizes) if sizes is not None else [0] * len(tasks))
    return min(overlap.at_once, sum(1 for together in smallest if together <= overlap.in_flight))


class _Admission:
    """Lets a task begin when its bytes fit beside those of the open tasks, or when fewer than `least` are open."""

    def __init__(self, least: int, limit: int) -> None:
        self._least, self._limit = least, limit
        self._open = self._bytes = 0
        self._changed = threading.Condition()

    def enter(self, size: int, stop: threading.Event) -> bool:
        """Wait until a task of so many bytes may begin. False when all was stopped meanwhile."""
        with self._changed:
            while self._open >= self._least and self._bytes + size > self._limit:
                if stop.is_set():
                    return False
                self._changed.wait(_POLL_SECONDS)
            self._open += 1
            self._bytes += size
            return True

    def leave(self, size: int) -> None:
        """A task of so many bytes has ended."""
        with self._changed:
            self._open -= 1
            self._bytes -= size
            self._changed.notify_all()


class _Pump:
    """Threads that take one task after the other and put its batches into a bounded queue."""

    def __init__(
        self, read: Callable[[T], Iterator[pa.RecordBatch]], sized: Iterator[tuple[T, int]], threads: int, lanes: int,
        admission: _Admission,
    ) -> None:  # fmt: skip
        self._read, self._admission, self._tasks = read, admission, sized
        self._decoding, self._processors = threads, threading.Semaphore(threads)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._queue: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(threads * _DEPTH)
        self._threads = [
            threading.Thread(target=self._work, name=f"lakebed-read-{n}", daemon=True) for n in range(lanes)
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
            while not self._stop.is_set() and self._read_next():
                pass
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            self._put(error)

    def _read_next(self) -> bool:
        """Read the next task. False when there is none."""
        with self._lock:  # admitted in their order: a large task is not passed by small ones for ever
            following = next(self._tasks, None)
            if following is None:
                return False
            task, size = following
            if not self._admission.enter(size, self._stop):
                return False
        try:
            with computing(self._processors):
                for batch in self._read(task):
                    with waiting():
                        if not self._put(batch):
                            return False
        finally:
            self._admission.leave(size)
            if len(self._threads) > self._decoding:  # what this thread's heap has left, others can't use
                pa.default_memory_pool().release_unused()
        return True

    def _put(self, item: pa.RecordBatch | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False
