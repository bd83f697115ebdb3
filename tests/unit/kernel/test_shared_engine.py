"""One engine for many verbs: one map for all that wait, errors where they belong, rounds, interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import lakebed
from lakebed.errors import StorageError
from lakebed.kernel.engine import Engine, LocalEngine


class Counting:
    """An engine that remembers how many tasks each map had."""

    parallelism = 2

    def __init__(self, error: BaseException | None = None) -> None:
        self.maps: list[int] = []
        self.error = error

    def map(self, fn: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        if self.error is not None:
            raise self.error
        given = list(tasks)
        self.maps.append(len(given))
        return LocalEngine(2).map(fn, given)


def test_all_that_wait_share_one_map() -> None:
    engine = Counting()

    def act(item: int, shared: Engine) -> list[int]:
        assert shared.parallelism == 2
        first = list(shared.map(lambda task: task * 10, range(item)))
        if item == 4:  # a second round, for which it does not wait for those that are done
            first += shared.map(lambda task: task + 1, [100])
        return first

    assert lakebed.together([3, 0, 4], act, engine) == [[0, 10, 20], [], [0, 10, 20, 30, 101]]
    assert engine.maps == [7, 1]
    assert lakebed.together([], act, engine) == []
    assert lakebed.together(range(70), lambda item, _: item) == list(range(70))


def test_an_error_ends_one_verb() -> None:
    class Unpicklable(Exception):
        def __reduce__(self) -> Any:
            raise TypeError

    def fail(task: int) -> int:
        if task == 7:
            raise StorageError("gone")
        if task == 8:
            raise Unpicklable("odd")
        return task

    def act(item: int, shared: Engine) -> list[int]:
        if item == 9:
            raise ValueError("before its tasks")
        return list(shared.map(fail, [1, item]))

    fine, gone, odd, before = lakebed.together([2, 7, 8, 9], act)
    assert fine == [1, 2]
    assert isinstance(gone, StorageError) and isinstance(before, ValueError)
    assert isinstance(odd, RuntimeError) and "Unpicklable: odd" in str(odd)
    broken = lakebed.together([1, 2], act, Counting(OSError("no cluster")))
    assert all(isinstance(error, OSError) for error in broken)
    with pytest.raises(KeyboardInterrupt):
        lakebed.together([1, 2], act, Counting(KeyboardInterrupt()))
