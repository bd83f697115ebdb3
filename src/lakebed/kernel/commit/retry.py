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

    The wait doubles from `min_wait` up to `max_wait`, less a random share of up to half. `timeout` None is no limit.
    `options` are the keys that a user can set to retry more often, for errors.
    """

    max_retries: int
    min_wait: float
    max_wait: float
    timeout: float | None
    options: tuple[str, ...]

    def wait(self, attempt: int) -> float:
        """The seconds to wait before retry number `attempt`, counted from 0."""
        return min(self.max_wait, self.min_wait * 2.0**attempt) * random.uniform(0.5, 1.0)


def with_retries(attempt: Callable[[int], Won[T] | Lost], policy: RetryPolicy, table: str) -> T:
    """Call `attempt` with 0, 1, 2 ... until it wins. CommitConflictError when the policy allows no further retry."""
    began = clock.steady()
    reason = ""
    for number in range(policy.max_retries + 1):
        outcome = attempt(number)
        if isinstance(outcome, Won):
            return outcome.value
        reason = outcome.reason
        late = policy.timeout is not None and clock.steady() - began > policy.timeout
        if late or number == policy.max_retries:
            break
        clock.pause(policy.wait(number))
    raise CommitConflictError(
        "other writers won every race for the next commit",
        table=table,
        why=reason,
        todo=f"Nothing of this commit is visible. Commit again, or allow more retries ({', '.join(policy.options)})",
    )
