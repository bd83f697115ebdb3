"""Commits that wait: what jobs keep of rows that one process has prepared, for any process of theirs to commit or to
give up, as a checkpoint of Flink keeps them.

Each actor has one job. Its commits have identifiers that grow, and are committed in their order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lakebed.errors import CommitConflictError, LakebedError, NotInHistoryError
from lakebed.model.commit import CommitMessage
from lakebed.testing.simulation.changes import Change, Violation
from lakebed.testing.simulation.model import Model

_LATE = 0.25
"""How often an aborted commit is tried, rather than one that waits."""


@dataclass(eq=False)
class Prepared:
    """One commit of a job."""

    user: str
    identifier: int
    messages: Sequence[CommitMessage]
    change: Change
    at_work: int = 0
    """How many processes commit it, or remove its files, at this moment."""
    unsure: bool = False
    """Whether an attempt may have landed that nobody was told of, or others tried at the same time."""
    given_up: bool = False
    is_done: bool = False


class Jobs:
    """The commits of all jobs."""

    def __init__(self) -> None:
        self._kept: list[Prepared] = []
        self._last: dict[str, int] = {}

    def user(self, number: int) -> str:
        """The commit user of an actor's job."""
        return f"job of {number}"

    def keep(self, number: int, messages: Sequence[CommitMessage], change: Change) -> None:
        """Keep messages until they are committed or given up."""
        user = self.user(number)
        self._last[user] = self._last.get(user, 0) + 1
        self._kept.append(Prepared(user, self._last[user], messages, change))

    def choose(self, chance: random.Random) -> list[Prepared]:
        """Commits of one job that wait, the oldest first; or one that was given up."""
        late = [
            one for one in self._kept if one.given_up and not one.is_done and not one.at_work and self._is_next(one)
        ]
        if late and chance.random() < _LATE:
            return [chance.choice(late)]
        waiting = [one for one in self._kept if not one.given_up and not one.is_done]
        if not waiting:
            return []
        user = chance.choice(sorted({one.user for one in waiting}))
        of_user = [one for one in waiting if one.user == user]
        return of_user[: chance.randrange(1, len(of_user) + 1)]

    def _is_next(self, one: Prepared) -> bool:
        """Whether no earlier commit of its job waits: a later one would pass it over."""
        waiting = [other for other in self._kept if not other.given_up and not other.is_done]
        return not any(other.user == one.user and other.identifier < one.identifier for other in waiting)

    def give_up(self, chance: random.Random) -> Prepared | None:
        """A commit that nobody is at work on and nobody commits from now on, whether it was committed or not."""
        free = [one for one in self._kept if not one.at_work]
        if not free:
            return None
        chosen = chance.choice(free)
        chosen.given_up = True
        return chosen

    @contextmanager
    def at_work(self, chosen: Sequence[Prepared]) -> Iterator[None]:
        """A process is at work on these for as long as the block goes on."""
        for commit in chosen:
            commit.unsure |= commit.at_work > 0
            commit.at_work += 1
        try:
            yield
        finally:
            for commit in chosen:
                commit.at_work -= 1

    def unsure(self, chosen: Sequence[Prepared]) -> None:
        """An attempt at these may have landed."""
        for commit in chosen:
            commit.unsure = True

    def done(self, chosen: Sequence[Prepared], model: Model, who: str) -> None:
        """An attempt ended well, so the changes are there. One that was given up may have been passed over."""
        for commit in chosen:
            if not commit.given_up:
                model.acknowledge(commit.change, who)
            if not commit.is_done and (commit.change.landed or not commit.given_up):
                commit.is_done = True
                model.end(commit.change)

    def failed(self, chosen: Sequence[Prepared], model: Model, who: str, error: LakebedError) -> None:
        """An attempt ended with an error that says that the first commit that was not there before did not happen."""
        waiting = [one for one in chosen if not one.given_up]
        if waiting and isinstance(error, NotInHistoryError):
            raise Violation(f"{who} cannot commit {waiting[0].change.text}, which nobody gave up: {error}") from error
        if len(chosen) > 1:
            self.unsure(chosen)
            return
        only = chosen[0]
        if not only.unsure and only.change.landed and not only.is_done:
            raise Violation(f"{who}: {only.change.text} is there, though it ended with {type(error).__name__}: {error}")
        only.given_up |= isinstance(error, CommitConflictError)

    def aborted(self, chosen: Prepared, model: Model, failed: bool) -> None:
        """The files of a commit that was given up are gone. `failed`: some may be left, or rows are in the messages."""
        if not chosen.is_done and not chosen.change.landed and not failed:
            chosen.change.over = True
        if chosen.change.ended is None:
            model.end(chosen.change)
