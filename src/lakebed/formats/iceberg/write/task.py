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
import pyarrow as pa
from pyiceberg.schema import Schema

from lakebed.errors import UsageError
from lakebed.formats.iceberg.codec.schema import arrow_schema, scalar
from lakebed.formats.iceberg.codec.transforms import hashed
from lakebed.formats.iceberg.commit.message import IcebergMessage
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.write.routing import Router
from lakebed.kernel.arrays import Int8s, Int32s, UInt32s, one_chunk
from lakebed.kernel.rows.conform import check_conformable, conform
from lakebed.kernel.rows.row_kinds import RowKindRule
from lakebed.kernel.sizing.staging import INLINE_BYTES, Grouped, Stager, StagingLimits, grouped
from lakebed.model.rowkind import ROW_KIND_COLUMN, RowKind

KIND_COLUMN = "_lakebed_kind"
"""The column of row kinds in what is staged by key."""
SLOTS = 64
"""Into how many parts keys are staged: what is held at once when the last row of each key is looked for."""


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """What the tasks of one write have in common. Picklable.

    `keys` are the columns that changes go by, () where rows are only added; `always_by_key` when rows without a kind do
    too, and `default` is then what these are. `staging` is the folder of staged rows.
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

    @property
    def rows_schema(self) -> pa.Schema:
        """The table's columns."""
        return arrow_schema(self.schema)

    @property
    def input_schema(self) -> pa.Schema:
        """What rows must look like at least: a column with a write default may be left out, and where changes go by
        key a removed row needs no other column."""
        rows = self.changes_schema if self.keys else self.rows_schema
        defaults = {field.name for field in self.schema.fields if field.write_default is not None}
        return pa.schema([field.with_nullable(field.nullable or field.name in defaults) for field in rows])

    @property
    def changes_schema(self) -> pa.Schema:
        """Rows of changes by key: all columns but the key may be null, as in rows that only name what is removed."""
        return pa.schema([field.with_nullable(field.name not in self.keys) for field in self.rows_schema])

    @property
    def staged_changes(self) -> pa.Schema:
        """What tasks stage of changes by key: their columns and their kind."""
        return self.changes_schema.append(pa.field(KIND_COLUMN, pa.int8(), False))

    @property
    def key_schema(self) -> pa.Schema:
        """The key columns."""
        return pa.schema([self.rows_schema.field(name) for name in self.keys])

    def stager(self, schema: pa.Schema, group: Callable[[pa.Table], Grouped], inline: int | None = None) -> Stager:
        """A new place for staged rows."""
        path = f"{self.staging}/{uuid.uuid4()}.arrow"
        limits = StagingLimits(self.buffer, self.inline if inline is None else inline)
        return Stager(self.files, path, schema, group, limits)

    def by_key(self, rows: pa.Table) -> Grouped:
        """The slot of each row: a hash of its key."""
        codes = np.zeros(len(rows), np.uint32)
        for name in self.keys:
            codes = codes * np.uint32(31) + _hashes(one_chunk(rows.column(name)))
        return grouped((codes % np.uint32(SLOTS)).astype(np.int64), range(SLOTS))

    def fitted(self, data: pa.Table, wanted: pa.Schema) -> pa.Table:
        """Rows in the table's columns and types; columns not given have their write default, else null."""
        check_conformable(data.schema, self.input_schema, self.location)
        return conform(data, wanted, self.location, self._absent)

    def _absent(self, field: pa.Field, rows: int) -> pa.Array:
        own = self.schema.find_field(field.name)
        if own.write_default is None:
            return pa.nulls(rows, field.type)
        return pa.repeat(scalar(own.write_default, own.field_type), rows)


class IcebergTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`. Rows go by key when the mode says so or a `_row_kind` comes along,
    and the table has a key."""

    def __init__(self, target: TaskTarget) -> None:
        self._target = target
        self._added: Stager | None = None
        self._changed: Stager | None = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the sink's input schema, with `_row_kind` or without."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        target = self._target
        rule = RowKindRule(default=target.default)
        if target.keys and (target.always_by_key or ROW_KIND_COLUMN in data.schema.names):
            rows = target.fitted(data, target.changes_schema)
            kinds = rule.kinds(data, target.keys, target.location)
            codes = np.zeros(len(rows), np.int8) if kinds is None else kinds
            rows = rows.append_column(pa.field(KIND_COLUMN, pa.int8(), False), pa.array(codes, pa.int8()))
            if self._changed is None:
                self._changed = target.stager(target.staged_changes, target.by_key)
            self._changed.write(rows)
        else:
            rows = target.fitted(data, target.rows_schema)
            kinds = rule.kinds(data, data.schema.names[:1], target.location)
            if kinds is not None:
                raise _no_keys(kinds, target)
            if self._added is None:
                self._added = target.stager(target.rows_schema, target.router.group)
            self._added.write(rows)
        self._rows += len(rows)

    def finish(self) -> Sequence[IcebergMessage]:
        """Say what was staged since the last call. The writer may be used on."""
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
    found = ", ".join(sorted({RowKind(kind).short for kind in np.unique(kinds)} - {"+I"}))
    return UsageError(
        f"rows of kind {found}, but no key says which rows they change", table=target.location,
        why=f"column {ROW_KIND_COLUMN!r} is there, and the write overwrites, or the table has no identifier fields",
        todo="Write rows of kind +I only, or append and name the key columns in the option upsert.keys",
    )  # fmt: skip


def _hashes(column: pa.Array) -> UInt32s:
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    if pa.types.is_floating(plain.type):
        plain = plain.cast(pa.float64()).view(pa.int64())
    found: Int32s = hashed(plain).to_numpy(zero_copy_only=False)
    return found.view(np.uint32)
