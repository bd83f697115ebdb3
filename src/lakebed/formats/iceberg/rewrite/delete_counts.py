"""How many deletes apply to each data file, and how many rows they remove. Whole columns on both sides.

Rule: which deletes apply (`iceberg/delete_index.py`, which returns the files themselves). A rewrite holds all of
them against its threshold. Against its ratio it holds only the rows of deletion vectors and of position deletes of one
file (TableScanUtil and BinPackRewriteFilePlanner of the reference engine). Python visits each partition of a piece
once, and never a file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.codec.bounds import values_of_field
from lakebed.formats.iceberg.data_files import (
    DELETE_FILE_PATH,
    Content,
    Partition,
    delete_files,
    distinct_partitions,
    partition_key,
)
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.kernel.arrays import Bools, Int64s, filled, from_numpy, from_values, one_chunk, scalar_of, to_numpy

DELETE_COLUMNS = (
    "content", "file_path", "file_format", "spec_id", "partition", "record_count", "sequence_number",
    "referenced_data_file", "lower_bounds", "upper_bounds", "file_size_in_bytes", "content_size_in_bytes",
)  # fmt: skip
"""The columns of delete files that counting needs."""
Place = tuple[int, Partition]
"""A spec id, and a partition as `partition_key` returns it."""


class DeleteCounts:
    """Counts the delete files of a snapshot for each of its data files.

    `tables` are the entries of the delete files with the columns `DELETE_COLUMNS`, each table of one spec.
    `unpartitioned` are the ids of specs whose equality deletes are global. CorruptError for a deletion vector that
    names no data file, or the same one as another vector.
    """

    def __init__(self, tables: Sequence[pa.Table], unpartitioned: Collection[int]) -> None:
        deletes = [_DeleteTable.of(table) for table in tables if len(table)]
        places: dict[Place, int] = {}
        groups = [_groups(table.entries, places, grow=True) for table in deletes]
        self._places: Mapping[Place, int] = places
        is_global = [table.equality & (table.spec_id in unpartitioned) for table in deletes]
        self._global = _Sorted.of(deletes, is_global, [np.zeros(len(group), np.int64) for group in groups])
        of_partition = [table.equality & ~mask for table, mask in zip(deletes, is_global, strict=True)]
        self._equality = _Sorted.of(deletes, of_partition, groups)
        without_path = [table.positions & ~table.has_path for table in deletes]
        self._positions = _Sorted.of(deletes, without_path, groups)
        with_path = [table.positions & table.has_path for table in deletes]
        self._paths, numbers = _numbered_paths(deletes, with_path)
        self._of_path = _Sorted.of(deletes, with_path, numbers)
        vectors = [table.vectors for table in deletes]
        _check_vectors(deletes)
        self._vector_paths, numbers = _numbered_paths(deletes, vectors)
        self._vectors = _Sorted.of(deletes, vectors, numbers)
        self.is_empty = not deletes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of data files that counting needs."""
        if self.is_empty:
            return ()
        by_path = ("file_path",) if len(self._paths) or len(self._vector_paths) else ()
        return ("sequence_number", "spec_id", "partition", "record_count", *by_path)

    def of(self, entries: pa.Table) -> tuple[pa.Int32Array, pa.Int64Array, pa.Int64Array]:
        """The counts for each data file of a table of entries of one spec.

        First how many delete files apply, then how many rows the deletes of this one file remove, never more than it
        has, and last the bytes of the deletes that apply: of a vector its own part of the Puffin file. Position deletes
        of several files have no bytes here, since those of the newest snapshot would apply to a rewritten file too.
        """
        files, rows, size = (np.zeros(len(entries), np.int64) for _ in range(3))
        if len(entries) and not self.is_empty:
            number = to_numpy(filled(entries["sequence_number"], 0))
            place = _groups(entries, self._places)
            vector = _places_of_paths(entries, self._vector_paths)
            vectors = self._vectors.from_number(vector, np.full(len(vector), -1))
            of_partition = self._positions.from_number(place, number)
            of_path = self._of_path.from_number(_places_of_paths(entries, self._paths), number)
            everywhere = self._global.from_number(np.zeros(len(place), np.int64), number + 1)
            equality = self._equality.from_number(place, number + 1)
            of_file = np.where(vector >= 0, vectors, of_path)
            files, _, size = everywhere + equality + of_file
            files = files + np.where(vector >= 0, 0, of_partition[0])
            rows = np.minimum(of_file[1], to_numpy(entries["record_count"]))
        return from_numpy(files.astype(np.int32)), from_numpy(rows), from_numpy(size)


