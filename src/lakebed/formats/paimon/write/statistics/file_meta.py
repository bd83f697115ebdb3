"""How manifests describe a new data file: from parts of its rows while they are written, joined when it is closed.

Rules: Paimon's KeyValueDataFileWriter.result and RowDataFileWriter.result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon.codec.binary_row import EMPTY_ROW, encode_row, plain, with_arity
from lakebed.formats.paimon.codec.manifest import SOURCE_APPEND, DataFileMeta, SimpleStats
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, VALUE_KIND
from lakebed.formats.paimon.write.files import WrittenFile
from lakebed.formats.paimon.write.formats import FOOTER_TEXT_BYTES
from lakebed.formats.paimon.write.statistics.columns import (
    ColumnFacts,
    column_stats,
    joined_facts,
    value_stats,
)
from lakebed.formats.paimon.write.statistics.modes import NO_STATS, StatsMode, StatsModes
from lakebed.kernel import clock
from lakebed.kernel.arrays import to_numpy
from lakebed.model.rowkind import RowKind

_NO_KEY = with_arity(EMPTY_ROW, 0)


@dataclass(frozen=True, slots=True)
class Part:
    """What the manifest needs to know of some rows of a file: facts of columns, the first and last key, the least and
    greatest sequence number, and the number of rows that delete."""

    facts: dict[str, ColumnFacts]
    first: tuple[Any, ...]
    last: tuple[Any, ...]
    sequences: tuple[int, int]
    deletes: int


class Describer:
    """Describes the rows of a file as they are written. Bounds of texts are left to the footer of a Parquet file where
    it will have them. `sequence` is the sequence number of the first row, for tables without a key."""

    def __init__(self, schema: TableSchema, modes: StatsModes, parquet: bool, sequence: int) -> None:
        self._parquet, self._next = parquet, sequence
        self._keys = schema.trimmed_primary_keys if schema.primary_keys else ()
        self._types = {field.name: field.type for field in schema.fields if not field.type.is_nested}
        self._modes = {
            name: max(modes.columns[name], modes.keys.get(name, NO_STATS), key=_extent) for name in self._types
        }

    def __call__(self, rows: pa.Table) -> Part:
        """Describe some rows, which must come in the order in which they are written."""
        facts = {
            name: self._facts(_column(rows, name), name, mode) for name, mode in self._modes.items() if mode.counts
        }
        if not self._keys:
            start, self._next = self._next, self._next + len(rows)
            return Part(facts, (), (), (start, self._next - 1), 0)
        keys = [_column(rows, name) for name in self._keys]
        first, last = (tuple(plain(key[at]) for key in keys) for at in (0, len(rows) - 1))
        numbers = to_numpy(_column(rows, SEQUENCE_NUMBER))
        kinds = to_numpy(_column(rows, VALUE_KIND))
        deletes = int(((kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE)).sum())
        return Part(facts, first, last, (int(numbers.min()), int(numbers.max())), deletes)

    def _facts(self, column: pa.Array, name: str, mode: StatsMode) -> ColumnFacts:
        if not mode.characters:
            return ColumnFacts(nulls=column.null_count)
        if self._parquet and pa.types.is_string(column.type) and _longest(column) <= FOOTER_TEXT_BYTES:
            return ColumnFacts(nulls=column.null_count)
        return ColumnFacts.of(column, self._types[name])


def file_meta(file: WrittenFile[Part], schema: TableSchema, modes: StatsModes, numbered: bool) -> DataFileMeta:
    """A closed file as manifests name it. `numbered`: its rows have the sequence numbers of their bucket; else each
    file counts from 0."""
    parts = file.parts
    texts = [
        {name: ColumnFacts(low, high) for name, pairs in file.texts.items() for low, high in pairs[at : at + 1]}
        for at in range(max(map(len, file.texts.values()), default=0))
    ]
    facts = joined_facts([*(part.facts for part in parts), *texts])
    stats, covered = value_stats(facts, schema.fields, modes.columns, modes.dense)
    low, high, key_stats = _key_range(parts, facts, schema, modes)
    numbers = min(part.sequences[0] for part in parts), max(part.sequences[1] for part in parts)
    if not numbered:
        numbers = 0, file.rows - 1
    return DataFileMeta(
        file.name,
        file.size,
        file.rows,
        low,
        high,
        key_stats,
        stats,
        *numbers,
        schema.id,
        level=0,
        creation_time=clock.now_ms(),
        delete_row_count=sum(part.deletes for part in parts),
        file_source=SOURCE_APPEND,
        extra_files=file.extra_files,
        embedded_index=file.embedded_index,
        value_stats_cols=covered,
    )


def _key_range(
    parts: Sequence[Part], facts: dict[str, ColumnFacts], schema: TableSchema, modes: StatsModes
) -> tuple[bytes, bytes, SimpleStats]:
    """The first and last key, and the statistics of the key's columns."""
    if not schema.primary_keys:
        return _NO_KEY, _NO_KEY, SimpleStats()
    fields = schema.project(schema.trimmed_primary_keys)
    types = [field.type for field in fields]
    low, high = (with_arity(encode_row(row, types), len(types)) for row in (parts[0].first, parts[-1].last))
    return low, high, column_stats(facts, fields, modes.keys)


def _extent(mode: StatsMode) -> tuple[bool, int]:
    """Whether the mode counts nulls, and to how many characters it keeps bounds."""
    return mode.counts, mode.characters


def _longest(texts: pa.Array) -> int:
    """The length of the longest text in bytes."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return int(np.diff(offsets).max(initial=0))


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
