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
from lakebed.verbs.plain_files import NotPlainError, PlainColumn, PlainFile, PlainReads
from lakebed.verbs.read import ReadPlan

_MOST_SCANS = 32
"""Files that are stored in more ways than these would make a plan of Spark that is too large: the rest of them is read
through Arrow."""
_DELETES_BYTES = MOST_BYTES
"""Deleted rows that take more memory than this leave the rest of the files to be read through Arrow: Spark sends them
to every executor."""
_MOST_STATED = 4 << 20
"""Deletes of a file that are more than these are not read on the driver."""
_MOST_SEARCHED = 512 << 20
"""Data files of more bytes than these in a plan are not searched on the driver for the rows that others replace."""
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
_NOT_PLAIN: Int64s = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """Files that Spark reads alike: the columns that it reads of them, as they are stored, and for each column of the
    table where its values come from. Either all of them have `deleted` rows or none."""

    stored: pa.Schema
    columns: tuple[PlainColumn, ...]
    paths: tuple[str, ...]
    size: int
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
    candidates = [piece.file for piece in pieces if piece.file is not None and _path(piece.file) is not None]
    footers = dict(zip(map(id, candidates), _footers(candidates), strict=True))
    readable: dict[int, tuple[PlainFile, StoredFile, pa.Schema, tuple[PlainColumn, ...]]] = {}
    seen: set[str] = set()
    for number, piece in enumerate(pieces):
        footer = footers.get(id(piece.file))
        if piece.file is None or footer is None:
            continue
        columns, path = plain.columns(piece.file, footer), _path(piece.file)
        layout = None if columns is None else _layout(footer, columns, plain.schema, int96)
        if layout is None or columns is None or path is None or path in seen:
            continue
        seen.add(path)
        readable[number] = (piece.file, footer, layout, columns)
    groups: dict[object, list[int]] = {}
    layouts: dict[object, tuple[pa.Schema, tuple[PlainColumn, ...]]] = {}
    deleting = _Deleting.of(file for file, *_ in readable.values())
    for number, (file, footer, layout, columns) in readable.items():
        if not deleting.reads(number, file, footer.rows, (*layout.names, *plain.schema.names)):
            continue
        key = (number in deleting.of_piece, tuple(map(str, layout)), *map(_key, columns))
        groups.setdefault(key, []).append(number)
        layouts.setdefault(key, (layout, columns))
    sizes = {key: sum(_bytes(pieces[number].splits) for number in numbers) for key, numbers in groups.items()}
    chosen = sorted(groups, key=lambda key: -sizes[key])[:_MOST_SCANS]
    native = {number for key in chosen for number in groups[key]}
    rest = [
        split for number, piece in enumerate(pieces) for split in (piece.overlay if number in native else piece.splits)
    ]
    scans = tuple(
        NativeFiles(
            *layouts[key],
            tuple(_path(pieces[number].file) or "" for number in groups[key]),
            sizes[key],
            tuple(deleting.of_piece[number] for number in groups[key] if number in deleting.of_piece),
        )
        for key in chosen
    )
    return Choice(plain.schema, keeps, scans, replace(plan, splits=tuple(rest)) if scans else plan)


def native_frames(spark: SparkSession, choice: Choice, columns: Sequence[str]) -> list[DataFrame]:
    """A DataFrame for each group of files that Spark reads itself, with these columns of the table."""
    frames = []
    for scan in choice.scans:
        fields = spark_schema(choice.schema).fields
        wanted = wire_schema(choice.schema).types
        values = [
            _value(source, scan.stored, kind, field)
            for source, kind, field in zip(scan.columns, wanted, fields, strict=True)
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


class _Deleting:
    """The deleted rows of the files of a plan by the number of their piece, in bounded memory."""

    def __init__(self, found: dict[int, Int64s | None]) -> None:
        self.of_piece: dict[int, DeletedRows] = {}
        self._found = found
        self._keys: set[int] = set()
        self._left = _DELETES_BYTES

    @classmethod
    def of(cls, files: Iterable[PlainFile]) -> Self:
        """Search the first files whose deleted rows must be searched, several at once: most of it is Arrow's work."""
        searched, left = [], _MOST_SEARCHED
        for file in files:
            if file.deletes is not None and 0 < file.deletes.searched <= left:
                left -= file.deletes.searched
                searched.append(file)
        if not searched:
            return cls({})
        with ThreadPoolExecutor(min(len(searched), os.cpu_count() or 1), "lakebed-search") as pool:
            found = zip(searched, pool.map(_positions, searched), strict=True)
            return cls({id(file): positions for file, positions in found if positions is not _NOT_PLAIN})

    def reads(self, number: int, file: PlainFile, rows: int, columns: Sequence[str]) -> bool:
        """Read the deletes of a file of so many rows, if it has some. False where they are too many, or where Spark
        cannot tell the file's rows from others; also where they cannot be read: reading the file through Arrow raises
        the right error.
        """
        if file.deletes is None:
            return True
        name = file.path.rpartition("/")[2]
        if key_of(name) in self._keys or file.deletes.stated > _MOST_STATED or not can_be_told(name, columns):
            return False
        if file.deletes.searched and id(file) not in self._found:
            return False
        positions = self._found[id(file)] if file.deletes.searched else _positions(file)
        if positions is _NOT_PLAIN:
            return False
        positions = None if positions is None else positions[positions < rows]
        if positions is None or len(positions) == 0:
            return True
        deleted = DeletedRows(key_of(name), rows, positions)
        if deleted.size > self._left:
            return False
        self._left -= deleted.size
        self._keys.add(deleted.key)
        self.of_piece[number] = deleted
        return True


def _positions(file: PlainFile) -> Int64s | None:
    """The positions of a file's deleted rows, `_NOT_PLAIN` where they cannot be read or do not tell its rows."""
    try:
        return None if file.deletes is None else file.deletes.positions()
    except (NotPlainError, LakebedError, OSError, pa.ArrowException, ValueError, KeyError, IndexError):
        return _NOT_PLAIN


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


def _value(source: PlainColumn, stored: pa.Schema, wanted: pa.DataType, field: StructField) -> Column | str:
    """A column of the table under its name, in SQL where it is one of the file. Only narrower numbers are cast: Spark
    refuses to cast to a type inside which something may not be null, since anything in a stored column may be."""
    if source.stored:
        column = quoted(source.stored)
        if not same_values(stored.field(source.stored).type, wanted):
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
