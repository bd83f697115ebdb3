"""Data files and delete files as values, and the partition values of manifest entries.

Rule: the specification's "Manifests" (the struct `data_file`) and the reference engine's ContentFile. The columns of
many entries stay in Arrow (see `codec/manifest.py`); only the files that a plan chose become values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Bools, Int32s, from_numpy, from_values, one_chunk, scalar_of
from lakebed.kernel.keys.distinct import distinct

DELETE_FILE_PATH = 2147483546
"""Field id of the column `file_path` of position delete files."""
DELETE_FILE_POS = 2147483545
"""Field id of the column `pos` of position delete files."""

Partition = tuple[Any, ...]
"""The value of each field of a spec, in the order of the spec, as Arrow gives it to Python."""


class Content(IntEnum):
    """What a file of a manifest holds; the value is the number that manifests store."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of a file's columns by field id. Bounds are in the specification's single-value form."""

    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file. `path` is spelled as in the manifest; `format` is PARQUET, ORC or AVRO; `size` is in bytes.

    `sequence_number` is the data sequence number, also where the entry inherits it. It is None until the file is
    committed. `first_row_id` is None below format version 3, and until the file is committed.
    """

    path: str
    format: str
    spec_id: int
    partition: Partition
    record_count: int
    size: int
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    first_row_id: int | None = None
    sort_order_id: int | None = None
    split_offsets: tuple[int, ...] = ()
    metrics: Metrics | None = None
    key_metadata: bytes | None = None
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A delete file, or a deletion vector: the blob at `content_offset` of a PUFFIN file. Sizes are in bytes.

    `referenced_data_file` is set where the entry, or its bounds, say that the position deletes are of one data file.
    """

    path: str
    format: str
    content: Content
    spec_id: int
    partition: Partition
    record_count: int
    size: int
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    equality_ids: tuple[int, ...] = ()
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None
    sort_order_id: int | None = None
    split_offsets: tuple[int, ...] = ()
    metrics: Metrics | None = None
    key_metadata: bytes | None = None
    snapshot_id: int | None = None

    @property
    def is_vector(self) -> bool:
        """Whether this is a deletion vector."""
        return self.format == "PUFFIN"

    @property
    def stored_bytes(self) -> int:
        """The size of the file; of a deletion vector only that of its own part of the Puffin file."""
        return self.content_size if self.is_vector and self.content_size is not None else self.size


@dataclass(frozen=True, slots=True)
class FileTask:
    """A data file and the deletes that apply to it."""

    data: DataFile
    deletes: tuple[DeleteFile, ...] = ()


def stored_files(tasks: Iterable[FileTask]) -> Iterator[tuple[str, int]]:
    """The location and the size in bytes of each file that a reader of these tasks opens, in order. What it reads of
    delete files it keeps for the next data files, so each comes once."""
    deletes: set[str] = set()
    for task in tasks:
        yield task.data.path, task.data.size
        for delete in task.deletes:
            if delete.path not in deletes:
                deletes.add(delete.path)
                yield delete.path, delete.size


def data_files(entries: pa.Table, rows: Sequence[int] | None = None) -> list[DataFile]:
    """The data files of a table of entries, or of some of its rows."""
    files: list[DataFile] = []
    for part in _parts(entries, rows):
        columns = [_column(part, name) for name in DATA_COLUMNS]
        paths, formats, specs, counts, sizes, *numbers, offsets, keys, snapshots = columns
        split_offsets = [tuple(values or ()) for values in offsets]
        files += map(
            DataFile, paths, formats, specs, _partitions(part), counts, sizes, *numbers, split_offsets,
            _metrics(part), keys, snapshots,
        )  # fmt: skip
    return files


def delete_files(entries: pa.Table, rows: Sequence[int] | None = None) -> list[DeleteFile]:
    """The delete files of a table of entries, or of some of its rows."""
    return [
        DeleteFile(
            path=row["file_path"], format=row["file_format"], content=Content(row["content"]),
            spec_id=row["spec_id"], partition=row["partition"], record_count=row["record_count"],
            size=row["file_size_in_bytes"], equality_ids=tuple(row["equality_ids"] or ()),
            referenced_data_file=_referenced(row), content_offset=row["content_offset"],
            content_size=row["content_size_in_bytes"], **_shared(row),
        )
        for row in _rows(entries, rows)
    ]  # fmt: skip


_METRICS = (
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
)  # fmt: skip
_COLUMNS = (
    "file_path", "file_format", "spec_id", "record_count", "file_size_in_bytes", "first_row_id", "content",
    "equality_ids", "referenced_data_file", "content_offset", "content_size_in_bytes", "sequence_number",
    "file_sequence_number", "sort_order_id", "split_offsets", "key_metadata", "snapshot_id", *_METRICS,
)  # fmt: skip


