"""The retry loop of an optimistic commit: try to claim a name; when the race is lost, look again and try again.

An attempt ends in one of three ways, each its own type: the commit stands (`Won`), another writer took the name
(`Lost`, tried again), or an error that no retry heals (`CommitConflictError`, `CommitUnknownError`), which passes
through.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakebed.errors import CommitConflictError
from lakebed.kernel import clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Won(Generic[T]):
    """The commit stands; `value` is what it made."""

    value: T


@dataclass(frozen=True, slots=True)
class Lost:
    """Another writer took the name in between; `reason` is for the error when retries run out."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long. Waits are seconds, doubled from `min_wait` to `max_wait` with a random share taken off;
    `timeout` None is none."""

    max_retries: int
    min_wait: float
    max_wait: float
    timeout: float | None = None

    def wait(self, attempt: int) -> float:
        """Seconds before retry number `attempt`, counted from 0."""
        return min(self.max_wait, self.min_wait * 2.0**attempt) * random.uniform(0.5, 1.0)


def with_retries(attempt: Callable[[int], Won[T] | Lost], policy: RetryPolicy, table: str) -> T:
    """Call `attempt` with 0, 1, 2 ... until it wins. CommitConflictError when the policy allows no further try."""
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
        time.sleep(policy.wait(number))
    raise CommitConflictError(
        "other writers won every race for the next commit", table=table, why=reason,
        todo="Nothing of this commit is visible. Commit again, or allow more retries (commit.max-retries, "
            "commit.timeout)",
    )  # fmt: skip
