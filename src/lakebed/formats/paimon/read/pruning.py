"""Rules out files that cannot match a predicate, by their partition values, the statistics in manifests, and their
buckets (`bucket_facts`).

In a table with a primary key, only the statistics of key columns count. A file whose other columns do not match may
still have the newest version of a row, and without it the read would return an older version that does match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.codec.manifest import ManifestEntry, ManifestFileMeta
from lakebed.formats.paimon.codec.row_fields import row_fields
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import ROW_ID, DataField, arrow_type
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.read.bucket_facts import bucket_facts
from lakebed.formats.paimon.read.row_tracking import row_id_facts
from lakebed.kernel.arrays import Bools, Int64s, one_chunk
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import columns_of


def kept_entries(
    entries: Sequence[ManifestEntry], predicate: Node | None, schema: TableSchema
) -> Sequence[ManifestEntry]:
    """The entries whose files may have a row that the predicate keeps. `schema` is the schema that is read."""
    if predicate is None or not len(entries):
        return entries
    kept = can_hold(predicate, _FileFacts(Entries.of(entries), schema), len(entries))
    if isinstance(entries, Entries):
        return entries.kept(kept)
    return [entry for entry, is_kept in zip(entries, kept.tolist(), strict=True) if is_kept]


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """What a predicate says of partitions, before any entry is read."""

    predicate: Node
    schema: TableSchema

    @classmethod
    def of(cls, predicate: Node | None, schema: TableSchema) -> PartitionFilter | None:
        """None where the predicate names no partition column."""
        if predicate is None or not {*columns_of(predicate)} & {*schema.partition_keys}:
            return None
        return cls(predicate, schema)

    def manifests(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """The manifests that may have entries of partitions with rows that the predicate keeps."""
        kept = can_hold(self.predicate, lambda path: self._ranges(path, metas), len(metas))
        return [meta for meta, is_kept in zip(metas, kept.tolist(), strict=True) if is_kept]

    def buckets(self, partitions: Sequence[bytes], numbers: Int64s) -> Bools:
        """Which buckets are in partitions that may have rows that the predicate keeps."""
        encoded = pa.array(partitions, pa.binary()).dictionary_encode()
        rows = encoded.dictionary
        kept = can_hold(self.predicate, lambda path: self._values(path, rows), len(rows))
        wanted: Bools = kept[encoded.indices.to_numpy()]
        return wanted

    def _values(self, path: tuple[str, ...], rows: pa.Array) -> list[Facts]:
        if path[0] not in self.schema.partition_keys or len(path) > 1:
            return []
        return [_constant(self.schema, path[0], rows)]

    def _ranges(self, path: tuple[str, ...], metas: Sequence[ManifestFileMeta]) -> list[Facts]:
        keys, stats = self.schema.partition_keys, [meta.partition_stats for meta in metas]
        if path[0] not in keys or len(path) > 1:
            return []
        place, kind = keys.index(path[0]), self.schema.field(path[0]).type
        low, high = (
            row_fields(pa.array(rows, pa.binary()), place, len(keys), kind)
            for rows in ([of_one.min_values for of_one in stats], [of_one.max_values for of_one in stats])
        )
        nulls = [of_one.null_counts[place] != 0 if place < len(of_one.null_counts) else True for of_one in stats]
        return [_ranges_of(low, high, np.array(nulls, np.bool_), self.schema.field(path[0]))]


@dataclass(frozen=True, slots=True)
class _FileFacts:
    """What the manifests say about a column in the file of each entry."""

    entries: Entries
    schema: TableSchema

    def __call__(self, path: tuple[str, ...]) -> list[Facts]:
        """The facts of a column: its partition values, or its statistics and what buckets say of it."""
        name = path[0]
        if path == (ROW_ID,) and name not in self.schema.names:
            return [row_id_facts(self.entries)]
        if len(path) > 1 or name not in self.schema.names:
            return []
        field = self.schema.field(name)
        if name in self.schema.partition_keys:
            codes, partitions = self.entries.partitions
            rows = pa.array(partitions, pa.binary()).take(pa.array(codes))
            return [_constant(self.schema, name, rows)]
        facts = [*bucket_facts(self.entries, self.schema, name)]
        if not self.schema.primary_keys:
            facts.append(self._value_stats(field))
        elif name in self.schema.trimmed_primary_keys:
            keys, every = self.schema.trimmed_primary_keys, np.ones(len(self.entries), np.bool_)
            facts.append(self._stats("key_stats", field, [(keys.index(name), len(keys), every)]))
        return facts

    def _value_stats(self, field: DataField) -> Facts:
        """The value statistics of a column. Files of another schema, whose columns are in other places, have none."""
        named = self.entries.table.column("value_stats_cols")
        if named.null_count:
            named = pc.coalesce(named, self.entries.table.column("write_cols"))
        own = self.entries.numbers("schema_id") == self.schema.id
        names, layouts = self.schema.names, list[tuple[int, int, Bools]]()
        texts = one_chunk(pc.binary_join(named, "\0")).dictionary_encode("encode")
        lists = texts.dictionary.to_pylist()
        for code, text in enumerate(lists):
            columns = names if text is None else text.split("\0") if text else []
            if field.name in columns:
                of_layout = own & (texts.indices.to_numpy() == code)
                layouts.append((columns.index(field.name), len(columns), of_layout))
        return self._stats("value_stats", field, layouts)

    def _stats(self, which: str, field: DataField, layouts: Sequence[tuple[int, int, Bools]]) -> Facts:
        """The least and the greatest value of a column. Each layout has the place of the column in the rows of
        statistics, their number of fields, and the entries that have it."""
        table, kind = self.entries.table, arrow_type(field.type)
        nulls = np.ones(len(table), np.bool_)
        places = np.full(len(table), -1, np.int64)
        lows, highs, before = list[pa.Array](), list[pa.Array](), 0
        for place, arity, of_layout in layouts:
            mask = pa.array(of_layout)
            stats = table.select([f"{which}_min", f"{which}_max", f"{which}_nulls"]).filter(mask)
            for batch in stats.to_batches():
                low, high = batch.columns[:2]
                lows.append(row_fields(low, place, arity, field.type))
                highs.append(row_fields(high, place, arity, field.type))
            nulls[of_layout] = _may_be_null(stats.column(2), place)
            places[of_layout] = np.arange(before, before + len(stats))
            before += len(stats)
        taken = pa.array(places, mask=places < 0)
        low, high = (pa.chunked_array(parts, kind).take(taken).combine_chunks() for parts in (lows, highs))
        return _ranges_of(one_chunk(low), one_chunk(high), nulls, field)


def _may_be_null(counts: pa.ChunkedArray, place: int) -> Bools:
    """Whether the count of nulls at a place is unknown or not 0."""
    lengths = pc.fill_null(pc.list_value_length(counts), 0).to_numpy()
    has = lengths > place
    result = np.ones(len(lengths), np.bool_)
    if has.any():
        at = pc.list_element(counts.filter(pa.array(has)), place)
        result[has] = pc.fill_null(pc.not_equal(at, 0), True).to_numpy()
    return result


def _ranges_of(low: pa.Array, high: pa.Array, nulls: Bools, field: DataField) -> Facts:
    """Facts by bounds. Where one is unknown, so is the other, and whether there are nulls; some formats give NaN as a
    bound."""
    known = pc.and_(low.is_valid(), high.is_valid())
    if pa.types.is_floating(low.type):
        known = pc.and_(known, pc.invert(pc.fill_null(pc.or_(pc.is_nan(low), pc.is_nan(high)), False)))
    none = pa.scalar(None, low.type)
    anything = np.ones(len(low), np.bool_)
    nans = np.full(len(low), field.type.root in ("FLOAT", "DOUBLE"))
    unknown: Bools = ~known.to_numpy(zero_copy_only=False)
    return Facts(pc.if_else(known, low, none), pc.if_else(known, high, none), nulls | unknown, anything, nans)


def _constant(schema: TableSchema, name: str, rows: pa.Array) -> Facts:
    """The facts of a partition column by the rows of partitions."""
    place, keys = schema.partition_keys.index(name), schema.partition_keys
    values = row_fields(rows, place, len(keys), schema.field(name).type)
    return Facts.constant(values, np.zeros(len(rows), np.bool_))
