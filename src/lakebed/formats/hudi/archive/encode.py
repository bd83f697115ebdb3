"""Reads the state files of instants that are to be archived, some at a time, and turns them to what is written.

The work is cut into waves whose files together have at most so many bytes; inside a wave an engine's tasks read in
parallel. A task answers with an error as a value, since whether an unreadable file stops the run is for the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.active import ActiveInstant, StateInfo
from lakebed.formats.hudi.codec.archive_entry import archived_entry, check_readable
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store

T = TypeVar("T")
_TASKS_PER_WAVE = 4
"""How many tasks a wave gives each of an engine's workers, so that all stay busy to its end."""


@dataclass(frozen=True, slots=True)
class Encoded(Generic[T]):
    """One instant's archived form, or the error that stands for it."""

    instant: ActiveInstant
    value: T | None
    error: CorruptError | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Layout 1: one state file as an Avro datum."""

    time: str
    action: str
    state: str
    datum: bytes


@dataclass(frozen=True, slots=True)
class Row:
    """Layout 2: one instant with the bytes of its completed file, and of its plan where that is not empty."""

    time: str
    completed: str
    action: str
    metadata: bytes
    plan: bytes | None


def records(
    store: Store, instants: Sequence[ActiveInstant], engine: Engine, wave_bytes: int
) -> Iterator[list[Encoded[tuple[Record, ...]]]]:
    """Layout 1: the records of the instants' state files, wave after wave, in the order given."""
    return _waves(store, instants, engine, wave_bytes, _records_of)


def rows(
    store: Store, instants: Sequence[ActiveInstant], engine: Engine, wave_bytes: int
) -> Iterator[list[Encoded[Row]]]:
    """Layout 2: the rows of the instants, wave after wave, in the order given."""
    return _waves(store, instants, engine, wave_bytes, _row_of)


@dataclass(frozen=True, slots=True)
class _Task(Generic[T]):
    store: Store
    instants: tuple[ActiveInstant, ...]
    make: Callable[[Store, ActiveInstant], T]


def _waves(
    store: Store,
    instants: Sequence[ActiveInstant],
    engine: Engine,
    wave_bytes: int,
    make: Callable[[Store, ActiveInstant], T],
) -> Iterator[list[Encoded[T]]]:
    wave: list[ActiveInstant] = []
    size = 0
    for instant in instants:
        own = sum(file.size for file in instant.files)
        if wave and size + own > wave_bytes:
            yield _run(store, wave, engine, make)
            wave, size = [], 0
        wave.append(instant)
        size += own
    if wave:
        yield _run(store, wave, engine, make)


def _run(
    store: Store, wave: Sequence[ActiveInstant], engine: Engine, make: Callable[[Store, ActiveInstant], T]
) -> list[Encoded[T]]:
    share = max(1, -(-len(wave) // (engine.parallelism * _TASKS_PER_WAVE)))
    tasks = [_Task(store, tuple(wave[at : at + share]), make) for at in range(0, len(wave), share)]
    return [one for found in engine.map(_encode, tasks) for one in found]


def _encode(task: _Task[T]) -> list[Encoded[T]]:
    return [_one(task, instant) for instant in task.instants]


def _one(task: _Task[T], instant: ActiveInstant) -> Encoded[T]:
    try:
        return Encoded(instant, task.make(task.store, instant))
    except CorruptError as error:
        return Encoded(instant, None, error)


def _records_of(store: Store, instant: ActiveInstant) -> tuple[Record, ...]:
    found = []
    for file in instant.files:
        data = _content(store, instant, file)
        try:
            datum = archived_entry(instant.time, file.action, file.state, data)
        except CorruptError as error:
            raise _unreadable(store, instant, file, error.why or error.what) from error
        found.append(Record(instant.time, file.action, file.state, datum))
    return tuple(found)


def _row_of(store: Store, instant: ActiveInstant) -> Row:
    done = instant.last
    metadata = _content(store, instant, done)
    try:
        check_readable(metadata)
    except CorruptError as error:
        raise _unreadable(store, instant, done, error.why or error.what) from error
    requested = instant.file("requested")
    plan = _content(store, instant, requested) if requested else b""
    return Row(instant.time, instant.completed, instant.action, metadata, plan or None)


def _content(store: Store, instant: ActiveInstant, file: StateInfo) -> bytes:
    if file.size:
        return store.read(file.path)
    if file.state == "completed":
        raise _unreadable(store, instant, file, "it is empty, as a crash leaves it")
    return b""


def _unreadable(store: Store, instant: ActiveInstant, file: StateInfo, why: str) -> CorruptError:
    return CorruptError(
        f"the {file.state} file of {instant.kind} {instant.time} cannot be archived",
        table=store.location,
        instant=instant.time,
        file=file.path,
        why=why,
        todo="Nothing was deleted. Restore the file from a copy, roll the instant back with Hudi's own engine, or set "
        "hoodie.fail.on.timeline.archiving=false to leave it where it is",
    )
