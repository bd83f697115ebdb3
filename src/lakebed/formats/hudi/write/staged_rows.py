"""Rows between a task and the files: their schema, and the buckets in which they are staged.

A task adds the record key, the partition path and a kind to each row, and stages rows by a hash of their key where keys
are looked up or combined, else by partition. Once keys are looked up, rows are staged again, by the file group that
takes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.layout import PARTITION_PATH, RECORD_KEY
from lakebed.kernel.arrays import one_chunk, to_numpy
from lakebed.kernel.keys.murmur import hash_bytes
from lakebed.kernel.sizing.staging import Grouped, Place, Run, StagedBuckets, grouped

KIND = "_lakebed_kind"
"""The column of kinds in staged rows: ROW, DELETE or DELETE_ALWAYS."""
ROW = 0
DELETE = 1
"""A delete that counts where its ordering value is not below that of the row."""
DELETE_ALWAYS = 2
"""A delete whatever the row's ordering value, as the delete operation has it."""
SLOTS = 64
"""How many parts keys are staged in. Rows of a key share a part."""
STRETCH_BYTES = 128 << 20
"""Parts are looked up together up to so many bytes of Arrow data, so that the index is read few times."""


class KeySlot(NamedTuple):
    """A bucket of rows whose keys have the same hash."""

    number: int


class NewRows(NamedTuple):
    """A bucket of rows of a partition that go to no file group yet."""

    partition: str


def staged_schema(columns: pa.Schema) -> pa.Schema:
    """The schema of staged rows, for the user's columns. These may be null, since a delete needs no other column than
    its key."""
    keys = [pa.field(RECORD_KEY, pa.string()), pa.field(PARTITION_PATH, pa.string())]
    return pa.schema([*keys, *(field.with_nullable(True) for field in columns), pa.field(KIND, pa.int8())])


def own_columns(staged: pa.Schema) -> pa.Schema:
    """The user's columns of staged rows."""
    return pa.schema([field for field in staged if field.name not in (RECORD_KEY, PARTITION_PATH, KIND)])


def by_key(rows: pa.Table) -> Grouped:
    """The slot of each row."""
    hashes = hash_bytes(one_chunk(rows.column(RECORD_KEY)).cast(pa.binary()), 0).view(np.uint32)
    return grouped((hashes % np.uint32(SLOTS)).astype(np.int64), [KeySlot(number) for number in range(SLOTS)])


def by_partition(rows: pa.Table) -> Grouped:
    """The partition of each row."""
    encoded = one_chunk(rows.column(PARTITION_PATH)).dictionary_encode()
    buckets = [NewRows(partition) for partition in encoded.dictionary.to_pylist()]
    return grouped(to_numpy(encoded.indices).astype(np.int64), buckets)


def stretches(buckets: StagedBuckets, size: int = STRETCH_BYTES) -> Iterator[tuple[Run, ...]]:
    """All rows, several buckets together while they have no more than `size` bytes."""
    stretch: list[Run] = []
    held = 0
    for at, (rows, taken) in enumerate(zip(buckets.rows.tolist(), buckets.sizes.tolist(), strict=True)):
        if stretch and held + taken > size:
            yield tuple(stretch)
            stretch, held = [], 0
        stretch.append(buckets.run(at, 0, rows))
        held += taken
    if stretch:
        yield tuple(stretch)


def rows_of(runs: tuple[Run, ...], place: Place, schema: pa.Schema) -> pa.Table:
    """The rows of some runs, in memory."""
    return pa.Table.from_batches(itertools.chain.from_iterable(run.batches(place) for run in runs), schema)


class PartOfBuckets(StagedBuckets):
    """Some of the rows of some buckets, as buckets of their own: of each the bucket's number, the first row and the
    end."""

    def __init__(self, whole: StagedBuckets, parts: Mapping[Hashable, tuple[int, int, int]]) -> None:
        self._whole, self._parts = whole, tuple(parts.values())
        self.buckets = tuple(parts)
        self.rows = np.array([end - first for _, first, end in self._parts], np.int64)
        numbers = np.array([at for at, _, _ in self._parts], np.int64)
        self.sizes = whole.sizes[numbers] * self.rows // np.maximum(1, whole.rows[numbers])

    @property
    def paths(self) -> list[str]:
        """The files that hold the rows."""
        return self._whole.paths

    def run(self, bucket: int, start: int, end: int) -> Run:
        """Rows [start, end) of a part."""
        at, first, _ = self._parts[bucket]
        return self._whole.run(at, first + start, first + end)

    def sample(self, bucket: int, rows: int) -> Run:
        """About `rows` rows of the bucket that a part belongs to."""
        return self._whole.sample(self._parts[bucket][0], rows)


def deletes_in(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows are deletes of either kind."""
    return pc.not_equal(rows.column(KIND), pa.scalar(ROW, pa.int8()))
