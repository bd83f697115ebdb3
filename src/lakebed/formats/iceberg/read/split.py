"""The splits of a read: what one task of its plan reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.formats.iceberg.data_files import FileTask
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


def starts_of_parts(offsets: Sequence[int], format: str, size: int, split_size: int) -> list[int]:
    """The first bytes of the parts that a data file is read in, by the offsets of its row groups: runs of row groups of
    about `split_size` bytes for a larger Parquet file, [0] for the whole of any other."""
    starts = [0]
    if format != "PARQUET" or size <= split_size or list(offsets) != sorted(offsets):
        return starts
    for offset in offsets[1:]:
        if offset - starts[-1] >= split_size and offset < size:
            starts.append(offset)
    return starts


def split_name(path: str, part: ByteRange | None) -> str:
    """The name of a split of a data file, for errors and logs."""
    return path if part is None else f"{path}:{part.start}"
