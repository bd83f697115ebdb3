"""CDC_DATA blocks: what a write did to each row, by the table's supplemental logging mode (`HoodieCDCUtils`).

    OP_KEY_ONLY          op, record_key
    DATA_BEFORE          op, record_key, before
    DATA_BEFORE_AFTER    op, ts_ms, before, after

`op` is i, u or d; `ts_ms` holds, despite its name, the instant of the write; `before` and `after` are the rows without
meta columns, null where there is no row. The rows decode as those of any Avro block: `avro.decode_blocks`.
"""

from __future__ import annotations

from enum import Enum

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock
from lakebed.formats.hudi.codec.schema import writer_schema


class CdcMode(Enum):
    """How much of a change is logged. The values are those of `hoodie.table.cdc.supplemental.logging.mode`."""

    OP_KEY_ONLY = "op_key_only"
    DATA_BEFORE = "data_before"
    DATA_BEFORE_AFTER = "data_before_after"


_FIELDS = {
    CdcMode.OP_KEY_ONLY: ("op", "record_key"),
    CdcMode.DATA_BEFORE: ("op", "record_key", "before"),
    CdcMode.DATA_BEFORE_AFTER: ("op", "ts_ms", "before", "after"),
}


def cdc_mode(block: LogBlock) -> CdcMode:
    """The mode that a CDC_DATA block was written in, by its own schema.

    Raises UnsupportedError for a block of another kind or with other columns.
    """
    names = tuple(column.name for column in writer_schema(block.schema).columns)
    for mode, fields in _FIELDS.items():
        if block.kind is BlockKind.CDC_DATA and names == fields:
            return mode
    raise UnsupportedError(
        f"the {block.kind.name} block at offset {block.offset} has columns {', '.join(names)}",
        instant=block.instant_time,
        why="no mode of change data capture writes these columns",
        todo="Read the table without its change log",
    )
