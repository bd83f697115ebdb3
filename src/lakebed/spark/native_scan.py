"""Native scans: plain data files of a plan, read by Spark's own Parquet reader.

Spark's optimizer sees into such a scan: it decodes only the columns that a query needs, pushes filters into the files,
counts rows by footers alone, and hands no row to Python. `choose` looks at the footer of each plain file, on the
driver, and groups the files that Spark reads alike. Rows that are deleted by position are dropped (`deleted_rows.py`).
Whatever is not certain to give the very same rows stays in the plan that is read through Arrow.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField

from lakebed.errors import LakebedError
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.parquet.stored import StoredFile, same_values, stored_file, widens
from lakebed.model.split import Split
from lakebed.spark.deleted_rows import MOST_BYTES, PLACES, DeletedRows, can_be_told, key_of, without
from lakebed.spark.expressions import constant, quoted, row_filter
from lakebed.spark.types import spark_schema, wire_schema
from lakebed.verbs.many_splits import ManySplits, StreamedSplits
from lakebed.verbs.plain_files import NotPlainError, Piece, PlainColumn, PlainFile, PlainReads, Search
from lakebed.verbs.read import ReadPlan

_MOST_SCANS = 32
"""Files that are stored in more ways than these would make a plan of Spark that is too large: the rest of them is read
through Arrow."""
_DELETES_BYTES = MOST_BYTES
"""Deleted rows that take more memory than this leave the rest of the files to be read through Arrow: Spark sends them
to every executor."""
_MOST_STATED = 4 << 20
"""Deletes of a file that are more than these are not read on the driver."""
_MOST_SEARCHED, _MOST_SEARCHED_ROWS = 512 << 20, 32 << 20
"""Data files of more bytes and rows than these in a plan are not searched on the driver for the rows that others
replace."""
_READING = {
    # What a session can set, and what would change rows: a reader's own options win.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
    "recursiveFileLookup": "false",
    "parquet.page.verify-checksum.enabled": "true",
}
_INT96_ZONES = "spark.sql.parquet.int96TimestampConversion"
_LISTING_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_NO_JOB = str(1 << 30)
_UNLIKE = re.compile(r"[{}\[\]*?\\\x00-\x1f\x7f\ud800-\udfff]|//")
"""Characters of a path that Hadoop takes for a pattern or spells otherwise."""
_settings = threading.Lock()
_NONE: Int64s = np.zeros(0, np.int64)
_UNREADABLE = (NotPlainError, LakebedError, OSError, pa.ArrowException, ValueError, KeyError, IndexError)


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """Files that Spark reads alike: the columns that it reads of them, as they are stored, and for each column of the
    table where its values come from. Filters on `misleading` columns do not reach the files. Either all of them have
    `deleted` rows or none."""

    stored: pa.Schema
    misleading: frozenset[str]
    columns: tuple[PlainColumn, ...]
    paths: tuple[str, ...]
    deleted: tuple[DeletedRows, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """How a plan is read: `scans` by Spark itself, with the columns of `schema` and then the rows of `keeps` (None:
    all), and `rest` through Arrow."""

    schema: pa.Schema
    keeps: Column | None
    scans: tuple[NativeFiles, ...]
    rest: ReadPlan[Any]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that Spark reads itself."""
        return tuple(path for scan in self.scans for path in scan.paths)


