"""The retry loop of an optimistic commit: try to claim a name; after a lost race, look again and try again.

An attempt ends in one of three ways: the commit is published (`Won`), another writer took the name first (`Lost`, which
is tried again), or an error that a retry cannot help (`CommitConflictError`, `CommitUnknownError`), which is raised.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakebed.errors import CommitConflictError
from lakebed.kernel import clock
from lakebed.kernel.commit.turns import turn

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Won(Generic[T]):
    """The commit is published. `value` is its result."""

    value: T


@dataclass(frozen=True, slots=True)
class Lost:
    """Another writer took the name first. `reason` is for the error when retries run out."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and for how long a commit is retried. All times are in seconds.

    The wait is a random share of a bound, which doubles from `min_wait` up to `max_wait`. `timeout` None is no limit.
    `options` are the keys that a user can set to retry more often, for errors.
    """

    max_retries: int
    min_wait: float
    max_wait: float
    timeout: float | None
    options: tuple[str, ...]

    def wait(self, attempt: int, took: float | None = None) -> float:
        """The seconds to wait before retry number `attempt`, counted from 0. `took` is how long an attempt takes.

        The bound does not grow beyond `_ROOM` attempts: who has lost often would wait longest, and lose to newcomers.
        """
        bound = min(self.max_wait, self.min_wait * 2.0 ** min(attempt, 60))
        if took is not None:
            bound = min(bound, max(self.min_wait, _ROOM * took))
        return bound * random.random()


_ROOM = 16
"""A wait leaves room for at most so many attempts of other writers."""


def with_retries(
    attempt: Callable[[int], Won[T] | Lost],
    policy: RetryPolicy,
    table: str,
    forget: Callable[[], None] = lambda: None,
) -> T:
    """Call `attempt` with 0, 1, 2 ... until it wins. CommitConflictError when the policy allows no further retry.

    Writers of this machine take turns (`turns.py`). Attempt 0 may build on what its caller has seen of the table:
    `forget` is called before it where others had their turn since. The first retry comes at once: one loss says no more
    than that the look at the table was old.
    """
    began, reason = clock.steady(), ""
    with turn(table) as mine:
        if mine.waited:
            forget()
        for number in range(policy.max_retries + 1):
            tried = clock.steady()
            outcome = attempt(number)
            if isinstance(outcome, Won):
                return outcome.value
            reason = outcome.reason
            now = clock.steady()
            late = policy.timeout is not None and now - began > policy.timeout
            if late or number == policy.max_retries:
                break
            if number:
                with mine.given_up():
                    clock.pause(policy.wait(number - 1, now - tried))
    raise CommitConflictError(
        "other writers won every race for the next commit",
        table=table,
        why=reason,
        todo=f"Nothing of this commit is visible. Commit again, or allow more retries ({', '.join(policy.options)})",
    )
