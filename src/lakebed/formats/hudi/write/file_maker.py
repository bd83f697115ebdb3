"""The tasks that write files: new file groups from staged rows, and changes to file groups that there are.

New groups are sized by bytes (`kernel/sizing/finalize.py`): as many files for some rows at any parallelism. A task that
changes a group holds the group's incoming rows in memory; base files stream through.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.metadata_table.change import WrittenFile
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.assign import GroupJob, Way, new_file_id
from lakebed.formats.hudi.write.base_file import base_file_writer
from lakebed.formats.hudi.write.files import FileTarget, new_token
from lakebed.formats.hudi.write.groups import concat_group, create_group, merge_group
from lakebed.formats.hudi.write.log_file import append_group
from lakebed.formats.hudi.write.made_keys import KeyMaker
from lakebed.formats.hudi.write.place import StagingPlace
from lakebed.formats.hudi.write.staged_rows import NewRows, rows_of
from lakebed.kernel.sizing.finalize import FileSize
from lakebed.kernel.sizing.staging import Place, Run
from lakebed.kernel.sort_keys import thinned, with_ties
from lakebed.kernel.sorting import sorted_batches

_KEPT_KEYS = 1000


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """Rows in the order of their record key."""

    def keys(self, rows: pa.Table) -> pa.Table:
        """The keys, in a form that is compared column by column."""
        return pa.table({RECORD_KEY: rows.column(RECORD_KEY)})


@dataclass(frozen=True, slots=True)
class HudiFileMaker:
    """Implements `kernel.sizing.finalize.FileMaker`: one base file of a new group for each run. `order` sorts the rows
    of each file, None leaves them as they come."""

    target: FileTarget
    staging: StagingPlace
    order: KeyOrder | None

    @property
    def place(self) -> Place:
        """Where rows are staged."""
        return self.staging

    @property
    def at_once(self) -> int:
        """How many files the store takes at once."""
        return self.target.store.at_once

    def measure(self, bucket: Hashable, run: Run) -> FileSize:
        """The bytes of a file with such rows: those of the file itself and those per row."""
        rows = pa.Table.from_batches(run.batches(self.staging), run.schema).combine_chunks()
        keys = thinned(with_ties(self.order.keys(rows)), _KEPT_KEYS) if self.order is not None else None
        return FileSize.measured(rows, self._encoded, keys)

    def make(self, bucket: Hashable, run: Run) -> WrittenFile:
        """Write the base file of a new group."""
        partition = cast(NewRows, bucket).partition
        batches: Iterator[pa.RecordBatch] = run.batches(self.staging)
        if self.order is not None:
            batches = sorted_batches(batches, self.order)
        keyed = map(KeyMaker(self.target.instant), batches)
        return create_group(self.target, partition, new_file_id(), new_token(0), keyed)

    def size(self, file: WrittenFile) -> int:
        """The size of a file in bytes."""
        return file.size

    def remove(self, files: Sequence[WrittenFile]) -> None:
        """Delete files."""
        self.target.store.delete_many([file.path for file in files])

    def _encoded(self, rows: pa.Table) -> int:
        """The bytes of a file with these rows, without the bloom filter."""
        return encoded_size(self.target, rows)


def encoded_size(target: FileTarget, rows: pa.Table) -> int:
    """The bytes that rows take in a base file, without its footer's bloom filter."""
    rows = KeyMaker(target.instant)(rows)
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.repeat(target.instant, len(rows))
        for field in target.file_schema
    ]
    table = pa.Table.from_arrays(columns, schema=target.file_schema)
    sink = pa.BufferOutputStream()
    with base_file_writer(sink, target, table) as writer:
        writer.write_table(table)
    return int(sink.getvalue().size)


@dataclass(frozen=True, slots=True)
class GroupWriter:
    """A task of an engine: writes what one file group gets. Picklable.

    `compacting` has the instants of pending compactions by file group: in table version 6 they name new log files.
    """

    target: FileTarget
    reader: SliceReader
    staging: StagingPlace
    schema: pa.Schema
    compacting: Mapping[tuple[str, str], str]

    def __call__(self, job: GroupJob) -> tuple[WrittenFile, ...]:
        """The files of one job."""
        token = new_token(job.number)
        target, file_slice = self.target, job.file_slice
        keyed = KeyMaker(target.instant)
        batches = (keyed(batch) for run in job.runs for batch in run.batches(self.staging))
        if job.way is Way.CREATE:
            return (create_group(target, job.partition, job.file_id, token, batches),)
        if job.way is Way.CONCAT and file_slice is not None:
            return (concat_group(target, self.reader, file_slice, token, batches),)
        rows = keyed(rows_of(job.runs, self.staging, self.schema))
        if job.way is Way.APPEND:
            group = file_slice or FileSlice(job.partition, job.file_id, None, ())
            base = self.compacting.get((job.partition, job.file_id)) or job.base_instant or target.instant
            return append_group(target, group, base, token, rows, job.inserts)
        assert file_slice is not None
        return (merge_group(target, self.reader, file_slice, token, rows),)