def choose(plan: ReadPlan[Any], plain: PlainReads[Any] | None, int96: bool) -> Choice:
    """Choose the files of a plan that Spark reads itself; `int96` says whether it may those with timestamps of 96 bits.

    The footers of plain files are read, several at a time on a remote store. Plans of very many files, and those with a
    predicate that Spark has no counterpart for, are read through Arrow as a whole.
    """
    nothing = Choice(plan.schema, None, (), plan)
    if plain is None or isinstance(plan.splits, ManySplits | StreamedSplits) or not plan.splits:
        return nothing
    if len({name.lower() for name in plain.schema.names}) < len(plain.schema.names):
        return nothing
    keeps = None if plain.predicate is None else row_filter(plain.predicate, plain.schema)
    if plain.predicate is not None and keeps is None:
        return nothing
    pieces = [*plain.pieces(plan.splits)]
    readable = _readable(pieces, plain, int96)
    names = plain.schema.names
    deleting = _Deleting.of([(pieces[number].search, files) for number, files in readable.items()], names)
    groups: dict[object, list[tuple[int, _File, DeletedRows | None]]] = {}
    sizes: Counter[object] = Counter()
    for number, files in readable.items():
        for file, deleted in zip(files, deleting.of_files(pieces[number].search, files, names), strict=False):
            key = (deleted is not None, tuple(map(str, file.layout)), file.misleading, *map(_key, file.columns))
            groups.setdefault(key, []).append((number, file, deleted))
            sizes[key] += _bytes(pieces[number].splits) // len(files)
    chosen = sorted(groups, key=lambda key: -sizes[key])
    # The files of a piece are read together or not at all.
    native = {number for members in groups.values() for number, *_ in members}
    native -= {number for key in chosen[_MOST_SCANS:] for number, *_ in groups[key]}
    rest = [
        split for number, piece in enumerate(pieces) for split in (piece.overlay if number in native else piece.splits)
    ]
    members = [[member for member in groups[key] if member[0] in native] for key in chosen[:_MOST_SCANS]]
    scans = tuple(
        NativeFiles(
            files[0][1].layout,
            files[0][1].misleading,
            files[0][1].columns,
            tuple(file.path for _, file, _ in files),
            tuple(deleted for *_, deleted in files if deleted is not None),
        )
        for files in members
        if files
    )
    return Choice(plain.schema, keeps, scans, replace(plan, splits=tuple(rest)) if scans else plan)


def native_frames(spark: SparkSession, choice: Choice, columns: Sequence[str]) -> list[DataFrame]:
    """A DataFrame for each group of files that Spark reads itself, with these columns of the table."""
    frames = []
    for scan in choice.scans:
        fields = spark_schema(choice.schema).fields
        wanted = wire_schema(choice.schema).types
        values = [
            _value(source, scan, kind, field) for source, kind, field in zip(scan.columns, wanted, fields, strict=True)
        ]
        with _without_listing_jobs(spark, len(scan.paths)):
            reader = spark.read.schema(spark_schema(scan.stored)).options(**_READING)
            files = reader.parquet(*(f"file:{path}" for path in scan.paths))
        frame = _selected(files, [*values, *PLACES] if scan.deleted else values)
        frame = without(spark, frame, scan.deleted) if scan.deleted else frame
        frame = frame if choice.keeps is None else frame.where(choice.keeps)
        is_whole = not scan.deleted and [*columns] == choice.schema.names
        frames.append(frame if is_whole else frame.selectExpr(*map(quoted, columns)))
    return frames


def reads_int96(spark: SparkSession) -> bool:
    """Whether Spark gives INT96 timestamps as they are stored. A session can have those of some writers shifted."""
    return str(spark.conf.get(_INT96_ZONES, "false")).lower() == "false"


# ---- choice ----------------------------------------------------------------------------------------------------------


def _path(file: PlainFile | None) -> str | None:
    """The path as Spark finds the file. None where it would not, or would take it for something else: a pattern, or a
    hidden file, which Spark leaves out without a word."""
    local = None if file is None else file.store.local_path(file.path)
    if local is None or not local.startswith("/"):
        return None
    name = local.rpartition("/")[2]
    if _UNLIKE.search(local) or name.startswith(("_", ".")) or name.endswith("._COPYING_"):
        return None
    return local


@dataclass(frozen=True, slots=True)
class _File:
    """A file whose columns Spark reads alike, of so many `rows`."""

    file: PlainFile
    path: str
    rows: int
    layout: pa.Schema
    misleading: frozenset[str]
    columns: tuple[PlainColumn, ...]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def tells_rows(self, names: Sequence[str]) -> bool:
        """Whether Spark can tell its rows, with columns of these names, from those of other files."""
        return can_be_told(self.name, (*self.layout.names, *names))


