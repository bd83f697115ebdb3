"""Rules out files that cannot match a predicate, by their partition values, the statistics in manifests, their buckets
(`bucket_facts`) and their file indexes (`index_facts`).

Rules: Paimon's AppendOnlyFileStoreScan and KeyValueFileStoreScan. In a table with a primary key, only what is known of
key columns rules a single file out. A file whose other columns do not match may still have the newest version of a row,
and without it the read would return an older version that does match. What is known of other columns counts where each
key is in one file of its bucket only. It also counts where no file of a bucket can match, if merges make no new values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon.codec.manifest import ManifestEntry, ManifestFileMeta
from lakebed.formats.paimon.codec.row_fields import row_fields
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import ROW_ID
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.read.bucket_facts import bucket_facts
from lakebed.formats.paimon.read.index_facts import FileIndexes
from lakebed.formats.paimon.read.row_tracking import row_id_facts
from lakebed.formats.paimon.read.stats_facts import SchemaOf, key_facts, range_facts, value_facts
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, to_numpy
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import columns_of


@dataclass(frozen=True, slots=True)
class Pruning:
    """How the files of a read are ruled out.

    `schema` is the schema that is read, `schema_of` gives older ones. `indexes`: whether file indexes are asked.
    `makes_values`: whether merges make values that no file has. `by_level`: whether all files above level 0 are read
    without a merge.
    """

    schema: TableSchema
    schema_of: SchemaOf
    table: str
    indexes: bool = True
    makes_values: bool = True
    by_level: bool = False

    def kept(
        self, entries: Sequence[ManifestEntry], predicate: Node | None, whole_buckets: bool = False
    ) -> Sequence[ManifestEntry]:
        """The entries whose files may have a row that the predicate keeps. With `whole_buckets`, `entries` has all
        files of each bucket that are read."""
        if predicate is None or not len(entries):
            return entries
        columns, keyed = Entries.of(entries), bool(self.schema.primary_keys)
        kept = can_hold(predicate, self._facts(columns, valued=not keyed), len(entries))
        if keyed and whole_buckets and kept.any():
            kept &= self._kept_by_values(columns, predicate)
        return _where(entries, kept)

    def keeps_alone(self, entry: ManifestEntry, predicate: Node, index: bytes | None) -> bool:
        """Whether a file whose rows are not merged with those of others may have a row that the predicate keeps.

        `index` is the content of its index file, None where there is none.
        """
        beside = {} if index is None else {entry.file.file_name: index}
        return bool(can_hold(predicate, self._facts(Entries.of([entry]), True, beside), 1)[0])

    def _kept_by_values(self, entries: Entries, predicate: Node) -> Bools:
        """A mask of the files, of a table with a primary key, that all their columns admit."""
        can = can_hold(predicate, self._facts(entries, valued=True), len(entries))
        if can.all():
            return can
        buckets, levels = entries.buckets, entries.numbers("level")
        codes, count = buckets.codes, len(buckets.numbers)
        low, high = np.full(count, np.iinfo(np.int32).max), np.full(count, -1)
        np.minimum.at(low, codes, levels)
        np.maximum.at(high, codes, levels)
        unmerged = (np.bincount(codes, minlength=count) == 1) | ((low > 0) & (self.by_level | (low == high)))
        stays = np.full(count, self.makes_values) | (np.bincount(codes, can, count) > 0)
        kept: Bools = np.where(unmerged[codes], can, stays[codes])
        return kept

    def _facts(self, entries: Entries, valued: bool, beside: Mapping[str, bytes] = {}) -> _FileFacts:
        indexes = FileIndexes(entries, self.table, beside) if valued and self.indexes else None
        return _FileFacts(self, entries, valued, indexes)


def kept_entries(
    entries: Sequence[ManifestEntry], predicate: Node | None, schema: TableSchema
) -> Sequence[ManifestEntry]:
    """The entries of the partitions that may have a row that the predicate keeps."""
    wanted = PartitionFilter.of(predicate, schema)
    if wanted is None or not len(entries):
        return entries
    buckets = Entries.of(entries).buckets
    return _where(entries, wanted.buckets(buckets.partitions, buckets.numbers)[buckets.codes])


def _where(entries: Sequence[ManifestEntry], kept: Bools) -> Sequence[ManifestEntry]:
    if isinstance(entries, Entries):
        return entries.kept(kept)
    return [entry for entry, is_kept in zip(entries, kept.tolist(), strict=True) if is_kept]


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """The part of a predicate about partitions, for use before any entry is read."""

    predicate: Node
    schema: TableSchema

    @classmethod
    def of(cls, predicate: Node | None, schema: TableSchema) -> PartitionFilter | None:
        """The filter of a predicate; None if it names no partition column."""
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
        wanted: Bools = kept[to_numpy(encoded.indices)]
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
        return [range_facts(low, high, np.array(nulls, np.bool_), self.schema.field(path[0]))]


@dataclass(frozen=True, slots=True)
class _FileFacts:
    """What is known of a column in the file of each entry. `valued`: also of columns that are not in the key."""

    pruning: Pruning
    entries: Entries
    valued: bool
    indexes: FileIndexes | None

    def __call__(self, path: tuple[str, ...]) -> list[Facts]:
        """The facts of a column: its partition values, or its statistics, buckets and indexes."""
        schema, schema_of, name = self.pruning.schema, self.pruning.schema_of, path[0]
        if path == (ROW_ID,) and name not in schema.names:
            return [row_id_facts(self.entries)]
        if len(path) > 1 or name not in schema.names:
            return []
        field = schema.field(name)
        if name in schema.partition_keys:
            codes, partitions = self.entries.partitions
            rows = pa.array(partitions, pa.binary()).take(from_numpy(codes))
            return [_constant(schema, name, rows)]
        facts = [*bucket_facts(self.entries, schema, name)]
        if name in schema.trimmed_primary_keys:
            facts.append(key_facts(self.entries, field, schema))
        if self.valued:
            facts.append(value_facts(self.entries, field, schema, schema_of))
            facts += self.indexes.facts(field, schema, schema_of) if self.indexes else []
        return facts


def _constant(schema: TableSchema, name: str, rows: pa.Array) -> Facts:
    """The facts of a partition column by the rows of partitions."""
    place, keys = schema.partition_keys.index(name), schema.partition_keys
    values = row_fields(rows, place, len(keys), schema.field(name).type)
    return Facts.constant(values, np.zeros(len(rows), np.bool_))
