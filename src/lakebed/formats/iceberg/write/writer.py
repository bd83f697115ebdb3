"""One task of a write: rows are made to fit the table, take their kind, and are staged by partition or by key.

Nothing of the table is written here, since no task knows how many rows of a partition the others have: files are made
once all tasks are done (`write/sink.py`). Changes by key are staged by a hash of the key, in the order they came, so
that of each key the last one can be told.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from lakebed.errors import SchemaError, UsageError
from lakebed.formats.iceberg.codec.schema import arrow_schema, scalar
from lakebed.formats.iceberg.codec.transforms import hashed
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.write.message import IcebergMessage
from lakebed.formats.iceberg.write.routing import Router
from lakebed.kernel.staging import Grouped, Stager, grouped
from lakebed.model.rowkind import ROW_KIND_COLUMN, RowKind
from lakebed.verbs.fit import check_fit, describe_row, fit, one_chunk
from lakebed.verbs.kinds import KindRule, Kinds

KIND_COLUMN = "_lakebed_kind"
"""The column of row kinds in what is staged by key."""
SLOTS = 64
"""Into how many parts keys are staged: what is held at once when the last row of each key is looked for."""
INLINE_BYTES = 256 << 10
"""What a task gives back in its message instead of a file, at most."""


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """What the tasks of one write have in common. Picklable.

    `keys` are the columns that changes go by, () where rows are only added; `default` is the kind of rows that say
    none. `staging` is the folder of staged rows.
    """

    files: Files
    location: str
    schema: Schema
    router: Router
    keys: tuple[str, ...]
    default: RowKind
    staging: str
    buffer: int
    inline: int = INLINE_BYTES

    @property
    def rows_schema(self) -> pa.Schema:
        """The table's columns."""
        return arrow_schema(self.schema)

    @property
    def input_schema(self) -> pa.Schema:
        """What rows must look like. Where changes go by key, a removed row needs no other column."""
        if not self.keys:
            return self.rows_schema
        return pa.schema([field.with_nullable(field.name not in self.keys) for field in self.rows_schema])

    @property
    def staged_schema(self) -> pa.Schema:
        """What tasks stage: the columns of rows, and where changes go by key their kind."""
        return self.input_schema.append(pa.field(KIND_COLUMN, pa.int8(), False)) if self.keys else self.rows_schema

    @property
    def key_schema(self) -> pa.Schema:
        """The key columns."""
        return pa.schema([self.rows_schema.field(name) for name in self.keys])

    def stager(self, schema: pa.Schema, group: Callable[[pa.Table], Grouped], inline: int | None = None) -> Stager:
        """A new place for staged rows."""
        path = f"{self.staging}/{uuid.uuid4()}.arrow"
        return Stager(self.files, path, schema, group, self.buffer, self.inline if inline is None else inline)

    def task_stager(self) -> Stager:
        """Where a task puts its rows."""
        return self.stager(self.staged_schema, self.by_key if self.keys else self.router.group)

    def by_key(self, rows: pa.Table) -> Grouped:
        """The slot of each row: a hash of its key."""
        codes = np.zeros(len(rows), np.uint32)
        for name in self.keys:
            codes = codes * np.uint32(31) + _hashes(one_chunk(rows.column(name)))
        return grouped((codes % np.uint32(SLOTS)).astype(np.int64), range(SLOTS))

    def fitted(self, data: pa.Table) -> pa.Table:
        """Rows in the table's columns and types; columns not given have their write default, else null."""
        defaults = {field.name for field in self.schema.fields if field.write_default is not None}
        optional = [f.with_nullable(f.nullable or f.name in defaults) for f in self.input_schema]
        check_fit(data.schema, pa.schema(optional), self.location)
        return fit(data, self.input_schema, self.location, self._absent)

    def _absent(self, field: pa.Field, rows: int) -> pa.Array:
        own = self.schema.find_field(field.name)
        if own.write_default is None:
            return pa.nulls(rows, field.type)
        return pa.repeat(scalar(own.write_default, own.field_type), rows)


class IcebergTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`."""

    def __init__(self, target: TaskTarget) -> None:
        self._target = target
        self._stager = target.task_stager()
        self._rows = 0

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the sink's input schema, with `_row_kind` or without."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        target = self._target
        rows = target.fitted(data)
        kinds = KindRule(default=target.default).kinds(data, target.keys or data.schema.names[:1], target.location)
        if target.keys:
            codes = np.zeros(len(rows), np.int8) if kinds is None else kinds
            _check_keys(rows, target)
            rows = rows.append_column(pa.field(KIND_COLUMN, pa.int8(), False), pa.array(codes, pa.int8()))
        elif kinds is not None:
            raise _no_keys(kinds, target)
        self._rows += len(rows)
        self._stager.write(rows)

    def finish(self) -> Sequence[IcebergMessage]:
        """Say what was staged since the last call. The writer may be used on."""
        staged, rows = self._stager.finish(), self._rows
        self._stager, self._rows = self._target.task_stager(), 0
        return [IcebergMessage(staged=(staged,), rows=rows)] if staged is not None else []

    def abort(self) -> None:
        """Remove what was staged since the last `finish`."""
        self._stager.abort()
        self._stager, self._rows = self._target.task_stager(), 0


def _check_keys(rows: pa.Table, target: TaskTarget) -> None:
    for name in target.keys:
        column = one_chunk(rows.column(name))
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            columns = [one_chunk(rows.column(key)) for key in target.keys]
            raise SchemaError(
                f"key column {name!r} has no value in {column.null_count} rows", table=target.location,
                why=f"the first is row {row}: {describe_row(columns, target.keys, row)}",
                todo="Give every row its key, or filter such rows",
            )  # fmt: skip


def _no_keys(kinds: Kinds, target: TaskTarget) -> UsageError:
    found = ", ".join(sorted({RowKind(kind).short for kind in np.unique(kinds)} - {"+I"}))
    return UsageError(
        f"rows of kind {found}, but no key says which rows they change", table=target.location,
        why=f"column {ROW_KIND_COLUMN!r} is there, and the table has no identifier fields",
        todo="Name the key columns in the option upsert.keys, or write rows of kind +I only",
    )  # fmt: skip


def _hashes(column: pa.Array) -> npt.NDArray[np.uint32]:
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    if pa.types.is_floating(plain.type):
        plain = plain.cast(pa.float64()).view(pa.int64())
    found: npt.NDArray[np.int32] = hashed(plain).to_numpy(zero_copy_only=False)
    return found.view(np.uint32)
