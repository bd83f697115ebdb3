"""interleave: order inside a task, errors, early close, bounded memory."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakebed.kernel.files.waiting import waiting
from lakebed.kernel.streams import Overlap, interleave


def batch(task: int, n: int) -> pa.RecordBatch:
    return pa.record_batch({"task": [task], "n": [n]})


def read(task: int) -> Iterator[pa.RecordBatch]:
    for n in range(20):
        yield batch(task, n)


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lakebed-read")]


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("tasks", [0, 1, 2, 30])
def test_all_batches_come_once_and_those_of_a_task_in_order(threads: int, tasks: int) -> None:
    seen: dict[int, list[int]] = defaultdict(list)
    for got in interleave(read, range(tasks), threads):
        seen[got["task"][0].as_py()].append(got["n"][0].as_py())
    assert seen == {task: list(range(20)) for task in range(tasks)}
    assert readers() == []


def test_tasks_interleave() -> None:
    barrier = threading.Barrier(2)

    def meeting(task: int) -> Iterator[pa.RecordBatch]:
        barrier.wait(20)
        yield batch(task, 0)

    assert len(list(interleave(meeting, [0, 1], 2))) == 2


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_a_task_is_raised_here_and_stops_the_others(threads: int) -> None:
    def failing(task: int) -> Iterator[pa.RecordBatch]:
        yield batch(task, 0)
        if task == 1:
            raise ZeroDivisionError("task 1")
        yield from read(task)

    with pytest.raises(ZeroDivisionError, match="task 1"):
        list(interleave(failing, range(10), threads))
    assert readers() == []


@pytest.mark.parametrize("threads", [1, 3])
def test_closing_early_stops_threads_and_closes_what_they_read(threads: int) -> None:
    opened, closed = [], []

    def endless(task: int) -> Iterator[pa.RecordBatch]:
        opened.append(task)
        try:
            while True:
                yield batch(task, 0)
        finally:
            closed.append(task)

    batches = interleave(endless, range(10), threads)
    next(batches)
    batches.close()
    assert readers() == [] and sorted(opened) == sorted(closed)


def test_a_reader_that_is_dropped_stops_its_threads() -> None:
    reader = pa.RecordBatchReader.from_batches(
        batch(0, 0).schema, interleave(lambda task: iter([batch(task, 0)] * 10_000), [0, 1], 2)
    )
    reader.read_next_batch()
    reader.close()
    del reader
    deadline = time.monotonic() + 20
    while readers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert readers() == []


def test_producers_wait_for_the_consumer() -> None:
    made: list[int] = []

    def fast(task: int) -> Iterator[pa.RecordBatch]:
        for n in range(1000):
            made.append(n)
            yield batch(task, n)

    batches = interleave(fast, [0, 1], threads=2)
    next(batches)
    time.sleep(0.3)
    assert len(made) <= 1 + 2 * 4 + 2  # taken, waiting, one in each hand
    batches.close()


class Watched:
    """Tasks that wait for a request and then compute, and how many did either at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: list[int] = []
        self.waiting = self.computing = self.most_waiting = self.most_computing = self.most_open_bytes = 0

    def read(self, size: int) -> Iterator[pa.RecordBatch]:
        with self.lock:
            self.open.append(size)
            self.most_open_bytes = max(self.most_open_bytes, sum(self.open))
        with waiting():
            with self.lock:
                self.waiting += 1
                self.most_waiting = max(self.most_waiting, self.waiting)
            time.sleep(0.03)
            with self.lock:
                self.waiting -= 1
        with self.lock:
            self.computing += 1
            self.most_computing = max(self.most_computing, self.computing)
        time.sleep(0.002)
        with self.lock:
            self.computing -= 1
        yield batch(size, 0)
        with self.lock:
            self.open.remove(size)


def test_waiting_is_not_computing() -> None:
    watched = Watched()
    got = list(interleave(watched.read, [1] * 60, 2, Overlap(32)))
    assert len(got) == 60 and 16 < watched.most_waiting <= 32 and watched.most_computing <= 2


def test_open_tasks_stay_within_the_bytes() -> None:
    watched = Watched()
    got = list(interleave(watched.read, [30] * 20, 2, Overlap(32, 100), [30] * 20))
    assert len(got) == 20 and watched.most_open_bytes <= 90
    watched = Watched()
    list(interleave(watched.read, [500] * 6, 2, Overlap(32, 100), [500] * 6))
    assert watched.most_open_bytes == 1000, "as many as decode are always open"


def test_an_error_ends_all_that_wait() -> None:
    def failing(task: int) -> Iterator[pa.RecordBatch]:
        with waiting():
            time.sleep(0.01 * (task % 7))
        if task == 20:
            raise KeyError(task)
        yield batch(task, 0)

    with pytest.raises(KeyError):
        list(interleave(failing, range(60), 2, Overlap(16, 100), [30] * 60))
    assert readers() == []
