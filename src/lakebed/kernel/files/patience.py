"""Requests that may be repeated and are: when an answer broke off, and, by option, when that of a read is late."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from obstore.exceptions import BaseError

from lakebed.kernel import clock
from lakebed.kernel.files.answers import is_refusal, was_tried_again
from lakebed.kernel.files.bounds import Bounds

R = TypeVar("R")
_TRIES = 4
_PAUSE_SECONDS = 0.1


def again(call: Callable[[], R], bounds: Bounds) -> R:
    """The result of a read or a removal. When its answer breaks off, it is asked again, after random pauses.

    Refusals are final, and so is what the client itself has already asked again.
    """
    until = clock.steady() + bounds.timeout / 2
    for attempt in range(_TRIES):
        try:
            return call()
        except BaseError as error:
            if is_refusal(error) or was_tried_again(error) or attempt == _TRIES - 1 or clock.steady() > until:
                raise
            clock.pause(random.uniform(0, _PAUSE_SECONDS * 2**attempt))
    raise AssertionError("unreachable")


def hedged(call: Callable[[], R], bounds: Bounds, threads: ThreadPoolExecutor) -> R:
    """The result of a read. When it is late, the same is asked once more, and the first answer counts."""
    if bounds.hedge is None:
        return call()
    asked: set[Future[R]] = {threads.submit(call)}
    done, _ = wait(asked, bounds.hedge)
    if not done:
        asked.add(threads.submit(call))
    while True:
        done, asked = wait(asked, return_when=FIRST_COMPLETED)
        for answer in done:
            if answer.exception() is None or not asked:
                return answer.result()
