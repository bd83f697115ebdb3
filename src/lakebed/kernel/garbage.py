"""Holds Python's cycle collector while very many objects come into being that form no cycles.

The collector walks all objects whenever their number has grown by a quarter: of a plan with a million small objects
that is a third of the time, and it finds nothing. Reference counts free what goes meanwhile.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Held:
    """How many blocks hold the collector, and whether it ran before the first of them."""

    def __init__(self) -> None:
        self.lock, self.blocks, self.was_on = threading.Lock(), 0, False


_held = _Held()


@contextmanager
def no_cycles() -> Iterator[None]:
    """Run a block without collections; blocks may lie inside each other, and in several threads at once."""
    with _held.lock:
        if not _held.blocks:
            _held.was_on = gc.isenabled()
            gc.disable()
        _held.blocks += 1
    try:
        yield
    finally:
        with _held.lock:
            _held.blocks -= 1
            if not _held.blocks and _held.was_on:
                gc.enable()
