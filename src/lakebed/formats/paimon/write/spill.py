"""Sorted runs of buckets on disk, while a task takes more rows than its memory holds.

Rules: Paimon's SortBufferWriteBuffer and BinaryExternalSortBuffer: a full buffer is sorted and spilled, and the runs of
a bucket are merged when its files are written, so that a bucket gets no more files for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.write.assigners import Bucket
from lakebed.formats.paimon.write.bucket import BucketFiles, run_schema
from lakebed.kernel.options import Options
from lakebed.kernel.scratch import SCRATCH_DIR, SpillFile, Stretch

_BATCH_BYTES = 1 << 20
_MOST_BATCH_ROWS = 64 << 10
_MOST_RUNS = 128
"""Runs of a bucket before they are merged into one, as `local-sort.max-num-file-handles` has it."""


class Spill:
    """The runs of one task. Made without a file; the first run opens it. `add` may be called in many threads, for
    different buckets."""

    def __init__(self, files: BucketFiles, options: Options) -> None:
        self._files, self._options = files, options
        self._schema = run_schema(files.schema)
        self._file: SpillFile | None = None
        self._runs: dict[Bucket, list[Stretch]] = {}
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether the table's options allow it."""
        return bool(self._options[opt.WRITE_BUFFER_SPILLABLE])

    @property
    def is_full(self) -> bool:
        """Whether the disk space that a task may take is taken."""
        most = self._options[opt.SPILL_DISK_SIZE]
        return self._file is not None and most is not None and self.size >= most

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return 0 if self._file is None else self._file.size

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """Those that have runs."""
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
        """Forget all runs, and give the disk space back."""
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
                compression = self._options[opt.SPILL_COMPRESSION]
                self._file = SpillFile(self._options[SCRATCH_DIR], None if compression == "none" else compression)
            return self._file.write(batches(), self._schema)
