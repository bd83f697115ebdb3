"""The splits of a snapshot: a tuple of them, or for many data files columns that splits are made of on demand.

A data file as a value with its task and its split takes over a kilobyte and 20 microseconds. As columns it takes the
bytes of its path and some 100 more, and a reader makes the values of a thousand files at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.formats.iceberg.data_files import DATA_COLUMNS, DataFile, DeleteFile, FileTask, data_files
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.read.equality_bounds import EqualityBounds
from lakebed.formats.iceberg.read.split import ByteRange, IcebergSplit, split_name, starts_of_parts
from lakebed.kernel.arrays import Int32s, Int64s, from_numpy, from_values, to_numpy
from lakebed.verbs.many_splits import MANY, ManySplits

_WHOLE = -1


def splits_of_entries(
    pieces: Iterable[pa.Table], index: DeleteIndex, bounds: EqualityBounds, split_size: int
) -> Sequence[IcebergSplit]:
    """The splits of live data files, in the order of their entries, each with its deletes except those that bounds rule
    out. The entries of one table are of one spec."""
    kept: list[pa.Table] = []
    codes: list[Int32s] = []
    sets: list[tuple[DeleteFile, ...]] = [()]
    for entries in pieces:
        of_piece, more = _deletes(entries, index, bounds)
        codes.append(np.where(of_piece >= 0, of_piece + len(sets), 0).astype(np.int32))
        sets += more
        kept.append(_columns(entries))
    of_files = np.concatenate([np.zeros(0, np.int32), *codes])
    splits = FileSplits.of(_by_spec(kept), of_files, tuple(sets), split_size)
    return splits if len(of_files) > MANY else tuple(splits)


def _deletes(
    entries: pa.Table, index: DeleteIndex, bounds: EqualityBounds
) -> tuple[Int32s, list[tuple[DeleteFile, ...]]]:
    """The deletes that apply to data files, and for each file which of them; -1 for a file without any."""
    codes = np.full(len(entries), -1, np.int32)
    rows = [] if index.is_empty else index.touched(entries)
    if not rows:
        return codes, []
    touched = entries.take(from_values(rows, pa.int64()))
    if bounds.ranges:
        codes[rows] = np.arange(len(rows))
        return codes, [task.deletes for task in bounds.tasks(touched, index)]
    codes[rows], samples = index.alike(touched)
    return codes, [task.deletes for task in index.tasks(touched, samples)]


@dataclass(frozen=True, slots=True, eq=False)
class FileSplits(ManySplits[IcebergSplit]):
    """Splits of the data files in tables of entries, one table per run of files of one spec.

    Split i is of the file at `rows[i]`, counted over all tables, of which table t begins at `begins[t]`. It is the part
    from byte `starts[i]` to `ends[i]`, or all of the file where that is -1. `deletes` names the set of deletes of each
    file, of which many files share one; set 0 is empty.
    """

    files: tuple[pa.Table, ...]
    begins: Int64s
    deletes: Int32s
    sets: tuple[tuple[DeleteFile, ...], ...]
    rows: Int64s
    starts: Int64s
    ends: Int64s
    sizes: Int64s

    @classmethod
    def of(
        cls, files: Sequence[pa.Table], deletes: Int32s, sets: tuple[tuple[DeleteFile, ...], ...], split_size: int
    ) -> FileSplits:
        """The splits of these files."""
        begins = np.cumsum([0, *map(len, files)])[:-1]
        parts = [_parts(table, begin, split_size) for begin, table in zip(begins.tolist(), files, strict=True)]
        rows, starts, ends, sizes = np.concatenate([np.zeros((4, 0), np.int64), *parts], axis=1)
        return cls(tuple(files), begins, deletes, sets, rows, starts, ends, sizes)

    def made(self, places: Int64s) -> Iterator[IcebergSplit]:
        """The splits at these places, in this order."""
        tasks = self._tasks(np.unique(self.rows[places]))
        columns = (self.rows, self.starts, self.ends, self.sizes)
        for row, start, end, size in zip(*(column[places].tolist() for column in columns), strict=True):
            task = tasks[row]
            part = None if end == _WHOLE else ByteRange(start, end)
            yield IcebergSplit(split_name(task.data.path, part), size, task, part)

    def taken(self, places: Int64s) -> FileSplits:
        """The splits at these places, in this order, without the files of the others."""
        rows, new_rows = np.unique(self.rows[places], return_inverse=True)
        files: list[pa.Table] = []
        for table, _, local in self._of_tables(rows):
            files.append(_compact(table.take(from_numpy(local))))
        begins = np.cumsum([0, *map(len, files)])[:-1]
        used, deletes = np.unique(np.append(0, self.deletes[rows]), return_inverse=True)
        sets = tuple(self.sets[number] for number in used.tolist())
        columns = (new_rows.astype(np.int64), self.starts[places], self.ends[places], self.sizes[places])
        return FileSplits(tuple(files), begins, deletes[1:].astype(np.int32), sets, *columns)

    def _tasks(self, rows: Int64s) -> dict[int, FileTask]:
        """The data files at these sorted numbers, with their deletes."""
        tasks: dict[int, FileTask] = {}
        for table, of_table, local in self._of_tables(rows):
            first, last = int(local[0]), int(local[-1])
            files: list[DataFile]
            if last - first + 1 == len(local):
                files = data_files(table.slice(first, len(local)))
            else:
                files = data_files(table, local.tolist())
            for row, file in zip(of_table.tolist(), files, strict=True):
                tasks[row] = FileTask(file, self.sets[self.deletes[row]])
        return tasks

    def _of_tables(self, rows: Int64s) -> Iterator[tuple[pa.Table, Int64s, Int64s]]:
        """The tables that sorted numbers of files are in: those numbers, and their rows in the table."""
        tables = np.searchsorted(self.begins, rows, side="right") - 1
        for number in np.unique(tables).tolist():
            of_table = rows[tables == number]
            yield self.files[number], of_table, of_table - self.begins[number]


def _columns(entries: pa.Table) -> pa.Table:
    """The columns of data files. Paths may be more bytes together than one array of short texts can hold."""
    kept = entries.select([name for name in entries.column_names if name in (*DATA_COLUMNS, "partition")])
    place = kept.column_names.index("file_path")
    return kept.set_column(place, "file_path", kept["file_path"].cast(pa.large_string()))


def _by_spec(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Neighbouring tables of one schema as one."""
    runs: list[list[pa.Table]] = []
    for table in tables:
        if runs and runs[-1][0].schema.equals(table.schema):
            runs[-1].append(table)
        else:
            runs.append([table])
    return [_compact(pa.concat_tables(run)) for run in runs]