def _readable(pieces: Sequence[Piece[Any]], plain: PlainReads[Any], int96: bool) -> dict[int, tuple[_File, ...]]:
    """The files of the pieces, by their number, of which Spark reads every file alike. No file is in two of them."""
    candidates = [file for piece in pieces if None not in map(_path, piece.files) for file in piece.files]
    footers = dict(zip(map(id, candidates), _footers(candidates), strict=True))
    readable: dict[int, tuple[_File, ...]] = {}
    seen: set[str] = set()
    for number, piece in enumerate(pieces):
        files: list[_File] = []
        for file in piece.files:
            footer, path = footers.get(id(file)), _path(file)
            columns = None if footer is None else plain.columns(file, footer)
            layout = None if columns is None or footer is None else _layout(footer, columns, plain.schema, int96)
            if layout is None or columns is None or footer is None or path is None:
                break
            misleading = frozenset(stored.name for stored in footer.columns if stored.misleads)
            files.append(_File(file, path, footer.rows, layout, misleading & {*layout.names}, columns))
        paths = {file.path for file in files}
        if files and len(files) == len(paths) == len(piece.files) and paths.isdisjoint(seen):
            seen |= paths
            readable[number] = tuple(files)
    return readable


class _Deleting:
    """The deleted rows of the files of a plan, in bounded memory."""

    def __init__(self, found: dict[int, Sequence[Int64s] | None]) -> None:
        self._found = found
        self._keys: set[int] = set()
        self._left = _DELETES_BYTES

    @classmethod
    def of(cls, pieces: Iterable[tuple[Search | None, Sequence[_File]]], names: Sequence[str]) -> Self:
        """Search the first pieces whose deleted rows must be searched, several at once: most of it is Arrow's work. No
        piece is searched of whose files Spark could not tell rows of columns with these names."""
        searches, left, rows_left = [], _MOST_SEARCHED, _MOST_SEARCHED_ROWS
        for search, files in pieces:
            rows = sum(file.rows for file in files)
            if search is None or not all(file.tells_rows(names) for file in files):
                continue
            if search.size <= left and rows <= rows_left:
                left -= search.size
                rows_left -= rows
                searches.append(search)
        if not searches:
            return cls({})
        with ThreadPoolExecutor(min(len(searches), os.cpu_count() or 1), "lakebed-search") as pool:
            return cls(dict(zip(map(id, searches), pool.map(_searched, searches), strict=True)))

    def of_files(
        self, search: Search | None, files: Sequence[_File], names: Sequence[str]
    ) -> Sequence[DeletedRows | None]:
        """The deleted rows of each file of a piece with columns of these names, None for a file without any. Nothing
        where they are too many, where Spark cannot tell a file's rows from others, or where they cannot be read:
        reading the files as the format does raises the right error.
        """
        positions = self._found.get(id(search)) if search is not None else _stated(files)
        if positions is None:
            return ()
        all_deleted: list[DeletedRows | None] = []
        for file, of_file in zip(files, positions, strict=True):
            deleted = of_file[of_file < file.rows]
            all_deleted.append(DeletedRows(key_of(file.name), file.rows, deleted) if len(deleted) else None)
            if len(deleted) and not file.tells_rows(names):
                return ()
        searched = [deleted for deleted in all_deleted if deleted is not None]
        keys, size = {deleted.key for deleted in searched}, sum(deleted.size for deleted in searched)
        if len(keys) < len(searched) or not keys.isdisjoint(self._keys) or size > self._left:
            return ()
        self._left -= size
        self._keys |= keys
        return all_deleted


def _searched(search: Search) -> Sequence[Int64s] | None:
    try:
        return search.positions()
    except _UNREADABLE:
        return None


def _stated(files: Sequence[_File]) -> Sequence[Int64s] | None:
    """The positions of the deleted rows of each file by its own deletes, None where they are many or cannot be read."""
    all_deletes = [file.file.deletes for file in files]
    if sum(deletes.stated for deletes in all_deletes if deletes is not None) > _MOST_STATED:
        return None
    try:
        read = [None if deletes is None else deletes.positions() for deletes in all_deletes]
    except _UNREADABLE:
        return None
    return [_NONE if positions is None else positions for positions in read]


