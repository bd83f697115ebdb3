"""Data files of staged rows: what rows of a partition take on disk, and one file of a run of them.

The number of rows of each file is decided before (`kernel/sizing/finalize.py`), so a file is never rolled: it
holds its run.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from lakebed.formats.iceberg.data_files import DataFile
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.write.files import RollingWriter, WriteTarget
from lakebed.formats.iceberg.write.formats import FORMATS
from lakebed.formats.iceberg.write.routing import Bucket, Sorter
from lakebed.kernel.sizing.finalize import FileSize
from lakebed.kernel.sizing.staging import Place, Run
from lakebed.kernel.sort_keys import thinned, with_ties
from lakebed.kernel.sorting import sorted_batches

_WHOLE = 1 << 62
_KEPT_KEYS = 1000


@dataclass(frozen=True, slots=True)
class IcebergFileMaker:
    """Implements `lakebed.kernel.sizing.finalize.FileMaker`. `sorter` orders the rows of each file."""

    target: WriteTarget
    sorter: Sorter

    @property
    def place(self) -> Place:
        """The table's files."""
        return self.target.files

    def measure(self, bucket: Hashable, run: Run) -> FileSize:
        """What a file of such rows takes: its own bytes and those of each row, told apart by encoding a quarter of the
        rows too; and sort keys, where the table has an order."""
        rows = pa.Table.from_batches(run.batches(self.place), run.schema).combine_chunks()
        keys = thinned(with_ties(self.sorter.keys(rows)), _KEPT_KEYS) if self.sorter else None
        return FileSize.measured(rows, lambda some: self._encoded(self.sorter.sorted(some)), keys)

    def make(self, bucket: Hashable, run: Run) -> DataFile:
        """Write the file of a run."""
        partition = cast(Bucket, bucket).partition
        writer = RollingWriter(self.target, str(uuid.uuid4()), _WHOLE)
        try:
            for batch in self._batches(run):
                writer.write(batch, partition)
            (file,) = writer.finish()
        except BaseException:
            writer.abort()
            raise
        return file

    def size(self, file: DataFile) -> int:
        """The bytes of a file."""
        return file.size

    def remove(self, files: Sequence[DataFile]) -> None:
        """Delete files."""
        self.target.files.delete_many([file.path for file in files])

    def _batches(self, run: Run) -> Iterator[pa.RecordBatch]:
        if self.sorter:
            for batch in sorted_batches(run.batches(self.place), self.sorter):
                yield from self._written(pa.Table.from_batches([batch])).to_batches()
        else:
            for batch in run.batches(self.place):
                yield from self._written(pa.Table.from_batches([batch])).to_batches()

    def _written(self, rows: pa.Table) -> pa.Table:
        """The columns that files hold: all but those of type unknown."""
        return rows.select([field.name for field in self.target.fields])

    def _encoded(self, rows: pa.Table) -> int:
        target = self.target
        sink = FORMATS[target.layout.format](
            cast(Files, _Memory()), "", target.schema, target.leaves, target.modes, target.layout
        )
        sink.write(self._written(rows))
        return sink.close().size


class _Memory:
    """A place that forgets what is written."""

    location = ""

    @contextmanager
    def open_output(self, url: str) -> Iterator[pa.NativeFile]:
        """A file in memory."""
        yield pa.BufferOutputStream()
