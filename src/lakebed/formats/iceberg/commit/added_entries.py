"""Columns of new manifest entries from data files and delete files: the reverse of `iceberg/data_files.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakebed.formats.iceberg.codec.manifest import ADDED, COLUMNS, STATS, entry_schema
from lakebed.formats.iceberg.data_files import Content, DataFile, DeleteFile
from lakebed.kernel.arrays import from_values


def added_entries(
    files: Sequence[DataFile | DeleteFile], partition: pa.StructType, snapshot_id: int, sequence_number: int | None
) -> pa.Table:
    """One new entry per file of one spec, in order. With `sequence_number` None they inherit that of their commit.

    Delete files that have a sequence number (rewritten ones) keep it.
    """
    schema = entry_schema({*COLUMNS, *STATS}, partition)
    columns = {
        name: from_values([get(file) for file in files], schema.field(name).type) for name, get in _VALUES.items()
    }
    for name in STATS:
        columns[name] = from_values([_metric(file, name) for file in files], schema.field(name).type)
    rows = len(files)
    columns |= {
        "status": from_values([ADDED] * rows, pa.int8()),
        "snapshot_id": from_values([snapshot_id] * rows, pa.int64()),
        "sequence_number": from_values([_number(file, sequence_number) for file in files], pa.int64()),
        "file_sequence_number": pa.nulls(rows, pa.int64()),
        "first_row_id": pa.nulls(rows, pa.int64()),
        "partition": _partitions(files, partition),
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _number(file: DataFile | DeleteFile, given: int | None) -> int | None:
    own = file.sequence_number if isinstance(file, DeleteFile) else None
    return given if own is None else own


def _of_delete_files(name: str) -> Callable[[DataFile | DeleteFile], Any]:
    return lambda file: getattr(file, name, None)


_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "content": lambda file: int(getattr(file, "content", Content.DATA)),
    "file_path": lambda file: file.path,
    "file_format": lambda file: file.format,
    "spec_id": lambda file: file.spec_id,
    "record_count": lambda file: file.record_count,
    "file_size_in_bytes": lambda file: file.size,
    "key_metadata": lambda file: file.key_metadata,
    "split_offsets": lambda file: list(file.split_offsets) or None,
    "equality_ids": lambda file: list(getattr(file, "equality_ids", ())) or None,
    "sort_order_id": lambda file: file.sort_order_id,
    "referenced_data_file": _of_delete_files("referenced_data_file"),
    "content_offset": _of_delete_files("content_offset"),
    "content_size_in_bytes": _of_delete_files("content_size"),
}


def _metric(file: DataFile | DeleteFile, name: str) -> list[tuple[int, Any]] | None:
    """One metric of a file's columns by field id; None if it is unknown."""
    by_field = getattr(file.metrics, name) if file.metrics is not None else {}
    return sorted(by_field.items()) or None


def _partitions(files: Sequence[DataFile | DeleteFile], partition: pa.StructType) -> pa.Array:
    columns = [
        from_values([file.partition[number] for file in files], partition.field(number).type)
        for number in range(partition.num_fields)
    ]
    return pa.Array.from_buffers(partition, len(files), [None], 0, 0, columns)
