"""What the tests of verbs under faults have in common: a verb that dies, and dies again while it is done anew; and two
verbs that meet, one of which acts as a whole between two changes of the other.

What a format's verbs do and what is seen of its tables, the tests of the format say."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakebed.errors import (
    CommitConflictError,
    DataCleanedError,
    LakebedError,
    NotInHistoryError,
    TableExistsError,
    TableNotFoundError,
    UsageError,
)
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import CHANGES, READS, Call, Crash, Fault, FaultyStore, Kind

Act = Callable[[Store], object]
Make = Callable[[], Store]
Look = Callable[[Store], Any]
REFUSALS = (CommitConflictError, DataCleanedError, NotInHistoryError, TableExistsError, TableNotFoundError, UsageError)
"""Errors that say that nothing was done."""


def copies(original: Path, folder: Path) -> Make:
    """Fresh copies of a table."""
    number = itertools.count()
    return lambda: open_store(shutil.copytree(original, folder / f"copy-{next(number)}"))


def dies(act: Act, store: Store, at: int, kind: Kind) -> Store:
    """The store as a process leaves it that dies at a change, if it makes so many."""
    with suppress(Crash, LakebedError, ValueError):  # ValueError: this call cannot fail in that way
        act(FaultyStore(store, Fault(at, kind)))
    return store


def spread(calls: int, count: int) -> Sequence[int]:
    """At most so many of the numbers from 1 on, with the first and the last one."""
    return sorted({1 + turn * (calls - 1) // max(1, count - 1) for turn in range(count)})


@dataclass(frozen=True)
class Moment:
    """A store after a death, or after the run that nobody killed (`ended`); `where` it died."""

    store: Store
    where: str
    ended: bool


def two_deaths(act: Act, make: Make, count: int) -> Iterator[Moment]:
    """Kill a verb at so many of its changes, kill what is run next, and then let it run. Each of the three leaves a
    moment to look at."""
    whole = FaultyStore(make())
    act(whole)
    calls = len(whole.changes)
    assert calls, "it changes nothing"
    for at in spread(calls, count):
        kinds = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER)
        first, then = kinds if at % 2 else reversed(kinds)
        again, store = 1 + at * 7 % calls, make()
        where = f"{first} at change {at} of {calls}, {whole.changes[at - 1]}"
        yield Moment(dies(act, store, at, first), where, False)
        where += f", then {then} at change {again}"
        yield Moment(dies(act, store, again, then), where, False)
        act(store)
        yield Moment(store, where, True)


class Stepping(FaultyStore):
    """Lets somebody else act on the real store right before a call: one of `verbs`, number `at` from 1 on.

    Where one of the `locks`, files of the table, is held, the other one waits for it in a thread of its own.
    """

    def __init__(
        self, real: Store, at: int, act: Act, verbs: frozenset[str] = READS | CHANGES | {"modified"},
        locks: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(real)
        self.at, self.act, self.verbs, self.locks, self.stepped_in = at, act, verbs, locks, False
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None

    def _fault(self, call: Call) -> Fault | None:
        found = super()._fault(call)
        if not self.stepped_in and sum(call.verb in self.verbs for call in self.calls) >= self.at:
            self.stepped_in = True
            if any((Path(self.real.local_path("") or "") / lock).exists() for lock in self.locks):
                self.thread = threading.Thread(target=self._step_in)
                self.thread.start()
            else:
                self._step_in()
        return found

    def _step_in(self) -> None:
        try:
            self.act(self.real)
        except BaseException as error:
            self.error = error

    def join(self) -> None:
        """Wait for the other one."""
        if self.thread is not None:
            self.thread.join(60)
            assert not self.thread.is_alive(), self.calls[self.at - 1]


def refusal(act: Act, store: Store) -> BaseException | None:
    """The error of an act that refuses, None when it is done."""
    try:
        act(store)
    except REFUSALS as error:
        return error
    return None


class Meeting:
    """A verb and another one that acts as a whole between two of its changes.

    What is acknowledged is there afterwards, as if one had come after the other, in either order; a verb that is
    refused has changed nothing, or with `partly` something, and finds its way when it is done again.

    `like` is a meeting at the same table, seen in the same way: what it found out of acts that nobody disturbs holds
    here too.
    """

    def __init__(
        self, make: Make, first: Act, second: Act, look: Look, locks: Sequence[str] = (), partly: bool = False,
        like: Meeting | None = None,
    ) -> None:  # fmt: skip
        self.make, self.look, self.acts, self.locks, self.partly = make, look, (first, second), locks, partly
        self._alone: dict[tuple[Act, ...], tuple[bool, Any]] = like._alone if like else {}
        whole = FaultyStore(make())
        self.refused_alone = refusal(first, whole) is not None
        verbs = [call.verb for call in whole.changes]
        claims = [number for number, verb in enumerate(verbs, 1) if verb == "put_if_absent"]
        self.moments = sorted({1, *(claims[:1] or [1 + len(verbs) // 2])} & {*range(1, len(verbs) + 1)})
        """Changes before which the other one acts: the first one, when all is planned, and the claim of a commit or
        else one half way."""

    def one_after_the_other(self, acts: Sequence[Act]) -> list[Any]:
        """What may be seen of a table where these were done: what each order leaves that refuses none of them."""
        found = []
        for order in itertools.permutations(acts):
            if order not in self._alone:
                store = self.make()
                refused = [refusal(act, store) for act in order]
                self._alone[order] = any(refused), self.look(store)
            refuses, state = self._alone[order]
            found += [] if refuses else [state]
        return found

    def at(self, moment: int) -> tuple[Store, list[BaseException | None]]:
        """Let them meet. The store, and how each of the two was refused, if at all."""
        first, second = self.acts
        store = Stepping(self.make(), moment, second, CHANGES, self.locks)
        refused = [refusal(first, store), store.error]
        store.join()
        refused[1] = store.error
        where = f"before change {moment}: {refused}"
        assert store.stepped_in
        assert refused[1] is None or isinstance(refused[1], REFUSALS), refused[1]
        done = [act for act, error in zip(self.acts, refused, strict=True) if error is None]
        assert done, f"{where}: both are refused"
        if not self.partly or len(done) == 2:
            assert self.look(store.real) in self.one_after_the_other(done), where
        for act, error in zip(self.acts, refused, strict=True):
            if isinstance(error, CommitConflictError) and refusal(act, store.real) is None:
                done.append(act)
                assert self.look(store.real) in self.one_after_the_other(done), f"{where}, done again"
        return store.real, refused
