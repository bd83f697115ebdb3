"""Read the state files of the instants to archive, and encode them as the archive holds them.

The work is cut into waves whose files have at most so many bytes together, which bounds memory. Within a wave an
engine's tasks read in parallel, each some files at a time, and let go of the bytes as soon as they are encoded. A task
returns the error of an unreadable file as a value, since the driver decides whether it stops the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.state_files import STATES, ActiveInstant, StateInfo
from lakebed.formats.hudi.codec.archive_entry import archived_entry, check_readable
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store

T = TypeVar("T")
_TASKS_PER_WAVE = 4
"""Tasks per worker of the engine in each wave, so that all workers stay busy to its end."""
_READ_AT_ONCE, _REQUESTED_AT_ONCE = 4 << 20, 32 << 20
"""Bytes of files that a task reads together, from a disk and from a remote store. The files of a larger instant are
read by themselves."""


class Encoded(NamedTuple, Generic[T]):
    """One instant as the archive holds it, or the error why there is no such form."""

    instant: ActiveInstant
    value: T | None
    error: CorruptError | None = None


class Record(NamedTuple):
    """Layout 1: one state file as an Avro datum."""

    time: str
    action: str
    state: str
    datum: bytes


class Row(NamedTuple):
    """Layout 2: one instant with the bytes of its completed file, and those of its plan if that is not empty."""

    time: str
    completed: str
    action: str
    metadata: bytes
    plan: bytes | None


def records(
    store: Store, instants: Sequence[ActiveInstant], engine: Engine, wave_bytes: int
) -> Iterator[list[Encoded[tuple[Record, ...]]]]:
    """Layout 1: the records of the instants' state files, wave by wave, in the given order."""
    return _waves(store, instants, engine, wave_bytes, STATES, _records_of)


def rows(
    store: Store, instants: Sequence[ActiveInstant], engine: Engine, wave_bytes: int
) -> Iterator[list[Encoded[Row]]]:
    """Layout 2: the rows of the instants, wave by wave, in the given order."""
    return _waves(store, instants, engine, wave_bytes, ("requested", "completed"), _row_of)


Contents = Mapping[str, bytes]
"""The bytes of an instant's state files, by state."""


@dataclass(frozen=True, slots=True)
class _Task(Generic[T]):
    store: Store
    instants: tuple[ActiveInstant, ...]
    states: tuple[str, ...]
    make: Callable[[Store, ActiveInstant, Contents], T]


def _waves(
    store: Store,
    instants: Sequence[ActiveInstant],
    engine: Engine,
    wave_bytes: int,
    states: tuple[str, ...],
    make: Callable[[Store, ActiveInstant, Contents], T],
) -> Iterator[list[Encoded[T]]]:
    for wave in _cut(instants, wave_bytes):
        per_worker = 1 if store.at_once > 1 else _TASKS_PER_WAVE  # requests wait best all at once
        share = max(1, -(-len(wave) // (engine.parallelism * per_worker)))
        tasks = [_Task(store, tuple(wave[at : at + share]), states, make) for at in range(0, len(wave), share)]
        del wave
        yield [encoded for answers in engine.map(_encode, tasks) for encoded in answers]


def _cut(instants: Iterable[ActiveInstant], most: int) -> Iterator[list[ActiveInstant]]:
    """Groups of neighbours whose files have at most `most` bytes together; an instant with more is a group alone."""
    group: list[ActiveInstant] = []
    size = 0
    for instant in instants:
        own = sum(file.size for file in instant.files)
        if group and size + own > most:
            yield group
            group, size = [], 0
        group.append(instant)
        size += own
    if group:
        yield group


def _encode(task: _Task[T]) -> list[Encoded[T]]:
    answers: list[Encoded[T]] = []
    for group in _cut(task.instants, _READ_AT_ONCE if task.store.at_once == 1 else _REQUESTED_AT_ONCE):
        files = [(n, file) for n, i in enumerate(group) for file in i.files if file.size and file.state in task.states]
        read = task.store.read_many([file.path for _, file in files])
        contents: list[dict[str, bytes]] = [{} for _ in group]
        for (number, file), data in zip(files, read, strict=True):
            contents[number][file.state] = data
        del read
        for number, instant in enumerate(group):
            answers.append(_encode_instant(task, instant, contents[number]))
            contents[number] = {}
    return answers


def _encode_instant(task: _Task[T], instant: ActiveInstant, contents: Contents) -> Encoded[T]:
    try:
        return Encoded(instant, task.make(task.store, instant, contents))
    except CorruptError as error:
        return Encoded(instant, None, error)


def _records_of(store: Store, instant: ActiveInstant, contents: Contents) -> tuple[Record, ...]:
    entries = []
    for file in instant.files:
        data = _content(store, instant, file, contents)
        try:
            datum = archived_entry(instant.time, file.action, file.state, data)
        except CorruptError as error:
            raise _unreadable(store, instant, file, error.why or error.what) from error
        entries.append(Record(instant.time, file.action, file.state, datum))
    return tuple(entries)


def _row_of(store: Store, instant: ActiveInstant, contents: Contents) -> Row:
    metadata = _content(store, instant, instant.last, contents)
    try:
        check_readable(metadata)
    except CorruptError as error:
        raise _unreadable(store, instant, instant.last, error.why or error.what) from error
    return Row(instant.time, instant.completed, instant.action, metadata, contents.get("requested") or None)


def _content(store: Store, instant: ActiveInstant, file: StateInfo, contents: Contents) -> bytes:
    data = contents.get(file.state, b"")
    if not data and file.state == "completed":
        raise _unreadable(store, instant, file, "it is empty, as a crash leaves it")
    return data


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
