"""KEY_DYNAMIC: the primary key lacks a partition column, so the key of a row may already lie in another partition.

Rules: Paimon's GlobalIndexAssigner. The merge engine decides what happens then: deduplicate deletes the row in the old
partition and inserts it in the new one; partial-update and aggregation send the row to the old partition; first-row
drops it.

There is no index file. The live keys of the table are read, section by section, and looked up among the keys that are
written. Memory holds the rows of one write buffer and a bounded piece of the table's keys, whatever the table's size;
where the keys of earlier buffers went is spilled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.types import DataField, arrow_type
from lakebed.formats.paimon.merge import Runs
from lakebed.formats.paimon.write.assigners import MOST_BUCKETS, Assigned, Bucket, fill_buckets
from lakebed.formats.paimon.write.hash_dynamic import DynamicSettings
from lakebed.formats.paimon.write.routing import Partitions, Router, absolute_mod
from lakebed.kernel.arrays import Int8s, Int32s, Int64s, from_numpy, one_chunk, to_numpy
from lakebed.kernel.keys.distinct import distinct
from lakebed.kernel.scratch import SpillingTables
from lakebed.model.rowkind import RowKind

_PIECE_ROWS = 1 << 20
_PLACE, _CODE = "_place", "_code"

LiveKeys = Callable[[], Iterator[tuple[Bucket, pa.Table]]]
"""The live keys of the table: bucket by bucket, tables of the primary key's columns."""


