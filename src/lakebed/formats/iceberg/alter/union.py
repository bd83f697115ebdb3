"""The target of a write that may bring columns along: the table is altered first, where it does not have them.

Rules: the reference engine's UnionByNameVisitor, and SparkWriteBuilder for the option `merge-schema`: the table is
altered before rows are written, in a commit of its own. Unlike there, a required column stays required, since Arrow's
columns may be null unless they say otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import types as T
from pyiceberg.schema import Schema

from lakebed.errors import CommitConflictError, SchemaError, UnsupportedError
from lakebed.formats.iceberg.alter.columns import names_of
from lakebed.formats.iceberg.alter.plan import altered
from lakebed.formats.iceberg.alter.run import alter_from
from lakebed.formats.iceberg.alter.values import check_promotion
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.updates import applied
from lakebed.formats.iceberg.definition import column_type
from lakebed.formats.iceberg.write.options import WriteOptions
from lakebed.formats.iceberg.write.sink import IcebergSink
from lakebed.kernel.predicates.where import find_column
from lakebed.kernel.rows.conform import check_conformable
from lakebed.model import alter
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.verbs.write import Mode

_ATTEMPTS = 5
"""How often the changes are decided anew when others alter the table at the same time."""


def sink_of(
    operations: TableOperations,
    base: Loaded,
    given: Mapping[str, str],
    mode: Mode,
    branch: str,
    commit_user: str | None,
    callbacks: Sequence[Any],
    rows: pa.Schema | None,
) -> IcebergSink:
    """The table, whose metadata was just loaded, as the target of rows with these columns; None where nobody knows
    them yet. `given` are the options of the call. With `merge-schema` the table is altered first, where it does not
    take the rows.

    Raises what making a sink raises, SchemaError for a column that no change makes fit, CommitConflictError,
    UnsupportedError for `merge-schema` without the columns of the rows.
    """

    def of(metadata: TableMetadata, base: Loaded | None = None) -> IcebergSink:
        options = WriteOptions.of(metadata, given, mode, branch)
        return IcebergSink(operations, metadata, options, commit_user, callbacks, base)

    sink = of(base.metadata, base)
    if not sink.options.merges_schema:
        return sink
    if rows is None:
        raise UnsupportedError(
            "a writer cannot merge schemas: it does not know the columns of its rows when it is made",
            table=operations.name,
            todo="Write with table.write or lakebed.spark.write, or call table.alter first",
        )
    columns = rows
    merged = _merged(operations, base, columns, lambda metadata: _check(columns, of(metadata), operations.name))
    return sink if merged is base else of(merged.metadata, merged)


def _check(rows: pa.Schema, sink: IcebergSink, table: str) -> None:
    """SchemaError for rows that do not fit a sink, whose columns they name in any case."""
    wanted = sink.input_schema
    names = [find_column(name, wanted.names) or name for name in rows.names]
    columns = [field.with_name(name) for field, name in zip(rows, names, strict=True)]
    check_conformable(pa.schema(columns), wanted, table)


def _merged(
    operations: TableOperations, base: Loaded, rows: pa.Schema, check: Callable[[TableMetadata], None]
) -> Loaded:
    """The metadata once the table has the columns of rows; `base` where it has them. `check` is called with the
    metadata after the change, before it is committed: it raises where the rows still do not fit."""
    attempt = 0
    while changes := union_changes(base.metadata.schema, rows, base.metadata.format_version):
        planned = altered(base.metadata, changes, operations.name)
        check(TableMetadata(applied(base.metadata, planned.updates, 0, base.location)))
        try:
            return alter_from(operations, base, changes)[1]
        except CommitConflictError:
            attempt += 1
            if attempt == _ATTEMPTS:
                raise
            base = operations.load()
    return base


def union_changes(schema: Schema, rows: pa.Schema, version: int) -> list[alter.Change]:
    """The changes of a schema that take columns of rows: new ones at the end, wider types. Names are matched in any
    case. A column of a narrower type than the table's changes nothing."""
    given = [field for field in rows if field.name != ROW_KIND_COLUMN]
    return [*_union(schema.fields, given, (), version)]


def _union(
    fields: Sequence[T.NestedField], given: Sequence[pa.Field], path: tuple[str, ...], version: int
) -> Iterator[alter.Change]:
    for field in given:
        name = find_column(field.name, names_of(fields))
        if name is None:
            yield alter.AddColumn((*path, field.name), _plain(field.type))
        else:
            known = next(one for one in fields if one.name == name)
            yield from _widened(known.field_type, field.type, (*path, name), version)


def _widened(old: T.IcebergType, given: pa.DataType, path: tuple[str, ...], version: int) -> Iterator[alter.Change]:
    """The changes of a type, and of those inside it."""
    given = _plain(given)
    if isinstance(old, T.StructType) and pa.types.is_struct(given):
        yield from _union(old.fields, list(given), path, version)
    elif isinstance(old, T.ListType) and _is_list(given):
        yield from _widened(old.element_type, given.value_type, (*path, "element"), version)
    elif isinstance(old, T.MapType) and pa.types.is_map(given):
        yield from _widened(old.value_type, given.item_type, (*path, "value"), version)
    elif isinstance(old, T.PrimitiveType) and not pa.types.is_nested(given) and not pa.types.is_null(given):
        new = column_type(given, ".".join(path), itertools.count(), version, "")
        if new != old and _is_wider(old, new):
            yield alter.RetypeColumn(path, given)


def _is_wider(old: T.IcebergType, new: T.IcebergType) -> bool:
    """Whether every version lets a column of a type become another one."""
    try:
        check_promotion(old, new, 1, "")
    except SchemaError:
        return False
    return True


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
