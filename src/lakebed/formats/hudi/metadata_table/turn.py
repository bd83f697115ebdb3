"""The turn of a process that builds parts of a metadata table: the lock of the table's writers, which ends by itself.

A process may stand still, or a call may take minutes, and others build the same part meanwhile under the same names.
So a builder asks before each step whether it is still its turn. A step that lands after the turn may have damaged what
others built: then the builder takes the lock anew and lets the table's properties name no part any more. Nobody trusts
the metadata table from then on, and a later write builds it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from lakebed.formats.hudi.metadata_table.named import INFLIGHT, PARTITIONS
from lakebed.formats.hudi.timeline.properties import update_properties
from lakebed.kernel.files import Store


class Turn(Protocol):
    """The lock of a table's writers, as its holder has it. To call it asks whether the holder may still act:
    CommitConflictError where it may not."""

    def __call__(self) -> None:
        """See above."""

    @property
    def is_over(self) -> bool:
        """Whether the time of the lock has ended, so that others may have taken it."""

    def going_on(self) -> AbstractContextManager[object]:
        """Hold the lock for another step, taken anew where its time is over."""


@contextmanager
def building(store: Store, folder: str, turn: Turn) -> Iterator[None]:
    """Build what is in a folder of the metadata table anew in the block, once what is left there is gone."""
    left = [info.path for info in store.walk(folder)]
    turn()
    try:
        store.delete_many(left)
        turn()
        yield
    finally:
        if turn.is_over:
            with turn.going_on():
                update_properties(store, {PARTITIONS: "", INFLIGHT: ""})
