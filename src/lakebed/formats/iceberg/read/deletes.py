"""The rows of a data file that its deletes remove, in bounded memory.

Rule: the specification's "Delete Formats". Position deletes and deletion vectors are positions in the file. Equality
deletes are rows of key columns, which are found by field id in the data file, even after a column was renamed or
dropped. There is one set of rows per combination of columns, and each batch is compared with it. A set that is too
large for that is compared in a pass of its own over the key columns alone, a part of the set at a time, which gives
positions.

The contents of delete files are cached for the next data files of this process, up to a bound.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import LongType, NestedField, StringType

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.codec.puffin import decode_vector
from lakebed.formats.iceberg.data_files import (
    DELETE_FILE_PATH,
    DELETE_FILE_POS,
    Content,
    DataFile,
    DeleteFile,
    FileTask,
)
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.conform import conformed, missing
from lakebed.formats.iceberg.read.context import KeyColumn, ReadContext
from lakebed.formats.iceberg.read.formats import OpenFile, opened, stated_of
from lakebed.formats.iceberg.read.key_sets import KeySet, distinct_rows
from lakebed.kernel.arrays import Bools, Int64s

INLINE_ROWS = 32 << 10
"""A set with more rows is not compared batch by batch, since each comparison prepares the set again."""
_CACHED_BYTES = 128 << 20
_CACHED_POSITIONS = 4 << 20
_CACHED_ROWS = 256 << 10
_DELETE_COLUMNS = (
    NestedField(DELETE_FILE_PATH, "file_path", StringType()),
    NestedField(DELETE_FILE_POS, "pos", LongType()),
)


def deleted_positions(files: Files, task: FileTask) -> Int64s | None:
    """The positions that deletion vectors and position delete files remove, ascending; None when there are none."""
    parts = [_positions(files, d, task.data) for d in task.deletes if d.content is Content.POSITION_DELETES]
    parts = [positions for positions in parts if len(positions)]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))


def rows_outside(positions: Int64s, start: int, rows: int) -> Bools | None:
    """Which of the `rows` rows from position `start` on are not at one of these ascending positions; None for all."""
    first, last = np.searchsorted(positions, [start, start + rows])
    if first == last:
        return None
    outside = np.ones(rows, np.bool_)
    outside[positions[first:last] - start] = False
    return outside


@dataclass(frozen=True, slots=True)
class EqualityGroup:
    """The equality deletes of a task that name the same columns."""

    columns: tuple[KeyColumn, ...]
    deletes: tuple[DeleteFile, ...]


def equality_groups(context: ReadContext, task: FileTask) -> list[EqualityGroup]:
    """The equality deletes of a task, grouped by the columns that they name. CorruptError for one that names none."""
    by_ids: dict[tuple[int, ...], list[DeleteFile]] = {}
    for delete in task.deletes:
        if delete.content is Content.EQUALITY_DELETES:
            if not delete.equality_ids:
                raise CorruptError("an equality delete file names no columns", file=delete.path)
            by_ids.setdefault(tuple(sorted(delete.equality_ids)), []).append(delete)
    return [EqualityGroup(tuple(map(context.key, ids)), tuple(deletes)) for ids, deletes in by_ids.items()]


def small_set(files: Files, context: ReadContext, group: EqualityGroup) -> KeySet | None:
    """The group's rows as one set; None when it is too large to compare each batch with it."""
    if sum(delete.record_count for delete in group.deletes) > 4 * INLINE_ROWS:
        return None
    name = ("set", group.columns, tuple(d.path for d in group.deletes))
    cached: KeySet | None = _cache.get(name)
    if cached is not None:
        return cached
    sets = list(key_sets(files, context, group))
    if len(sets) != 1 or sets[0].rows > INLINE_ROWS:
        return None
    _cache.put(name, sets[0], sets[0].nbytes)
    return sets[0]


