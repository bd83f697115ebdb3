"""Attempts until one stands: how often, after what waits, and that no writer starves."""

import heapq
import random

import pytest

from lakebed.errors import CommitConflictError
from lakebed.kernel import clock
from lakebed.kernel.commit import retry
from lakebed.kernel.commit.retry import Lost, RetryPolicy, Won, with_retries
from lakebed.kernel.commit.turns import Turn

POLICY = RetryPolicy(4, 0.1, 60.0, 600.0, ("retries", "timeout"))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is waited, on a clock that goes on by that and by a second each attempt."""
    waited: list[float] = []
    monkeypatch.setattr(clock, "pause", waited.append)
    return waited


def test_attempts_and_waits(waits: list[float]) -> None:
    seen: list[int] = []

    def attempt(number: int) -> Won[str] | Lost:
        seen.append(number)
        return Won("done") if number == 3 else Lost("it was taken")

    with clock.set_clock(steady=lambda: float(len(seen))):
        assert with_retries(attempt, POLICY, "t") == "done"
    assert seen == [0, 1, 2, 3]
    assert len(waits) == 2 and 0 <= waits[0] <= 0.1 and 0 <= waits[1] <= 0.2  # the first retry comes at once


def test_none_are_left(waits: list[float]) -> None:
    with clock.set_clock(steady=lambda: 0.0):
        with pytest.raises(CommitConflictError, match="number 4"):
            with_retries(lambda number: Lost(f"number {number}"), POLICY, "t")
        with pytest.raises(CommitConflictError, match="number 0"):
            with_retries(lambda number: Lost(f"number {number}"), RetryPolicy(0, 0.1, 1, None, ()), "t")


def test_the_time_is_over(waits: list[float]) -> None:
    tries: list[int] = []
    with clock.set_clock(steady=lambda: 500.0 * len(tries)), pytest.raises(CommitConflictError):
        with_retries(lambda number: tries.append(number) or Lost(""), POLICY, "t")
    assert tries == [0, 1]


def test_what_was_seen_before_a_wait_is_not_built_on(monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> None:
    class Waited:
        def __enter__(self) -> Turn:
            return Turn("t", waited=True)

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(retry, "turn", lambda table: Waited())
    seen: list[int | str] = []
    with pytest.raises(CommitConflictError):
        with_retries(lambda number: seen.append(number) or Lost(""), POLICY, "t", lambda: seen.append("forgotten"))
    assert seen == ["forgotten", 0, 1, 2, 3, 4]


def contend(writers: int, seed: int) -> tuple[list[int], float]:
    """Writers on as many machines, who write for about a second and then commit: an attempt takes another second, and
    is lost when another one ended meanwhile. The commits of each, and the longest time of a commit in seconds."""
    random.seed(seed)
    queue = [(random.random() + 1, random.random(), number) for number in range(writers)]
    heapq.heapify(queue)
    commits, tries = [0] * writers, [0] * writers
    since, longest, newest = [0.0] * writers, 0.0, 0.0
    while min(commits) < 50 and sum(commits) < 1000:
        ends, began, who = heapq.heappop(queue)
        tries[who] += 1
        if began >= newest:
            newest, pause = ends, random.uniform(0.5, 1.5)
            longest = max(longest, ends - since[who])
            commits[who], tries[who], since[who] = commits[who] + 1, 0, ends + pause
        else:
            pause = POLICY.wait(tries[who] - 2, 1.0) if tries[who] > 1 else 0.0
        heapq.heappush(queue, (ends + pause + random.uniform(0.7, 1.3), ends + pause, who))
    return commits, longest


@pytest.mark.parametrize("writers", [2, 4, 8])
def test_no_writer_starves(writers: int) -> None:
    """Waits that doubled without bound gave 75 and 56 seconds a writer to 4 and 8 of them."""
    ends = [contend(writers, seed) for seed in range(10)]
    assert sum(longest for _, longest in ends) / 10 < 45 * writers
    assert sum(max(commits) / min(commits) for commits, _ in ends) / 10 < 2.5
