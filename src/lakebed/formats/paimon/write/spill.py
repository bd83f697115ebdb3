"""Sorted runs of buckets on disk, for a task that takes more rows than its memory holds.

Rules: Paimon's SortBufferWriteBuffer and BinaryExternalSortBuffer. A full buffer is sorted and spilled. The runs of a
bucket are merged when its files are written, so spilling gives a bucket no more files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa

from lakebed.formats.paimon.write.assigners import Bucket
from lakebed.formats.paimon.write.bucket import BucketFiles, run_schema
from lakebed.kernel.scratch import SpillFile, Stretch

_BATCH_BYTES = 1 << 20
_MOST_BATCH_ROWS = 64 << 10
_MOST_RUNS = 128
"""Runs of a bucket before they are merged into one, as `local-sort.max-num-file-handles` has it."""


class Spill:
    """The runs of one task, in one file that the first run opens. Threads may call `add` at once, for different
    buckets."""

    def __init__(self, files: BucketFiles) -> None:
        self._files, self._options = files, files.options.spill
        self._schema = run_schema(files.schema)
        self._file: SpillFile | None = None
        self._runs: dict[Bucket, list[Stretch]] = {}
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether the table's options allow to spill."""
        return self._options.allowed

    @property
    def is_full(self) -> bool:
        """Whether the task has used all the disk space that it may take."""
        most = self._options.max_bytes
        return self._file is not None and most is not None and self.size >= most

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return 0 if self._file is None else self._file.size

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The buckets that have runs."""
        return tuple(self._runs)

    def add(self, bucket: Bucket, run: pa.Table) -> None:
        """Keep the newest run of a bucket. StorageError when the disk does not take it."""
        if len(self._runs.get(bucket, ())) >= _MOST_RUNS:
            merged = self._written(self._files.joined(self.runs(bucket)))
            with self._lock:
                self._runs[bucket] = [merged]
        stretch = self._written(iter([run]))
        with self._lock:
            self._runs.setdefault(bucket, []).append(stretch)

    def runs(self, bucket: Bucket) -> list[Iterator[pa.RecordBatch]]:
        """The runs of a bucket, oldest first."""
        assert self._file is not None
        return [self._file.read(stretch) for stretch in self._runs[bucket]]

    def close(self) -> None:
        """Forget all runs and free the disk space."""
        if self._file is not None:
            self._file.close()
        self._file, self._runs = None, {}

    def _written(self, tables: Iterator[pa.Table]) -> Stretch:
        def batches() -> Iterator[pa.RecordBatch]:
            for table in tables:
                rows = max(1, min(_MOST_BATCH_ROWS, len(table) * _BATCH_BYTES // max(1, table.nbytes)))
                yield from table.cast(self._schema).to_batches(max_chunksize=rows)

        with self._lock:
            if self._file is None:
                self._file = SpillFile(self._options.folder, self._options.compression)
            return self._file.write(batches(), self._schema)
