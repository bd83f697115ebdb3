"""Stage rows by bucket until all of them are known: the first half of a write that makes no small files.

A task takes its rows in the order in which they come and buffers a bounded number of bytes. When the buffer is full, it
sorts the rows by bucket and appends them to a file of its own. A *chunk* is a run of rows of one bucket: an Arrow
record batch, compressed with LZ4 unless it lies on a local disk. The task's answer says where the chunks are and how
many rows they hold, as whole arrays, so that very many chunks stay cheap. Little data travels in the answer itself and
needs no file.

The input is read once. This module knows nothing of tables: a bucket is any hashable value, and the caller decides the
order of rows inside one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import Int64s, from_numpy, from_values

BUFFER_BYTES = 64 << 20
"""How many bytes of Arrow data a task buffers before it stages them."""
INLINE_BYTES = 256 << 10
"""At most so many bytes travel in a task's answer instead of a file."""
CHUNK_BYTES = 4 << 20
"""The largest chunk, in bytes of Arrow data, so that a reader of chunks needs little memory."""
_LEAST_FLUSH, _PER_BUCKET = 8 << 20, 512 << 10
"""Rows are grouped once there are so many bytes of them for each bucket, long before the buffer is full: what was just
written is still in the processor's cache."""
_WAVE_BYTES = 8 << 20
"""Chunks are read together from a remote store up to so many compressed bytes."""


class Place(Protocol):
    """Where chunks are kept: a store, or anything with these methods."""

    @property
    def at_once(self) -> int:
        """How many requests are worth making at once."""
        ...

    def together(self, act: Callable[[Any], Any], items: Iterable[Any], /) -> Sequence[Any]:
        """The results of `act` for each item, in order."""
        ...

    def open_output(self, path: str, /) -> AbstractContextManager[pa.NativeFile]:
        """A new file, which is removed when the block fails."""
        ...

    def read(self, path: str, start: int = 0, length: int | None = None, /) -> bytes | pa.Buffer:
        """A range of a file."""
        ...

    def delete_many(self, paths: Sequence[str], /) -> None:
        """Remove files. A missing file is not an error."""
        ...

    def local_path(self, path: str, /) -> str | None:
        """Where a file lies on this machine's disk, None for one that lies elsewhere."""
        ...


@dataclass(frozen=True, slots=True)
class Grouped:
    """The bucket of each row: that of row i is `buckets[codes[i]]`.

    `order` are the row numbers with the rows of each bucket next to each other, None when they already are.
    """

    codes: Int64s
    buckets: tuple[Hashable, ...]
    order: Int64s | None


