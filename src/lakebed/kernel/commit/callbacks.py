"""Call callbacks after commits: at least once for each commit, and without ever failing the commit.

Each callback has a ledger in the table, the file `.lakebed/callbacks/NAME`, which holds the newest snapshot that the
callback has seen. The ledger is written before the first commit that has the callback. Whatever crashes after that, the
next commit or replay calls the callback for every snapshot since. Two writers may both call it for one snapshot, so
callbacks must be idempotent. When a callback fails, the call stays owed, and the next commit makes it again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable

from lakebed.errors import OptionError, UsageError
from lakebed.kernel.files import Store

_LEDGERS = ".lakebed/callbacks"
_UNSAFE = str.maketrans("/\\:", "___")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Committed:
    """A published commit, as callbacks see it.

    `kind` is the format's name for the kind of commit, in lower case. `partitions` are those that gained files, as
    texts by column name (None for null). File names are paths inside the table.
    """

    table: str
    snapshot_id: int
    commit_user: str
    identifier: int
    kind: str
    partitions: tuple[Mapping[str, str | None], ...] = ()
    added_files: tuple[str, ...] = ()
    removed_files: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class CommitCallback(Protocol):
    """Called for each snapshot from the first commit that has the callback on, also for those of other writers.

    It may be called twice for a snapshot.
    """

    def call(self, commit: Committed) -> None:
        """Do what must follow the commit. After an error, the next commit calls again."""
        ...


@runtime_checkable
class TagCallback(Protocol):
    """Called after a tag is created or deleted, at most once: a crash in between loses the call."""

    def notify_creation(self, tag: str, snapshot_id: int) -> None:
        """A tag was created on a snapshot."""
        ...

    def notify_deletion(self, tag: str) -> None:
        """A tag was deleted."""
        ...


def load_callbacks(names: str, parameter: Callable[[str], str | None], key: str) -> list[Any]:
    """The callbacks that an option names: `package.module:Class`, separated by commas.

    Each is created with its parameter, if it has one. OptionError, for the option `key`, when one cannot be imported or
    created.
    """
    callbacks: list[Any] = []
    for name in _names(names):
        module, colon, attribute = name.partition(":")
        try:
            kind = getattr(importlib.import_module(module), attribute)
            given = parameter(name)
            callbacks.append(kind() if given is None else kind(given))
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            expected = f"an importable package.module:Class ({error})" if colon else "package.module:Class"
            raise OptionError.ill_typed(key, name, expected) from error
    return callbacks


@dataclass(frozen=True)
class NamedCallbacks:
    """The callbacks that option `key` names, with the parameters of those that have one, by name. A pickled copy has
    the names, and makes the callbacks when they are asked for."""

    key: str
    names: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedCallbacks, (self.key, self.names, self.parameters)

    @classmethod
    def of(cls, key: str, names: str, options: Mapping[str, str], prefix: str) -> NamedCallbacks:
        """From options, where `prefix` + NAME + `.param` has the parameter of a callback. OptionError for one that
        cannot be made."""
        lowered = {name.lower(): value for name, value in options.items()}
        parameters = {
            name: value for name in _names(names) if (value := lowered.get(f"{prefix}{name}.param".lower())) is not None
        }
        named = cls(key, names, parameters)
        named.made  # noqa: B018 - fails here rather than after a commit
        return named

    @cached_property
    def made(self) -> tuple[CommitCallback, ...]:
        """The callbacks. OptionError for one that cannot be imported or created."""
        return tuple(load_callbacks(self.names, self.parameters.get, self.key))


def checked_callbacks(callbacks: object) -> tuple[CommitCallback, ...]:
    """The callbacks that a caller passes, or None for none. UsageError for an object without `call(commit)`."""
    given = tuple(callbacks) if isinstance(callbacks, Iterable) else () if callbacks is None else (callbacks,)
    for callback in given:
        if not isinstance(callback, CommitCallback):
            raise UsageError(
                f"{type(callback).__name__} is not a commit callback: it has no method `call(commit)`",
                todo="Give a list of objects that implement lakebed.callbacks.CommitCallback",
            )
    return given


class OwedCallbacks:
    """The callbacks of a table's commits, with their ledgers."""

    def __init__(self, store: Store, callbacks: Iterable[CommitCallback]) -> None:
        self._store = store
        self._callbacks = {ledger_name(callback): callback for callback in checked_callbacks(callbacks)}

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def register(self, newest: int) -> None:
        """Call before a commit: start the ledger of callbacks that are new to the table after snapshot `newest`."""
        for name in self._callbacks:
            if _seen(self._store, name) is None:
                self._store.put_if_absent(_path(name), str(newest).encode())

    def call(self, commits_after: Callable[[int], Iterator[Committed]]) -> tuple[str, ...]:
        """Call after a commit: make the calls that are owed, oldest first.

        The notes say which callback failed and how, and which snapshots expired before a callback was called for them.
        """
        notes: list[str] = []
        for name, callback in self._callbacks.items():
            try:
                seen = _seen(self._store, name) or 0
                for commit in commits_after(seen):
                    if commit.snapshot_id > seen + 1:
                        expired = f"snapshots {seen + 1} to {commit.snapshot_id - 1}"
                        notes.append(f"callback {name} was not called for {expired}, which expired before")
                    callback.call(commit)
                    seen = commit.snapshot_id
                    self._store.write(_path(name), str(seen).encode())
            except Exception as error:  # noqa: BLE001 - a callback may raise anything; the commit stands
                notes.append(
                    f"callback {name} failed with {type(error).__name__}: {error}; the next commit calls it again"
                )
        return tuple(notes)


def ledgers(store: Store) -> dict[str, int]:
    """The newest snapshot that each callback has seen, by the callback's name."""
    names = [info.name for info in store.list(_LEDGERS).files]
    seen = zip(names, store.together(lambda name: _seen(store, name), names), strict=True)
    return {name: snapshot_id for name, snapshot_id in seen if snapshot_id is not None}


def call_each(callbacks: Sequence[T], act: Callable[[T], None]) -> tuple[str, ...]:
    """Apply `act` to each callback. The notes say which failed."""
    notes: list[str] = []
    for callback in callbacks:
        try:
            act(callback)
        except Exception as error:  # noqa: BLE001 - as above
            notes.append(f"callback {ledger_name(callback)} failed with {type(error).__name__}: {error}")
    return tuple(notes)


def ledger_name(callback: object) -> str:
    """The name of a callback's ledger: its attribute `name`, else its class."""
    given = getattr(callback, "name", None)
    kind = type(callback)
    return str(given or f"{kind.__module__}.{kind.__qualname__}").translate(_UNSAFE)


def _names(names: str) -> list[str]:
    return [name for part in names.split(",") if (name := part.strip())]


def _seen(store: Store, name: str) -> int | None:
    with suppress(FileNotFoundError, ValueError):
        return int(store.read(_path(name)))
    return None


def _path(name: str) -> str:
    return f"{_LEDGERS}/{name}"