def large_sets(files: Files, context: ReadContext, group: EqualityGroup) -> Iterator[KeySet]:
    """The group's rows in sets, as `key_sets` returns them; cached for the next data file unless they are too large."""
    name = ("sets", group.columns, tuple(d.path for d in group.deletes))
    cached: list[KeySet] | None = _cache.get(name)
    if cached is not None:
        yield from cached
        return
    sets: list[KeySet] = []
    size, most = 0, min(_CACHED_BYTES // 4, context.delete_memory)
    for key_set in key_sets(files, context, group):
        yield key_set
        size += key_set.nbytes
        sets = [*sets, key_set] if size <= most else []
    if sets:
        _cache.put(name, sets, size)


def key_sets(files: Files, context: ReadContext, group: EqualityGroup) -> Iterator[KeySet]:
    """The group's rows in sets that take at most about `context.delete_memory` bytes each."""
    held: list[pa.Table] = []
    size = distinct = 0
    for delete in group.deletes:
        for rows in _key_rows(files, context, group, delete):
            held.append(rows)
            size += rows.nbytes
            if size > max(2 * distinct, context.delete_memory // 4):
                held = [distinct_rows(pa.concat_tables(held))]
                size = distinct = held[0].nbytes
                if distinct > context.delete_memory // 4:
                    yield KeySet.of(held[0].columns)
                    held, size, distinct = [], 0, 0
    if held:
        yield KeySet.of(distinct_rows(pa.concat_tables(held)).columns)


def _key_rows(files: Files, context: ReadContext, group: EqualityGroup, delete: DeleteFile) -> Iterator[pa.Table]:
    """The distinct rows of one delete file, in pieces; those of a small file are cached."""
    name = ("rows", group.columns, delete.path)
    cached = _cache.get(name)
    if cached is not None:
        yield from cached
        return
    pieces: list[pa.Table] = []
    small = delete.record_count <= _CACHED_ROWS
    with opened(files, delete.path, delete.format, context.mapping, stated=stated_of(delete)) as file:
        reader = key_reader(file, group.columns, {})
        for piece in file.pieces(reader.wanted):
            columns = reader.columns(piece.rows, piece.columns)
            rows = distinct_rows(pa.table(columns, names=[str(column.id) for column in group.columns]))
            yield rows
            if small:
                pieces.append(rows)
    if small:
        _cache.put(name, pieces, sum(rows.nbytes for rows in pieces))


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Makes key columns out of a file's columns, whose numbers are `wanted`."""

    wanted: tuple[int, ...]
    makers: tuple[Callable[[int, Sequence[pa.Array]], pa.Array], ...]

    def columns(self, rows: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The key columns of a piece."""
        return [make(rows, columns) for make in self.makers]


def key_reader(file: OpenFile, keys: Sequence[KeyColumn], constants: Mapping[int, pa.Scalar]) -> KeyReader:
    """The reader of key columns of a file. A column that the file lacks has its partition value or its default."""
    places = {field.id: number for number, field in enumerate(file.fields) if field.id is not None}
    wanted = tuple(dict.fromkeys(places[key.root.field_id] for key in keys if key.root.field_id in places))

    def maker(key: KeyColumn) -> Callable[[int, Sequence[pa.Array]], pa.Array]:
        place = places.get(key.root.field_id)
        if place is None:
            constant = constants.get(key.root.field_id)
            if constant is not None:
                return lambda rows, columns: pa.repeat(constant, rows)
            return lambda rows, columns: key.inner(missing(key.root, rows))
        source, at = file.fields[place], wanted.index(place)
        return lambda rows, columns: key.inner(conformed(columns[at], source, key.root))

    return KeyReader(wanted, tuple(map(maker, keys)))


def _positions(files: Files, delete: DeleteFile, data: DataFile) -> Int64s:
    path = data.path
    if delete.is_vector:
        if delete.content_offset is None or delete.content_size is None:
            raise CorruptError("the entry of a deletion vector has no offset or no size", file=delete.path)
        blob = files.read(delete.path, delete.content_offset, delete.content_size)
        return decode_vector(blob, delete.path, _stated(data.record_count), _stated(delete.record_count))
    if delete.record_count > _CACHED_POSITIONS:
        return positions_by_path(files, delete, path).get(path, np.empty(0, np.int64))
    name = ("positions", delete.path)
    by_path: dict[str, Int64s] | None = _cache.get(name)
    if by_path is None:
        by_path = positions_by_path(files, delete)
        _cache.put(name, by_path, sum(positions.nbytes + 200 for positions in by_path.values()))
    return by_path.get(path, np.empty(0, np.int64))


def _stated(count: int) -> int | None:
    """A count in metadata; None for -1, which says that it is unknown."""
    return count if count >= 0 else None


def positions_by_path(files: Files, delete: DeleteFile, only: str | None = None) -> dict[str, Int64s]:
    """The positions in a position delete file by data file, ascending. With `only` those of that data file alone."""
    parts: dict[str, list[Int64s]] = {}
    with opened(files, delete.path, delete.format, None, ["file_path"], stated_of(delete)) as file:
        places = {field.id: number for number, field in enumerate(file.fields)}
        try:
            wanted = [places[column.field_id] for column in _DELETE_COLUMNS]
        except KeyError as error:
            raise CorruptError("a position delete file lacks its columns", file=delete.path) from error
        for piece in file.pieces(wanted):
            paths, positions = piece.columns
            if not pa.types.is_dictionary(paths.type):
                paths = paths.dictionary_encode()
            codes = paths.indices.to_numpy(zero_copy_only=False)
            numbers = positions.cast(pa.int64()).to_numpy(zero_copy_only=False)
            for code in np.unique(codes):
                path = str(paths.dictionary[int(code)])
                if only is None or path == only:
                    parts.setdefault(path, []).append(numbers[codes == code])
    return {path: np.unique(np.concatenate(positions)) for path, positions in parts.items()}


class _Cache:
    """A cache with a bound in bytes; the least recently used value goes first. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes, self._lock = most, 0, threading.Lock()
        self._held: OrderedDict[Any, tuple[Any, int]] = OrderedDict()

    def get(self, name: Any) -> Any:
        with self._lock:
            held = self._held.get(name)
            if held is None:
                return None
            self._held.move_to_end(name)
            return held[0]

    def put(self, name: Any, value: Any, size: int) -> None:
        with self._lock:
            if size > self._most // 4 or name in self._held:
                return
            self._held[name] = (value, size)
            self._bytes += size
            while self._bytes > self._most:
                _, (_, freed) = self._held.popitem(last=False)
                self._bytes -= freed


_cache = _Cache(_CACHED_BYTES)
