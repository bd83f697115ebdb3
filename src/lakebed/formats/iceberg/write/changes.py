"""Changes by key: the last row of each key wins, and a deleted key leaves no row.

Tasks stage the rows by a hash of the key. So all rows of a key lie in one slot, in the order of their arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.commit.message import IcebergMessage
from lakebed.formats.iceberg.write.task import KIND_COLUMN, LITTLE_BYTES, TaskTarget
from lakebed.kernel.arrays import Int64s, from_numpy, from_values, one_chunk, to_numpy
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.keys.distinct import distinct
from lakebed.kernel.rows.conform import conform
from lakebed.kernel.sizing.file_counts import share_out
from lakebed.kernel.sizing.staging import Run, Staged, StagedBuckets
from lakebed.model.rowkind import RowKind


def last_of_each_key(staged: Sequence[Staged], target: TaskTarget, engine: Engine) -> list[IcebergMessage]:
    """From rows staged by key: the last row of each key, staged by partition, and every key once, staged by key.

    SchemaError when a row that wins lacks a value that the table requires.
    """
    if isinstance(engine, LocalEngine):
        target = replace(target, memory=LITTLE_BYTES)
    slots = StagedBuckets(staged, target.staged_changes)
    runs = [slots.run(at, 0, int(rows)) for at, rows in enumerate(slots.rows.tolist())]
    shares = share_out(slots.sizes.tolist(), engine.parallelism)
    tasks = [[runs[at] for at in share] for share in shares]
    return list(engine.map(_LastOfEachKey(target), tasks))


@dataclass(frozen=True, slots=True)
class _LastOfEachKey:
    """A task: reduces slots of staged rows, one after the other."""

    target: TaskTarget

    def __call__(self, runs: Sequence[Run]) -> IcebergMessage:
        target = self.target
        rows_out = target.stager(target.rows_schema, target.router.group)
        keys_out = target.stager(target.key_schema, target.by_key)
        bounds: pa.Table | None = None
        try:
            for run in runs:
                rows = pa.Table.from_batches(run.batches(target.files), run.schema).combine_chunks()
                rows = rows.take(from_numpy(_last_rows(rows, target.keys)))
                keys = rows.select(list(target.keys)).cast(target.key_schema)
                keys_out.write(keys)
                bounds = widened(bounds, keys)
                kinds = to_numpy(rows[KIND_COLUMN])
                winners = rows.filter(from_numpy((kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)))
                rows_out.write(conform(winners, target.rows_schema, target.location))
            staged_rows, staged_keys = rows_out.finish(), keys_out.finish()
        except BaseException:
            rows_out.abort()
            keys_out.abort()
            raise
        return IcebergMessage(
            added=() if staged_rows is None else (staged_rows,),
            keys=() if staged_keys is None else (staged_keys,),
            bounds=bounds,
        )


def _last_rows(rows: pa.Table, keys: Sequence[str]) -> Int64s:
    """The positions of the last row of each key, ascending."""
    codes, first = distinct([_plain(one_chunk(rows.column(name))) for name in keys])
    last = np.zeros(len(first), np.int64)
    last[codes] = np.arange(len(codes))  # for rows with the same code, numpy keeps the last assignment
    last.sort()
    return last


def widened(bounds: pa.Table | None, keys: pa.Table | None) -> pa.Table | None:
    """The least and the greatest value of each key column, in two rows: those of `bounds`, widened by more keys."""
    if keys is None:
        return bounds
    keys = keys.cast(pa.schema([field.with_nullable(True) for field in keys.schema]))
    if bounds is not None:
        keys = pa.concat_tables([bounds, keys])
    columns = []
    for field, column in zip(keys.schema, keys.columns, strict=True):
        plain = _plain(one_chunk(column))
        least, most = pc.min_max(plain).values() if _has_order(plain.type) else (None, None)
        both = from_values([value.as_py() if value is not None else None for value in (least, most)], plain.type)
        columns.append(both if plain.type == field.type else pa.ExtensionArray.from_storage(field.type, both))
    return pa.Table.from_arrays(columns, schema=keys.schema)


def _plain(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _has_order(kind: pa.DataType) -> bool:
    """Whether Arrow can find the least value of such a column."""
    return not (pa.types.is_fixed_size_binary(kind) or pa.types.is_nested(kind))
