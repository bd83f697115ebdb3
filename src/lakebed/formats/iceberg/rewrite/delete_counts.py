"""How many deletes apply to each data file, and how many rows they take: whole columns on both sides.

Rule: which deletes apply (`delete_index.py: DeleteIndex`, which gives the files themselves); a rewrite counts all of
them against its threshold, and against its ratio only the rows of deletion vectors and of position deletes of one file
(TableScanUtil and BinPackRewriteFilePlanner of the reference engine). Python meets each partition of a piece once, and
no file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.data_files import (
    DELETE_FILE_PATH,
    Content,
    Partition,
    delete_files,
    distinct_partitions,
    partition_key,
)
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.read.pruning import figures_of
from lakebed.kernel.arrays import Bools, Int64s, one_chunk

DELETE_COLUMNS = (
    "content", "file_path", "file_format", "spec_id", "partition", "record_count", "sequence_number",
    "referenced_data_file", "lower_bounds", "upper_bounds",
)  # fmt: skip
"""What is read of delete files."""
Place = tuple[int, Partition]
"""A spec id, and a partition as `partition_key` has it."""


class DeleteCounts:
    """The delete files of a snapshot, to be counted for each of its data files.

    `tables` are their entries with the columns above, each of one spec; `unpartitioned` are the ids of specs whose
    equality deletes are global. CorruptError for a deletion vector that names no data file, or the same as another.
    """

    def __init__(self, tables: Sequence[pa.Table], unpartitioned: Collection[int]) -> None:
        kinds = [_Kinds.of(table) for table in tables if len(table)]
        places: dict[Place, int] = {}
        groups = [_groups(some.entries, places, grow=True) for some in kinds]
        self._places: Mapping[Place, int] = places
        everywhere = [some.equality & (some.spec_id in unpartitioned) for some in kinds]
        self._global = _Sorted.of(kinds, everywhere, [np.zeros(len(one), np.int64) for one in groups])
        of_place = [some.equality & ~whole for some, whole in zip(kinds, everywhere, strict=True)]
        self._equality = _Sorted.of(kinds, of_place, groups)
        self._positions = _Sorted.of(kinds, [some.positions & some.path.is_null() for some in kinds], groups)
        named = [some.positions & some.path.is_valid() for some in kinds]
        self._paths, numbers = _numbered(kinds, named)
        self._of_path = _Sorted.of(kinds, named, numbers)
        vectors = [some.vectors for some in kinds]
        _check_vectors(kinds)
        self._vector_paths, numbers = _numbered(kinds, vectors)
        self._vectors = _Sorted.of(kinds, vectors, numbers)
        self.is_empty = not kinds

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of data files that counting needs."""
        if self.is_empty:
            return ()
        by_path = ("file_path",) if len(self._paths) or len(self._vector_paths) else ()
        return ("sequence_number", "spec_id", "partition", "record_count", *by_path)

    def of(self, entries: pa.Table) -> tuple[pa.Int32Array, pa.Int64Array]:
        """For each data file of a table of entries of one spec: the delete files that apply, and the rows that those of
        this one file delete, never more than it has."""
        files, rows = np.zeros(len(entries), np.int64), np.zeros(len(entries), np.int64)
        if len(entries) and not self.is_empty:
            number = pc.fill_null(entries["sequence_number"], 0).to_numpy()
            place = _groups(entries, self._places)
            vector = _found(entries, self._vector_paths)
            of_vector, rows = self._vectors.from_number(vector, np.full(len(vector), -1))
            in_place, _ = self._positions.from_number(place, number)
            of_path, more = self._of_path.from_number(_found(entries, self._paths), number)
            everywhere, _ = self._global.from_number(np.zeros(len(place), np.int64), number + 1)
            older, _ = self._equality.from_number(place, number + 1)
            files = everywhere + older + np.where(vector >= 0, of_vector, in_place + of_path)
            rows = np.minimum(np.where(vector >= 0, rows, more), entries["record_count"].to_numpy())
        return pa.array(files.astype(np.int32)), pa.array(rows)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Delete files of one spec: which are of which kind, and the one data file that each is about, where known."""

    entries: pa.Table
    spec_id: int
    equality: Bools
    positions: Bools
    vectors: Bools
    path: _Paths

    @classmethod
    def of(cls, entries: pa.Table) -> _Kinds:
        equality = entries["content"].to_numpy() == Content.EQUALITY_DELETES
        vectors = pc.equal(entries["file_format"], "PUFFIN").to_numpy() & ~equality
        low, high = (figures_of(entries[name], DELETE_FILE_PATH) for name in ("lower_bounds", "upper_bounds"))
        only = pc.if_else(pc.equal(low, high), low, pa.scalar(None, pa.binary())).cast(pa.string())
        path = one_chunk(pc.coalesce(entries["referenced_data_file"], only))
        return cls(entries, entries["spec_id"][0].as_py(), equality, ~equality & ~vectors, vectors, _Paths(path))


@dataclass(frozen=True, slots=True)
class _Paths:
    """Paths as an Arrow array, with nulls as numpy flags."""

    array: pa.StringArray

    def is_null(self) -> Bools:
        found: Bools = self.array.is_null().to_numpy(zero_copy_only=False)
        return found

    def is_valid(self) -> Bools:
        return ~self.is_null()


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Delete files in groups, those of a group in the order of their sequence numbers.

    `numbers` are the distinct sequence numbers, `keys` the files' places: group, then number. `ends` tells where each
    group ends, `below` how many rows the files before each delete.
    """

    numbers: Int64s
    keys: Int64s
    ends: Int64s
    below: Int64s

    @classmethod
    def of(cls, kinds: Sequence[_Kinds], chosen: Sequence[Bools], groups: Sequence[Int64s]) -> _Sorted:
        """The chosen files of several tables; `groups` numbers the group of each."""
        group = _put_together([all[some] for all, some in zip(groups, chosen, strict=True)])
        sequence, records = (
            _put_together([
                pc.fill_null(one.entries[name], 0).to_numpy()[some]
                for one, some in zip(kinds, chosen, strict=True)
            ])
            for name in ("sequence_number", "record_count")
        )  # fmt: skip
        numbers, place = np.unique(sequence, return_inverse=True)
        keys = group * (len(numbers) + 1) + place
        order = np.argsort(keys, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=1))
        return cls(numbers, keys[order], ends, np.concatenate([[0], np.cumsum(records[order])]))

    def from_number(self, groups: Int64s, least: Int64s) -> tuple[Int64s, Int64s]:
        """How many files of each group (-1: none) have at least that sequence number, and their rows together."""
        known = (groups >= 0) & (groups < len(self.ends))
        group = np.where(known, groups, 0)
        first = np.searchsorted(self.keys, group * (len(self.numbers) + 1) + np.searchsorted(self.numbers, least))
        last = self.ends[group]
        return np.where(known, last - first, 0), np.where(known, self.below[last] - self.below[first], 0)