def _footers(files: Sequence[PlainFile]) -> list[StoredFile | None]:
    """What the footers say, in order. None for a file that is not as its metadata states, or cannot be read: reading it
    through Arrow raises the right error."""
    by_store: dict[int, list[int]] = {}
    for number, file in enumerate(files):
        by_store.setdefault(id(file.store), []).append(number)
    footers: list[StoredFile | None] = [None] * len(files)
    for numbers in by_store.values():
        store = files[numbers[0]].store
        for number, footer in zip(numbers, store.together(_footer, [files[n] for n in numbers]), strict=True):
            footers[number] = footer
    return footers


def _footer(file: PlainFile) -> StoredFile | None:
    try:
        with file.store.open_input(file.path, file.size) as source:
            if file.size is not None and source.size() != file.size:
                return None
            with pq.ParquetFile(source) as opened:
                stored = stored_file(opened.metadata)
    except (LakebedError, OSError, pa.ArrowException, ValueError, KeyError, IndexError):
        return None
    return stored if file.rows is None or stored.rows == file.rows else None


def _layout(footer: StoredFile, columns: tuple[PlainColumn, ...], wanted: pa.Schema, int96: bool) -> pa.Schema | None:
    """The columns that Spark reads of a file, None where it would not read each of them alike."""
    fields: dict[str, pa.DataType] = {}
    for column, field in zip(columns, wire_schema(wanted), strict=True):
        if not column.stored:
            if column.constant is None or constant(column.constant) is None:
                return None
            continue
        stored = footer.column(column.stored)
        if stored is None or stored.kind is None or (stored.has_int96 and not int96):
            return None
        if not (same_values(stored.kind, field.type) or widens(stored.kind, field.type)):
            return None
        fields[stored.name] = stored.kind
    if not fields:  # its rows are counted by some column
        fields = {column.name: column.kind for column in footer.columns if column.kind is not None}
        fields = dict([*fields.items()][:1])
    return pa.schema([*fields.items()]) if fields else None


def _key(column: PlainColumn) -> object:
    value = column.constant
    return column.stored if value is None else (str(value.type), value.is_valid, str(value))


def _bytes(splits: Sequence[Split]) -> int:
    return sum(split.size for split in splits)


# ---- frames ----------------------------------------------------------------------------------------------------------


def _value(source: PlainColumn, scan: NativeFiles, wanted: pa.DataType, field: StructField) -> Column | str:
    """A column of the table under its name, in SQL where it is one of the file. Only narrower numbers are cast: Spark
    refuses to cast to a type inside which something may not be null, since anything in a stored column may be.

    No filter reaches the files through a function, so those on misleading columns go through one that changes nothing.
    """
    if source.stored:
        column = quoted(source.stored)
        if source.stored in scan.misleading:
            column = f"coalesce({column}, {column})"
        if not same_values(scan.stored.field(source.stored).type, wanted):
            column = f"CAST({column} AS {field.dataType.simpleString()})"
        return f"{column} AS {quoted(field.name)}"
    value = None if source.constant is None else constant(source.constant)
    assert value is not None
    return value.alias(field.name)


def _selected(files: DataFrame, values: Sequence[Column | str]) -> DataFrame:
    """Values of a scan. Those in SQL go to the JVM together: each call of a Column goes there and back, several times
    per column."""
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        return files.selectExpr(*texts)
    return files.select(*(f.expr(value) if isinstance(value, str) else value for value in values))


@contextmanager
def _without_listing_jobs(spark: SparkSession, files: int) -> Iterator[None]:
    """A block in which Spark looks at so many files on the driver, and not in a job of one task per file."""
    before = int(spark.conf.get(_LISTING_JOB, "32") or 32)
    if files <= before:
        yield
        return
    with _settings:
        spark.conf.set(_LISTING_JOB, _NO_JOB)
        try:
            yield
        finally:
            spark.conf.set(_LISTING_JOB, str(before))