def _compact(table: pa.Table) -> pa.Table:
    """A table of few pieces, which hold on to no larger ones."""
    compact: pa.Table = table.combine_chunks()
    return compact


def _parts(table: pa.Table, begin: int, split_size: int) -> Int64s:
    """The splits of a table's files as four columns: the number of the file, the first byte, the end, the bytes."""
    count = len(table)
    sizes = to_numpy(table["file_size_in_bytes"])
    rows = np.arange(begin, begin + count)
    whole = np.stack([rows, np.zeros(count, np.int64), np.full(count, _WHOLE), sizes])
    large = np.flatnonzero(sizes > split_size)
    if not len(large) or "split_offsets" not in table.column_names:
        return whole
    several: list[tuple[int, int, int, int]] = []
    chosen = table.select(["split_offsets", "file_format"]).take(from_numpy(large))
    for row, offsets, format in zip(large.tolist(), *(column.to_pylist() for column in chosen), strict=True):
        starts = starts_of_parts(offsets or (), format, int(sizes[row]), split_size)
        ends = (*starts[1:], int(sizes[row]))
        if len(starts) > 1:
            several += [(begin + row, start, end, end - start) for start, end in zip(starts, ends, strict=True)]
    if not several:
        return whole
    parts = np.array(several, np.int64).T
    both = np.concatenate([whole[:, ~np.isin(rows, parts[0])], parts], axis=1)
    return both[:, np.argsort(both[0], kind="stable")]
