"""What the metadata table says of the keys in base files: their range by `column_stats`, a filter by `bloom_filters`.

So no footer is read of a file that cannot have a key. What the metadata table does not say for certain, a footer does.

Rules: Hudi's `HoodieBloomIndex.loadColumnRangesFromMetaIndex`, `HoodieMetadataBloomFilterProbingFunction`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.bloom import BloomFilter
from lakebed.formats.hudi.codec.metadata_keys import file_hash, hash_of, partition_hash
from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.metadata_table.bloom_filters import BloomFilters
from lakebed.formats.hudi.metadata_table.keys_written import BLOOM_FILTERS
from lakebed.formats.hudi.metadata_table.opened import UNUSABLE, MetadataTable, maintains
from lakebed.formats.hudi.metadata_table.statistics import COLUMN_STATS, read_statistics
from lakebed.formats.hudi.slices import FileSlice
from lakebed.kernel.arrays import Int64s, from_numpy, one_chunk, to_numpy

_AT_ONCE = 16
"""So many files' filters are in memory at once: one has up to half a megabyte."""


@dataclass(frozen=True, slots=True)
class FileHints:
    """Key ranges and bloom filters in the metadata table. Picklable."""

    table: MetadataTable

    @classmethod
    def of(cls, table: MetadataTable | None) -> FileHints | None:
        """The hints of a metadata table; None if it is not certain, or has neither ranges nor filters of keys."""
        if table is None or not (maintains(table.config, BLOOM_FILTERS) or maintains(table.config, COLUMN_STATS)):
            return None
        return cls(table)

    def opened(self, partitions: Sequence[str]) -> OpenHints:
        """The hints about the files of some partitions, after one read for all of them."""
        bounds: pa.Table | None = None
        filters = None
        try:
            if maintains(self.table.config, COLUMN_STATS):
                known = read_statistics(self.table, COLUMN_STATS, pa.field(RECORD_KEY, pa.string()), partitions)
                if known is not None:
                    bounds = pa.table({"key": known.keys, "least": known.lower, "greatest": known.upper})
        except (*UNUSABLE, pa.ArrowInvalid):
            bounds = None
        try:
            if maintains(self.table.config, BLOOM_FILTERS):
                filters = BloomFilters.opened(self.table)
        except UNUSABLE:
            filters = None
        return OpenHints(bounds, filters)


@dataclass(slots=True)
class OpenHints:
    """Key ranges by file (`column_stats` keys, least, greatest) and the filters."""

    bounds: pa.Table | None
    filters: BloomFilters | None

    def candidates(self, slices: Sequence[FileSlice], keys: pa.StringArray) -> Iterator[tuple[FileSlice, Int64s]]:
        """The slices whose base file may have some of the keys, and the places of these."""
        ranged = self._in_range(slices, keys)
        while chunk := list(itertools.islice(ranged, _AT_ONCE)):
            for (file_slice, places), bloom in zip(chunk, self._of([each for each, _ in chunk]), strict=True):
                if bloom is not None:
                    places = places[bloom.may_have(keys.take(from_numpy(places)))]
                if len(places):
                    yield file_slice, places

    def _in_range(self, slices: Sequence[FileSlice], keys: pa.StringArray) -> Iterator[tuple[FileSlice, Int64s]]:
        """The slices whose range has some of the keys, and the places of these."""
        lower, upper = self._ranges(slices)
        ends = pc.min_max(keys)
        outside = pc.or_(pc.greater(lower, ends["max"]), pc.less(upper, ends["min"]))
        every = np.arange(len(keys))
        for file_slice, least, greatest, out in zip(slices, lower, upper, outside.to_pylist(), strict=True):
            if out or file_slice.base is None:
                continue
            if not least.is_valid or not greatest.is_valid:
                yield file_slice, every
                continue
            inside = pc.and_(pc.greater_equal(keys, least), pc.less_equal(keys, greatest))
            places = np.flatnonzero(to_numpy(inside))
            if len(places):
                yield file_slice, places

    def _ranges(self, slices: Sequence[FileSlice]) -> tuple[pa.Array, pa.Array]:
        """The least and the greatest key of each slice's base file, null where it is not known."""
        if self.bounds is None:
            return pa.nulls(len(slices), pa.string()), pa.nulls(len(slices), pa.string())
        column = hash_of(RECORD_KEY)
        names = [
            column + partition_hash(each.partition) + file_hash(each.base.name if each.base is not None else "")
            for each in slices
        ]
        at = pc.index_in(pa.array(names, pa.binary()), value_set=one_chunk(self.bounds["key"]))
        lower, upper = (one_chunk(self.bounds[name]).take(at) for name in ("least", "greatest"))
        return lower, upper

    def _of(self, slices: Sequence[FileSlice]) -> list[BloomFilter | None]:
        if self.filters is None:
            return [None] * len(slices)
        try:
            return self.filters.of(slices)
        except UNUSABLE:
            self.filters = None
            return [None] * len(slices)
