"""Rows that are deleted by their positions, dropped from a scan of files by Spark.

The positions are kept as bits: one row for each run of `_RUN` rows of a file that has a deleted one, in a small
DataFrame that Spark broadcasts. A row of the scan finds its run by the name of its file and its own place in it, and
its bit says whether it is deleted. Filters of a query still reach the files, and no row is compared with positions one
by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from lakebed.kernel.arrays import Int64s, from_numpy
from lakebed.spark.release import TAKES_ARROW

RUN_BYTES = 256
"""About what a run takes of memory: its bits, the name of its file, and what Spark adds."""
_SHIFT, _WORD = 10, 6
_RUN, _WORDS = 1 << _SHIFT, 1 << (_SHIFT - _WORD)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")
"""File names that Spark spells alike in paths and in URLs."""
_FILE, _PLACE, _NAME, _NUMBER, _BITS = (
    f"__lakebed_{part}" for part in ("file", "place", "deleted_of", "deleted_run", "deleted_bits")
)
_TAKEN = re.compile(r"__lakebed_|_metadata|_tmp_metadata", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """The positions of the deleted rows of a file, which no other file of its scan shares the name with."""

    name: str
    positions: Int64s

    @property
    def runs(self) -> int:
        """In how many runs of rows there are deleted ones."""
        return len(np.unique(self.positions >> _SHIFT))


def can_be_told(name: str, columns: Iterable[str]) -> bool:
    """Whether Spark tells the rows of a file with that name and these columns by their file and place. PySpark 3.5
    takes no Arrow table for what is deleted."""
    return TAKES_ARROW and _PLAIN_NAME.fullmatch(name) is not None and not any(map(_TAKEN.match, columns))


def places() -> list[Column]:
    """The columns that a scan of files needs beside its own for `without`."""
    return [f.col("_metadata.file_name").alias(_FILE), f.col("_metadata.row_index").alias(_PLACE)]


def without(spark: SparkSession, rows: DataFrame, deleted: Sequence[DeletedRows]) -> DataFrame:
    """Rows of files, which have the columns of `places`, less the deleted ones. It adds columns of its own."""
    runs = f.broadcast(spark.createDataFrame(_runs(deleted)))
    found = (f.col(_FILE) == f.col(_NAME)) & (f.shiftright(f.col(_PLACE), _SHIFT) == f.col(_NUMBER))
    word = f.get(f.col(_BITS), f.shiftright(f.col(_PLACE), _WORD).bitwiseAND(f.lit(_WORDS - 1)).cast("int"))
    bit = f.getbit(word, f.col(_PLACE).bitwiseAND(f.lit((1 << _WORD) - 1)).cast("int"))
    return rows.join(runs, found, "left_outer").where(f.coalesce(bit == 0, f.lit(True)))


def _runs(deleted: Sequence[DeletedRows]) -> pa.Table:
    """One row per run: the name of its file, its number in the file, and its bits in words of 64, lowest first."""
    names: list[str] = []
    numbers, words = [], []
    for file in deleted:
        of_file, places = np.unique(file.positions >> _SHIFT, return_inverse=True)
        bits = np.zeros((len(of_file), _RUN), np.bool_)
        bits[places, file.positions & (_RUN - 1)] = True
        names += [file.name] * len(of_file)
        numbers.append(of_file)
        words.append(np.packbits(bits, bitorder="little").view("<i8"))
    starts = np.arange(0, (len(names) + 1) * _WORDS, _WORDS, dtype=np.int32)
    bits_of_runs = pa.ListArray.from_arrays(from_numpy(starts), from_numpy(np.concatenate(words)))
    return pa.table({_NAME: pa.array(names), _NUMBER: from_numpy(np.concatenate(numbers)), _BITS: bits_of_runs})
