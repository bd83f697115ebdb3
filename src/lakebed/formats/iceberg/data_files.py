"""Data files, delete files, and which deletes apply to which file.

Rule: the specification's "Scan Planning" and Iceberg's DeleteFileIndex. An equality delete applies to older data (its
data sequence number is greater) of its own spec and partition, or of the whole table when its spec has no partitions; a
position delete to data that is not newer, of its own spec and partition, or of the one file that it refers to; a
deletion vector to its file, and then no position delete file does.

Columns of many entries stay in Arrow (see `codec/manifest.py`); these values are made for the files that were chosen.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.kernel.arrays import Bools, Int32s, one_chunk
from lakebed.kernel.keys.distinct import distinct

DELETE_FILE_PATH = 2147483546
"""Field id of the column `file_path` of position delete files."""
DELETE_FILE_POS = 2147483545
"""Field id of their column `pos`."""

Partition = tuple[Any, ...]
"""The values of a spec's fields in the order of the spec, as Arrow gives them to Python."""


class Content(IntEnum):
    """What a file of a manifest holds; the value is the number that manifests store."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of a file's columns by field id; bounds are in the specification's single-value form."""

    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file. `path` is spelled as the manifest spells it, `format` is PARQUET, ORC or AVRO.

    `sequence_number` is the data sequence number, with what an entry inherits filled in; None in a file that is not
    committed yet. `first_row_id` is None below format version 3 and in a file that is not committed yet.
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
    """A delete file, or a deletion vector: a blob of a PUFFIN file at `content_offset`.

    `referenced_data_file` is the one data file that a position delete is about, where the entry or its bounds say so.
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


@dataclass(frozen=True, slots=True)
class FileTask:
    """A data file and the deletes that apply to it."""

    data: DataFile
    deletes: tuple[DeleteFile, ...] = ()


def data_files(entries: pa.Table, rows: Sequence[int] | None = None) -> list[DataFile]:
    """The data files of a columnar table of entries, or of some of its rows."""
    found: list[DataFile] = []
    for part in _parts(entries, rows):
        columns = [_column(part, name) for name in _DATA_COLUMNS]
        paths, formats, specs, counts, sizes, *numbers, offsets, keys, snapshots = columns
        split_offsets = [tuple(some or ()) for some in offsets]
        found += map(
            DataFile, paths, formats, specs, _partitions(part), counts, sizes, *numbers, split_offsets,
            _metrics(part), keys, snapshots,
        )  # fmt: skip
    return found


def delete_files(entries: pa.Table, rows: Sequence[int] | None = None) -> list[DeleteFile]:
    """The delete files of a columnar table of entries, or of some of its rows."""
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


_DATA_COLUMNS = (
    "file_path", "file_format", "spec_id", "record_count", "file_size_in_bytes", "sequence_number",
    "file_sequence_number", "first_row_id", "sort_order_id", "split_offsets", "key_metadata", "snapshot_id",
)  # fmt: skip


def _parts(entries: pa.Table, rows: Sequence[int] | None) -> Iterator[pa.Table]:
    """Entries, a thousand at a time."""
    chosen = entries if rows is None else entries.take(pa.array(rows, pa.int64()))
    for start in range(0, len(chosen), 1000):
        yield chosen.slice(start, 1000)


def _column(part: pa.Table, name: str) -> list[Any]:
    """The values of a column; one that was not read is None."""
    values: list[Any] = part[name].to_pylist() if name in part.column_names else [None] * len(part)
    return values


def _partitions(part: pa.Table) -> list[Partition]:
    return partition_values(part["partition"]) if "partition" in part.column_names else [()] * len(part)


def _metrics(part: pa.Table) -> list[Metrics | None]:
    if not any(name in part.column_names for name in _METRICS):
        return [None] * len(part)
    found = zip(*(_column(part, name) for name in _METRICS), strict=True)
    return [Metrics(*(dict(some or ()) for some in row)) if any(s is not None for s in row) else None for row in found]


def _rows(entries: pa.Table, rows: Sequence[int] | None) -> Iterator[dict[str, Any]]:
    """Entries as dicts."""
    for part in _parts(entries, rows):
        columns = [_column(part, name) for name in _COLUMNS]
        for partition, metrics, *values in zip(_partitions(part), _metrics(part), *columns, strict=True):
            yield {**dict(zip(_COLUMNS, values, strict=True)), "partition": partition, "metrics": metrics}


def _shared(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("sequence_number", "file_sequence_number", "sort_order_id", "key_metadata", "snapshot_id", "metrics")
    return {**{name: row[name] for name in names}, "split_offsets": tuple(row["split_offsets"] or ())}


def _referenced(row: Mapping[str, Any]) -> str | None:
    """The data file that a position delete is about: named, or the only path that its bounds leave room for."""
    named = row["referenced_data_file"]
    if named is not None or row["content"] != Content.POSITION_DELETES:
        return named if named is None else str(named)
    low, high = (dict(row[name] or ()).get(DELETE_FILE_PATH) for name in ("lower_bounds", "upper_bounds"))
    return bytes(low).decode() if low is not None and low == high else None


def partition_values(partitions: pa.ChunkedArray | pa.Array) -> list[Partition]:
    """The struct column `partition` as tuples."""
    if partitions.type.num_fields == 0:
        return [()] * len(partitions)
    columns = [pc.struct_field(partitions, [n]).to_pylist() for n in range(partitions.type.num_fields)]
    return list(zip(*columns, strict=True))


def distinct_partitions(partitions: pa.ChunkedArray | pa.Array) -> tuple[Int32s, list[Partition]]:
    """The struct column `partition` as a number for each entry, and the partition of each number. Two numbers are never
    one partition in the sense of `partition_key`."""
    count = len(partitions)
    if not partitions.type.num_fields or not count:
        return np.zeros(count, np.int32), [()] if count else []
    whole = one_chunk(partitions)
    codes, first = distinct([_bits(column) for column in whole.flatten()])
    return codes, partition_values(whole.take(pa.array(first)))


def _bits(column: pa.Array) -> pa.Array:
    """Floats as whole numbers, since 0.0 and -0.0 are two partitions."""
    if not pa.types.is_floating(column.type):
        return column
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())


def in_places(entries: pa.Table, places: Collection[tuple[int, Partition]]) -> Bools:
    """Which entries of one spec lie in one of these (spec id, `partition_key`)s."""
    if not len(entries):
        return np.zeros(0, np.bool_)
    spec_id = entries["spec_id"][0].as_py()
    codes, values = distinct_partitions(entries["partition"])
    found: Bools = np.array([(spec_id, partition_key(one)) in places for one in values])[codes]
    return found


def partition_key(partition: Partition) -> Partition:
    """The tuple in a form that is equal exactly where Iceberg takes partitions as equal: NaN is, 0.0 and -0.0 are
    not."""
    return tuple(struct.pack("<d", value) if isinstance(value, float) else value for value in partition)


@dataclass(slots=True)
class _BySequence:
    """Delete files in the order of their sequence numbers; a suffix of them applies, made once and shared."""

    files: list[DeleteFile]
    numbers: list[int] = field(default_factory=list)
    _suffixes: dict[int, tuple[DeleteFile, ...]] = field(default_factory=dict)

    def from_number(self, least: int) -> tuple[DeleteFile, ...]:
        """Those whose sequence number is at least `least`."""
        if not self.numbers:
            self.files.sort(key=lambda file: (file.sequence_number or 0, file.path))
            self.numbers = [file.sequence_number or 0 for file in self.files]
        start = bisect.bisect_left(self.numbers, least)
        if start not in self._suffixes:
            self._suffixes[start] = tuple(self.files[start:])
        return self._suffixes[start]


class DeleteIndex:
    """The deletes of one snapshot by what they apply to.

    `unpartitioned` are the ids of specs that have no field but void ones: equality deletes written under these are
    global.
    """

    def __init__(self, deletes: Iterable[DeleteFile], unpartitioned: Collection[int]) -> None:
        self._vectors: dict[str, DeleteFile] = {}
        self._of_path: dict[str, _BySequence] = {}
        self._of_partition: dict[tuple[int, Partition], _BySequence] = {}
        self._equality: dict[tuple[int, Partition], _BySequence] = {}
        self._global = _BySequence([])
        self.is_empty = True
        for file in deletes:
            self.is_empty = False
            self._add(file, unpartitioned)

    def _add(self, file: DeleteFile, unpartitioned: Collection[int]) -> None:
        place = (file.spec_id, partition_key(file.partition))
        if file.content is Content.EQUALITY_DELETES:
            if file.spec_id in unpartitioned:
                self._global.files.append(file)
            else:
                self._equality.setdefault(place, _BySequence([])).files.append(file)
        elif file.is_vector:
            path = file.referenced_data_file
            if path is None or path in self._vectors:
                why = "it names no data file" if path is None else f"another one is for {path} too"
                raise CorruptError("a deletion vector cannot be used", file=file.path, why=why)
            self._vectors[path] = file
        elif file.referenced_data_file is not None:
            self._of_path.setdefault(file.referenced_data_file, _BySequence([])).files.append(file)
        else:
            self._of_partition.setdefault(place, _BySequence([])).files.append(file)

    def applying(self, file: DataFile) -> tuple[DeleteFile, ...]:
        """The deletes that apply to a data file: equality deletes first, each kind oldest first."""
        if self.is_empty:
            return ()
        sequence = file.sequence_number or 0
        place = (file.spec_id, partition_key(file.partition))
        found = self._global.from_number(sequence + 1) if self._global.files else ()
        if place in self._equality:
            found += self._equality[place].from_number(sequence + 1)
        vector = self._vectors.get(file.path)
        if vector is not None:
            return (*found, vector)
        if place in self._of_partition:
            found += self._of_partition[place].from_number(sequence)
        if file.path in self._of_path:
            found += self._of_path[file.path].from_number(sequence)
        return found

    def tasks(self, entries: pa.Table, rows: Sequence[int] | None = None) -> list[FileTask]:
        """The data files of a columnar table of entries, each with its deletes."""
        return [FileTask(file, self.applying(file)) for file in data_files(entries, rows)]

    def touched(self, entries: pa.Table) -> list[int]:
        """The rows of a columnar table whose path or partition has deletes: no other file has any."""
        if self._global.files:
            return list(range(len(entries)))
        paths = pa.array([*self._vectors, *self._of_path], entries["file_path"].type)
        mask = pc.is_in(entries["file_path"], value_set=paths).to_numpy(zero_copy_only=False)
        places = {place for found in (self._equality, self._of_partition) for place in found}
        if places:
            mask = mask | in_places(entries, places)
        return [int(at) for at in np.flatnonzero(mask)]
