"""Data files that a cleaner removed between the plan of a read and its task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.errors import DataCleanedError
from lakebed.kernel.files import Store


@contextmanager
def expecting(store: Store, path: str) -> Iterator[None]:
    """A block that reads a file which a plan named. Raises DataCleanedError when the file is gone."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataCleanedError(
            "a base or log file is gone",
            table=store.location,
            file=path,
            why="a clean removed it after the read was planned, or it is lost",
            todo="Read again. If reads take long, let the cleaner retain more commits",
        ) from error
