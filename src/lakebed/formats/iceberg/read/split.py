"""The splits of a read: what one task of its plan reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakebed.formats.iceberg.data_files import FileTask
from lakebed.formats.iceberg.options import SPLIT_SIZE
from lakebed.model.split import Split


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a Parquet file: the row groups that begin at a byte in [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class IcebergSplit(Split):
    """A data file with its deletes; with `part` only the row groups that begin in that range of bytes."""

    task: FileTask
    part: ByteRange | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """The rows of a data file in one of two snapshots: all of its live rows, or with `other` the rows that are deleted
    when the deletes of `other` apply to the file instead."""

    task: FileTask
    other: FileTask | None = None


@dataclass(frozen=True, slots=True)
class ChangeSplit(Split):
    """Removed and added rows that must be compared: a row on both sides was only carried over."""

    removed: tuple[Side, ...] = ()
    added: tuple[Side, ...] = ()


def splits_of(task: FileTask, split_size: int = SPLIT_SIZE.default) -> Iterator[IcebergSplit]:
    """The splits of one data file: the whole file, or for a Parquet file larger than `split_size` bytes runs of row
    groups of about that size."""
    data = task.data
    offsets = data.split_offsets
    if data.format != "PARQUET" or data.size <= split_size or len(offsets) < 2 or list(offsets) != sorted(offsets):
        yield IcebergSplit(data.path, data.size, task)
        return
    start = 0
    for offset in (*offsets[1:], data.size):
        if offset - start >= split_size or offset == data.size:
            yield IcebergSplit(f"{data.path}:{start}", offset - start, task, ByteRange(start, offset))
            start = offset
