"""A global index: a key is one row of the whole table, whatever partition its new version names.

Where rows move, a new version in another partition deletes the row in the old one and is added in the new one, unless
the old row has the greater ordering value: then it stays. Where they do not, the new version goes to the old partition.
A delete goes where the row is.

The base files of a merge-on-read table also have keys that their logs delete, such as those of rows that moved away.
So the slices that have a key are read, before a row moves and where several have it.

Rules: Hudi's `HoodieIndexUtils.tagGlobalLocationBackToRecords` and `mergeForPartitionUpdatesIfNeeded`,
`HoodieGlobalBloomIndex`, `HoodieGlobalSimpleIndex`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.layout import PARTITION_PATH, RECORD_KEY
from lakebed.formats.hudi.merge.ordering import is_greater
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.staged_rows import DELETE_ALWAYS, KIND, ROW
from lakebed.formats.hudi.write.stored_keys import StoredKeys
from lakebed.formats.hudi.write.tagging import Tagged
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, one_chunk, to_numpy

Finder = Callable[[pa.StringArray], Iterator[tuple[FileSlice, Int64s]]]
"""Gives the file slices that have some keys, each with the places of those that it has."""


_BY_META_COLUMN = StoredKeys()


@dataclass(frozen=True, slots=True)
class GlobalIndex:
    """Finds keys in all partitions. Picklable.

    What `find` gives is `certain` where no key that it finds in one slice alone is deleted there. With `moves` rows go
    to the partition that their new version names.
    """

    find: Finder
    certain: bool
    moves: bool
    reader: SliceReader
    stored: StoredKeys = _BY_META_COLUMN

    def __call__(self, rows: pa.Table) -> Tagged:
        """The file group of each row, with a delete added for each row that moves away from one."""
        placed = _Placed.none(rows)
        slices_of_keys = list(self.find(one_chunk(rows.column(RECORD_KEY))))
        slices_with = np.zeros(len(rows), np.int64)
        for _, places in slices_of_keys:
            slices_with[places] += 1
        for file_slice, places in slices_of_keys:
            other = placed.names_other(file_slice, places)
            if self.moves:
                doubtful = (other & placed.changed[places]) | (not self.certain)
            else:
                doubtful = np.full(len(places), not self.certain)
                doubtful &= slices_with[places] > 1
            live, newer = np.ones(len(places), bool), np.zeros(len(places), bool)
            if doubtful.any():
                live[doubtful], newer[doubtful] = self._live(file_slice, rows, places[doubtful])
            placed.put(file_slice, places[live], other[live], (newer & self.moves)[live])
        return placed.moved() if self.moves else placed.where_they_are()

    def _live(self, file_slice: FileSlice, rows: pa.Table, places: Int64s) -> tuple[Bools, Bools]:
        """Which of the rows at some places have a key that the slice's merged rows have, and of which that row has the
        greater ordering value."""
        ordering = self.reader.rules.ordering
        keys = one_chunk(rows.column(RECORD_KEY)).take(from_numpy(places))
        wanted = keys.unique()
        columns = list(dict.fromkeys((*self.stored.columns, *ordering)))
        merged = self.reader.open(SlicePaths.of(file_slice), tuple(columns))
        parts = [batch.select(columns) for batch in merged.rows()]
        live, newer = np.zeros(len(places), bool), np.zeros(len(places), bool)
        if not parts:
            return live, newer
        stored = pa.Table.from_batches(parts, parts[0].schema)
        stored = stored.filter(pc.is_in(self.stored.keys(stored), value_set=wanted))  # at once: it hashes all keys
        at = pc.index_in(keys, value_set=self.stored.keys(stored))
        live[:] = to_numpy(at.is_valid())
        if ordering and live.any():
            rules = self.reader.rules
            theirs = [one_chunk(stored.column(name)).take(at.drop_null()) for name in ordering]
            mine = [one_chunk(rows.column(name)).take(from_numpy(places[live])) for name in ordering]
            newer[live] = is_greater(rules.comparable(theirs), rules.comparable(mine))
        return live, newer


@dataclass(slots=True)
class _Placed:
    """Rows, and for each: the number of the slice that has its key (-1: none), whether that is in another partition
    than the row names, and whether the row there is newer. `changed` says which are no deletes."""

    rows: pa.Table
    codes: Int64s
    elsewhere: Bools
    newer: Bools
    changed: Bools
    slices: list[FileSlice]

    @classmethod
    def none(cls, rows: pa.Table) -> _Placed:
        count = len(rows)
        changed = to_numpy(one_chunk(rows.column(KIND))) == ROW
        return cls(rows, np.full(count, -1, np.int64), np.zeros(count, bool), np.zeros(count, bool), changed, [])

    def names_other(self, file_slice: FileSlice, places: Int64s) -> Bools:
        """Which rows name another partition than that of a slice."""
        named = one_chunk(self.rows.column(PARTITION_PATH)).take(from_numpy(places))
        other: Bools = to_numpy(pc.not_equal(named, file_slice.partition))
        return other

    def put(self, file_slice: FileSlice, places: Int64s, other: Bools, newer: Bools) -> None:
        """Say that a slice has the keys of some rows, as far as no other one does."""
        free = self.codes[places] < 0
        places = places[free]
        if len(places):
            self.codes[places], self.elsewhere[places] = len(self.slices), other[free]
            self.newer[places] = newer[free]
            self.slices.append(file_slice)

    def where_they_are(self) -> Tagged:
        """Each row, tagged with the file slice that has its key."""
        return Tagged(self._named(self.elsewhere), self.codes, tuple(self.slices))

    def moved(self) -> Tagged:
        """Each row in the partition that it names, each delete where its key is. Behind them come the deletes of rows
        that move; new versions that lose against the row where it is are left out."""
        stay = self.elsewhere & self.changed & self.newer
        move = self.elsewhere & self.changed & ~stay
        kept = ~stay
        rows = self._named(self.elsewhere & ~self.changed).filter(from_numpy(kept))
        codes = np.where(move, -1, self.codes)[kept]
        if not move.any():
            return Tagged(rows, codes, tuple(self.slices))
        gone = self._named(self.elsewhere).filter(from_numpy(move))
        at = gone.schema.get_field_index(KIND)
        gone = gone.set_column(at, gone.schema.field(at), pa.array(np.full(len(gone), DELETE_ALWAYS, np.int8)))
        return Tagged(pa.concat_tables([rows, gone]), np.concatenate([codes, self.codes[move]]), tuple(self.slices))

    def _named(self, which: Bools) -> pa.Table:
        """The rows, some of them with the partition in which their key is."""
        if not which.any():
            return self.rows
        partitions: Sequence[str] = [each.partition for each in self.slices]
        theirs = pa.array(partitions, pa.string()).take(pa.array(self.codes, mask=self.codes < 0))
        at = self.rows.schema.get_field_index(PARTITION_PATH)
        names = pc.if_else(pa.array(which), theirs, one_chunk(self.rows.column(PARTITION_PATH)))
        return self.rows.set_column(at, self.rows.schema.field(at), names)
