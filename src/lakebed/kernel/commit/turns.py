"""Turns: writers of one machine commit to a table one after the other, so that they do not race each other.

An optimistic commit that loses its race has read and written for nothing, and with many writers most of them lose. So
each commit first waits for a turn: behind the other threads of this process, the one that has waited longest first,
and then behind the other processes of this user on this machine, by a lock that the system takes back when its holder
dies. Writers of other machines are still met by the race.

A turn is a courtesy and never a promise: what is committed stays right without it. So nobody waits for longer than
`PATIENCE` behind one that hangs, and where a machine has no such locks there is no queue of processes.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from lakebed.kernel import clock

PATIENCE = 5.0
"""For how many seconds a writer waits for the others, at most."""
_SLOTS = 1024
"""So many lock files there are for all tables. Two tables that share one only wait for each other."""

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]


@dataclass
class Turn:
    """One writer's turn. `waited`: others had theirs since it asked, so what it knows of the table is likely old."""

    place: str
    waited: bool = False
    _number: int = 0
    _lock: int | None = None

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """A block in which the others go on, as while this one waits before it tries again. It is as old as before
        when it asks again."""
        if not self._number:  # of a block inside another one
            yield
            return
        _leave(self)
        try:
            yield
        finally:
            _enter(self)


@contextmanager
def turn(place: str) -> Iterator[Turn]:
    """Have a turn at the table `place` (a location or name) in the block.

    A thread that has one already asks for no other: inside the block this does nothing. Where the clock is steered, as
    in a simulation, there are no turns: its own schedule says who acts next.
    """
    if clock.is_steered() or getattr(_here, "turn", None) is not None:
        yield Turn(place)
        return
    mine = Turn(place, _number=next(_numbers))
    _here.turn = mine
    try:
        _enter(mine)
        try:
            yield mine
        finally:
            _leave(mine)
    finally:
        _here.turn = None


@contextmanager
def as_rival() -> Iterator[None]:
    """A block whose commits take no turn: those of a rival that a test lets step in while another thread has it."""
    before = getattr(_here, "turn", None)
    _here.turn = Turn("")
    try:
        yield
    finally:
        _here.turn = before


# ---- threads ---------------------------------------------------------------------------------------------------------


@dataclass
class _Queue:
    """Who waits for one table in this process, by number, and who has the turn, 0 for nobody. A turn that ends is
    handed to the one that has waited longest, and wakes nobody else."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    waiting: dict[int, threading.Event] = field(default_factory=dict)
    holder: int = 0

    def enter(self, number: int) -> bool:
        """Wait until nobody has the turn and nobody waits for longer. Whether there was anybody."""
        with self.guard:
            if not self.holder:
                self.holder = number
                return False
            handed = self.waiting[number] = threading.Event()
        try:
            handed.wait(PATIENCE)
        finally:  # after an interrupt too: it would be handed a turn that it does not take
            with self.guard:
                self.waiting.pop(number, None)
        return True

    def leave(self, number: int) -> None:
        with self.guard:
            if self.holder == number:
                self.holder = min(self.waiting, default=0)
                if self.holder:
                    self.waiting.pop(self.holder).set()


def _enter(turn: Turn) -> None:
    with _guard:
        queue, users = _queues.get(turn.place, (None, 0))
        queue = queue or _Queue()
        _queues[turn.place] = queue, users + 1
    try:
        waited = queue.enter(turn._number)
        turn._lock, behind = _lock(turn.place)
    except BaseException:  # such as Ctrl-C while it waits
        _leave(turn)
        raise
    turn.waited = turn.waited or waited or behind


def _leave(turn: Turn) -> None:
    lock, turn._lock = turn._lock, None
    if lock is not None:
        _unlock(lock)
    with _guard:
        queue, users = _queues.get(turn.place, (None, 0))
        if queue is None:  # of before a fork
            return
        _queues[turn.place] = queue, users - 1
        if users <= 1:
            del _queues[turn.place]
    queue.leave(turn._number)


# ---- processes -------------------------------------------------------------------------------------------------------


def _lock(place: str) -> tuple[int | None, bool]:
    """The descriptor of the lock of this machine, None where there is none or it was not to be had, and whether another
    process had it."""
    if fcntl is None:
        return None, False
    slot = int.from_bytes(hashlib.sha256(place.encode()).digest()[:4]) % _SLOTS
    try:
        lock = os.open(f"{lock_folder()}/{slot}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None, False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if slot in _hanging:
            os.close(lock)
            return None, True
        wait = _Wait(lock)
        if not wait.ended():
            _hanging.add(slot)  # it is not waited for again before it is found free
            return None, True
        _opened.add(lock)
        return lock, True
    except OSError:
        os.close(lock)
        return None, False
    _hanging.discard(slot)
    _opened.add(lock)
    return lock, False


def _unlock(lock: int) -> None:
    with _guard:
        if lock not in _opened:  # closed after a fork
            return
        _opened.discard(lock)
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


class _Wait:
    """Waits for a lock in a thread of its own, since the system does not bound such a wait. One that comes too late is
    given back."""

    def __init__(self, lock: int) -> None:
        self._lock, self._guard, self._late = lock, threading.Lock(), False
        self._done = threading.Event()
        threading.Thread(target=self._wait, name="lakebed-turn", daemon=True).start()

    def ended(self) -> bool:
        """Whether the lock was had in time."""
        try:
            self._done.wait(PATIENCE)
        except BaseException:
            if not self._give_up():
                os.close(self._lock)
            raise
        return not self._give_up()

    def _give_up(self) -> bool:
        """Let a lock that is not had yet be given back once it is. Whether it was not had."""
        with self._guard:
            self._late = not self._done.is_set()
            return self._late

    def _wait(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        with self._guard:
            if self._late:
                os.close(self._lock)
            self._done.set()


def lock_folder() -> str:
    """The folder of this user's lock files on this machine. OSError where it is not this user's alone."""
    user = os.getuid()
    folder = os.path.join(tempfile.gettempdir(), f"lakebed-turns-{user}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user or status.st_mode & 0o022:
        raise PermissionError(folder)
    return folder


_here = threading.local()
_numbers = itertools.count(1)
_guard = threading.Lock()
_queues: dict[str, tuple[_Queue, int]] = {}
"""The queue of each table, and how many use it."""
_hanging: set[int] = set()
_opened: set[int] = set()
"""The descriptors of the locks that are held."""


def _forked() -> None:
    """A child has no turn: the threads that had one are its parent's."""
    global _guard
    _guard = threading.Lock()
    _here.turn = None
    _queues.clear()
    for lock in [*_opened]:
        with suppress(OSError):
            os.close(lock)
    _opened.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
