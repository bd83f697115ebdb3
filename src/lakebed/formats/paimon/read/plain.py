"""Which data files any reader of Parquet reads as Paimon does: those that are merged with no other, and hold no row
that is a delete. A deletion vector gives the positions of the rows that are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.types import DataField, arrow_schema
from lakebed.formats.paimon.read.deletion_vectors import DeletionVectors
from lakebed.formats.paimon.read.row_tracking import TRACKING_COLUMNS, fields_of_file
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.kernel.files import Store
from lakebed.kernel.parquet.stored import StoredFile
from lakebed.verbs.plain_files import Deletes, Piece, PlainColumn, PlainFile, PlainReads
from lakebed.verbs.read import ReadPlan

_WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_IN_OTHER_FILES = ("BLOB", "VECTOR")


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
        sections = reader.sections(split)
        plain = [section[0] for section in sections if len(section) == 1 and _is_plain(reader, section[0])]
        if not plain:
            yield Piece((split,))
            continue
        for file in plain:
            alone = replace(split, files=(file,), size=file.file_size)
            deletes = _deletes(reader.history.store, split, file)
            plain_file = PlainFile(
                reader.history.store, split.path(file), file.file_size, file.row_count, file, deletes
            )
            yield Piece((alone,), plain_file)
        names = {file.file_name for file in plain}
        others = tuple(file for file in split.files if file.file_name not in names)
        if others:
            yield Piece((replace(split, files=others, size=sum(file.file_size for file in others)),))


def _is_plain(reader: BucketReader, file: DataFileMeta) -> bool:
    """Whether all rows of a file that is read alone are rows of the table, but for those that a vector deletes."""
    if not file.file_name.endswith(".parquet"):
        return False
    return not reader.schema.primary_keys or file.delete_row_count == 0


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
