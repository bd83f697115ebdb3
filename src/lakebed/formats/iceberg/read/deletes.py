"""The rows of a data file that its deletes remove, in bounded memory.

Rule: the specification's "Delete Formats". Position deletes and deletion vectors are positions in the file. Equality
deletes are rows of key columns, which are found by field id in the data file, even after a column was renamed or
dropped. There is one set of rows per combination of columns, and each batch is compared with it. A set that is too
large for that is compared in a pass of its own over the key columns alone, a part of the set at a time, which gives
positions.

The contents of delete files are cached for the next data files of this process, up to a bound. Tasks that need the same
file at the same time read it once. From a remote store, all deletes of a data file are read together with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

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
from lakebed.formats.iceberg.read.delete_cache import OnceCache
from lakebed.formats.iceberg.read.formats import OpenFile, gone, opened, stated_of
from lakebed.formats.iceberg.read.key_sets import KeySet, distinct_rows
from lakebed.kernel.arrays import Bools, Int64s, to_numpy

INLINE_ROWS = 32 << 10
"""A set with more rows is not compared batch by batch, since each comparison prepares the set again."""
_CACHED_POSITIONS = 4 << 20
_CACHED_ROWS = 256 << 10
_WHOLE_PUFFIN = 1 << 20
"""A remote Puffin file of at most so many bytes is read whole."""
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


@contextmanager
def deletes_ahead(files: Files, context: ReadContext, task: FileTask) -> Iterator[None]:
    """A block that opens a task's data file: where the table is remote, the file and its deletes are fetched together.

    Deletes that are too large for the cache are read later, in pieces.
    """
    reads = [] if files.home.at_once == 1 else [*_reads_ahead(files, context, task)]
    data = [(task.data.path, task.data.size)] if reads and task.data.size > 0 else []
    with files.fetching(data):
        files.together(lambda read: read(), reads)
        yield


def read_deletes(files: Files, context: ReadContext, tasks: Iterable[FileTask]) -> None:
    """Read the deletes of these tasks together, where the table is remote, to be found in the cache."""
    if files.home.at_once > 1:
        files.together(lambda read: read(), [read for task in tasks for read in _reads_ahead(files, context, task)])


def _reads_ahead(files: Files, context: ReadContext, task: FileTask) -> Iterator[Callable[[], object]]:
    """The reads of a task's deletes that are neither cached nor under way."""
    for delete in task.deletes:
        if delete.content is Content.POSITION_DELETES:
            if delete.is_vector and not _cache.has(_blob_name(delete)):
                yield partial(_blob, files, delete)
            elif not delete.is_vector and _is_small(delete) and not _cache.has(_positions_name(delete)):
                yield partial(_file_positions, files, delete)
    for group in equality_groups(context, task):
        if not any(_cache.has(_group_name(kind, group)) for kind in ("set", "sets")):
            for delete in group.deletes:
                if delete.record_count <= _CACHED_ROWS and not _cache.has(_rows_name(group, delete)):
                    yield partial(_small_key_rows, files, context, group, delete)


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

    def read() -> tuple[KeySet | None, int]:
        sets = list(key_sets(files, context, group))
        if len(sets) != 1 or sets[0].rows > INLINE_ROWS:
            return None, 0
        return sets[0], sets[0].nbytes

    key_set: KeySet | None = _cache.once(_group_name("set", group), read)
    return key_set


def large_sets(files: Files, context: ReadContext, group: EqualityGroup) -> Iterator[KeySet]:
    """The group's rows in sets, as `key_sets` returns them; cached for the next data file unless they are too large."""
    name = _group_name("sets", group)
    cached: list[KeySet] | None = _cache.get(name)
    if cached is not None:
        yield from cached
        return
    sets: list[KeySet] = []
    size, most = 0, min(_cache.largest, context.delete_memory)
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
    if delete.record_count <= _CACHED_ROWS:
        return iter(_small_key_rows(files, context, group, delete))
    return _read_key_rows(files, context, group, delete)


