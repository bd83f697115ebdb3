"""Entries of manifests as columns, which are a sequence of values too: a value is made when it is asked for.

Rules: Paimon's FileEntry.mergeEntries and FileEntry.Identifier.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.codec.entry_columns import STATS, entry_table, entry_values
from lakebed.formats.paimon.codec.manifest import ADD, ManifestEntry
from lakebed.kernel.arrays import AnyArray, Bools, Int64s, from_numpy, one_chunk, to_numpy

KeepBuckets = Callable[[Sequence[bytes], Int64s], Bools]
"""Which of some buckets, given by their partitions and their numbers, are wanted."""


_IDENTITY = ("partition", "bucket", "level", "file_name", "extra_files", "embedded_index", "external_path")
"""The columns that tell files apart."""


@dataclass(frozen=True, eq=False)
class Entries(Sequence[ManifestEntry]):
    """Entries in order; `table` has the columns of `ENTRY_SCHEMA`. An item is made of its columns when it is asked
    for."""

    table: pa.Table

    @classmethod
    def of(cls, entries: Sequence[ManifestEntry]) -> Entries:
        """Entries as columns."""
        return entries if isinstance(entries, Entries) else cls(entry_table(entries))

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        """The entries of all parts, one part after the other."""
        return cls(pa.concat_tables([part.table for part in parts]))

    def __reduce__(self) -> tuple[Callable[[bytes], Entries], tuple[bytes]]:
        """As a stream of Arrow: a table that is a slice pickles with all rows of the table that it was cut from."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return _streamed, (sink.getvalue().to_pybytes(),)

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.table)

    @overload
    def __getitem__(self, place: int) -> ManifestEntry: ...
    @overload
    def __getitem__(self, place: slice) -> Entries: ...
    def __getitem__(self, place: int | slice) -> ManifestEntry | Entries:
        """An entry, or neighbours."""
        if isinstance(place, slice):
            start, stop, _ = _bounds(place, len(self))
            return Entries(self.table.slice(start, stop - start))
        return next(entry_values(self.table.slice(range(len(self))[place], 1)))

    def __iter__(self) -> Iterator[ManifestEntry]:
        """Each entry as a value."""
        return entry_values(self.table)

    def numbers(self, name: str) -> AnyArray:
        """A column of numbers without nulls."""
        numbers: AnyArray = to_numpy(self.table.column(name))
        return numbers

    def kept(self, mask: Bools) -> Entries:
        """The entries where the mask is true."""
        return self if mask.all() else Entries(self.table.filter(from_numpy(mask)))

    def at(self, places: Int64s) -> Entries:
        """The entries at these places, in their order."""
        return Entries(self.table.take(from_numpy(places)))

    def of_kind(self, kind: int) -> Entries:
        """The entries of a kind."""
        return self.kept(self.numbers("kind") == kind)

    def external_files(self) -> list[tuple[str, str]]:
        """The names and places of files that are stored outside the table."""
        places = self.table.column("external_path")
        if places.null_count == len(self):
            return []
        outside = self.table.filter(pc.fill_null(pc.not_equal(places, ""), False))
        return [*zip(outside["file_name"].to_pylist(), outside["external_path"].to_pylist(), strict=True)]

    def named(self, names: Collection[str]) -> Entries:
        """The entries of files with these names."""
        column = self.table.column("file_name")
        return self.kept(to_numpy(pc.is_in(column, value_set=pa.array([*names], column.type))))

    def bucket_counts(self) -> Iterator[tuple[bytes, int]]:
        """Each partition with the numbers of buckets that its entries state, in their order."""
        codes, partitions = self.partitions
        totals = self.numbers("total_buckets").astype(np.int64)
        _, last = np.unique((codes << 32 | (totals & 0xFFFFFFFF))[::-1], return_index=True)
        for row in np.sort(len(self) - 1 - last).tolist():
            yield partitions[codes[row]], int(totals[row])

    def key_ranges(self) -> Iterator[tuple[tuple[bytes, int, int], tuple[bytes, bytes]]]:
        """The place (partition, bucket and level) and the key range of each file."""
        names = ("partition", "bucket", "level", "min_key", "max_key")
        for batch in self.table.select([*names]).to_batches():
            for partition, bucket, level, low, high in zip(*(column.to_pylist() for column in batch), strict=True):
                yield (partition, bucket, level), (low, high)

    def in_buckets(self, keep: KeepBuckets) -> Entries:
        """The entries of the buckets that are wanted."""
        buckets = self.buckets
        return self.kept(keep(buckets.partitions, buckets.numbers)[buckets.codes]) if len(self) else self

    @cached_property
    def partitions(self) -> tuple[Int64s, list[bytes]]:
        """For each entry the place of its partition among the different ones, and these, as they come first."""
        column = one_chunk(self.table.column("partition")).dictionary_encode()
        return to_numpy(column.indices).astype(np.int64), column.dictionary.to_pylist()

    @cached_property
    def buckets(self) -> Buckets:
        """The different buckets, in the order of their first entries."""
        codes, partitions = self.partitions
        numbers = self.numbers("bucket").astype(np.int64)
        _, first, place = np.unique(codes << 32 | (numbers & 0xFFFFFFFF), return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        first = first[order]
        return Buckets(rank[place], [partitions[code] for code in codes[first].tolist()], numbers[first])

    def without_stats(self) -> Entries:
        """The entries without statistics, which are the bulk of them."""
        return Entries(self.table.drop_columns([name for name in STATS if name in self.table.column_names]))

    def merged(self) -> Entries:
        """The entries that remain after each DELETE has cancelled its ADD. A DELETE without an ADD stays."""
        names = _codes(self.table.column("file_name"))
        shared = np.flatnonzero((np.bincount(names) > 1)[names]) if len(names) else names
        if not len(shared):
            return self
        identities = self._identities(names, shared)
        order = np.argsort(identities, kind="stable")
        added = (self.numbers("kind")[shared] == ADD)[order]
        ends = np.flatnonzero(np.append(np.diff(identities[order]) != 0, True))
        before = ends - 1
        follows = (before >= 0) & (identities[order][before] == identities[order][ends])
        stays = added[ends] | ~(follows & added[before])
        mask = np.ones(len(self), np.bool_)
        mask[shared] = False
        mask[shared[order[ends[stays]]]] = True
        return self.kept(mask)

    def without(self, others: Entries) -> Entries:
        """The entries of files that `others` do not name."""
        if not len(others) or not len(self):
            return self
        names = pc.is_in(self.table.column("file_name"), value_set=one_chunk(others.table.column("file_name")))
        rows = np.flatnonzero(to_numpy(names))
        if not len(rows):
            return self
        columns = [*_IDENTITY]
        own = self.table.select(columns).take(from_numpy(rows))
        both = Entries(pa.concat_tables([own, others.table.select(columns)]))
        codes = both._identities(_codes(both.table.column("file_name")), np.arange(len(both)))
        mask = np.ones(len(self), np.bool_)
        mask[rows[np.isin(codes[: len(rows)], codes[len(rows) :])]] = False
        return self.kept(mask)

    def _identities(self, names: Int64s, rows: Int64s) -> Int64s:
        """A number of each of some rows, equal for entries of the same file."""
        columns = [self.partitions[0], self.numbers("bucket"), self.numbers("level")]
        code: Int64s = names[rows]
        for column in columns:
            code = _paired(code, column[rows].astype(np.int64))
        table = self.table.select(["extra_files", "embedded_index", "external_path"]).take(from_numpy(rows))
        extra = to_numpy(one_chunk(pc.list_value_length(table["extra_files"])))
        if extra.any():
            code = _paired(code, _codes(pc.binary_join(table["extra_files"], "\0")))
        for name in ("embedded_index", "external_path"):
            if table[name].null_count < len(rows):
                code = _paired(code, _codes(table[name]))
        return code


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of entries: for each entry the place of its bucket, and each bucket's partition and number."""

    codes: Int64s
    partitions: list[bytes]
    numbers: Int64s


def _streamed(data: bytes) -> Entries:
    with pa.ipc.open_stream(data) as stream:
        return Entries(stream.read_all())


def _bounds(place: slice, length: int) -> tuple[int, int, int]:
    start, stop, step = place.indices(length)
    if step != 1:
        raise ValueError("columns are sliced without steps")
    return start, max(start, stop), step


def _codes(column: pa.ChunkedArray) -> Int64s:
    """A number of each value, equal for equal ones; nulls are equal."""
    codes: Int64s = to_numpy(one_chunk(column).dictionary_encode("encode").indices).astype(np.int64)
    return codes


def _paired(code: Int64s, other: Int64s) -> Int64s:
    """A number of each pair of numbers."""
    low = int(other.min())
    width = int(other.max()) - low + 1
    if width == 1:
        return code
    if int(code.max()) >= (1 << 62) // width:
        _, code = np.unique(code, return_inverse=True)
        _, other = np.unique(other, return_inverse=True)
        low, width = 0, int(other.max()) + 1
    return code * width + (other - low)
