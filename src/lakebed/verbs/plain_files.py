"""Plain files: data files that hold rows of a table as any reader of Parquet sees them.

A format says which files of a plan's splits need nothing of its own (no log, no merge, deletes by position alone), and
which stored column is which column of the table. An engine with a Parquet reader of its own may then read those files
itself, and leave the other splits to the plan's `read`. Nobody has to: the splits of plain files can be read like all
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from lakebed.kernel.arrays import Int64s
from lakebed.kernel.files import Store
from lakebed.kernel.parquet.stored import StoredFile
from lakebed.kernel.predicates.tree import Node
from lakebed.model.split import Split

S = TypeVar("S", bound=Split)


@dataclass(frozen=True, slots=True)
class Deletes:
    """The deletes of one data file by position. `stated` is how many positions metadata says are stored, those of other
    files included. `positions` reads them: the positions of deleted rows, ascending, None for none. It raises what a
    read of the file raises."""

    stated: int
    positions: Callable[[], Int64s | None]


@dataclass(frozen=True, slots=True)
class Search:
    """Which rows of the files of a piece count, where no file states it and only their keys tell. `size` is of how many
    bytes of data files the keys are looked through. `positions` does it: of each file the positions of the rows that do
    not count, ascending, those that its own `deletes` name included. It raises what a read of the files raises, and
    NotPlainError."""

    size: int
    positions: Callable[[], Sequence[Int64s]]


class NotPlainError(Exception):
    """Only the rows showed that a file must be read by its format's own reader."""


@dataclass(frozen=True, slots=True)
class PlainFile:
    """A data file by its path in a store, with the bytes and rows that metadata states: None where it does not. `about`
    is what its format knows of it. `deletes` tells which rows of it are deleted, None: no row is."""

    store: Store
    path: str
    size: int | None
    rows: int | None
    about: object
    deletes: Deletes | None = None


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """Where the values of a column come from: the file's column `stored`, or one value for all rows."""

    stored: str = ""
    constant: pa.Scalar | None = None


@dataclass(frozen=True, slots=True)
class Piece(Generic[S]):
    """Splits that are read together.

    `files` are data files that any reader may read instead. Without their deleted rows, and without the rows that a
    `search` finds, they have exactly the rows of the splits. If there are none, the format's own reader must read the
    splits. `overlay` are splits whose rows come on top of those of `files`: new rows, and rows that replace deleted
    ones. The plan's `read` reads them."""

    splits: tuple[S, ...]
    files: tuple[PlainFile, ...] = ()
    overlay: tuple[S, ...] = ()
    search: Search | None = None


@dataclass(frozen=True, slots=True)
class PlainReads(Generic[S]):
    """What a format knows of the plain files of a plan.

    `schema` has the columns of the plan, then those that only `predicate` names, which keeps rows (None: all). `pieces`
    takes splits apart into as small pieces as can be read alone. `columns` says where the columns of `schema` come from
    in a file with that footer: None where only the format's own reader knows.
    """

    schema: pa.Schema
    predicate: Node | None
    pieces: Callable[[Sequence[S]], Iterator[Piece[S]]]
    columns: Callable[[PlainFile, StoredFile], tuple[PlainColumn, ...] | None]
