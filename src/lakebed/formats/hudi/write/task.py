"""One task of a write: rows are conformed to the table, get their key, partition path and kind, and are staged.

A task writes no data files: it knows neither which file groups hold its keys nor how many rows the other tasks have.
The commit looks up the keys and writes the files (`write/run.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.hudi.commit.message import HudiMessage
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import META_COLUMNS, PARTITION_PATH
from lakebed.formats.hudi.write.conform import WriteSchema
from lakebed.formats.hudi.write.dropped import check_paths
from lakebed.formats.hudi.write.keys import RowKeys
from lakebed.formats.hudi.write.made_keys import check_unmoved, stored_keys
from lakebed.formats.hudi.write.operation import Operation
from lakebed.formats.hudi.write.place import StagingPlace
from lakebed.formats.hudi.write.staged_rows import (
    DELETE,
    DELETE_ALWAYS,
    ROW,
    by_key,
    by_partition,
    staged_schema,
)
from lakebed.kernel.arrays import Int8s, from_numpy, one_chunk, to_numpy
from lakebed.kernel.rows.row_kinds import RowKindRule
from lakebed.kernel.sizing.staging import INLINE_BYTES, Grouped, Stager, StagingLimits
from lakebed.model.rowkind import ROW_KIND_COLUMN, RowKind

_LIMITS = StagingLimits(inline=INLINE_BYTES)
IS_DELETED = "_hoodie_is_deleted"
"""A column of the user's rows: where it is true, the row deletes its key."""


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """What all tasks of one write share. Picklable.

    Rows are staged by a hash of their key where `combines` says that rows of a key must meet, else by partition: in
    files of `place`, or in the task's answer as far as `limits` allow.
    """

    place: StagingPlace
    location: str
    config: TableConfig
    schema: WriteSchema
    operation: Operation
    combines: bool
    keys: RowKeys
    limits: StagingLimits = _LIMITS

    @property
    def takes_deletes(self) -> bool:
        """Whether rows may be deletes: an insert becomes an upsert where they are."""
        return self.operation in (Operation.INSERT, Operation.UPSERT, Operation.DELETE)


class HudiTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`."""

    def __init__(self, target: TaskTarget) -> None:
        self._target = target
        self._begin()

    def _begin(self) -> None:
        self._stager: Stager | None = None
        self._schema = pa.schema([])
        self._changes = False
        self._partitions: set[str] = set()
        self._rows = 0

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Stage rows of the sink's input schema, with or without `_row_kind`. Hudi's meta columns are left out."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        target = self._target
        keyless = not target.config.record_keys
        if keyless:
            self._check_inserts(data)
        stored = stored_keys(data, target.location) if keyless and target.operation.tags else ()
        data = data.drop_columns([name for name in META_COLUMNS if name in data.schema.names])
        changes = ROW_KIND_COLUMN in data.schema.names and not keyless
        only_keys = target.operation is Operation.DELETE
        rows = target.schema.conformed(data, only_keys=only_keys, changes=changes)
        kinds = self._kinds(data, rows)
        if (kinds < 0).any():
            kept = kinds >= 0
            rows, kinds = rows.filter(from_numpy(kept)), kinds[kept]
            stored = tuple(column.filter(from_numpy(kept)) for column in stored)
        if not len(rows):
            return
        keys = target.keys
        whole = rows.combine_chunks()
        columns = stored or (keys.keys(whole), keys.partitions(whole))
        if stored and not only_keys and target.config.plain_partitions:
            check_unmoved(stored[1], keys.partitions(whole), target.location)
        if not only_keys:
            check_paths(target.config, whole, columns[1], target.location)
        schema = staged_schema(rows.schema)
        staged = pa.Table.from_arrays([*columns, *whole.columns, pa.array(kinds, pa.int8())], schema=schema)
        self._partitions.update(pc.unique(staged.column(PARTITION_PATH)).to_pylist())
        self._opened(schema, changes).write(staged)
        self._rows += len(staged)

    def _kinds(self, data: pa.Table, rows: pa.Table) -> Int8s:
        """The kind of each row, -1 for one that is left out: the row before an update."""
        target = self._target
        kinds = np.full(len(rows), DELETE_ALWAYS if target.operation is Operation.DELETE else ROW, np.int8)
        codes = RowKindRule().kinds(data, target.config.record_keys, target.location)
        if codes is not None:
            self._check_deletes(ROW_KIND_COLUMN)
            kinds[codes == RowKind.DELETE] = DELETE
            kinds[codes == RowKind.UPDATE_BEFORE] = -1
        if IS_DELETED in rows.schema.names and pa.types.is_boolean(rows.schema.field(IS_DELETED).type):
            marked = to_numpy(pc.fill_null(one_chunk(rows.column(IS_DELETED)), False))
            marked &= kinds == ROW
            if marked.any():  # rows that are only added never were: as Hudi's create handle, leave such rows out
                kinds[marked] = DELETE if codes is not None or target.operation is Operation.UPSERT else -1
        return kinds

    def _check_inserts(self, data: pa.Table) -> None:
        """Raise for changes by key of a table that has no key columns."""
        codes = RowKindRule().kinds(data, (), self._target.location)
        if codes is not None:
            raise UnsupportedError(
                f"column {ROW_KIND_COLUMN!r} has changes, and the table has no record key",
                table=self._target.location,
                todo="Write rows that are added (+I), or a table with a record key",
            )

    def _check_deletes(self, column: str) -> None:
        if not self._target.takes_deletes:
            raise UsageError(
                f"the operation {self._target.operation} takes no deletes, but column {column!r} has some",
                table=self._target.location,
                todo="Write such rows with mode append or upsert",
            )

    def _opened(self, schema: pa.Schema, changes: bool) -> Stager:
        if self._stager is None:
            group: Callable[[pa.Table], Grouped] = by_key if self._target.combines or changes else by_partition
            path = self._target.place.path(f"{uuid.uuid4()}.arrow")
            self._stager = Stager(self._target.place, path, schema, group, self._target.limits)
            self._schema, self._changes = schema, changes
        elif schema != self._schema or changes != self._changes:
            raise UsageError(
                "rows of one task have different columns",
                table=self._target.location,
                why=f"first {', '.join(self._schema.names[2:-1])}, then {', '.join(schema.names[2:-1])}",
                todo=f"Give all rows the same columns and types, {ROW_KIND_COLUMN} included",
            )
        return self._stager

    def finish(self) -> Sequence[HudiMessage]:
        """The message for what was staged since the last call. The writer can be used again."""
        staged = self._stager.finish() if self._stager is not None else None
        if staged is None:
            return []
        message = HudiMessage(
            staged=(staged,),
            rows=self._rows,
            schema=self._schema,
            partitions=tuple(sorted(self._partitions)),
            changes=self._changes,
        )
        self._begin()
        return [message]

    def abort(self) -> None:
        """Remove what was staged since the last `finish`."""
        if self._stager is not None:
            self._stager.abort()
        self._begin()
