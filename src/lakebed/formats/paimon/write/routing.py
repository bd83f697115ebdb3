"""Where rows go: partition and bucket of each row, and the task that writes them.

Rules: Paimon's KeyAndBucketExtractor (one strategy per bucket mode), BucketFunction and ChannelComputer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CommitConflictError, counted
from lakebed.formats.paimon.codec.binary_row import EMPTY_ROW, with_arity
from lakebed.formats.paimon.codec.row_columns import encode_rows, hash_rows
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.layout import POSTPONE_BUCKET
from lakebed.kernel.arrays import Int32s, from_numpy, one_chunk, to_numpy
from lakebed.kernel.keys.distinct import distinct

MIN_VALUE, MAX_VALUE = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partition of each row. `codes[i]` is the place of row i's partition in the other three: `keys` (serialized
    partition rows), `first` (the number of one of its rows) and `hashes`."""

    codes: Int32s
    keys: tuple[bytes, ...]
    first: Int32s
    hashes: Int32s


@dataclass(frozen=True, slots=True)
class Router:
    """Partition, bucket and channel of rows, whole columns at a time. Picklable and small.

    `buckets` is the table's number of buckets; `partition_buckets` has the number of the partitions whose files have
    another one.
    """

    schema: TableSchema
    mode: BucketMode
    buckets: int
    function: str = "default"
    partition_buckets: Mapping[bytes, int] = field(default_factory=dict)

    def partitions(self, data: pa.Table) -> Partitions:
        """The partition of each row, of data in the table's columns and types."""
        fields = self.schema.project(self.schema.partition_keys)
        if not fields or not len(data):
            only = (with_arity(EMPTY_ROW, 0),) if len(data) else ()
            hashes = hash_rows([], [], len(only))
            return Partitions(np.zeros(len(data), np.int32), only, np.zeros(len(only), np.int32), hashes)
        columns = [one_chunk(data.column(item.name)) for item in fields]
        codes, first = distinct(columns)
        columns = [column.take(from_numpy(first)) for column in columns]
        types = [item.type for item in fields]
        keys = tuple(with_arity(row, len(fields)) for row in encode_rows(columns, types))
        return Partitions(codes, keys, first, hash_rows(columns, types))

    def bucket_counts(self, partitions: Partitions) -> Int32s:
        """The number of buckets of each partition."""
        return np.array([self.partition_buckets.get(key, self.buckets) for key in partitions.keys], np.int32)

    def fixed_buckets(self, data: pa.Table, partitions: Partitions) -> Int32s:
        """The bucket of each row by the hash of its bucket key."""
        counts = self.bucket_counts(partitions)
        divisor: Int32s | np.int32 = (
            counts[partitions.codes] if len(set(counts.tolist())) > 1 else np.int32(counts[0] if len(counts) else 1)
        )
        fields = self.schema.project(self.schema.bucket_keys)
        columns = [one_chunk(data.column(item.name)) for item in fields]
        if self.function == "mod":
            numbers = to_numpy(pc.fill_null(columns[0], 0))
            remainders: Int32s = np.mod(numbers, divisor).astype(np.int32)
            return remainders
        hashes = hash_rows(columns, [item.type for item in fields], len(data))
        return np.abs(np.fmod(hashes, divisor)).astype(np.int32)

    def fixed_assignment(self, data: pa.Table, partitions: Partitions) -> Int32s | None:
        """The bucket of each row where the row alone decides it; None for the dynamic modes."""
        match self.mode:
            case BucketMode.HASH_FIXED:
                return self.fixed_buckets(data, partitions)
            case BucketMode.BUCKET_UNAWARE:
                return np.zeros(len(data), np.int32)
            case BucketMode.POSTPONE_MODE:
                return np.full(len(data), POSTPONE_BUCKET, np.int32)
        return None

    def channels(self, data: pa.Table, count: int, assigners: int | None = None) -> Int32s | None:
        """The task in [0, count) of each row; None when rows of one bucket may lie in several tasks.

        `assigners` is the number of tasks that share the keys of a partition with dynamic hash buckets; None: all.
        """
        if self.mode is BucketMode.BUCKET_UNAWARE:
            return None
        if self.mode is BucketMode.KEY_DYNAMIC:
            return absolute_mod(self.key_hashes(data, self.schema.primary_keys), count)
        partitions = self.partitions(data)
        if self.mode is BucketMode.HASH_FIXED:
            return select_channels(partitions, self.fixed_buckets(data, partitions), count)
        keys = self.key_hashes(data, self.schema.trimmed_primary_keys)
        if self.mode is BucketMode.HASH_DYNAMIC:
            return assigner_tasks(partitions.hashes[partitions.codes], keys, count, assigners or count)
        return absolute_mod(partitions.hashes[partitions.codes] + keys, count)

    def key_hashes(self, data: pa.Table, names: Sequence[str]) -> Int32s:
        """The hash of each row's values in the columns `names`."""
        fields = self.schema.project(tuple(names))
        return hash_rows(
            [one_chunk(data.column(item.name)) for item in fields], [item.type for item in fields], len(data)
        )


def select_channels(partitions: Partitions, buckets: Int32s, count: int) -> Int32s:
    """`(startChannel(partition) + bucket) % count`: buckets of one partition go to neighbouring tasks, and partitions
    begin at different ones."""
    starts = start_channels(partitions.hashes, count)
    return ((starts[partitions.codes] + buckets) % count).astype(np.int32)


def start_channels(hashes: Int32s, count: int) -> Int32s:
    """`abs(hash) % count`; the least int, which has no absolute value, counts as the greatest."""
    safe = np.where(hashes == MIN_VALUE, np.int32(MAX_VALUE), hashes)
    return (np.abs(safe) % np.int32(count)).astype(np.int32)


def absolute_mod(hashes: Int32s, count: int) -> Int32s:
    """Java's `Math.abs(hash % count)`."""
    return np.abs(np.fmod(hashes, np.int32(count))).astype(np.int32)


def assigner_tasks(partition_hashes: Int32s, key_hashes: Int32s, tasks: int, assigners: int) -> Int32s:
    """The task that assigns dynamic buckets: `(abs(partition % tasks) + abs(key % assigners)) % tasks`."""
    return ((absolute_mod(partition_hashes, tasks) + absolute_mod(key_hashes, assigners)) % tasks).astype(np.int32)


def partition_bucket_counts(counts: Mapping[bytes, int], buckets: int, table: str) -> dict[bytes, int]:
    """The partitions whose files have another number of buckets than the option `bucket`, of the `counts` of all.

    A partition that was rescaled keeps its own number. When no partition has the option's number, the option was
    changed and nothing was rewritten: CommitConflictError names both numbers.
    """
    other = {partition: count for partition, count in counts.items() if count > 0 and count != buckets}
    if other and len(other) == len(counts):
        old = ", ".join(str(count) for count in sorted(set(other.values())))
        raise CommitConflictError(
            f"the table's files have {old} buckets, but option 'bucket' is {buckets}",
            table=table,
            why="rows of one key would end up in two buckets",
            todo=f"Move the rows into {counted(buckets, 'bucket')} with "
            f"table.rewrite(options={{'bucket': '{buckets}'}}), or set bucket back to {old}",
        )
    return other