def _put_together(parts: Sequence[Int64s]) -> Int64s:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _groups(entries: pa.Table, places: dict[Place, int] | Mapping[Place, int], grow: bool = False) -> Int64s:
    """The number of the place of each entry of one spec, -1 where it has none; `grow` gives one to each."""
    spec_id = entries["spec_id"][0].as_py()
    codes, values = distinct_partitions(entries["partition"])
    keys = [(spec_id, partition_key(one)) for one in values]
    if grow and isinstance(places, dict):
        for key in keys:
            places.setdefault(key, len(places))
    return np.array([places.get(key, -1) for key in keys], np.int64)[codes]


def _numbered(kinds: Sequence[_Kinds], chosen: Sequence[Bools]) -> tuple[pa.StringArray, list[Int64s]]:
    """The distinct paths of the chosen files, and the number of each file's own."""
    some = [one.path.array.filter(pa.array(mask)) for one, mask in zip(kinds, chosen, strict=True)]
    paths = pc.unique(pa.concat_arrays(some)) if some else pa.array([], pa.string())
    return paths, [_places(one.path.array, paths) for one in kinds]


def _found(entries: pa.Table, paths: pa.StringArray) -> Int64s:
    """Where each data file's path is among these, -1 where it is not."""
    return _places(entries["file_path"], paths) if len(paths) else np.full(len(entries), -1)


def _places(values: pa.Array | pa.ChunkedArray, among: pa.StringArray) -> Int64s:
    found: Int64s = pc.fill_null(pc.index_in(values, value_set=among), -1).to_numpy().astype(np.int64)
    return found


def _check_vectors(kinds: Sequence[_Kinds]) -> None:
    """CorruptError, as an index of them raises it, unless each vector has a data file of its own."""
    found = [one.entries.filter(pa.array(one.vectors)) for one in kinds]
    named = [some["referenced_data_file"] for some in found if len(some)]
    paths = pa.chunked_array([chunk for column in named for chunk in column.chunks], pa.string())
    if paths.null_count or pc.count_distinct(paths).as_py() < len(paths):
        DeleteIndex([file for some in found for file in delete_files(some)], ())