def _small_key_rows(files: Files, context: ReadContext, group: EqualityGroup, delete: DeleteFile) -> list[pa.Table]:
    def read() -> tuple[list[pa.Table], int]:
        pieces = [*_read_key_rows(files, context, group, delete)]
        return pieces, sum(rows.nbytes for rows in pieces)

    rows: list[pa.Table] = _cache.once(_rows_name(group, delete), read)
    return rows


def _read_key_rows(files: Files, context: ReadContext, group: EqualityGroup, delete: DeleteFile) -> Iterator[pa.Table]:
    with opened(files, delete.path, delete.format, context.mapping, stated=stated_of(delete)) as file:
        reader = key_reader(file, group.columns, {})
        for piece in file.pieces(reader.wanted):
            columns = reader.columns(piece.rows, piece.columns)
            yield distinct_rows(pa.table(columns, names=[str(column.id) for column in group.columns]))


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
        blob = _blob(files, delete)
        return decode_vector(blob, delete.path, _stated(data.record_count), _stated(delete.record_count))
    if not _is_small(delete):
        return positions_by_path(files, delete, path).get(path, np.empty(0, np.int64))
    return _file_positions(files, delete).get(path, np.empty(0, np.int64))


def _file_positions(files: Files, delete: DeleteFile) -> dict[str, Int64s]:
    """The positions in a position delete file by data file, from the cache where it has them."""

    def read() -> tuple[dict[str, Int64s], int]:
        by_path = positions_by_path(files, delete)
        return by_path, sum(positions.nbytes + 200 for positions in by_path.values())

    by_path: dict[str, Int64s] = _cache.once(_positions_name(delete), read)
    return by_path


def _blob(files: Files, delete: DeleteFile) -> bytes:
    """The blob of a deletion vector. A small Puffin file of a remote table is read whole, once for all its vectors."""
    offset, size = delete.content_offset, delete.content_size
    if offset is None or size is None:
        raise CorruptError("the entry of a deletion vector has no offset or no size", file=delete.path)
    try:
        if files.home.at_once == 1:
            return files.read(delete.path, offset, size)
        part = (0, None) if _reads_whole(delete) else (offset, size)
        data: bytes = _cache.once(_blob_name(delete), lambda: _sized(files.read(delete.path, *part)))
    except FileNotFoundError as error:
        raise gone(files, delete.path) from error
    return data[offset : offset + size] if _reads_whole(delete) else data


def _sized(data: bytes) -> tuple[bytes, int]:
    return data, len(data)


def _reads_whole(delete: DeleteFile) -> bool:
    return 0 < delete.size <= _WHOLE_PUFFIN


def _blob_name(delete: DeleteFile) -> Hashable:
    return ("puffin", delete.path) if _reads_whole(delete) else ("vector", delete.path, delete.content_offset)


def _positions_name(delete: DeleteFile) -> Hashable:
    return "positions", delete.path


def _rows_name(group: EqualityGroup, delete: DeleteFile) -> Hashable:
    return "rows", group.columns, delete.path


def _group_name(kind: str, group: EqualityGroup) -> Hashable:
    return kind, group.columns, tuple(delete.path for delete in group.deletes)


def _is_small(delete: DeleteFile) -> bool:
    """Whether the positions of all data files in a position delete file are cached."""
    return delete.record_count <= _CACHED_POSITIONS


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
            codes = to_numpy(paths.indices)
            numbers = to_numpy(positions.cast(pa.int64()))
            for code in np.unique(codes):
                path = str(paths.dictionary[int(code)])
                if only is None or path == only:
                    parts.setdefault(path, []).append(numbers[codes == code])
    return {path: np.unique(np.concatenate(positions)) for path, positions in parts.items()}


_cache = OnceCache(128 << 20)
