"""Large values (columns of type BLOB), which lie in files of their own: each has some rows of one column.

Rules: Paimon's BlobFallbackRecordReader and BlobFileBunch. A later file may have new values for some of its rows only;
the others are in older files. A row that no file has is null. Memory holds about `_BATCH_BYTES` of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, DataCleanedError, UnsupportedError
from lakebed.formats.paimon.codec.blob_index import ELSEWHERE, FOOTER_BYTES, index_bytes, record_lengths, values_in
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store

_BATCH_ROWS = 64 << 10
_BATCH_BYTES = 32 << 20
_GAP = 64 << 10
"""Values that are at most so many bytes apart come with one request."""
_MOST_BYTES = (1 << 31) - 1


class _Part(NamedTuple):
    """Neighbouring records of one file: the bytes [start, stop), and the rows whose values they have."""

    file: int
    start: int
    stop: int
    rows: Int64s


@dataclass(frozen=True, slots=True)
class BlobColumn:
    """One column of the rows with the ids [first, first + rows), from `files` of a split."""

    store: Store
    split: PaimonSplit
    name: str
    files: Sequence[DataFileMeta]
    first: int
    rows: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The values in the order of the rows. Raises CorruptError for a damaged file, DataCleanedError for one that
        is gone."""
        files, offsets, lengths = self._places()
        start = 0
        sizes = np.cumsum(np.maximum(lengths, 0))
        while start < self.rows:
            before = int(sizes[start - 1]) if start else 0
            stop = int(np.searchsorted(sizes, before + _BATCH_BYTES, "right"))
            stop = min(max(stop, start + 1), start + _BATCH_ROWS, self.rows)
            column = self._values(files[start:stop], offsets[start:stop], lengths[start:stop])
            yield pa.RecordBatch.from_arrays([column], names=[self.name])
            start = stop

    def _places(self) -> tuple[Int64s, Int64s, Int64s]:
        """For each row the number of its file, and the place and length of its record; a negative length is null."""
        owners = np.zeros(self.rows, np.int64)
        offsets, lengths = np.zeros(self.rows, np.int64), np.full(self.rows, -1, np.int64)
        indexes = self.store.together(self._lengths, self.files)
        for number in sorted(range(len(self.files)), key=lambda place: self.files[place].max_sequence_number):
            file, own = self.files[number], indexes[number]
            begin = (file.first_row_id or 0) - self.first
            if len(own) != file.row_count or begin < 0 or begin + len(own) > self.rows:
                raise CorruptError(
                    "a file of large values has other rows than the data file beside it",
                    table=self.store.location,
                    file=self.split.path(file),
                )
            sizes = np.maximum(own, 0)
            here = np.flatnonzero(own != ELSEWHERE)
            owners[begin + here] = number
            offsets[begin + here] = (np.cumsum(sizes) - sizes)[here]
            lengths[begin + here] = own[here]
        if lengths.max(initial=0) > _MOST_BYTES:
            raise UnsupportedError(
                f"column {self.name!r} has a value of {lengths.max()} bytes",
                table=self.store.location,
                why="lakebed reads values of up to 2 GB",
                todo="Read the other columns",
            )
        return owners, offsets, lengths

    def _values(self, owners: Int64s, offsets: Int64s, lengths: Int64s) -> pa.Array:
        """The values of some rows."""
        parts = [*self._parts(owners, offsets, lengths)]

        def read(part: _Part) -> pa.Array:
            file = self.files[part.file]
            data = self._bytes(file, part.start, part.stop - part.start)
            with decoding("a data file cannot be read", table=self.store.location, file=self.split.path(file)):
                return values_in(data, offsets[part.rows] - part.start, lengths[part.rows])

        arrays = self.store.together(read, parts)
        place = np.full(len(lengths), -1, np.int64)
        rows = [part.rows for part in parts]
        place[np.concatenate([np.zeros(0, np.int64), *rows])] = np.arange(sum(map(len, rows)))
        values = pa.concat_arrays([pa.array([], pa.binary()), *arrays])
        return values.take(pa.array(place, mask=place < 0))

    @staticmethod
    def _parts(owners: Int64s, offsets: Int64s, lengths: Int64s) -> Iterator[_Part]:
        for number in np.unique(owners[lengths >= 0]).tolist():
            rows = np.flatnonzero((owners == number) & (lengths >= 0))
            starts, stops = offsets[rows], offsets[rows] + lengths[rows]
            breaks = np.flatnonzero(starts[1:] - stops[:-1] > _GAP) + 1
            for piece in np.split(np.arange(len(rows)), breaks):
                yield _Part(number, int(starts[piece[0]]), int(stops[piece[-1]]), rows[piece])

    def _lengths(self, file: DataFileMeta) -> Int64s:
        """The lengths of a file's records, from the index at its end."""
        with decoding("a data file cannot be read", table=self.store.location, file=self.split.path(file)):
            tail = self._bytes(file, max(0, file.file_size - _GAP), min(file.file_size, _GAP))
            size = index_bytes(tail[-FOOTER_BYTES:])
            data = file.file_size - FOOTER_BYTES - size
            if data < 0:
                raise CorruptError("a file of large values has an index that is larger than the file")
            index = tail[-FOOTER_BYTES - size : -FOOTER_BYTES]
            return record_lengths(index if len(index) == size else self._bytes(file, data, size), data)

    def _bytes(self, file: DataFileMeta, start: int, length: int) -> bytes:
        path = self.split.path(file)
        try:
            with decoding("a data file cannot be read", table=self.store.location, file=path):
                data = self.store.read(path, start, length)
                if len(data) != length:
                    raise CorruptError("a file of large values is shorter than the manifest says")
                return data
        except FileNotFoundError as error:
            raise DataCleanedError(
                "a data file is gone",
                table=self.store.location,
                file=path,
                why="the snapshot that holds it has expired",
                todo="Read a newer snapshot",
            ) from error
