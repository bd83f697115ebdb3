"""Splits of a plan of very many files: columns in memory, and one split made at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

import numpy as np

from lakebed.kernel.arrays import Int64s
from lakebed.model.split import Split

S = TypeVar("S", bound=Split)
MANY = 1 << 13
"""From so many data files on, splits are made when they are asked for."""
_AT_ONCE = 1000


def sizes_of(splits: Sequence[Split]) -> list[int]:
    """The size of each split in bytes. No split is made for it."""
    sizes: list[int] = splits.sizes.tolist() if isinstance(splits, ManySplits) else [split.size for split in splits]
    return sizes


class ManySplits(Sequence[S]):
    """Splits that are made of columns when they are asked for. Each is a group of its own.

    A subclass has its columns, and makes the splits at some places. It pickles as its columns.
    """

    sizes: Int64s
    """The size of each split in bytes."""

    @abstractmethod
    def made(self, places: Int64s) -> Iterator[S]:
        """The splits at these places, in this order."""

    @abstractmethod
    def taken(self, places: Int64s) -> Sequence[S]:
        """The splits at these places, in this order, without the columns of the others."""

    def __len__(self) -> int:
        """The number of splits."""
        return len(self.sizes)

    @overload
    def __getitem__(self, place: int) -> S: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[S]: ...
    def __getitem__(self, place: int | slice) -> S | Sequence[S]:
        """A split, or several."""
        if isinstance(place, slice):
            return tuple(self.made(np.arange(len(self))[place]))
        return next(self.made(np.array([range(len(self))[place]])))

    def __iter__(self) -> Iterator[S]:
        """Each split. Only some are in memory at a time."""
        for start in range(0, len(self), _AT_ONCE):
            yield from self.made(np.arange(start, min(start + _AT_ONCE, len(self))))

    def spread(self, tasks: int) -> list[Sequence[S]]:
        """The splits over so many tasks, each with about equally many of them and of their bytes.

        Largest first, they are dealt out forwards and then backwards, so that no task is ahead by more than one split.
        """
        order = np.argsort(-self.sizes, kind="stable")
        number = np.arange(len(order))
        turn, place = np.divmod(number, tasks)
        task = np.where(turn % 2 == 0, place, tasks - 1 - place)
        by_task = order[np.argsort(task, kind="stable")]
        ends = np.cumsum(np.bincount(task))[:-1]
        return [self.taken(np.sort(places)) for places in np.split(by_task, ends)] if len(order) else []
