"""Which data files any reader of Parquet reads as Iceberg does: those without equality deletes, whose columns are found
by their field ids (the specification's "Column Projection")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from lakebed.errors import LakebedError
from lakebed.formats.iceberg.codec.schema import FIELD_ID, FILE, METADATA_COLUMNS, SPEC_ID, arrow_schema, scalar
from lakebed.formats.iceberg.data_files import Content, DataFile
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.conform import FileField, file_fields, with_mapping
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.deletes import deleted_positions
from lakebed.formats.iceberg.read.plan import TaskReader
from lakebed.formats.iceberg.read.split import IcebergSplit
from lakebed.kernel.arrays import scalar_of
from lakebed.kernel.parquet.stored import StoredFile
from lakebed.kernel.predicates.where import columns_of
from lakebed.verbs.plain_files import Deletes, Piece, PlainColumn, PlainFile, PlainReads
from lakebed.verbs.read import ReadPlan

_COMPUTED = {field.field_id for field in METADATA_COLUMNS.values()}


def plain_reads(plan: ReadPlan[Any]) -> PlainReads[Any] | None:
    """What is known of the plain files of a snapshot's plan; None for other plans."""
    reader = plan.read
    if not isinstance(reader, TaskReader):
        return None
    names = dict.fromkeys([*reader.columns, *columns_of(reader.predicate)])
    fields = reader.context.columns(tuple(names))
    columns = partial(_columns, reader.context, fields)
    return PlainReads(arrow_schema(fields), reader.predicate, partial(_pieces, reader.files), columns)


def _pieces(files: Files, splits: Sequence[IcebergSplit]) -> Iterator[Piece[IcebergSplit]]:
    """The parts of a file are one piece. A file that the table holds twice is two."""
    for _, run in groupby(splits, lambda split: (split.task.data.path, split.part is None)):
        of_file = tuple(run)
        if of_file[0].part is not None:
            yield Piece(of_file, _plain_files(files, of_file[0]))
        else:
            yield from (Piece((split,), _plain_files(files, split)) for split in of_file)


def _plain_files(files: Files, split: IcebergSplit) -> tuple[PlainFile, ...]:
    """The file of a split, none where only Iceberg's rules tell its rows."""
    data, deletes = split.task.data, split.task.deletes
    if data.format != "PARQUET" or data.key_metadata is not None:
        return ()
    if any(delete.content is not Content.POSITION_DELETES or delete.key_metadata is not None for delete in deletes):
        return ()
    try:
        store, path = files.place(data.path)
    except LakebedError:  # raised where the file is read
        return ()
    rows = None if data.record_count < 0 else data.record_count
    stated = sum(delete.record_count for delete in deletes)
    by_position = Deletes(stated, partial(deleted_positions, files, split.task)) if deletes else None
    return (PlainFile(store, path, data.size or None, rows, data, by_position),)


def _columns(
    context: ReadContext, fields: Sequence[NestedField], file: PlainFile, stored: StoredFile
) -> tuple[PlainColumn, ...] | None:
    data = file.about
    assert isinstance(data, DataFile)
    own = file_fields(stored.arrow, FIELD_ID)
    if not any(field.has_ids for field in own):
        if context.mapping is None:
            return None
        own = with_mapping(own, context.mapping)
    by_id = {field.id: field for field in own if field.id is not None}
    constants = context.constants(data)
    columns = [_column(field, by_id.get(field.field_id), constants, data) for field in fields]
    return tuple(column for column in columns if column is not None) if None not in columns else None


def _column(
    field: NestedField, own: FileField | None, constants: dict[int, pa.Scalar], data: DataFile
) -> PlainColumn | None:
    """A column as `Makers` in `read/task.py` makes it. None for a row's place and lineage, for a column inside which
    fields came, went or changed their names, and for one that is missing though it is required."""
    if field.field_id == FILE.field_id:
        return PlainColumn(constant=scalar_of(data.path, pa.string()))
    if field.field_id == SPEC_ID.field_id:
        return PlainColumn(constant=scalar_of(data.spec_id, pa.int32()))
    if field.field_id in _COMPUTED:
        return None
    if own is not None:
        return PlainColumn(own.name) if _is_same(own, field.field_type) else None
    if field.field_id in constants:
        return PlainColumn(constant=constants[field.field_id])
    if field.initial_default is None and field.required:
        return None
    return PlainColumn(constant=scalar(field.initial_default, field.field_type))


def _is_same(own: FileField, kind: IcebergType) -> bool:
    """Whether the fields inside a column are those of its type, in their order."""
    inside: tuple[NestedField, ...] = ()
    if isinstance(kind, StructType):
        inside = kind.fields
        if [child.name for child in own.children] != [field.name for field in inside]:
            return False
    elif isinstance(kind, ListType):
        inside = (kind.element_field,)
    elif isinstance(kind, MapType):
        inside = (kind.key_field, kind.value_field)
    return len(inside) == len(own.children) and all(
        child.id == field.field_id and _is_same(child, field.field_type)
        for child, field in zip(own.children, inside, strict=True)
    )
