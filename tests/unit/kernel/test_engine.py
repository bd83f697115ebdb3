"""LocalEngine: order, laziness, errors."""

import threading
import time
from collections.abc import Iterator

import pytest

from lakebed import LocalEngine


def test_results_come_in_the_order_of_the_tasks() -> None:
    def task(n: int) -> int:
        time.sleep(0.002 * (n % 5))
        return n * n

    assert list(LocalEngine(4).map(task, range(50))) == [n * n for n in range(50)]


def test_tasks_run_at_once() -> None:
    barrier = threading.Barrier(3)
    assert list(LocalEngine(3).map(lambda _: barrier.wait(20) >= 0, range(3))) == [True] * 3


def test_nothing_runs_before_the_first_result_is_asked_for_and_little_ahead_of_it() -> None:
    begun: list[int] = []

    def tasks() -> Iterator[int]:
        for n in range(1000):
            begun.append(n)
            yield n

    results = LocalEngine(2).map(lambda n: n, tasks())
    assert begun == []
    assert next(results) == 0
    assert len(begun) <= 2 * 2
    results.close()
    assert len(begun) <= 2 * 2


def test_the_first_error_ends_it_and_tasks_not_begun_are_not_begun() -> None:
    begun: list[int] = []
    slow = threading.Event()

    def task(n: int) -> int:
        begun.append(n)
        if n == 0:
            slow.wait(20)
        if n == 1:
            raise ZeroDivisionError("the second task")
        return n

    results = LocalEngine(2).map(task, range(100))
    threading.Timer(0.2, slow.set).start()
    got = []
    with pytest.raises(ZeroDivisionError, match="the second task"):
        for result in results:
            got.append(result)
    assert got == [0] and begun == [0, 1]


def test_an_error_of_the_tasks_themselves() -> None:
    def tasks() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(LocalEngine(2).map(lambda n: n, tasks()))


def test_no_tasks() -> None:
    assert list(LocalEngine().map(lambda n: n, [])) == []


def test_parallelism() -> None:
    assert LocalEngine(3).parallelism == 3 and LocalEngine().parallelism >= 1
    with pytest.raises(ValueError, match="at least 1"):
        LocalEngine(0)


def test_a_single_task_starts_no_thread() -> None:
    assert list(LocalEngine(2).map(lambda _: threading.get_ident(), [1])) == [threading.get_ident()]
    assert threading.get_ident() not in LocalEngine(2).map(lambda _: threading.get_ident(), [1, 2])
