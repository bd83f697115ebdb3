"""What a process asks of its machine, answered by the simulation: clocks, pauses, random bytes, how many processors
there are, which machine this is, and which store a location has.

Whatever is set here is set for the whole process, until the block ends.
"""

from __future__ import annotations

import functools
import gc
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from lakebed.errors import LakebedError
from lakebed.formats.hudi.commit import heartbeat
from lakebed.formats.paimon.catalog.server import Server
from lakebed.kernel import clock, engine, machine
from lakebed.kernel.avro import mark
from lakebed.kernel.files import Store, opening
from lakebed.testing.simulation.paimon_catalog import answered
from lakebed.testing.simulation.world import World

T = TypeVar("T")
R = TypeVar("R")


def _in_turn(self: engine.LocalEngine, fn: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    return (fn(task) for task in tasks)


def _one_by_one(self: Store, files: Mapping[str, bytes]) -> None:
    """What stores that wrap another do with threads: all files are tried, and the first error is raised."""
    failures: list[Exception] = []
    for path, data in files.items():
        try:
            self.write(path, data)
        except LakebedError as error:
            failures.append(error)
    if failures:
        raise failures[0]


class _Marks:
    """Random values for the marks of `lakebed.kernel.avro`, apart from those of names: which of them are drawn depends
    on what the process keeps decoded from runs before."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.randbits, self.token_bytes = self._chance.getrandbits, self._chance.randbytes

    def token_hex(self, count: int) -> str:
        """Random bytes, as text."""
        return self._chance.randbytes(count).hex()


def _cached(self: functools.cached_property[Any], instance: Any, owner: type | None = None) -> Any:
    """A cached property without the lock that Python 3.11 has for all instances together: an actor that waits for the
    baton would hold it."""
    if instance is None:
        return self
    assert self.attrname is not None
    if self.attrname not in instance.__dict__:
        instance.__dict__[self.attrname] = self.func(instance)
    return instance.__dict__[self.attrname]


@contextmanager
def simulated(world: World, store_of: Callable[[str], Store]) -> Iterator[None]:
    """A block in which all code asks the world. `store_of` gives the store of a location that is opened by its URL."""
    here = machine.this_machine()

    def this_machine() -> str:
        who = world.current
        return f"machine of {who.actor.name}" if world.schedule.apart and who is not None else here

    def opened(location: str, *_: Any) -> Store:
        return store_of(location)

    state = random.getstate()
    random.seed(world.names.getrandbits(64))
    with ExitStack() as stack:
        if gc.isenabled():  # a fifth of a run, while nearly all of its garbage goes without it
            gc.disable()
            stack.callback(gc.enable)
        stack.callback(random.setstate, state)
        stack.enter_context(clock.set_clock(world.now, world.steady, world.pause))
        for place, name, instead in (
            (functools.cached_property, "__get__", _cached),
            (os, "urandom", world.random_bytes),
            (random, "_urandom", world.random_bytes),
            (os, "cpu_count", lambda: 1),
            (os, "getpid", lambda: 4242),
            (machine, "this_machine", this_machine),
            (opening, "RemoteStore", opened),
            (mark, "secrets", _Marks(world.chance.getrandbits(64))),
            (engine.LocalEngine, "map", _in_turn),
            (heartbeat.Heartbeat, "_go_on", lambda _: None),  # it would beat by the clock on the wall
            (Store, "write_many", _one_by_one),
            (Server, "_answer", answered),
        ):
            stack.enter_context(patch.object(place, name, instead))
        yield
