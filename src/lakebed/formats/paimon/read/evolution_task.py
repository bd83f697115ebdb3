"""The rows of a split of a table with `data-evolution.enabled`: the columns of several files side by side.

Rules: Paimon's DataEvolutionSplitRead and DataEvolutionFileReader. Memory holds one batch of each file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, arrow_schema
from lakebed.formats.paimon.read.blobs import BlobColumn
from lakebed.formats.paimon.read.evolution import RowRange
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.kernel.files import Store

_BATCH_ROWS = 64 << 10

ReadFile = Callable[[DataFileMeta, Sequence[str]], Iterator[pa.RecordBatch]]
"""Gives all rows of a data file in order, with the named columns."""


@dataclass(frozen=True, slots=True)
class EvolvedRows:
    """Reads `wanted` columns of the ranges of one split, deleted rows too."""

    store: Store
    split: PaimonSplit
    wanted: Sequence[DataField]
    schema_of: Callable[[DataFileMeta], TableSchema]

    def files(self, group: RowRange) -> list[DataFileMeta]:
        """The data files that are read of a range."""
        return [*group.sources(self._plain, self.schema_of)]

    def batches(self, group: RowRange, read: ReadFile) -> Iterator[pa.RecordBatch]:
        """All rows of a range in order. CorruptError where its files have other rows than the manifest says."""
        sides = [
            read(file, [field.name for field in fields])
            for file, fields in group.sources(self._plain, self.schema_of).items()
        ]
        for field in self.wanted:
            files = group.blobs_of(field, self.schema_of) if field.type.root == "BLOB" else []
            if files:
                sides.append(BlobColumn(self.store, self.split, field.name, files, group.first, group.rows).batches())
        schema = arrow_schema(self.wanted)
        for batch in side_by_side(sides, group.rows, self.store.location):
            names = {*batch.schema.names}
            columns = [
                batch.column(name) if name in names else pa.nulls(len(batch), schema.field(name).type)
                for name in schema.names
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    @property
    def _plain(self) -> list[DataField]:
        return [field for field in self.wanted if field.type.root != "BLOB"]


def side_by_side(sides: Sequence[Iterator[pa.RecordBatch]], rows: int, table: str) -> Iterator[pa.RecordBatch]:
    """The columns of all sides in batches of the same rows. Without sides the batches only count `rows`."""
    if not sides:
        for start in range(0, rows, _BATCH_ROWS):
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * min(_BATCH_ROWS, rows - start), pa.struct([])))
        return
    held = [_next(side) for side in sides]
    while True:
        waiting = [batch for batch in held if batch is not None]
        if not waiting:
            return
        if len(waiting) < len(sides):
            raise CorruptError("files of the same row ids do not have the same number of rows", table=table)
        size = min(map(len, waiting))
        columns = [column for batch in waiting for column in batch.slice(0, size).columns]
        fields = [field for batch in waiting for field in batch.schema]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        held = [
            batch.slice(size) if len(batch) > size else _next(side) for batch, side in zip(waiting, sides, strict=True)
        ]


def _next(side: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in side if len(batch)), None)