def grouped(codes: Int64s, buckets: Sequence[Hashable]) -> Grouped:
    """Group rows so that those of a bucket keep the order in which they came."""
    if len(buckets) <= 1 or bool(np.all(codes[1:] >= codes[:-1])):
        return Grouped(codes, tuple(buckets), None)
    return Grouped(codes, tuple(buckets), np.argsort(codes, kind="stable"))


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """What one task staged.

    Chunk i holds `rows[i]` rows of bucket `buckets[codes[i]]`, which are `sizes[i]` bytes of Arrow data. It is stored
    in `lengths[i]` bytes from `offsets[i]`, of the file `path` or, when there is no file, of `inline`. A chunk of
    length 0 was not compressed: it is `kept[offsets[i]]`.
    """

    buckets: tuple[Hashable, ...]
    codes: Int64s
    rows: Int64s
    sizes: Int64s
    offsets: Int64s
    lengths: Int64s
    path: str = ""
    inline: bytes = b""
    kept: tuple[pa.RecordBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class StagingLimits:
    """How much one task holds, in bytes."""

    buffer: int = BUFFER_BYTES
    """Arrow data that the task holds before it groups the rows and writes them to its file."""
    inline: int = 0
    """Compressed chunks that travel in the task's answer. There is a file only where they are more."""
    memory: int = 0
    """Arrow data that is kept as it is before anything is compressed: for rows that stay in this process."""
    chunk: int = CHUNK_BYTES
    """The greatest chunk, in Arrow data."""
    compressed: bool | None = None
    """Whether chunks are compressed. Unless it is said, those on a local disk are not: it costs more than it saves."""


class Stager:
    """Stages the rows of one task: groups them by bucket and appends them to the file `path` of `place`.

    `group` gives the bucket of each row, for some thousand rows at a time.
    """

    def __init__(
        self,
        place: Place,
        path: str,
        schema: pa.Schema,
        group: Callable[[pa.Table], Grouped],
        limits: StagingLimits = StagingLimits(),
    ) -> None:
        self._place, self._path, self._schema, self._group = place, path, schema, group
        self._limits, self._memory_left = limits, limits.memory
        self._compressed = place.local_path(path) is None if limits.compressed is None else limits.compressed
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._codes: dict[Hashable, int] = {}
        self._chunks: list[tuple[int, int, int, int, int]] = []
        self._kept: list[pa.RecordBatch] = []
        self._inline: list[pa.Buffer] = []
        self._written = 0
        self._open = ExitStack()
        self._file: pa.NativeFile | None = None

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take rows of exactly the stager's schema."""
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        for batch in batches:
            most = _rows_of(batch, self._limits.buffer)
            for start in range(0, batch.num_rows, most):
                piece = batch.slice(start, most)
                self._held.append(piece)
                self._held_bytes += piece.nbytes
                if self._held_bytes >= min(self._limits.buffer, max(_LEAST_FLUSH, _PER_BUCKET * len(self._codes))):
                    self._flush()

    def finish(self) -> Staged | None:
        """Stage the remaining rows and return what is where, None when there were no rows."""
        self._flush()
        if self._file is not None:
            self._open.close()
        if not self._chunks:
            return None
        codes, rows, sizes, offsets, lengths = np.array(self._chunks, np.int64).T.copy()
        path = self._path if self._file is not None else ""
        inline = b"" if path else b"".join(self._inline)
        return Staged(tuple(self._codes), codes, rows, sizes, offsets, lengths, path, inline, tuple(self._kept))

    def abort(self) -> None:
        """Remove everything that was staged."""
        self._held, self._inline, self._kept = [], [], []
        if self._file is not None:
            self._open.close()
            self._place.delete_many([self._path])

    def _flush(self) -> None:
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held, self._schema)
        self._held, self._held_bytes = [], 0
        groups = self._group(rows)
        codes = groups.codes
        rows = rows.combine_chunks()
        if groups.order is not None:
            rows, codes = rows.take(from_numpy(groups.order)), codes[groups.order]
        self._append(rows, codes, groups.buckets)

    def _append(self, rows: pa.Table, codes: Int64s, buckets: Sequence[Hashable]) -> None:
        """Add one or more chunks per run of equal codes."""
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
        numbers = {
            code: self._codes.setdefault(buckets[code], len(self._codes)) for code in np.unique(codes[starts]).tolist()
        }
        ends = np.append(starts[1:], len(codes))
        runs = [
            (numbers[int(codes[start])], rows.slice(start, end - start))
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        if rows.nbytes <= self._memory_left:
            self._memory_left -= rows.nbytes
            for code, run in runs:
                for batch in run.to_batches():
                    self._chunks.append((code, batch.num_rows, batch.nbytes, len(self._kept), 0))
                    self._kept.append(batch)
        else:
            self._memory_left = 0
            self._store(runs, rows.nbytes)

    def _store(self, runs: Sequence[tuple[int, pa.Table]], size: int) -> None:
        """Write runs of `size` bytes to the file, or hold them while they may travel in the answer."""
        direct = not self._compressed
        if direct and self._file is None and self._written + size > self._limits.inline:
            self._begin_file()
        if direct and self._file is not None:
            self._written += self._encode(runs, self._file, 0)
            return
        sink = pa.BufferOutputStream()
        self._written += self._encode(runs, sink, self._written)
        self._inline.append(sink.getvalue())
        if self._file is not None or self._written > self._limits.inline:
            self._begin_file()

    def _begin_file(self) -> None:
        """Open the file where it is not, and write what waits."""
        if self._file is None:
            self._file = self._open.enter_context(self._place.open_output(self._path))
        waiting, self._inline = self._inline, []
        for part in waiting:
            self._file.write(part)

    def _encode(self, runs: Sequence[tuple[int, pa.Table]], sink: pa.NativeFile, before: int) -> int:
        """Write a stream of chunks to a file that begins after `before` bytes. Returns the bytes of it."""
        began = sink.tell()
        options = pa.ipc.IpcWriteOptions(compression="lz4" if self._compressed else None)
        with pa.ipc.new_stream(sink, self._schema, options=options) as stream:
            stream.write_batch(_no_rows(self._schema))  # so that the stream's head is not part of the first chunk
            for code, run in runs:
                for batch in run.to_batches(max_chunksize=_rows_of(run, self._limits.chunk)):
                    start = sink.tell()
                    stream.write_batch(batch)
                    place = (before + start, sink.tell() - start)
                    self._chunks.append((code, batch.num_rows, batch.nbytes, *place))
        return int(sink.tell() - began)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Consecutive rows of one bucket, in the order of the tasks: the input of one file. Picklable.

    Chunk i is stored in `lengths[i]` bytes from `offsets[i]` of `paths[sources[i]]`, or of `inline[sources[i]]` where
    that path is empty. A chunk of length 0 is `kept[offsets[i]]`. The run starts after `skip` rows of the first chunk
    and has at most `rows` rows.
    """

    schema: pa.Schema
    paths: tuple[str, ...]
    inline: tuple[bytes, ...]
    sources: Int64s
    offsets: Int64s
    lengths: Int64s
    skip: int
    rows: int
    kept: tuple[pa.RecordBatch, ...] = ()

    def batches(self, place: Place) -> Iterator[pa.RecordBatch]:
        """The rows, chunk by chunk."""
        left, skip = self.rows, self.skip
        for wave in self._waves(place.at_once if any(self.paths) else 1):
            for data in place.together(lambda chunk: self._chunk(place, *chunk), wave):
                whole = data if isinstance(data, pa.RecordBatch) else pa.ipc.read_record_batch(data, self.schema)
                batch = whole.slice(skip, left)
                skip = 0
                left -= batch.num_rows
                yield batch

    def _waves(self, at_once: int) -> Iterator[list[tuple[int, int, int]]]:
        """The source, offset and length of chunks, those that are read together."""
        wave: list[tuple[int, int, int]] = []
        size = 0
        for chunk in zip(self.sources.tolist(), self.offsets.tolist(), self.lengths.tolist(), strict=True):
            wave.append(chunk)
            size += chunk[2]
            if len(wave) >= at_once or size >= _WAVE_BYTES:
                yield wave
                wave, size = [], 0
        yield wave

    def _chunk(self, place: Place, source: int, offset: int, length: int) -> pa.RecordBatch | pa.Buffer:
        """A chunk that was kept as it is, or the bytes of one that was compressed."""
        if not length:
            return self.kept[offset]
        path = self.paths[source]
        return pa.py_buffer(place.read(path, offset, length) if path else self.inline[source][offset : offset + length])


class StagedBuckets:
    """What all tasks staged, bucket by bucket, in the order of the tasks."""

    def __init__(self, staged: Sequence[Staged], schema: pa.Schema) -> None:
        self._staged, self._schema = staged, schema
        numbers: dict[Hashable, int] = {}
        codes = [
            np.array([numbers.setdefault(b, len(numbers)) for b in task.buckets], np.int64)[task.codes]
            for task in staged
        ]
        self.buckets: tuple[Hashable, ...] = tuple(numbers)
        """The buckets that have rows."""
        bucket = _joined(codes)
        order = np.argsort(bucket, kind="stable")
        self._sources = _joined([np.full(len(task.codes), at, np.int64) for at, task in enumerate(staged)])[order]
        self._offsets = _joined([task.offsets for task in staged])[order]
        self._lengths = _joined([task.lengths for task in staged])[order]
        self._rows = _joined([task.rows for task in staged])[order]
        sizes = _joined([task.sizes for task in staged])[order]
        self._starts = np.searchsorted(bucket[order], np.arange(len(numbers) + 1))
        below = np.concatenate(([0], np.cumsum(self._rows)))
        self.rows: Int64s = np.diff(below[self._starts])
        """The number of rows in each bucket."""
        self.sizes: Int64s = np.diff(np.concatenate(([0], np.cumsum(sizes)))[self._starts])
        """The bytes of Arrow data in each bucket."""
        self._below = below

    @property
    def paths(self) -> list[str]:
        """The files that hold the chunks."""
        return [task.path for task in self._staged if task.path]

    def run(self, bucket: int, start: int, end: int) -> Run:
        """Rows [start, end) of a bucket."""
        first, last = int(self._starts[bucket]), int(self._starts[bucket + 1])
        below = self._below[first : last + 1] - self._below[first]
        low = int(np.searchsorted(below, start, side="right")) - 1
        high = int(np.searchsorted(below, end, side="left"))
        return self._of_chunks(np.arange(first + low, first + high), start - int(below[low]), end - start)

    def sample(self, bucket: int, rows: int) -> Run:
        """About `rows` rows of a bucket, from chunks that are evenly spread over it."""
        first, last = int(self._starts[bucket]), int(self._starts[bucket + 1])
        chunks = last - first
        mean = max(1, int(self.rows[bucket]) // chunks)
        count = min(chunks, max(1, -(-rows // mean)))
        picked = first + (np.arange(count) * chunks + chunks // 2) // count
        return self._of_chunks(np.minimum(picked, last - 1), 0, rows)

    def _of_chunks(self, chunks: Int64s, skip: int, rows: int) -> Run:
        """The run of certain chunks. Where chunks travel inline, it carries only the bytes of its own."""
        used, sources = np.unique(self._sources[chunks], return_inverse=True)
        offsets, lengths = self._offsets[chunks].copy(), self._lengths[chunks]
        inline: list[bytes] = []
        kept: list[pa.RecordBatch] = []
        for number, source in enumerate(used.tolist()):
            task, of_task = self._staged[source], np.flatnonzero(sources == number)
            whole, packed = of_task[lengths[of_task] == 0], of_task[lengths[of_task] > 0]
            kept += [task.kept[at] for at in offsets[whole].tolist()]
            offsets[whole] = np.arange(len(kept) - len(whole), len(kept))
            inline.append(
                b"".join(task.inline[offsets[at] : offsets[at] + lengths[at]] for at in packed if task.inline)
            )
            if task.inline:
                offsets[packed] = np.cumsum(lengths[packed]) - lengths[packed]
        paths = tuple(self._staged[source].path for source in used.tolist())
        return Run(self._schema, paths, tuple(inline), sources, offsets, lengths, skip, rows, tuple(kept))


def _rows_of(rows: pa.RecordBatch | pa.Table, size: int) -> int:
    """About how many of the rows make up `size` bytes, at least 1."""
    count: int = -(-rows.num_rows * size // max(rows.nbytes, 1))
    return max(1, count)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([from_values([], field.type) for field in schema], schema=schema)


def _joined(arrays: Sequence[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, np.int64), *arrays])
