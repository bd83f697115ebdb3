"""One task of a write: rows are conformed to the table, get their row kind, and are staged by partition or by key.

A task writes no data files, since it does not know how many rows of a partition the other tasks have. The sink writes
them once all tasks are done (`write/sink.py`). Changes by key are staged by a hash of the key, in the order of their
arrival, so that the last row of each key can be found.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from lakebed.errors import UsageError
from lakebed.formats.iceberg.codec.schema import arrow_schema, scalar
from lakebed.formats.iceberg.codec.transforms import hashed
from lakebed.formats.iceberg.commit.message import IcebergMessage
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.write.routing import Router
from lakebed.kernel.arrays import Int8s, Int32s, UInt32s, from_numpy, one_chunk, to_numpy
from lakebed.kernel.rows.conform import check_conformable, conform
from lakebed.kernel.rows.row_kinds import RowKindRule
from lakebed.kernel.sizing.staging import INLINE_BYTES, Grouped, Stager, StagingLimits, grouped
from lakebed.model.rowkind import ROW_KIND_COLUMN, RowKind

KIND_COLUMN = "_lakebed_kind"
"""The column of row kinds in rows that are staged by key."""
LITTLE_BYTES = 64 << 10
"""So few bytes of rows wait as they are for the process that stages and finalizes them: encoding them would take longer
than all else."""
SLOTS = 64
"""How many parts keys are staged in. One part at a time is in memory while the last row of each key is found."""


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """What all tasks of one write share. Picklable.

    `keys` are the key columns of changes, () where rows are only added. With `always_by_key` rows without a kind are
    changes by key as well, of kind `default`. `staging` is the folder of staged rows. A task holds `buffer` bytes of
    rows in memory; up to `inline` bytes of staged rows travel in its message. `memory` bytes of them are not encoded,
    where they stay in this process.
    """

    files: Files
    location: str
    schema: Schema
    router: Router
    keys: tuple[str, ...]
    always_by_key: bool
    default: RowKind
    staging: str
    buffer: int
    inline: int = INLINE_BYTES
    memory: int = 0

    @property
    def rows_schema(self) -> pa.Schema:
        """The table's columns as Arrow has them."""
        return arrow_schema(self.schema)

    @property
    def input_schema(self) -> pa.Schema:
        """The schema that rows must have. A column with a write default may be missing, and where there are keys a
        deleted row needs no other column."""
        rows = self.changes_schema if self.keys else self.rows_schema
        defaults = {field.name for field in self.schema.fields if field.write_default is not None}
        return pa.schema([field.with_nullable(field.nullable or field.name in defaults) for field in rows])

    @property
    def changes_schema(self) -> pa.Schema:
        """The schema of changes by key. Only the key may not be null, since a deleted row needs no other column."""
        return pa.schema([field.with_nullable(field.name not in self.keys) for field in self.rows_schema])

    @property
    def staged_changes(self) -> pa.Schema:
        """The schema of staged changes: their columns and their row kind."""
        return self.changes_schema.append(pa.field(KIND_COLUMN, pa.int8(), False))

    @property
    def key_schema(self) -> pa.Schema:
        """The key columns."""
        return pa.schema([self.rows_schema.field(name) for name in self.keys])

    def stager(self, schema: pa.Schema, group: Callable[[pa.Table], Grouped], inline: int | None = None) -> Stager:
        """A new stager of rows, which `group` assigns to buckets. `inline` takes precedence over that of the target."""
        path = f"{self.staging}/{uuid.uuid4()}.arrow"
        limits = StagingLimits(self.buffer, self.inline if inline is None else inline, self.memory)
        return Stager(self.files, path, schema, group, limits)

    def by_key(self, rows: pa.Table) -> Grouped:
        """The slot of each row, by a hash of its key."""
        codes = np.zeros(len(rows), np.uint32)
        for name in self.keys:
            codes = codes * np.uint32(31) + _hashes(one_chunk(rows.column(name)))
        return grouped((codes % np.uint32(SLOTS)).astype(np.int64), range(SLOTS))

    def conformed(self, data: pa.Table, wanted: pa.Schema) -> pa.Table:
        """Rows in the columns and types of `wanted`. A missing column gets its write default, else nulls.

        SchemaError for rows that do not conform.
        """
        check_conformable(data.schema, self.input_schema, self.location)
        return conform(data, wanted, self.location, self._absent)

    def _absent(self, field: pa.Field, rows: int) -> pa.Array:
        """The values of a missing column."""
        column = self.schema.find_field(field.name)
        if column.write_default is None:
            return pa.nulls(rows, field.type)
        return pa.repeat(scalar(column.write_default, column.field_type), rows)


class IcebergTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`. Rows are changes by key when the mode asks for it, or when they have
    a `_row_kind` and the write has a key."""

    def __init__(self, target: TaskTarget) -> None:
        self._target = target
        self._added: Stager | None = None
        self._changed: Stager | None = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Stage rows of the sink's input schema, with or without `_row_kind`."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        target = self._target
        rule = RowKindRule(default=target.default)
        if target.keys and (target.always_by_key or ROW_KIND_COLUMN in data.schema.names):
            rows = target.conformed(data, target.changes_schema)
            kinds = rule.kinds(data, target.keys, target.location)
            codes = np.zeros(len(rows), np.int8) if kinds is None else kinds
            rows = rows.append_column(
                pa.field(KIND_COLUMN, pa.int8(), False), from_numpy(codes.astype(np.int8, copy=False))
            )
            if self._changed is None:
                self._changed = target.stager(target.staged_changes, target.by_key)
            self._changed.write(rows)
        else:
            rows = target.conformed(data, target.rows_schema)
            kinds = rule.kinds(data, data.schema.names[:1], target.location)
            if kinds is not None:
                raise _no_keys(kinds, target)
            if self._added is None:
                self._added = target.stager(target.rows_schema, target.router.group)
            self._added.write(rows)
        self._rows += len(rows)

    def finish(self) -> Sequence[IcebergMessage]:
        """The message for what was staged since the last call. The writer can be used again."""
        added = self._added.finish() if self._added is not None else None
        changed = self._changed.finish() if self._changed is not None else None
        message = IcebergMessage(
            added=() if added is None else (added,), changed=() if changed is None else (changed,), rows=self._rows
        )
        self._added, self._changed, self._rows = None, None, 0
        return [message] if message.is_staged else []

    def abort(self) -> None:
        """Remove what was staged since the last `finish`."""
        for stager in (self._added, self._changed):
            if stager is not None:
                stager.abort()
                self._target.files.remove_empty(self._target.staging)
        self._added, self._changed, self._rows = None, None, 0


def _no_keys(kinds: Int8s, target: TaskTarget) -> UsageError:
    names = ", ".join(sorted({RowKind(kind).short for kind in np.unique(kinds)} - {"+I"}))
    return UsageError(
        f"rows of kind {names}, but no key says which rows they change",
        table=target.location,
        why=f"column {ROW_KIND_COLUMN!r} is given, and the write overwrites, or the table has no identifier fields",
        todo="Write rows of kind +I only, or append and name the key columns in the option upsert.keys",
    )


def _hashes(column: pa.Array) -> UInt32s:
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    if pa.types.is_floating(plain.type):
        plain = plain.cast(pa.float64()).view(pa.int64())
    hashes: Int32s = to_numpy(hashed(plain))
    return hashes.view(np.uint32)