@dataclass(frozen=True, slots=True)
class _DeleteTable:
    """Delete files of one spec: which are of which kind, and the path of the one data file that each is about, null
    when unknown."""

    entries: pa.Table
    spec_id: int
    equality: Bools
    positions: Bools
    vectors: Bools
    path: pa.StringArray

    @classmethod
    def of(cls, entries: pa.Table) -> _DeleteTable:
        equality = to_numpy(entries["content"]) == Content.EQUALITY_DELETES
        vectors = to_numpy(pc.equal(entries["file_format"], scalar_of("PUFFIN", pa.string()))) & ~equality
        low, high = (values_of_field(entries[name], DELETE_FILE_PATH) for name in ("lower_bounds", "upper_bounds"))
        only = pc.if_else(pc.equal(low, high), low, pa.nulls(1, pa.binary())[0]).cast(pa.string())
        path = one_chunk(pc.coalesce(entries["referenced_data_file"], only))
        return cls(entries, entries["spec_id"][0].as_py(), equality, ~equality & ~vectors, vectors, path)

    @property
    def has_path(self) -> Bools:
        """A mask of the delete files that name one data file."""
        mask: Bools = to_numpy(self.path.is_valid())
        return mask


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Delete files in groups, sorted by sequence number inside each group.

    `numbers` are the distinct sequence numbers. `keys` order the files by group, then by number. `ends` says where each
    group ends, `rows` and `bytes` how many rows all files before each file delete, and how large they are.
    """

    numbers: Int64s
    keys: Int64s
    ends: Int64s
    rows: Int64s
    bytes: Int64s

    @classmethod
    def of(cls, tables: Sequence[_DeleteTable], masks: Sequence[Bools], groups: Sequence[Int64s]) -> _Sorted:
        """The files of several tables that the masks choose; `groups` has the number of each file's group."""
        group = _concatenated([numbers[mask] for numbers, mask in zip(groups, masks, strict=True)])

        def column(name: str) -> Int64s:
            columns = [to_numpy(filled(table.entries[name], 0)) for table in tables]
            return _concatenated([values[mask] for values, mask in zip(columns, masks, strict=True)])

        sequence, records = column("sequence_number"), column("record_count")
        of_file, of_part = column("file_size_in_bytes"), column("content_size_in_bytes")
        sizes = np.where(of_part > 0, of_part, of_file)
        numbers, place = np.unique(sequence, return_inverse=True)
        keys = group * (len(numbers) + 1) + place
        order = np.argsort(keys, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=1))
        rows, size = (np.concatenate([[0], np.cumsum(values[order])]) for values in (records, sizes))
        return cls(numbers, keys[order], ends, rows, size)

    def from_number(self, groups: Int64s, least: Int64s) -> Int64s:
        """Three rows: how many files of each group have at least that sequence number, how many rows they delete
        together, and their bytes. The group -1 has no files.
        """
        has_files = (groups >= 0) & (groups < len(self.ends))
        group = np.where(has_files, groups, 0)
        first = np.searchsorted(self.keys, group * (len(self.numbers) + 1) + np.searchsorted(self.numbers, least))
        last = self.ends[group]
        sums = [last - first, self.rows[last] - self.rows[first], self.bytes[last] - self.bytes[first]]
        return np.where(has_files, np.stack(sums), 0)


def _concatenated(parts: Sequence[Int64s]) -> Int64s:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _groups(entries: pa.Table, places: dict[Place, int] | Mapping[Place, int], grow: bool = False) -> Int64s:
    """The number of each entry's place, -1 for a place without number; with `grow` each place gets one."""
    spec_id = entries["spec_id"][0].as_py()
    codes, values = distinct_partitions(entries["partition"])
    keys = [(spec_id, partition_key(value)) for value in values]
    if grow and isinstance(places, dict):
        for key in keys:
            places.setdefault(key, len(places))
    return np.array([places.get(key, -1) for key in keys], np.int64)[codes]


def _numbered_paths(tables: Sequence[_DeleteTable], masks: Sequence[Bools]) -> tuple[pa.StringArray, list[Int64s]]:
    """The distinct paths of the files that the masks choose, and each file's place among them."""
    chosen = [table.path.filter(from_numpy(mask)) for table, mask in zip(tables, masks, strict=True)]
    paths = pc.unique(pa.concat_arrays(chosen)) if chosen else from_values([], pa.string())
    return paths, [_places(table.path, paths) for table in tables]


def _places_of_paths(entries: pa.Table, paths: pa.StringArray) -> Int64s:
    """The place of each data file's path among these paths, -1 when it is not there."""
    return _places(entries["file_path"], paths) if len(paths) else np.full(len(entries), -1)


def _places(values: pa.Array | pa.ChunkedArray, among: pa.StringArray) -> Int64s:
    places: Int64s = to_numpy(filled(pc.index_in(values, value_set=among), -1)).astype(np.int64)
    return places


def _check_vectors(tables: Sequence[_DeleteTable]) -> None:
    """CorruptError unless each vector has a data file of its own. The delete index raises it, with its own text."""
    vectors = [table.entries.filter(from_numpy(table.vectors)) for table in tables]
    columns = [entries["referenced_data_file"] for entries in vectors if len(entries)]
    paths = pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string())
    if paths.null_count or pc.count_distinct(paths).as_py() < len(paths):
        DeleteIndex([file for entries in vectors for file in delete_files(entries)], ())