DATA_COLUMNS = (
    "file_path", "file_format", "spec_id", "record_count", "file_size_in_bytes", "sequence_number",
    "file_sequence_number", "first_row_id", "sort_order_id", "split_offsets", "key_metadata", "snapshot_id",
)  # fmt: skip
"""The columns of entries that a data file as a value has, besides its partition and its metrics."""


def _parts(entries: pa.Table, rows: Sequence[int] | None) -> Iterator[pa.Table]:
    """The entries, a thousand at a time."""
    chosen = entries if rows is None else entries.take(from_values(rows, pa.int64()))
    for start in range(0, len(chosen), 1000):
        yield chosen.slice(start, 1000)


def _column(part: pa.Table, name: str) -> list[Any]:
    """The values of a column; None for each entry when the column was not read."""
    values: list[Any] = part[name].to_pylist() if name in part.column_names else [None] * len(part)
    return values


def _partitions(part: pa.Table) -> list[Partition]:
    return partition_values(part["partition"]) if "partition" in part.column_names else [()] * len(part)


def _metrics(part: pa.Table) -> list[Metrics | None]:
    if not any(name in part.column_names for name in _METRICS):
        return [None] * len(part)
    columns = [_column(part, name) for name in _METRICS]
    return [
        Metrics(*(dict(pairs or ()) for pairs in maps)) if any(pairs is not None for pairs in maps) else None
        for maps in zip(*columns, strict=True)
    ]


def _rows(entries: pa.Table, rows: Sequence[int] | None) -> Iterator[dict[str, Any]]:
    """Each entry as a dict of its columns."""
    for part in _parts(entries, rows):
        columns = [_column(part, name) for name in _COLUMNS]
        for partition, metrics, *values in zip(_partitions(part), _metrics(part), *columns, strict=True):
            yield {**dict(zip(_COLUMNS, values, strict=True)), "partition": partition, "metrics": metrics}


def _shared(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a delete file that have the name of their column."""
    names = ("sequence_number", "file_sequence_number", "sort_order_id", "key_metadata", "snapshot_id", "metrics")
    return {**{name: row[name] for name in names}, "split_offsets": tuple(row["split_offsets"] or ())}


def _referenced(row: Mapping[str, Any]) -> str | None:
    """The data file of position deletes: the one that the entry names, or the only path between its bounds."""
    named = row["referenced_data_file"]
    if named is not None or row["content"] != Content.POSITION_DELETES:
        return named if named is None else str(named)
    low, high = (dict(row[name] or ()).get(DELETE_FILE_PATH) for name in ("lower_bounds", "upper_bounds"))
    return bytes(low).decode() if low is not None and low == high else None


def partition_values(partitions: pa.ChunkedArray | pa.Array) -> list[Partition]:
    """The struct column `partition` as one tuple per entry."""
    if partitions.type.num_fields == 0:
        return [()] * len(partitions)
    columns = [pc.struct_field(partitions, [n]).to_pylist() for n in range(partitions.type.num_fields)]
    return list(zip(*columns, strict=True))


def distinct_partitions(partitions: pa.ChunkedArray | pa.Array) -> tuple[Int32s, list[Partition]]:
    """The struct column `partition` as a code per entry, and the partition of each code.

    Partitions with different codes also differ by `partition_key`.
    """
    count = len(partitions)
    if not partitions.type.num_fields or not count:
        return np.zeros(count, np.int32), [()] if count else []
    whole = one_chunk(partitions)
    codes, first = distinct([_bits(column) for column in whole.flatten()])
    return codes, partition_values(whole.take(from_numpy(first)))


def _bits(column: pa.Array) -> pa.Array:
    """Floats as the integers of their bits, since 0.0 and -0.0 are two partitions; those of all NaN are the same."""
    if not pa.types.is_floating(column.type):
        return column
    column = pc.if_else(pc.is_nan(column), scalar_of(math.nan, column.type), column)
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())


def in_places(entries: pa.Table, places: Collection[tuple[int, Partition]]) -> Bools:
    """Which entries lie in one of these (spec id, `partition_key`) pairs. All entries must be of one spec."""
    if not len(entries):
        return np.zeros(0, np.bool_)
    spec_id = entries["spec_id"][0].as_py()
    codes, values = distinct_partitions(entries["partition"])
    mask: Bools = np.array([(spec_id, partition_key(partition)) in places for partition in values])[codes]
    return mask


def partition_key(partition: Partition) -> Partition:
    """A form of the tuple that is equal exactly where Iceberg's partitions are: NaN equals NaN, 0.0 differs from
    -0.0."""
    return tuple(
        struct.pack("<d", value if value == value else math.nan) if isinstance(value, float) else value
        for value in partition
    )
