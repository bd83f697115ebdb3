"""Data files from staged rows: measure what rows of a partition take on disk, and write one file per run of rows.

File sizing decides beforehand how many rows each file gets (`kernel/sizing/finalize.py`), so these files never roll.
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
from lakebed.formats.iceberg.write.formats import open_data_file
from lakebed.formats.iceberg.write.routing import Bucket, Sorter
from lakebed.kernel.sizing.finalize import FileSize
from lakebed.kernel.sizing.staging import Place, Run
from lakebed.kernel.sort_keys import thinned, with_ties
from lakebed.kernel.sorting import sorted_batches

_WHOLE = 1 << 62
_KEPT_KEYS = 1000


@dataclass(frozen=True, slots=True)
class IcebergFileMaker:
    """Implements `lakebed.kernel.sizing.finalize.FileMaker`. `sorter` sorts the rows of each file."""

    target: WriteTarget
    sorter: Sorter

    @property
    def place(self) -> Place:
        """The table's files."""
        return self.target.files

    @property
    def at_once(self) -> int:
        """How many requests the table's store takes at once."""
        return self.target.files.at_once

    def measure(self, bucket: Hashable, run: Run) -> FileSize:
        """The bytes of a file with such rows: those of the file itself and those per row. The two are separated by
        encoding a quarter of the rows as well. With a sort order, a sample of the sort keys is included."""
        rows = pa.Table.from_batches(run.batches(self.place), run.schema).combine_chunks()
        keys = thinned(with_ties(self.sorter.keys(rows)), _KEPT_KEYS) if self.sorter else None
        return FileSize.measured(rows, lambda sample: self._encoded(self.sorter.sorted(sample)), keys)

    def make(self, bucket: Hashable, run: Run) -> DataFile:
        """Write the file of one run."""
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
        """The size of a file in bytes."""
        return file.size

    def remove(self, files: Sequence[DataFile]) -> None:
        """Delete files."""
        self.target.files.delete_many([file.path for file in files])

    def _batches(self, run: Run) -> Iterator[pa.RecordBatch]:
        """The rows of a run as they go into the file, sorted where there is a sort order."""
        batches = run.batches(self.place)
        for batch in sorted_batches(batches, self.sorter) if self.sorter else batches:
            yield from self._stored(pa.Table.from_batches([batch])).to_batches()

    def _stored(self, rows: pa.Table) -> pa.Table:
        """The columns that files store: all except those of type unknown."""
        return rows.select([field.name for field in self.target.fields])

    def _encoded(self, rows: pa.Table) -> int:
        """The bytes of a file with these rows."""
        sink = open_data_file(cast(Files, _Memory()), "", self.target.columns, self.target.layout)
        sink.write(self._stored(rows))
        return sink.close().size


class _Memory:
    """Files that are kept in memory and dropped."""

    location = ""

    @contextmanager
    def open_output(self, url: str) -> Iterator[pa.NativeFile]:
        """A file in memory."""
        yield pa.BufferOutputStream()
