"""The files of one file group: the first base file of a new group, a base file that merges changes into a slice.

The rows that come in have `_hoodie_record_key`, `_hoodie_partition_path`, the user's columns and a kind
(`staged_rows.KIND`). Merging is that of a read (`merge/`): the incoming rows are one more block of the slice's log, so
that a table reads the same before and after a merge.

Rules: Hudi's `HoodieCreateHandle`, `HoodieMergeHandle`, `HoodieConcatHandle`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakebed.formats.hudi.codec.record_keys import row_keys
from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.merge.log import MergedLog, merge_log
from lakebed.formats.hudi.merge.log_entries import LogDeletes, LogEntries, LogRows
from lakebed.formats.hudi.metadata_table.change import NEW_GROUP, WrittenFile
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.task import MergedSlice, SliceReader
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.base_file import REPEATING, BaseFileWriter, KeyChange, known_keys
from lakebed.formats.hudi.write.change_log import ChangeLog, watched
from lakebed.formats.hudi.write.files import FileTarget
from lakebed.formats.hudi.write.staged_rows import DELETE_ALWAYS, KIND, ROW
from lakebed.kernel.arrays import Int8s, from_numpy, one_chunk, to_numpy


def create_group(
    target: FileTarget, partition: str, file_id: str, token: str, batches: Iterable[pa.RecordBatch | pa.Table]
) -> WrittenFile:
    """The first base file of a new group. Deletes among the rows are left out."""
    writer = BaseFileWriter(target, partition, file_id, token)
    try:
        for batch in batches:
            writer.write(_live(batch))
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def concat_group(
    target: FileTarget,
    reader: SliceReader,
    file_slice: FileSlice,
    token: str,
    batches: Iterable[pa.RecordBatch | pa.Table],
) -> WrittenFile:
    """A base file with the rows of a slice's base file, and new rows behind them, whatever their keys."""
    assert file_slice.base is not None
    writer = BaseFileWriter(target, file_slice.partition, file_slice.file_id, token, "MERGE")
    log = ChangeLog(target, file_slice.partition, file_slice.file_id, token, None) if target.config.cdc else None
    try:
        for batch in _stored(reader, file_slice, target):
            writer.write(batch)
        kept = writer.rows
        added = []
        for batch in batches:
            live = _live(batch)
            writer.write(live)
            added += [one_chunk(live.column(RECORD_KEY))] if target.wanted.keys else []
            if log is not None:
                log.add(live)
        inserts = writer.rows - kept
        changes = log.write() if log is not None else {}
        previous = file_slice.base
        keys = KeyChange(pa.concat_arrays([*added, pa.array([], pa.string())])) if target.wanted.keys else None
        written = writer.close(previous.instant, keys, inserts=inserts, previous_base=previous.name)
        return replace(written, changes=changes)
    except BaseException:
        writer.abort()
        raise


def merge_group(
    target: FileTarget, reader: SliceReader, file_slice: FileSlice, token: str, incoming: pa.Table
) -> WrittenFile:
    """A base file with the rows of a slice, with changes merged in by the table's rules.

    The base file streams through. The incoming rows are in memory.
    """
    paths = SlicePaths.of(file_slice)
    merged = _merged(target, reader, incoming)
    slice_rows = MergedSlice(reader, paths.without_logs(), target.kept_schema, merged, None).repeating(REPEATING)
    log = None
    if target.config.cdc and paths.base:
        slice_rows = watched(slice_rows)
        log = ChangeLog(target, file_slice.partition, file_slice.file_id, token, slice_rows)
    before, footer = slice_rows.base_footer()
    keys = known_keys(target, slice_rows, footer)
    writer = BaseFileWriter(target, file_slice.partition, file_slice.file_id, token, "MERGE", keys)
    try:
        for batch in slice_rows.rows():
            writer.write(batch)
        if keys is not None:
            keys.add_new(slice_rows.new_keys())
        inserts, *_ = slice_rows.counts()
        deletes = max(0, before + inserts - writer.rows)
        updates = max(0, before - slice_rows.kept - deletes)
        base = file_slice.base
        changes = log.write() if log is not None else {}
        written = writer.close(
            base.instant if base is not None else NEW_GROUP,
            KeyChange(*slice_rows.kept_and_lost()) if target.wanted.keys else None,
            inserts=inserts,
            updates=updates,
            deletes=deletes,
            previous_base=base.name if base is not None else "",
        )
        return replace(written, changes=changes)
    except BaseException:
        writer.abort()
        raise


def _stored(reader: SliceReader, file_slice: FileSlice, target: FileTarget) -> Iterator[pa.RecordBatch]:
    """The rows of a slice's base file as they are stored, in the columns of new files."""
    paths = SlicePaths.of(file_slice).without_logs()
    yield from MergedSlice(reader, paths, target.kept_schema, None, None).repeating(REPEATING).rows()


def _live(batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    if KIND not in batch.schema.names:
        return batch
    kinds = to_numpy(one_chunk(batch.column(KIND)))
    return batch if not kinds.any() else batch.filter(from_numpy(kinds == ROW))


def _merged(target: FileTarget, reader: SliceReader, incoming: pa.Table) -> MergedLog:
    """The incoming rows as a merged log of the slice."""
    incoming = incoming.combine_chunks()
    kinds: Int8s = to_numpy(one_chunk(incoming.column(KIND)))
    rules = reader.rules
    always = kinds == DELETE_ALWAYS
    rows = incoming.filter(from_numpy(~always)) if always.any() else incoming
    left = kinds[~always]
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(len(rows), field.type)
        for field in target.file_schema
    ]
    table = pa.Table.from_arrays(columns, schema=target.file_schema)
    positions = np.arange(len(incoming))
    log_rows = LogRows(
        table,
        positions[~always],
        row_keys(table, reader.keys),
        tuple(table.column(name) for name in rules.ordering),
        (left != ROW) if (left != ROW).any() else None,
        {},
    )
    blocks = []
    if always.any():
        keys = one_chunk(row_keys(incoming.filter(from_numpy(always)), reader.keys))
        ordering = tuple(pa.nulls(len(keys), target.file_schema.field(name).type) for name in rules.ordering)
        natural = np.full(len(keys), True)
        blocks.append(LogDeletes(positions[always], keys, ordering, natural, pa.repeat(target.instant, len(keys))))
    return merge_log(LogEntries.of(log_rows, blocks), rules)
