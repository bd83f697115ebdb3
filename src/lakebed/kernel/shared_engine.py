"""One engine for the verbs of many tables: their tasks run side by side, and each verb commits by itself.

Each verb runs in a thread of this process and maps its tasks as on any engine. Once all verbs that are under way wait
for results, the tasks of all of them go to the engine as one map. So a cluster starts one job where it would start one
per table, and small tables fill the processors together. An error of a task ends the verb of its table alone.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakebed.kernel.engine import Engine, LocalEngine

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 32
"""How many verbs are under way at once, which bounds threads and the plans in memory."""


def together(items: Iterable[T], act: Callable[[T, Engine], R], engine: Engine | None = None) -> list[R | Exception]:
    """What `act` returns for each item, in order, or the exception that it raised.

        names = lakebed.tables("shop:sales")
        lakebed.together(names, lambda name, engine: lakebed.open(name).rewrite(engine=engine), SparkEngine(spark))

    `act` does one verb with the engine that it gets: the tasks of all items share `engine`, by default threads. An
    interrupt ends all of them.
    """
    results: list[R | Exception] = []
    waiting = list(items)
    for start in range(0, len(waiting), _AT_ONCE):
        part = waiting[start : start + _AT_ONCE]
        shared = SharedEngine(engine or LocalEngine(), len(part))
        with ThreadPoolExecutor(len(part), thread_name_prefix="lakebed-verb") as pool:
            results += pool.map(lambda item, shared=shared: shared.run(act, item), part)
    return results


@dataclass(slots=True)
class _Asked:
    """A map that a verb waits for: its function and tasks, and its results once they are there."""

    fn: Callable[[Any], Any]
    tasks: list[Any]
    results: list[Any] | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Failed:
    """A task's error in place of its result."""

    error: Exception


@dataclass(frozen=True, slots=True)
class _EachItsOwn:
    """Runs a task by the function of its verb. Picklable as those are."""

    functions: tuple[Callable[[Any], Any], ...]

    def __call__(self, task: tuple[int, Any]) -> Any:
        """The result, or the error."""
        number, own = task
        try:
            return self.functions[number](own)
        except Exception as error:  # noqa: BLE001 - it is raised where the verb takes its results
            try:
                pickle.dumps(error)
            except Exception:  # noqa: BLE001 - such an error cannot travel
                error = RuntimeError(f"{type(error).__name__}: {error}")
            return _Failed(error)


@dataclass(slots=True)
class SharedEngine:
    """The engine of verbs that are under way at the same time. `running` of them do not wait for results.

    A verb that gets one knows that its tasks go side by side with those of other tables.
    """

    inner: Engine
    running: int
    _asked: list[_Asked] = field(default_factory=list)
    _turn: threading.Condition = field(default_factory=threading.Condition)

    @property
    def parallelism(self) -> int:
        """How many tasks the shared engine runs at once."""
        return self.inner.parallelism

    def run(self, act: Callable[[T, Engine], R], item: T) -> R | Exception:
        """Do one verb."""
        try:
            return act(item, self)
        except Exception as error:  # noqa: BLE001 - the other verbs are none the worse for it
            return error
        finally:
            with self._turn:
                self.running -= 1
                self._run_if_all_wait()

    def map(self, fn: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results of a verb's tasks. It waits until the other verbs wait too."""
        asked = _Asked(fn, list(tasks))
        if not asked.tasks:
            return
        with self._turn:
            self._asked.append(asked)
            self.running -= 1
            self._run_if_all_wait()
            while asked.results is None and asked.error is None:
                self._turn.wait()
        if asked.error is not None:
            raise asked.error
        for result in asked.results or ():
            if isinstance(result, _Failed):
                raise result.error
            yield result

    def _run_if_all_wait(self) -> None:
        """Run the tasks of all verbs, when each that is under way waits for its own."""
        if self.running or not self._asked:
            return
        asked, self._asked = self._asked, []
        try:
            tasks = [(number, task) for number, one in enumerate(asked) for task in one.tasks]
            lists: list[list[Any]] = [[] for _ in asked]
            results = self.inner.map(_EachItsOwn(tuple(one.fn for one in asked)), tasks)
            for (number, _), result in zip(tasks, results, strict=True):
                lists[number].append(result)
            for one, own in zip(asked, lists, strict=True):
                one.results = own
        except BaseException as error:  # noqa: BLE001 - each verb raises it
            for one in asked:
                one.error = error
        self.running += len(asked)
        self._turn.notify_all()
