"""Metadata as tables: what a format calls its metadata tables (Iceberg) or system tables (Paimon).

A system table knows its schema before anything but the table's metadata is read. Its rows are made while they are read,
a batch at a time, so that a table of a million files takes no more memory than one of a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from lakebed.errors import DataCleanedError, LakebedError, UsageError, first_line, nearest_of
from lakebed.kernel.again import LOOKS, is_gone, raise_missing

_ROWS = 4096
"""Rows of a batch that is made of values."""


@dataclass(frozen=True, slots=True)
class SystemTable:
    """A system table, ready to be read. `batches` gives its rows, each batch of exactly `schema`. It may be called more
    than once. It reads the table's metadata as of the moment when this object was made. If those files are gone by
    then, a `lasting` table reads the newest metadata instead."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def read(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())


def of_rows(schema: pa.Schema, rows: Callable[[], Iterable[Sequence[Any]]]) -> SystemTable:
    """A system table of rows that are given as values, in the order of the columns of `schema`."""

    def batches() -> Iterator[pa.RecordBatch]:
        waiting = iter(rows())
        while block := list(islice(waiting, _ROWS)):
            columns = zip(*block, strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return SystemTable(schema, batches)


def lasting(make: Callable[[], SystemTable], table: str) -> SystemTable:
    """The system table that `make` gives. Other processes expire, clean and merge metadata: if a file is gone before
    the first rows are read, the system table is made again.

    Reading it raises DataCleanedError if a file goes later, or if the new system table has another schema. If the new
    one misses the same file, the file is lost, and its error is raised.
    """
    first = make()

    def batches() -> Iterator[pa.RecordBatch]:
        now, before = first, ""
        for look in range(LOOKS):
            begun = False
            try:
                for batch in now.batches():
                    yield batch
                    begun = True
                return
            except (FileNotFoundError, LakebedError) as error:
                if not is_gone(error):
                    raise
                if str(error) == before or look == LOOKS - 1 or (begun and not _is_whole(make)):
                    raise_missing(error)
                before, now = str(error), make()
                if begun or now.schema != first.schema:
                    raise DataCleanedError(
                        "the table's metadata changed while it was read",
                        table=table,
                        why=f"another process expires or merges it: {first_line(error)}",
                        todo="Read it again",
                    ) from error

    return SystemTable(first.schema, batches)


def _is_whole(make: Callable[[], SystemTable]) -> bool:
    """Whether a newly made system table can be read to its end."""
    try:
        for _ in make().batches():
            pass
    except (FileNotFoundError, LakebedError):
        return False
    return True


def named(name: object, known: Mapping[str, Callable[[], SystemTable]], table: str) -> SystemTable:
    """The system table of that name, in any case, with or without Paimon's `$`. UsageError for an unknown name says the
    nearest one and lists all."""
    plain = name.lower().removeprefix("$") if isinstance(name, str) else ""
    if plain in known:
        return known[plain]()
    near = nearest_of(plain, known)
    guess = f"Did you mean {near!r}? " if near else ""
    what = (
        f"there is no metadata table {name!r}"
        if isinstance(name, str)
        else f"a {type(name).__name__} is not a metadata table's name"
    )
    raise UsageError(what, table=table, todo=f"{guess}There are: {', '.join(sorted(known))}")
