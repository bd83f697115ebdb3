"""Bytes of commit messages and compaction tasks, as Paimon's own jobs exchange and save them.

Rules: Paimon's CommitMessageSerializer (version 10), AppendCompactTaskSerializer (version 2),
MultiTableCompactionTaskSerializer (version 1). The version stands outside the bytes; any other version is refused,
since its layout differs. Numbers around the rows are big-endian.

Compactions of append tables carry their tasks to workers in this form, those of many tables at once with the names of
the tables. Commit messages are for jobs that share the work with Paimon's own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon.codec.binary_row import decode_row, encode_row
from lakebed.formats.paimon.codec.manifest import (
    ADD,
    DELETION_VECTORS,
    DataFileMeta,
    DeletionVectorRange,
    IndexManifestEntry,
    SimpleStats,
)
from lakebed.formats.paimon.codec.types import MAX_LENGTH, DataType
from lakebed.formats.paimon.commit.message import PaimonMessage

COMMIT_MESSAGE_VERSION = 10
APPEND_TASK_VERSION = 2
MULTI_TABLE_TASK_VERSION = 1

T = TypeVar("T")

_TEXT = DataType("VARCHAR", length=MAX_LENGTH)
_LONG, _INT, _TINY = DataType("BIGINT"), DataType("INT"), DataType("TINYINT")
_MILLIS = DataType("TIMESTAMP", precision=3)
_BYTES = DataType("VARBINARY", length=MAX_LENGTH)
_NESTED = _BYTES
"""Rows and arrays inside a row are stored like long bytes; none is short enough to be inlined."""

_STATS_TYPES = (_BYTES, _BYTES, _NESTED)
_FILE_TYPES = (
    *(_TEXT, _LONG, _LONG, _BYTES, _BYTES, _NESTED, _NESTED, _LONG, _LONG, _LONG, _INT, _NESTED, _MILLIS),
    *(_LONG, _BYTES, _TINY, _NESTED, _TEXT, _LONG, _NESTED),
)
_INDEX_TYPES = (_TEXT, _TEXT, _LONG, _LONG, _NESTED, _TEXT)
_RANGE_TYPES = (_TEXT, _INT, _INT, _LONG)
_NAME_TYPES = (_TEXT, _TEXT)


@dataclass(frozen=True, slots=True)
class AppendCompactTask:
    """A task that makes one file of several files in one partition of an append table. `partition` is the serialized
    row."""

    partition: bytes
    compact_before: tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True)
class MultiTableCompactTask:
    """A compaction task of the table `database`.`table`."""

    task: AppendCompactTask
    database: str
    table: str


def serialize_message(message: PaimonMessage) -> bytes:
    """A commit message in version 10. What only lakebed has in it (folder, key hashes) is left out."""
    out = _Writer()
    out.block(message.partition)
    out.int(message.bucket)
    out.raw(struct.pack(">?i", True, message.total_buckets))
    for files in (message.new_files, message.deleted_files, message.changelog_files):
        out.rows(files, _file_row)
    for indexes in (message.new_index_files, message.deleted_index_files):
        out.rows(indexes, _index_row)
    for files in (message.compact_before, message.compact_after, message.compact_changelog):
        out.rows(files, _file_row)
    for indexes in (message.compact_new_index_files, message.compact_deleted_index_files):
        out.rows(indexes, _index_row)
    return bytes(out.data)


def deserialize_message(version: int, data: bytes, folder: str = "") -> PaimonMessage:
    """A commit message from bytes in version 10. `folder` is its bucket's folder, which the bytes do not name.
    UnsupportedError for another version."""
    _check(version, COMMIT_MESSAGE_VERSION, "CommitMessage", "Commit the messages with the version that wrote them")
    source = _Reader(data)
    partition, bucket = source.block(), source.int()
    total = source.int() if source.raw(1) == b"\x01" else -1
    new, deleted, changelog = (source.rows(_file_value) for _ in range(3))
    indexes, gone = (source.rows(lambda row: _index_value(row, partition, bucket)) for _ in range(2))
    before, after, compact_changelog = (source.rows(_file_value) for _ in range(3))
    compact_indexes, compact_gone = (source.rows(lambda row: _index_value(row, partition, bucket)) for _ in range(2))
    source.end()
    return PaimonMessage(
        partition,
        bucket,
        total,
        folder,
        new,
        deleted,
        changelog,
        indexes,
        gone,
        before,
        after,
        compact_changelog,
        compact_indexes,
        compact_gone,
    )


def serialize_append_task(task: AppendCompactTask) -> bytes:
    """A compaction task in version 2."""
    out = _Writer()
    out.block(task.partition)
    out.rows(task.compact_before, _file_row)
    return bytes(out.data)


def deserialize_append_task(version: int, data: bytes) -> AppendCompactTask:
    """A compaction task from bytes in version 2. UnsupportedError for another version."""
    _check(version, APPEND_TASK_VERSION, "CompactionTask", _RESTART)
    source = _Reader(data)
    task = AppendCompactTask(source.block(), source.rows(_file_value))
    source.end()
    return task


def serialize_append_tasks(tasks: Sequence[AppendCompactTask]) -> bytes:
    """A list of compaction tasks: their number, then one after the other."""
    return struct.pack(">i", len(tasks)) + b"".join(map(serialize_append_task, tasks))


def deserialize_append_tasks(version: int, data: bytes) -> list[AppendCompactTask]:
    """A list of compaction tasks from bytes in version 2. UnsupportedError for another version."""
    _check(version, APPEND_TASK_VERSION, "CompactionTask", _RESTART)
    source = _Reader(data)
    tasks = [AppendCompactTask(source.block(), source.rows(_file_value)) for _ in range(source.int())]
    source.end()
    return tasks


def serialize_multi_table_task(task: MultiTableCompactTask) -> bytes:
    """A compaction task with its table, in version 1."""
    out = _Writer()
    out.raw(serialize_append_task(task.task))
    out.sized(encode_row((task.database, task.table), _NAME_TYPES))
    return bytes(out.data)


def deserialize_multi_table_task(version: int, data: bytes) -> MultiTableCompactTask:
    """A compaction task with its table, from bytes in version 1. UnsupportedError for another version."""
    _check(version, MULTI_TABLE_TASK_VERSION, "MultiTableCompactionTask", _RESTART)
    source = _Reader(data)
    task = AppendCompactTask(source.block(), source.rows(_file_value))
    database, table = decode_row(source.sized(), _NAME_TYPES)
    source.end()
    return MultiTableCompactTask(task, database, table)


_RESTART = "It is not a compatible data structure: restart the job afresh, do not recover it from a savepoint"


def _check(version: int, ours: int, what: str, todo: str) -> None:
    if version != ours:
        raise UnsupportedError(f"expecting {what} version to be {ours}, but found {version}", todo=todo)


@dataclass(slots=True)
class _Writer:
    data: bytearray = field(default_factory=bytearray)

    def raw(self, data: bytes) -> None:
        self.data += data

    def int(self, value: int) -> None:
        self.data += struct.pack(">i", value)

    def sized(self, row: bytes) -> None:
        self.int(len(row))
        self.data += row

    def block(self, serialized: bytes) -> None:
        """A serialized row: length, arity, row."""
        self.sized(serialized)

    def rows(self, items: Sequence[T], row: Callable[[T], bytes]) -> None:
        self.int(len(items))
        for item in items:
            self.sized(row(item))


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = 0

    def raw(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise CorruptError(
                "serialized bytes end too early", why=f"{size} bytes were expected at {self.at} of {len(self.data)}"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def int(self) -> int:
        (value,) = struct.unpack(">i", self.raw(4))
        return int(value)

    def sized(self) -> bytes:
        return self.raw(self.int())

    def block(self) -> bytes:
        return self.sized()

    def rows(self, value: Callable[[bytes], T]) -> tuple[T, ...]:
        return tuple(value(self.sized()) for _ in range(self.int()))

    def end(self) -> None:
        if self.at != len(self.data):
            raise CorruptError(
                "serialized bytes go on after their end", why=f"{len(self.data) - self.at} bytes are left"
            )


# ---- rows
# --------------------------------------------------------------------------------------------------------------


def _file_row(file: DataFileMeta) -> bytes:
    return encode_row(
        (
            file.file_name,
            file.file_size,
            file.row_count,
            file.min_key,
            file.max_key,
            _stats_row(file.key_stats),
            _stats_row(file.value_stats),
            file.min_sequence_number,
            file.max_sequence_number,
            file.schema_id,
            file.level,
            encode_array(file.extra_files, _TEXT),
            file.creation_time,
            file.delete_row_count,
            file.embedded_index,
            file.file_source,
            _optional_array(file.value_stats_cols),
            file.external_path,
            file.first_row_id,
            _optional_array(file.write_cols),
        ),
        _FILE_TYPES,
    )


def _file_value(row: bytes) -> DataFileMeta:
    values = list(decode_row(row, _FILE_TYPES))
    values[5], values[6] = _stats_value(values[5]), _stats_value(values[6])
    values[11] = tuple(decode_array(values[11], _TEXT))
    for place in (16, 19):
        values[place] = None if values[place] is None else tuple(decode_array(values[place], _TEXT))
    return DataFileMeta(*values)


def _stats_row(stats: SimpleStats) -> bytes:
    return encode_row((stats.min_values, stats.max_values, encode_array(stats.null_counts, _LONG)), _STATS_TYPES)


def _stats_value(row: bytes) -> SimpleStats:
    low, high, nulls = decode_row(row, _STATS_TYPES)
    return SimpleStats(low, high, () if nulls is None else tuple(decode_array(nulls, _LONG)))


def _index_row(index: IndexManifestEntry) -> bytes:
    ranges = None
    if index.ranges is not None:
        rows = [
            encode_row((place.data_file, place.offset, place.length, place.cardinality), _RANGE_TYPES)
            for place in index.ranges
        ]
        ranges = encode_array(rows, _NESTED)
    return encode_row(
        (index.index_type, index.file_name, index.file_size, index.row_count, ranges, index.external_path), _INDEX_TYPES
    )


def _index_value(row: bytes, partition: bytes, bucket: int) -> IndexManifestEntry:
    kind, name, size, rows, ranges, path = decode_row(row, _INDEX_TYPES)
    deletions = None
    if ranges is not None:
        deletions = tuple(
            DeletionVectorRange(*decode_row(item, _RANGE_TYPES)) for item in decode_array(ranges, _NESTED)
        )
    elif kind == DELETION_VECTORS:
        deletions = ()
    return IndexManifestEntry(ADD, partition, bucket, kind, name, size, rows, deletions, path)


def _optional_array(values: Sequence[str] | None) -> bytes | None:
    return None if values is None else encode_array(values, _TEXT)


def encode_array(values: Sequence[Any], kind: DataType) -> bytes:
    """A BinaryArray: count, null bits in words of four bytes, elements of eight bytes, variable part; padded to a
    multiple of eight bytes."""
    head = 4 + (len(values) + 31) // 32 * 4
    nulls = sum(1 << place for place, value in enumerate(values) if value is None)
    # an array's elements are those of a row whose header is as long as the array's
    row = encode_row(values, [kind] * len(values))
    row_head = len(encode_row([None] * len(values), [_LONG] * len(values))) - 8 * len(values)
    shift = head - row_head
    body = bytearray(row[row_head:])
    for place, value in enumerate(values):
        at = 8 * place
        if kind.root in ("VARCHAR", "VARBINARY") and value is not None and not body[at + 7] & 0x80:
            size, offset = struct.unpack_from("<ii", body, at)
            struct.pack_into("<ii", body, at, size, offset + shift)
    array = struct.pack("<i", len(values)) + nulls.to_bytes(head - 4, "little") + bytes(body)
    return array + bytes(-len(array) % 8)


def decode_array(data: bytes, kind: DataType) -> list[Any]:
    """The elements of a BinaryArray of eight-byte elements."""
    (count,) = struct.unpack_from("<i", data)
    head = 4 + (count + 31) // 32 * 4
    nulls = int.from_bytes(data[4:head], "little")
    values: list[Any] = []
    for place in range(count):
        at = head + 8 * place
        if nulls >> place & 1:
            values.append(None)
        elif kind.root == "BIGINT":
            values.append(struct.unpack_from("<q", data, at)[0])
        elif data[at + 7] & 0x80:
            values.append(data[at : at + (data[at + 7] & 0x7F)])
        else:
            size, offset = struct.unpack_from("<ii", data, at)
            values.append(data[offset : offset + size])
    return [item.decode() if kind.root == "VARCHAR" and isinstance(item, bytes) else item for item in values]
