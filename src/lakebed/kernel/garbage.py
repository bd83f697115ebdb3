"""Spare Python's cycle collector the walks that find nothing.

The collector walks all objects whenever their number has grown by a quarter. For a plan of a million small objects,
which form no cycles, that takes a third of the time: `no_cycles` pauses it. Reference counts still free objects
meanwhile.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Paused:
    """How many blocks pause the collector, and whether it was on before the first of them."""

    def __init__(self) -> None:
        self.lock, self.blocks, self.was_on = threading.Lock(), 0, False


_paused = _Paused()


class _Frozen:
    """How many modules were loaded when this process last froze its objects."""

    def __init__(self) -> None:
        self.modules = 0


_frozen = _Frozen()


def freeze_what_is_loaded() -> None:
    """Leave all objects that exist now out of later collections, if modules were loaded since the last call.

    For the workers of Spark, at the start of a task: what exists then are modules and what a task before left alive.
    Reference counts still free it; only cycles made before the call stay, and a worker makes the call a few times.
    """
    if len(sys.modules) > _frozen.modules:
        _frozen.modules = len(sys.modules)
        gc.freeze()


@contextmanager
def no_cycles() -> Iterator[None]:
    """Run a block without collections. Blocks may be nested, and may run in several threads at once."""
    with _paused.lock:
        if not _paused.blocks:
            _paused.was_on = gc.isenabled()
            gc.disable()
        _paused.blocks += 1
    try:
        yield
    finally:
        with _paused.lock:
            _paused.blocks -= 1
            if not _paused.blocks and _paused.was_on:
                gc.enable()
