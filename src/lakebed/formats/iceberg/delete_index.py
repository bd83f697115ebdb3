"""The delete index: which deletes of a snapshot apply to a data file.

Rule: the specification's "Scan Planning" and the reference engine's DeleteFileIndex.

- An equality delete applies to data files with a smaller data sequence number. They are of the delete's own spec and
  partition; under a spec without partitions it applies to the whole table.
- A position delete applies to data files whose data sequence number is not greater. They are of the delete's own spec
  and partition, or the one file that it refers to.
- A deletion vector applies to the file that it refers to. No position delete file applies to that file then.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.data_files import (
    Content,
    DataFile,
    DeleteFile,
    FileTask,
    Partition,
    data_files,
    distinct_partitions,
    in_places,
    partition_key,
)
from lakebed.kernel.arrays import Int32s, from_numpy, from_values, one_chunk, to_numpy
from lakebed.kernel.keys.distinct import distinct


@dataclass(slots=True)
class _BySequence:
    """Delete files in the order of their sequence numbers. The ones that apply are a suffix, built once and shared."""

    files: list[DeleteFile]
    numbers: list[int] = field(default_factory=list)
    _suffixes: dict[int, tuple[DeleteFile, ...]] = field(default_factory=dict)

    def from_number(self, least: int) -> tuple[DeleteFile, ...]:
        """The files whose sequence number is at least `least`."""
        if not self.numbers:
            self.files.sort(key=lambda file: (file.sequence_number or 0, file.path))
            self.numbers = [file.sequence_number or 0 for file in self.files]
        start = bisect.bisect_left(self.numbers, least)
        if start not in self._suffixes:
            self._suffixes[start] = tuple(self.files[start:])
        return self._suffixes[start]


class DeleteIndex:
    """The deletes of one snapshot by what they apply to.

    `unpartitioned` has the ids of the specs whose fields are all void: their equality deletes apply to the whole table.
    CorruptError for a deletion vector that names no data file, and for a second one of the same data file.
    """

    def __init__(self, deletes: Iterable[DeleteFile], unpartitioned: Collection[int]) -> None:
        self._vectors: dict[str, DeleteFile] = {}
        self._of_path: dict[str, _BySequence] = {}
        self._of_partition: dict[tuple[int, Partition], _BySequence] = {}
        self._equality: dict[tuple[int, Partition], _BySequence] = {}
        self._global = _BySequence([])
        self.is_empty = True
        for file in deletes:
            self.is_empty = False
            self._add(file, unpartitioned)

    def _add(self, file: DeleteFile, unpartitioned: Collection[int]) -> None:
        place = (file.spec_id, partition_key(file.partition))
        if file.content is Content.EQUALITY_DELETES:
            if file.spec_id in unpartitioned:
                self._global.files.append(file)
            else:
                self._equality.setdefault(place, _BySequence([])).files.append(file)
        elif file.is_vector:
            path = file.referenced_data_file
            if path is None or path in self._vectors:
                why = "it names no data file" if path is None else f"another one is for {path} too"
                raise CorruptError("a deletion vector cannot be used", file=file.path, why=why)
            self._vectors[path] = file
        elif file.referenced_data_file is not None:
            self._of_path.setdefault(file.referenced_data_file, _BySequence([])).files.append(file)
        else:
            self._of_partition.setdefault(place, _BySequence([])).files.append(file)

    def applying(self, file: DataFile) -> tuple[DeleteFile, ...]:
        """The deletes that apply to a data file: equality deletes first, each kind oldest first."""
        if self.is_empty:
            return ()
        sequence = file.sequence_number or 0
        place = (file.spec_id, partition_key(file.partition))
        deletes = self._global.from_number(sequence + 1) if self._global.files else ()
        if place in self._equality:
            deletes += self._equality[place].from_number(sequence + 1)
        vector = self._vectors.get(file.path)
        if vector is not None:
            return (*deletes, vector)
        if place in self._of_partition:
            deletes += self._of_partition[place].from_number(sequence)
        if file.path in self._of_path:
            deletes += self._of_path[file.path].from_number(sequence)
        return deletes

    def tasks(self, entries: pa.Table, rows: Sequence[int] | None = None) -> list[FileTask]:
        """The data files of a table of entries, or of some of its rows, each with its deletes."""
        return [FileTask(file, self.applying(file)) for file in data_files(entries, rows)]

    def alike(self, entries: pa.Table) -> tuple[Int32s, list[int]]:
        """A code per row of a table of entries of one spec, and a row of each code. The same deletes apply to all rows
        of a code."""
        own = to_numpy(pc.is_in(entries["file_path"], value_set=self._paths(entries)))
        places, _ = distinct_partitions(entries["partition"])
        numbers = np.where(own, np.arange(len(entries)), -1)
        keys = [from_numpy(numbers), from_numpy(places), one_chunk(entries["sequence_number"])]
        codes, first = distinct(keys)
        return codes, first.tolist()

    def _paths(self, entries: pa.Table) -> pa.Array:
        """The data files that have deletes of their own."""
        return from_values([*self._vectors, *self._of_path], entries["file_path"].type)

    def touched(self, entries: pa.Table) -> list[int]:
        """The rows of a table of entries whose path or partition has deletes. No other file has any."""
        if self._global.files:
            return list(range(len(entries)))
        mask = to_numpy(pc.is_in(entries["file_path"], value_set=self._paths(entries)))
        places = {*self._equality, *self._of_partition}
        if places:
            mask = mask | in_places(entries, places)
        return [int(row) for row in np.flatnonzero(mask)]
