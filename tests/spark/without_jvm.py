"""Spark's driver and tasks without a JVM: what they do with lakebed's writers, in an order that a seed decides.

A task has attempts. One of them wins. The others fail, die, lose their message, or go on after the job has ended, as
the slower one of two speculative copies does. Everything that a task gets travels as bytes.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyspark
from pyspark import cloudpickle
from pyspark.sql.types import StructType

import lakebed.formats as formats
import lakebed.spark.sink as spark_sink
import lakebed.spark.stream_sink as stream_sink
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.sizing.staging import Stager
from lakebed.spark.types import spark_schema
from lakebed.testing.faults import Call, Crash, Fault, FaultyStore, Kind

ATTEMPTS = ("fails", "dies", "lost", "late")
"""What may become of attempts that do not win."""
_STORES: dict[int, Store] = {}


class Mortal(FaultyStore):
    """A store whose process may be killed. A pickled copy is the same store, so that its tasks die with it."""

    def __reduce__(self) -> Any:
        _STORES[id(self)] = self
        return _living, (id(self),)

    def kill_at(self, change: int) -> None:
        """Die at that change from now on, counted from 1."""
        self.faults = (Fault(len(self.changes) + change, Kind.CRASH_BEFORE if change % 2 else Kind.CRASH_AFTER),)

    def revive(self) -> None:
        """Another process takes over."""
        self.faults, self.crashed = (), False


def _living(number: int) -> Store:
    return _STORES[number]


class TaskFailedError(Exception):
    """An attempt failed."""


class JobFailedError(Exception):
    """A task failed so often that Spark gives its job up."""


@dataclass
class Schedule:
    """What becomes of the attempts of each task. `store` is where they write."""

    chance: random.Random
    store: Mortal
    gives_up: bool = False
    """Whether one task never succeeds."""
    faults: float = 0.5
    _late: list[tuple[threading.Event, threading.Thread]] = field(default_factory=list)

    def run(self, write: Callable[[Iterator[Any]], Any], parts: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of the winners, by task; None for a task that was given up."""
        results: list[Any] = []
        loser = self.chance.randrange(len(parts)) if self.gives_up else -1
        for number, part in enumerate(parts):
            ends = [self.chance.choice(ATTEMPTS) for _ in range(3) if self.chance.random() < self.faults]
            winners = [self._attempt(end, write, part) for end in ([*ends, "wins"] if number != loser else ends)]
            results.append(winners[-1] if number != loser else None)
        return results

    def end(self) -> None:
        """The job has ended; what still runs goes on to its end now."""
        for resumed, thread in self._late:
            resumed.set()
            thread.join(60)
            assert not thread.is_alive()
        self._late = []

    def _attempt(self, end: str, write: Callable[[Iterator[Any]], Any], part: Sequence[Any]) -> Any:
        at = self.chance.randrange(len(part) + 1)
        if end == "fails":
            with _expected(TaskFailedError):
                write(self._until(part, at, TaskFailedError("the disk of this executor is full")))
        elif end == "dies":
            self.store.kill_at(self.chance.randrange(1, 4))
            with _expected(Crash):
                write(self._until(part, at, Crash("the executor was killed"), self.store))
            self.store.revive()
        elif end == "late":
            paused, resumed = threading.Event(), threading.Event()
            thread = threading.Thread(target=self._run_late, args=(write, part, at, paused, resumed))
            thread.start()
            assert paused.wait(60)
            self._late.append((resumed, thread))
        else:
            return write(iter(part))
        return None

    @staticmethod
    def _until(part: Sequence[Any], at: int, error: BaseException, store: Mortal | None = None) -> Iterator[Any]:
        yield from part[:at]
        if store is not None:
            store.crashed = True  # nothing is cleaned up
        raise error

    @staticmethod
    def _run_late(
        write: Callable[[Iterator[Any]], Any], part: Sequence[Any], at: int, paused: threading.Event,
        resumed: threading.Event,
    ) -> None:  # fmt: skip
        def batches() -> Iterator[Any]:
            yield from part[:at]
            paused.set()
            resumed.wait(60)
            yield from part[at:]

        try:
            write(batches())
        except Exception:  # what it needs may be gone: nobody waits for it
            return
        finally:
            paused.set()


@contextmanager
def _expected(kind: type[BaseException]) -> Iterator[None]:
    with suppress(kind):
        yield


@dataclass(frozen=True)
class Frame:
    """A DataFrame: its rows by task, and what becomes of its tasks. Its session takes no settings."""

    rows: pa.Schema
    parts: Sequence[Sequence[pa.RecordBatch]]
    schedule: Schedule
    function: Callable[[Iterator[Any]], Iterator[Any]] | None = None
    after: Callable[[], None] = lambda: None
    """Called when its tasks are done, before the driver has their results."""
    isStreaming: bool = False  # Spark's name
    sparkSession: Any = field(default_factory=lambda: SimpleNamespace(version=pyspark.__version__))  # Spark's name

    @property
    def schema(self) -> StructType:
        return spark_schema(self.rows)

    def toDF(self, *names: str) -> Frame:  # Spark's name
        return self

    def mapInArrow(self, function: Any, schema: Any) -> Frame:  # Spark's name
        return replace(self, function=pickle.loads(cloudpickle.dumps(function)))

    def toArrow(self) -> pa.Table:  # Spark's name
        assert self.function is not None
        function = self.function
        results = self.schedule.run(lambda batches: list(function(batches)), self.parts)
        if any(result is None for result in results):
            raise JobFailedError("a task failed 4 times")
        self.after()
        return pa.Table.from_batches([batch for result in results for batch in result])

    def routed(self, routing: Any, places: Sequence[int], take: Any, tasks: int) -> Frame:
        """The same rows, each in the task that its channel names."""
        parts: list[list[pa.RecordBatch]] = [[] for _ in range(tasks)]
        for batch in (batch for part in self.parts for batch in part):
            channels = routing.channels(take(batch.select(list(places)))).to_pylist()
            for channel in range(tasks):
                chosen = batch.filter(pa.array([each == channel for each in channels]))
                parts[channel] += [chosen] if chosen.num_rows else []
        return replace(self, parts=parts)


@contextmanager
def without_jvm(store: Mortal) -> Iterator[None]:
    """Let lakebed's sinks take Frames, and write to a store that may die. Tasks keep no rows in memory."""
    opened = formats.open_table
    staged = Stager.__init__

    def opening(location: Any, options: Any = {}) -> Any:  # noqa: B006
        return opened(store if str(location) == store.location else location, options)

    def staging(stager: Stager, place: Any, path: str, schema: pa.Schema, group: Any, limits: Any) -> None:
        staged(stager, place, path, schema, group, replace(limits, buffer=1, inline=0))

    with ExitStack() as stack:
        put = stack.enter_context
        put(patch.object(formats, "open_table", opening))
        put(patch.object(Stager, "__init__", staging))
        put(patch.object(spark_sink, "routed", lambda df, *how: df.routed(*how)))
        for module in (spark_sink, stream_sink):
            put(patch.object(module, "SparkEngine", lambda session, parallelism: LocalEngine(1)))
        put(patch.object(spark_sink, "default_parallelism", lambda session: 3))
        put(patch.object(spark_sink, "open_in_session", lambda s, place, own: (opening(place, own), own)))
        yield


def mortal(location: object) -> Mortal:
    """The store of a table that is at that place."""
    return Mortal(open_store(str(location)))


__all__ = ["ATTEMPTS", "Call", "Frame", "JobFailedError", "Mortal", "Schedule", "mortal", "without_jvm"]
