"""Rows that are deleted by their positions, dropped from a scan of files by Spark.

The positions are kept as bits, in one array of words that is the value of a scalar subquery: every task has it, and
looking into it costs a few nanoseconds. A row of the scan goes from the checksum of its file's name to the runs of its
file, from its place in the file to the number of its run of `_RUN` rows, and from that number to its bit. Runs without
a deleted row share words of zeros. No row is joined with anything, filters of a query still reach the files, and the
whole test is one filter in the code that Spark generates for the scan.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakebed.kernel.arrays import Int64s, from_numpy
from lakebed.spark.release import TAKES_ARROW

_SHIFT, _WORD = 10, 6
_RUN, _WORDS = 1 << _SHIFT, 1 << (_SHIFT - _WORD)
_NUMBER_BITS, _FILE_BYTES = 16, 144
MOST_BYTES = (1 << _NUMBER_BITS) * _RUN // 8
"""The runs that have deleted rows are numbered in so many bits, so they never take more than this (8 MB)."""
_FEW = 128
"""So many files get a directory in which a row looks once, of at most `_SPARSE` words per file."""
_SPARSE = 16
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")
"""File names that Spark spells alike in paths and in URLs."""
_FILE, _PLACE, _BITS = (f"__lakebed_{part}" for part in ("file", "place", "deleted_bits"))
PLACES = (f"crc32(cast(_metadata.file_name AS binary)) AS {_FILE}", f"_metadata.row_index AS {_PLACE}")
"""SQL for the file of a row (its key) and the row's position in that file."""
_TAKEN = re.compile(r"__lakebed_|_metadata|_tmp_metadata", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """The positions of the deleted rows of a file of so many `rows`. No other file of its scan has its key."""

    key: int
    rows: int
    positions: Int64s

    @property
    def size(self) -> int:
        """About how many bytes it takes on each executor."""
        deleted_runs = len(np.unique(self.positions >> _SHIFT))
        return _FILE_BYTES + _runs(self.rows) * _NUMBER_BITS // 8 + deleted_runs * _RUN // 8


def key_of(name: str) -> int:
    """By which a row of a scan says what file it is of. It is the CRC-32 that Spark computes of the name."""
    return zlib.crc32(name.encode())


def can_be_told(name: str, columns: Iterable[str]) -> bool:
    """Whether Spark tells the rows of a file with that name and these columns by their file and place. PySpark 3.5
    takes no Arrow table for what is deleted."""
    return TAKES_ARROW and _PLAIN_NAME.fullmatch(name) is not None and not any(map(_TAKEN.match, columns))


def without(spark: SparkSession, rows: DataFrame, deleted: Sequence[DeletedRows]) -> DataFrame:
    """The rows of a scan of files that all have deleted rows, less the deleted ones. `rows` have the columns `PLACES`;
    the result has columns of our own."""
    directory = Directory.of(np.array([file.key for file in deleted], np.int64))
    words, first_bits = _words(directory, deleted)
    row = pa.ListArray.from_arrays(from_numpy(np.array([0, len(words)], np.int32)), from_numpy(words))
    # A column that is named once and used often: Spark then computes the subquery once.
    held = spark.createDataFrame(pa.table({_BITS: row})).scalar().alias(_BITS)
    return rows.select("*", held).where(f"coalesce({_bit(directory, first_bits)} = 0, true)")


def _bit(directory: Directory, first_bits: int) -> str:
    """The bit of a row, in SQL: each call of a Column would go to the JVM and back."""
    slot = f"{_FILE} % {directory.width}L"
    if directory.span > 1:
        slot = f"{_word(slot)} + {_FILE} % {directory.span}L"
    four_runs = _word(f"{_word(slot)} + shiftright({_PLACE}, {_SHIFT + 2})")
    run_of_four = f"cast((shiftright({_PLACE}, {_SHIFT}) & 3) * {_NUMBER_BITS} AS int)"
    number = f"(shiftright({four_runs}, {run_of_four}) & {(1 << _NUMBER_BITS) - 1})"
    bits = _word(f"{first_bits} + {number} * {_WORDS} + (shiftright({_PLACE}, {_WORD}) & {_WORDS - 1})")
    return f"getbit({bits}, cast({_PLACE} & {(1 << _WORD) - 1} AS int))"


def _word(place: str) -> str:
    return f"get({_BITS}, cast({place} AS int))"


@dataclass(frozen=True, slots=True)
class Directory:
    """The slot of each file, as a place in the array of words.

    With a `span` of 1 it is the remainder of the file's key by `width`. Else the word at that remainder says where the
    slots of such files start, and the remainder of the key by `span` is added to it.
    """

    width: int
    span: int
    starts: Int64s
    slots: Int64s

    @classmethod
    def of(cls, keys: Int64s) -> Directory:
        """A directory for files with these distinct keys."""
        count = len(keys)
        for width in range(count, _SPARSE * count if count <= _FEW else 0):
            if len(np.unique(keys % width)) == count:
                return cls(width, 1, np.zeros(0, np.int64), keys % width)
        return cls._displaced(keys)

    @classmethod
    def _displaced(cls, keys: Int64s) -> Directory:
        """Files of one remainder are moved together until none of their slots is taken (Tarjan and Yao, "Storing a
        sparse table", 1979), those with most files first."""
        count, span = len(keys), 2
        while len({*zip((keys % count).tolist(), (keys % span).tolist(), strict=True)}) < count:
            span += 1
        order = np.argsort(keys % count, kind="stable")
        remainders, firsts = np.unique((keys % count)[order], return_index=True)
        groups = np.split(order, firsts[1:])
        # Each file of a group rules out as many starts as slots are taken, so one of so many is free.
        tries = 1 + count * max(map(len, groups))
        taken = np.zeros(tries + span, np.bool_)
        starts, slots = np.full(count, count, np.int64), np.zeros(count, np.int64)
        for number in sorted(range(len(groups)), key=lambda number: -len(groups[number])):
            offsets = keys[groups[number]] % span
            start = int(np.argmin(np.any([taken[offset : offset + tries] for offset in offsets], axis=0)))
            taken[start + offsets] = True
            starts[remainders[number]] += start
            slots[groups[number]] = count + start + offsets
        return cls(count, span, starts, slots)


def _words(directory: Directory, deleted: Sequence[DeletedRows]) -> tuple[Int64s, int]:
    """The directory, for each run of each file the number of its bits, four numbers in a word, and from the returned
    place on the bits, lowest first. Those of number 0 are zeros: runs without deleted rows have it."""
    sizes = [-(-_runs(file.rows) // 4) for file in deleted]
    firsts = int(directory.slots.max()) + 1 + np.cumsum([0, *sizes])
    first_bits = int(firsts[-1])
    head = np.zeros(first_bits, np.int64)
    head[: len(directory.starts)] = directory.starts
    head[directory.slots] = firsts[:-1]
    numbers = head.view("<u2")
    bits, following = [np.zeros(_WORDS, np.int64)], 1
    for file, first in zip(deleted, firsts, strict=False):
        of_file, places = np.unique(file.positions >> _SHIFT, return_inverse=True)
        of_rows = np.zeros((len(of_file), _RUN), np.bool_)
        of_rows[places, file.positions & (_RUN - 1)] = True
        numbers[4 * first + of_file] = following + np.arange(len(of_file))
        bits.append(np.packbits(of_rows, bitorder="little").view("<i8"))
        following += len(of_file)
    return np.concatenate([head, *bits]), first_bits


def _runs(rows: int) -> int:
    """The number of runs that so many rows of a file make."""
    return -(-rows // _RUN)
