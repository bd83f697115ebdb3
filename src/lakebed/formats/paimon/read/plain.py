"""Which data files any reader of Parquet reads as Paimon does: those of whose rows each is a row of the table or none.

Those are all files of tables without a primary key, and files with one that are merged with no other. A deletion vector
gives the positions of the rows that are gone. Where files are merged by an engine that takes a row as it is, the rows
that another one replaces, and those that mark a delete, are found by the key columns of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.types import DataField, arrow_schema
from lakebed.formats.paimon.read.deletion_vectors import DeletionVectors
from lakebed.formats.paimon.read.row_tracking import TRACKING_COLUMNS, fields_of_file
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.files import Store
from lakebed.kernel.parquet.stored import StoredFile
from lakebed.verbs.plain_files import Deletes, NotPlainError, Piece, PlainColumn, PlainFile, PlainReads, Search
from lakebed.verbs.read import ReadPlan

_WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_IN_OTHER_FILES = ("BLOB", "VECTOR")
_WHOLE_ROWS = ("deduplicate", "first-row")
"""Merge engines whose row of a key is one of its rows as it was written."""
_LARGER_PLAIN = 2
"""Files that Spark reads have at least so many times the bytes of those of other formats that are merged with them."""


def plain_reads(plan: ReadPlan[Any]) -> PlainReads[Any] | None:
    """What is known of the plain files of a snapshot's plan; None for other plans, and where rows are numbered or are
    put together from several files."""
    reader = plan.read
    if not isinstance(reader, BucketReader) or reader.options[opt.DATA_EVOLUTION]:
        return None
    extra = [name for name in reader.needed if name not in reader.columns]
    fields = reader.schema.project((*reader.columns, *extra))
    if any(field.name in TRACKING_COLUMNS or field.type.root in _IN_OTHER_FILES for field in fields):
        return None
    schema = arrow_schema(fields)
    return PlainReads(schema, reader.predicate, partial(_pieces, reader), partial(_columns, reader, fields))


def _pieces(reader: BucketReader, splits: Sequence[PaimonSplit]) -> Iterator[Piece[PaimonSplit]]:
    for split in splits:
        names: set[str] = set()
        for section in reader.sections(split):
            piece = _piece(reader, split, section)
            if piece is not None:
                names.update(file.file_name for file in section)
                yield piece
        others = [file for file in split.files if file.file_name not in names]
        if others:
            yield Piece((_part(split, others),) if names else (split,))


def _piece(reader: BucketReader, split: PaimonSplit, section: Sequence[DataFileMeta]) -> Piece[PaimonSplit] | None:
    """The files of a section, None where only Paimon's rules give their rows."""
    plain = [file for file in section if file.file_name.endswith(".parquet")]
    others = [file for file in section if not file.file_name.endswith(".parquet")]
    if not plain or _size(plain) < _LARGER_PLAIN * _size(others):
        return None
    files, whole = tuple(_file(reader.history.store, split, file) for file in plain), _part(split, section)
    if len(section) == 1 and (not reader.schema.primary_keys or section[0].delete_row_count == 0):
        return Piece((whole,), files)
    # Where columns are named, it costs less to merge these alone than to find first which rows count.
    merges = {*reader.schema.names} <= {*reader.needed} and reader.options[opt.MERGE_ENGINE] in _WHOLE_ROWS
    if len(section) > 1 and not merges:
        return None
    search = Search(_size(section), partial(_not_live, reader, split, plain, others))
    return Piece((whole,), files, (_part(split, others),) if others else (), search)


def _not_live(
    reader: BucketReader, split: PaimonSplit, plain: Sequence[DataFileMeta], others: Sequence[DataFileMeta]
) -> Sequence[Int64s]:
    """Of each plain file of a section the positions of rows that are not rows of the table. NotPlainError where the
    other files, merged alone, have other rows than in the section."""
    live = reader.live(split, [*plain, *others])
    if others and not all(map(np.array_equal, live[len(plain) :], reader.live(split, others))):
        raise NotPlainError
    return [np.flatnonzero(~of_file) for of_file in live[: len(plain)]]


def _part(split: PaimonSplit, files: Sequence[DataFileMeta]) -> PaimonSplit:
    return replace(split, files=tuple(files), size=_size(files))


def _size(files: Sequence[DataFileMeta]) -> int:
    return sum(file.file_size for file in files)


def _file(store: Store, split: PaimonSplit, file: DataFileMeta) -> PlainFile:
    deletes = _deletes(store, split, file)
    return PlainFile(store, split.path(file), file.file_size, file.row_count, file, deletes)


def _deletes(store: Store, split: PaimonSplit, file: DataFileMeta) -> Deletes | None:
    deletion = split.deletions.get(file.file_name)
    if deletion is None:
        return None
    stated = file.row_count if deletion.cardinality is None else deletion.cardinality
    return Deletes(stated, lambda: DeletionVectors(store, (file,), split.deletions).of(file))


def _columns(
    reader: BucketReader, fields: Sequence[DataField], file: PlainFile, stored: StoredFile
) -> tuple[PlainColumn, ...] | None:
    """Columns are found by their ids in the schema of the file. None where one's type was changed by a cast that may
    change values."""
    data = file.about
    assert isinstance(data, DataFileMeta)
    own = {field.id: field for field in fields_of_file(reader.history.schema(data.schema_id), data).fields}
    columns = []
    for field in fields:
        source = own.get(field.id)
        if source is None:
            columns.append(PlainColumn(constant=pa.scalar(None, arrow_schema([field]).field(0).type)))
        elif stored.column(source.name) is not None and _keeps_values(source, field):
            columns.append(PlainColumn(source.name))
        else:
            return None
    return tuple(columns)


def _keeps_values(source: DataField, field: DataField) -> bool:
    written, wanted = source.type.required(), field.type.required()
    if written.root in _WHOLE_NUMBERS and wanted.root in _WHOLE_NUMBERS:
        return _WHOLE_NUMBERS.index(written.root) <= _WHOLE_NUMBERS.index(wanted.root)
    return written == wanted
