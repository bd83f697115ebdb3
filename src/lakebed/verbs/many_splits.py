"""Splits of a plan of very many files: columns in memory, and one split made at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TypeVar, overload

import numpy as np

from lakebed.errors import LakebedError, RetryableError
from lakebed.kernel.again import is_gone
from lakebed.kernel.arrays import Int64s
from lakebed.model.split import Split

S = TypeVar("S", bound=Split)
MANY = 1 << 13
"""From so many data files on, splits are made when they are asked for."""
_AT_ONCE = 1000


def sizes_of(splits: Sequence[Split]) -> list[int]:
    """The size of each split in bytes. No split is made for it."""
    splits = splits.whole if isinstance(splits, StreamedSplits) else splits
    sizes: list[int] = splits.sizes.tolist() if isinstance(splits, ManySplits) else [split.size for split in splits]
    return sizes


class StreamedSplits(Sequence[S]):
    """Splits that come piece by piece while metadata is read, so that memory does not grow with their number.

    `pieces` reads the metadata again with each call. `len` (which `list` calls), an index and pickling load all splits
    at once (`whole`). RetryableError if the metadata has expired since the plan.
    """

    def __init__(self, pieces: Callable[[], Iterator[Sequence[S]]], whole: Callable[[], Sequence[S]]) -> None:
        self._pieces, self._whole = pieces, whole
        self._known: Sequence[S] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all splits are in memory already."""
        return self._known is not None

    @property
    def whole(self) -> Sequence[S]:
        """All splits. They stay in memory from now on."""
        if self._known is None:
            with _still_there():
                self._known = self._whole()
        return self._known

    def pieces(self) -> Iterator[Sequence[S]]:
        """All splits, in order, with few in memory at a time."""
        with _still_there():
            yield from self._pieces()

    def __iter__(self) -> Iterator[S]:
        """Each split."""
        return iter(self._known) if self._known is not None else chain.from_iterable(self.pieces())

    def __len__(self) -> int:
        """The number of splits."""
        return len(self.whole)

    @overload
    def __getitem__(self, place: int) -> S: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[S]: ...
    def __getitem__(self, place: int | slice) -> S | Sequence[S]:
        """A split, or several."""
        return self.whole[place]

    def __reduce__(self) -> tuple[Callable[[Sequence[S]], Sequence[S]], tuple[Sequence[S]]]:
        """Pickle all splits at once."""
        return _same, (self.whole,)


def _same(splits: Sequence[S]) -> Sequence[S]:
    return splits


@contextmanager
def _still_there() -> Iterator[None]:
    """A block that reads metadata some time after the plan. RetryableError if the metadata is gone."""
    try:
        yield
    except (FileNotFoundError, LakebedError) as error:
        if not is_gone(error):
            raise
        raise RetryableError(
            "metadata of the snapshot is gone",
            file=getattr(error, "file", ""),
            why="another process expired the snapshot while it was read",
            todo="Read again, and keep snapshots for longer than reads take",
        ) from error


class ManySplits(Sequence[S]):
    """Splits that are stored as columns and made on demand. Each is its own group.

    A subclass has the columns, and makes the splits at given places. It pickles as its columns.
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
        """The splits of so many tasks, each with about the same number of splits and bytes.

        Splits are dealt out largest first, forwards and then backwards, so that no task is ahead by more than one.
        """
        order = np.argsort(-self.sizes, kind="stable")
        number = np.arange(len(order))
        turn, place = np.divmod(number, tasks)
        task = np.where(turn % 2 == 0, place, tasks - 1 - place)
        by_task = order[np.argsort(task, kind="stable")]
        ends = np.cumsum(np.bincount(task))[:-1]
        return [self.taken(np.sort(places)) for places in np.split(by_task, ends)] if len(order) else []