class _Places:
    """Numbers for buckets and for their partitions, and the live rows of each bucket.

    `buckets[i]` is bucket number i, `homes[i]` the number of its partition, `counts` the rows by partition and bucket.
    """

    def __init__(self) -> None:
        self.buckets: list[Bucket] = []
        self.homes: list[int] = []
        self.counts: dict[bytes, dict[int, int]] = {}
        self._numbers: dict[Bucket, int] = {}
        self._partitions: dict[bytes, int] = {}

    def number(self, bucket: Bucket) -> int:
        """The number of a bucket; a new one where it has none yet."""
        if bucket not in self._numbers:
            self._numbers[bucket] = len(self.buckets)
            self.buckets.append(bucket)
            self.homes.append(self.home(bucket[0]))
        return self._numbers[bucket]

    def home(self, partition: bytes) -> int:
        """The number of a partition; a new one where it has none yet."""
        return self._partitions.setdefault(partition, len(self._partitions))

    def numbers(self, partitions: Partitions, buckets: Int32s) -> Int32s:
        """The number of each row's bucket."""
        both = partitions.codes.astype(np.int64) * (MOST_BUCKETS + 1) + buckets
        pairs, inverse = np.unique(both, return_inverse=True)
        numbers = [
            self.number((partitions.keys[pair // (MOST_BUCKETS + 1)], pair % (MOST_BUCKETS + 1)))
            for pair in pairs.tolist()
        ]
        return np.array(numbers, np.int32)[inverse]


class KeyAssigner:
    """The assigner of one task, for the keys that are routed to it."""

    def __init__(
        self, router: Router, engine: str, live_keys: LiveKeys, settings: DynamicSettings, scratch: str = ""
    ) -> None:
        self._router, self._engine, self._live, self._settings = router, engine, live_keys, settings
        self._places = _Places()
        self._keys = router.schema.primary_keys
        self._moved = SpillingTables(scratch)
        self._counted = False

    def assign(self, rows: pa.Table, kinds: Int8s | None) -> Assigned:
        """Rows with the partitions and kinds that the merge engine wants."""
        codes, _ = distinct([one_chunk(rows.column(name)) for name in self._keys])
        order = np.argsort(codes, kind="stable")
        bounds = np.flatnonzero(np.diff(codes[order])) + 1
        runs = Runs(np.concatenate([[0], bounds]), np.append(bounds, len(order)))
        firsts, lasts = order[runs.starts], order[runs.last]
        kind = np.zeros(len(rows), np.int8) if kinds is None else kinds
        old = self._find(rows.take(from_numpy(firsts)).select(list(self._keys)))
        match self._engine:
            case "deduplicate":
                return self._replace(rows, kind, lasts, old)
            case "first-row":
                fresh = firsts[old < 0]
                return self._finish(rows.take(from_numpy(fresh)), kind[fresh], np.full(len(fresh), -1))
        return self._follow(rows, kind, codes, firsts, old)

    def new_hashes(self) -> dict[Bucket, Int32s]:
        """Always empty: there is no index file."""
        return {}

    # ---- merge engines ----

    def _replace(self, rows: pa.Table, kinds: Int8s, lasts: Int64s, old: Int32s) -> Assigned:
        """Deduplicate: the last row of each key in its own partition, and a -D in the partition where the key was."""
        chosen = rows.take(from_numpy(lasts))
        kind = kinds[lasts]
        retract = (kind == RowKind.DELETE) | (kind == RowKind.UPDATE_BEFORE)
        partitions = self._router.partitions(chosen)
        own = np.array([self._places.home(key) for key in partitions.keys], np.int64)[partitions.codes]
        stays = np.append(np.array(self._places.homes, np.int64), -1)[old] == own
        leaves = (old >= 0) & (~stays | retract)
        for place in old[leaves & ~stays]:
            key, bucket = self._places.buckets[place]
            self._places.counts[key][bucket] -= 1
        deletes = self._in_partitions(chosen.filter(from_numpy(leaves)), old[leaves])
        stay = ~retract
        kept = chosen.filter(from_numpy(stay))
        whole = pa.concat_tables([deletes, kept]).combine_chunks()
        all_kinds = np.concatenate([np.full(len(deletes), RowKind.DELETE, np.int8), kind[stay]])
        places = np.concatenate([old[leaves], np.where(stays, old, -1)[stay]])
        return self._finish(whole, all_kinds, places, deletes=len(deletes))

    def _follow(self, rows: pa.Table, kinds: Int8s, codes: Int32s, firsts: Int64s, old: Int32s) -> Assigned:
        """Partial-update, aggregation: all rows of a key go where the key is, or to the partition of its first row."""
        heads = rows.take(from_numpy(firsts))
        placed = self._finish(heads, kinds[firsts], old, move=True)
        of_code = np.empty(len(firsts), np.int32)
        of_code[codes[firsts]] = self._places.numbers(placed.partitions, placed.buckets)
        moved = self._in_partitions(rows, of_code[codes])
        partitions = self._router.partitions(moved)
        return Assigned(moved, kinds, partitions, self._buckets(of_code[codes]))

    def _buckets(self, places: Int32s) -> Int32s:
        """The bucket of each place number, -1 for none."""
        return np.array([bucket for _, bucket in self._places.buckets] + [-1], np.int32)[places]

    def _finish(self, rows: pa.Table, kinds: Int8s, places: Int32s, deletes: int = 0, move: bool = False) -> Assigned:
        """Buckets for rows with a place number, or -1 for new keys. The first `deletes` rows leave their place. `move`:
        put rows that have a place into its partition."""
        if move:
            known = places >= 0
            rows = pa.concat_tables(
                [self._in_partitions(rows.filter(from_numpy(known)), places[known]), rows.filter(from_numpy(~known))]
            )
            order = np.argsort(np.concatenate([np.flatnonzero(known), np.flatnonzero(~known)]), kind="stable")
            rows = rows.take(from_numpy(order))
        rows = rows.combine_chunks()
        partitions = self._router.partitions(rows)
        buckets = self._buckets(places)
        for code, key in enumerate(partitions.keys):
            here = np.flatnonzero((partitions.codes == code) & (places < 0))
            if len(here):
                counts = self._places.counts.setdefault(key, {})
                settings = self._settings
                buckets[here] = fill_buckets(counts, len(here), settings.target, self._owner(rows), settings.assigners)
        self._remember(rows, self._places.numbers(partitions, buckets), deletes)
        return Assigned(rows, kinds, partitions, buckets)

    def _owner(self, rows: pa.Table) -> int:
        hashes = self._router.key_hashes(rows.slice(0, 1), self._keys)
        return int(absolute_mod(hashes, self._settings.assigners)[0])

    # ---- where keys are ----

    def _find(self, keys: pa.Table) -> Int32s:
        """The place number of each key, -1 for none. What this task assigned before overrides what the table holds."""
        asked = keys.append_column(_CODE, pa.array(np.arange(len(keys))))
        old = np.full(len(keys), -1, np.int32)
        least, greatest = _range(keys)
        for piece in chain(self._pieces(), self._moved):
            low, high = _range(piece)
            if pc.or_(pc.less(high, least), pc.greater(low, greatest)).as_py():  # keys that grow, as ids do
                continue
            more, fewer = (piece, asked) if len(piece) > len(asked) else (asked, piece)
            matches = more.join(fewer, list(self._keys), join_type="inner")  # hashes the keys of the second
            old[to_numpy(matches.column(_CODE))] = to_numpy(matches.column(_PLACE))
        return old

    def _pieces(self) -> Iterator[pa.Table]:
        """The table's live keys with their place numbers, some at a time. The first call also counts the rows of each
        bucket."""
        waiting: list[pa.Table] = []
        rows = 0
        for bucket, keys in self._live():
            if not self._counted:
                counts = self._places.counts.setdefault(bucket[0], {})
                counts[bucket[1]] = counts.get(bucket[1], 0) + len(keys)
            waiting.append(
                keys.append_column(_PLACE, pa.array(np.full(len(keys), self._places.number(bucket), np.int32)))
            )
            rows += len(keys)
            if rows >= _PIECE_ROWS:
                yield pa.concat_tables(waiting)
                waiting, rows = [], 0
        self._counted = True
        if waiting:
            yield pa.concat_tables(waiting)

    def _remember(self, rows: pa.Table, places: Int32s, deletes: int) -> None:
        """Keep the place of each row's key for later buffers; the first `deletes` keys have none any more."""
        places[:deletes] = -1
        for part in (slice(0, deletes), slice(deletes, len(rows))):  # a key that left may have come to another place
            keys = rows.select(list(self._keys)).slice(part.start, part.stop - part.start)
            if len(keys):
                self._moved.add(keys.append_column(_PLACE, pa.array(places[part])))

    def _in_partitions(self, rows: pa.Table, places: Int32s) -> pa.Table:
        """The rows, with the partition columns of their places."""
        fields = self._router.schema.project(self._router.schema.partition_keys)
        values = [decode_row(without_arity(key), [field.type for field in fields]) for key, _ in self._places.buckets]
        for position, field in enumerate(fields):
            column = _column([row[position] for row in values], field).take(from_numpy(places))
            at = rows.schema.get_field_index(field.name)
            rows = rows.set_column(at, rows.schema.field(at), column)
        return rows


def _range(keys: pa.Table) -> tuple[pa.Scalar, pa.Scalar]:
    """The least and the greatest value of the first key column."""
    bounds = pc.min_max(keys.column(0))
    return bounds["min"], bounds["max"]


def _column(values: list[object], field: DataField) -> pa.Array:
    kind = arrow_type(field.type)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.array(values, kind)
