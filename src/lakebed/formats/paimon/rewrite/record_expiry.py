"""Rows that compactions leave out because they are too old (`record-level.expire-time`).

Rules: Paimon's RecordLevelExpire.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import OptionError
from lakebed.formats.paimon import compaction_options as opt
from lakebed.formats.paimon.codec.binary_row import decode_field, without_arity
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, arrow_type
from lakebed.kernel import clock
from lakebed.kernel.arrays import Bools, Int64s, to_numpy
from lakebed.kernel.options import Options

_TYPES = ("INTEGER", "INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ")
_LEAST_MILLISECONDS = 1_000_000_000_000
"""A BIGINT from here on counts milliseconds."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Rows expire when their column `field` is more than `seconds` ago."""

    field: DataField
    seconds: int

    @classmethod
    def of(cls, schema: TableSchema, options: Options, table: str) -> RecordExpiry | None:
        """By the options of a table, None where rows do not expire. OptionError for a column that has no time."""
        milliseconds: int | None = options[opt.RECORD_EXPIRE_TIME]
        if milliseconds is None:
            return None
        name = options[opt.RECORD_TIME_FIELD]
        if name not in schema.names or schema.field(name).type.root not in _TYPES:
            raise OptionError.ill_typed(
                opt.RECORD_TIME_FIELD.key, name, f"a column of type INT, BIGINT or TIMESTAMP of the table {table}"
            )
        return cls(schema.field(name), milliseconds // 1000)

    def kept(self, column: pa.Array) -> Bools:
        """Which values of the column are not too old. Nulls never are."""
        old: Bools = int(clock.now()) - self.seconds > _seconds(column)
        kept: Bools = ~old | to_numpy(column.is_null())
        return kept

    def has_expired(self, file: DataFileMeta, written: TableSchema) -> bool:
        """Whether the statistics of a file, written under a schema, show a row that is too old."""
        names = file.value_stats_cols if file.value_stats_cols is not None else tuple(written.names)
        own = next((field for field in written.fields if field.id == self.field.id), None)
        row = without_arity(file.value_stats.min_values)
        if own is None or own.name not in names or own.type.root not in _TYPES or len(row) <= 8:
            return False
        least = decode_field(row, names.index(own.name), len(names), own.type)
        if least is None:
            return False
        kind = arrow_type(own.type)
        value = pa.array([least], pa.int64()).cast(kind) if pa.types.is_temporal(kind) else pa.array([least], kind)
        return not bool(self.kept(value)[0])


def _seconds(column: pa.Array) -> Int64s:
    """Seconds since 1970."""
    if pa.types.is_timestamp(column.type):
        numbers: Int64s = to_numpy(pc.fill_null(column.view(pa.int64()), 0))
        per_second = _PER_SECOND[column.type.unit]
        milliseconds = numbers if per_second <= 1000 else numbers // (per_second // 1000)
        return np.trunc(milliseconds / min(per_second, 1000)).astype(np.int64)
    numbers = to_numpy(pc.fill_null(column.cast(pa.int64()), 0))
    if pa.types.is_int64(column.type):
        return np.where(numbers >= _LEAST_MILLISECONDS, numbers // 1000, numbers)
    return numbers
