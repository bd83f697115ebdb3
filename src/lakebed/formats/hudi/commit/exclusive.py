"""One lakebed writer at a time chooses an instant, takes failed ones back, or completes one.

A file that is put if absent is the lock. It is held for these moments only, never while data files are written, and for
`_LIFE` at most: a holder asks before each step that cannot be undone whether it still may. So a file that others have
seen unchanged for that long, by their own clocks, is of a dead holder; on its own machine its process is looked for
too. Of those who find it dead one alone may remove it: the one that puts the file that says so.

A put that was sent in time may land late. So the lock names the instant that its holder completes, and whoever removes
the lock of a dead or late holder first decides whether that instant stands (`timeline/outcomes.py`).

Hudi's own writers do not know this lock: where they write the same table at the same time, all need the lock file that
Hudi has for it (`commit/lock.py`).
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lakebed.errors import CommitConflictError, LakebedError
from lakebed.formats.hudi.layout import HOODIE
from lakebed.formats.hudi.timeline.outcomes import decide_place
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.machine import Holder, is_gone

_FILE = f"{HOODIE}/.lakebed/writer.lock"
_LIFE = 60.0
"""For how many seconds one writer may hold the lock."""
_SPARE = 10.0
"""How long before its end a holder makes no step any more that cannot be undone."""
_WAIT = 150.0
"""How many seconds a writer waits for others."""
_POLL = 0.02
_COMPLETES = "completes"
"""The field of a lock that names what its holder completes: the folder of the timeline and the instant."""

StillHeld = Callable[[], None]
"""Raises CommitConflictError when the lock was held for too long, or is lost."""


@dataclass(frozen=True)
class Held:
    """The lock as its holder has it, since a moment of the steady clock. To call it asks whether the holder still may
    act: CommitConflictError when the lock was held for too long, or `shared` raises it, of Hudi's lock."""

    store: Store
    mark: bytes
    since: float
    shared: StillHeld | None = None

    def __call__(self) -> None:
        """See above."""
        if self.is_over:
            raise _conflict(self.store, "the lock of the table's writers was held for too long")
        if self.shared is not None:
            self.shared()

    @property
    def is_over(self) -> bool:
        """Whether the time of this lock has ended, so that others may have taken it."""
        return clock.steady() - self.since > _LIFE - _SPARE

    @contextmanager
    def going_on(self) -> Iterator[Held]:
        """Hold the lock for another step. Where its time is over it is given up and taken anew: look then what others
        did in between. CommitConflictError when they hold it for too long."""
        if not self.is_over:
            yield self
            return
        _remove(self.store, self.mark, self.mark)
        with exclusive(self.store) as anew:
            yield Held(self.store, anew.mark, anew.since, self.shared)


@contextmanager
def exclusive(store: Store, completes: str = "") -> Iterator[Held]:
    """Hold the lock in the block. CommitConflictError when others hold it for too long. `completes` names what the
    block completes: the folder of the timeline and the instant."""
    with Holder() as holder:
        mark = holder.mark({_COMPLETES: completes} if completes else {})
        began = _acquire(store, mark)
        try:
            yield Held(store, mark, began)
        finally:
            with suppress(LakebedError, OSError):
                if clock.steady() - began < _LIFE - _SPARE:
                    store.delete(_FILE)
                else:
                    _remove(store, mark, mark)


def _acquire(store: Store, mark: bytes) -> float:
    """Wait for the lock. The steady clock's time from before it was put."""
    ends = clock.steady() + _WAIT
    watched: bytes | None = None
    since = 0.0
    while True:
        began = clock.steady()
        if store.put_briefly_if_absent(_FILE, mark) is PutOutcome.CREATED:
            return began
        other = _read(store)
        if other == mark:  # the store did not say so
            return began
        if other is not None and other != watched:
            watched, since = other, clock.steady()
        if other is not None and (clock.steady() - since > _LIFE or is_gone(other)):
            _remove(store, other, mark)
            continue
        if clock.steady() > ends:
            raise _conflict(store, "another writer is choosing or completing an instant")
        clock.pause(_POLL * random.uniform(0.5, 1.5))


def _remove(store: Store, mark: bytes, own: bytes) -> None:
    """Remove the lock of a holder that is dead or late, unless another process is doing so.

    While the file that names the holder exists, nobody else removes this lock. If the process that put that file dies,
    another one takes the next number after the same time.
    """
    name = f"{_FILE}.{_token(mark)}"
    for number in itertools.count():
        path = f"{name}.{number}"
        if store.put_briefly_if_absent(path, own) is PutOutcome.CREATED:
            break
        ends = clock.steady() + _LIFE
        while (claimer := _read(store, path)) is not None:
            if _read(store) != mark:
                return
            if claimer == own or clock.steady() > ends or is_gone(claimer):
                break
            clock.pause(_POLL)
        else:
            return
        if claimer == own:
            break
    if _read(store) == mark:
        if own != mark:
            decide_place(store, _field(mark, _COMPLETES))
        if _read(store) == mark:
            store.delete(_FILE)
    for done in range(number, -1, -1):
        store.delete(f"{name}.{done}")


def _read(store: Store, path: str = _FILE) -> bytes | None:
    """Whose the lock is, None where there is none; nobody's where a loss of power has left an empty file."""
    try:
        return store.read(path)
    except FileNotFoundError:
        return None


def _token(mark: bytes) -> str:
    token = _field(mark, "token")
    return token if token.isalnum() else "unknown"


def _field(mark: bytes, name: str) -> str:
    """A text of a lock, "" where it has none."""
    try:
        value = json.loads(mark)[name]
    except (ValueError, KeyError, TypeError):
        return ""
    return value if isinstance(value, str) else ""


def _conflict(store: Store, what: str) -> CommitConflictError:
    return CommitConflictError(what, table=store.location, file=_FILE, todo="Nothing of this is visible: write again")
