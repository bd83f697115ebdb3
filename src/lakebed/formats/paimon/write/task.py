"""One task of a write: it holds rows, writes them bucket by bucket, and reports the files as messages.

Rules: Paimon's TableWriteImpl and AbstractFileStoreWrite.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lakebed.errors import StorageError, UsageError
from lakebed.formats.paimon.codec.binary_row import plain
from lakebed.formats.paimon.codec.hash_index import index_bytes
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.commit.leftovers import remove_files
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.layout import NameFactory, bucket_folder
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.write.assigners import Assigned, Assigner, Bucket
from lakebed.formats.paimon.write.bucket import Arrivals, BucketFiles, BucketOutput, Writer
from lakebed.formats.paimon.write.conform import check_conformable, conform
from lakebed.formats.paimon.write.formats import dictionary_columns
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.routing import Router
from lakebed.formats.paimon.write.spill import Spill
from lakebed.formats.paimon.write.state import WriteState
from lakebed.kernel.arrays import Int8s, Int32s, from_numpy
from lakebed.kernel.files import Store
from lakebed.kernel.rows.row_kinds import RowKindRule
from lakebed.kernel.sizing.finalize import writers_at_once

TOTAL_BUCKETS = {
    BucketMode.BUCKET_UNAWARE: -1,
    BucketMode.HASH_DYNAMIC: -1,
    BucketMode.KEY_DYNAMIC: -1,
    BucketMode.POSTPONE_MODE: -2,
}
"""The number of buckets in manifests, for the modes in which it is not fixed."""
_DYNAMIC = (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC)
_MOST_OPEN = 64
"""Files of tables without a key that stay open for more rows; with more buckets some get more files."""
_THREADED_BYTES = 1 << 20
_LOOKUP_FACTOR = 8
"""Looking up the keys of rows in the whole table takes about eight times the rows' own bytes, so rows are looked up
when they fill this part of a buffer."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """What the tasks of one write have in common. Picklable. `kinds` says where row kinds come from, `state` what the
    table's files hold. `write_id` is unique to the write."""

    store: Store
    schema: TableSchema
    options: WriteOptions
    kinds: RowKindRule
    state: WriteState
    commit_user: str
    write_id: str = ""

    @property
    def mode(self) -> BucketMode:
        """The bucket mode of the write."""
        return self.options.mode

    @property
    def router(self) -> Router:
        """Partition and bucket of rows."""
        options = self.options
        return Router(self.schema, options.mode, options.buckets, options.bucket_function, self.state.partition_buckets)

    def conformed(self, data: pa.Table) -> tuple[pa.Table, Int8s | None]:
        """Rows of the sink's input schema in the table's columns and types, with their kinds (None: all +I). Rows of
        kinds that the table ignores are left out.

        SchemaError for a row that does not conform; UsageError for other kinds than +I without a primary key.
        """
        schema, table = self.schema, self.store.location
        check_conformable(data.schema, schema, table)
        rows = conform(data, schema, table)
        kinds = self.kinds.kinds(rows if self.kinds.field else data, schema.primary_keys or schema.names[:1], table)
        if kinds is not None and not schema.primary_keys:
            raise UsageError(
                "a table without a primary key takes only +I rows",
                table=table,
                todo="Filter on _row_kind, or create the table with a primary key",
            )
        kept = self.kinds.kept(kinds)
        if kept is not None and kinds is not None:
            rows, kinds = rows.filter(from_numpy(kept)), kinds[kept]
        return rows, kinds

    def folder(self, rows: pa.Table, row: int, bucket: int) -> str:
        """The folder of a bucket, in the partition of one of the rows."""
        folders = PartitionFolders.of(self.store, self.schema, self.options.table)
        return bucket_folder(folders.of_values([plain(rows.column(item.name)[row]) for item in folders.fields]), bucket)

    def file_prefix(self) -> str:
        """How the names of a task's data files begin. Those of postponed files carry the user and a number of their
        writer, by which their compaction groups them."""
        prefix = self.options.data_prefix
        if self.options.postpones:
            return f"{prefix}-u-{self.commit_user}-s-{secrets.randbelow(2**31)}-w-"
        return prefix


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the files of a bucket lie, and the number of buckets of its partition in manifests."""

    bucket: Bucket
    folder: str
    total: int


class PaimonTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`.

    Holds rows until they fill `write-buffer-size`. Rows of tables with a key are then sorted bucket by bucket and
    spilled, and merged into files at the end. Those of other tables are appended to files that stay open. Either way a
    bucket gets no more files than its bytes fill.
    """

    def __init__(self, target: TaskTarget, assigner: Assigner, threads: int = 1) -> None:
        self._target, self._assigner, self._threads = target, assigner, threads
        self._files = BucketFiles(target.store, target.schema, target.options)
        self._router = target.router
        self._names = NameFactory(target.file_prefix())
        self._held: list[tuple[pa.Table, Int8s | None]] = []
        self._held_bytes = 0
        self._spill = Spill(self._files)
        self._limit = target.options.buffer_bytes
        if target.mode is BucketMode.KEY_DYNAMIC and self._spill.is_on:
            self._limit //= _LOOKUP_FACTOR
        self._places: dict[Bucket, _Place] = {}
        self._open: dict[Bucket, Writer] = {}
        self._next: dict[Bucket, int] = {}
        self._written: dict[Bucket, PaimonMessage] = {}

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the sink's input schema, with `_row_kind` or without."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        self.hold(*self._target.conformed(data))

    def hold(self, rows: pa.Table, kinds: Int8s | None) -> None:
        """Take rows in the table's own columns and types, with their kinds (None: all +I)."""
        if len(rows):
            self._held.append((rows, kinds))
            self._held_bytes += rows.nbytes
        if self._held_bytes >= self._limit:
            self._flush(last=False)

    def finish(self) -> tuple[PaimonMessage, ...]:
        """Write all rows held, and report what was written since the last call. The writer may be used again."""
        self._flush(last=True)
        self._write_spilled()
        self._close(list(self._open))
        hashes = self._assigner.new_hashes()
        messages = tuple(self._with_index(message, hashes.get(bucket)) for bucket, message in self._written.items())
        self._written = {}
        return messages

    def abort(self) -> None:
        """Remove what was written since the last `finish`."""
        self._held, self._held_bytes = [], 0
        self._spill.close()
        closed = [path for writer in self._open.values() for path in writer.abort()]
        self._open = {}
        with suppress(StorageError):
            self._target.store.delete_many(closed)
        remove_files(self._target.store, tuple(self._written.values()))
        self._written = {}

    def _with_index(self, message: PaimonMessage, hashes: Int32s | None) -> PaimonMessage:
        """With the snapshot that the bucket was chosen on, and in dynamic modes the key hashes that it gained."""
        if self._target.mode is BucketMode.HASH_FIXED:
            return dataclasses.replace(message, planned_on=self._target.state.snapshot)
        if self._target.mode not in _DYNAMIC:
            return message
        gained = b"" if hashes is None else index_bytes(hashes)
        target = self._target
        return dataclasses.replace(
            message, new_hashes=gained, planned_on=target.state.snapshot, write_id=target.write_id
        )

    # ---- held rows, bucket by bucket ----

    def _flush(self, last: bool) -> None:
        """Take the rows held to their buckets: into files, or, when more may come, to where they wait for more."""
        if not self._held:
            return
        rows = pa.concat_tables([table for table, _ in self._held]).combine_chunks()
        kinds = None
        if any(kinds is not None for _, kinds in self._held):
            kinds = np.concatenate([np.zeros(len(t), np.int8) if k is None else k for t, k in self._held])
        self._held, self._held_bytes = [], 0
        assigned = self._assigner.assign(rows, kinds)
        if not len(assigned.rows):
            return
        if not self._files.sorts:
            for place, arrivals in self._arrivals(assigned):
                self._append(place, arrivals)
            return
        spills = not last and self._spill.is_on
        spilled = set(self._spill.buckets)

        def take(work: tuple[_Place, Arrivals]) -> None:
            place, arrivals = work
            if spills or place.bucket in spilled:
                self._spill.add(place.bucket, self._files.sorted_run(arrivals))
            else:
                self._report(place, self._files.write(place.folder, arrivals, self._names))

        self._each(take, list(self._arrivals(assigned)), assigned.rows.nbytes)
        if self._spill.is_full:
            self._write_spilled()

    def _write_spilled(self) -> None:
        """Merge the spilled runs into files."""

        def write(bucket: Bucket) -> None:
            place = self._places[bucket]
            self._report(place, self._files.write_runs(place.folder, self._spill.runs(bucket), self._names))

        self._each(write, self._spill.buckets, self._spill.size)
        self._spill.close()

    def _append(self, place: _Place, arrivals: Arrivals) -> None:
        """Append rows in order of arrival to the bucket's open file."""
        writer = self._open.pop(place.bucket, None)
        if writer is None:
            if len(self._open) >= _MOST_OPEN:  # those without rows for the longest time
                self._close(list(self._open)[: min(self._target.store.at_once, _MOST_OPEN // 2)])
            writer = self._files.writer(place.folder, self._names, sequence=arrivals.sequence, repeats=arrivals.repeats)
        self._open[place.bucket] = writer
        writer.write(self._files.arrived(arrivals))

    def _close(self, buckets: Sequence[Bucket]) -> None:
        """Close the open files of buckets."""

        def close(bucket: Bucket) -> None:
            self._report(self._places[bucket], BucketOutput(self._files.metas(self._open[bucket].close())))
            del self._open[bucket]

        self._target.store.together(close, buckets)

    def _each(self, act: Callable[[T], None], items: Sequence[T], size: int) -> None:
        """Call `act` on each item, `size` bytes in all; in threads where that many bytes are worth them, or where
        writing is waiting for a remote store."""
        threads = self._threads if size >= _THREADED_BYTES else 1
        threads = writers_at_once(threads, self._target.store.at_once, len(items), size)
        if threads > 1 and len(items) > 1:
            with ThreadPoolExecutor(min(threads, len(items))) as pool:
                list(pool.map(act, items))
        else:
            for item in items:
                act(item)

    def _report(self, place: _Place, output: BucketOutput) -> None:
        """Add files of a bucket to its message."""
        before = self._written.get(place.bucket)
        files, changelog = output.files, output.changelog
        if before is not None:
            files, changelog = before.new_files + files, before.changelog_files + changelog
        self._written[place.bucket] = PaimonMessage(
            *place.bucket, place.total, place.folder, files, changelog_files=changelog
        )

    def _arrivals(self, assigned: Assigned) -> Iterator[tuple[_Place, Arrivals]]:
        """The rows of each bucket that has any, with its place."""
        rows, partitions, buckets = assigned.rows.combine_chunks(), assigned.partitions, assigned.buckets
        repeats = dictionary_columns(rows)
        least = int(buckets.min())
        span = int(buckets.max()) - least + 1
        groups = partitions.codes.astype(np.int64) * span + (buckets - least)
        small = len(partitions.keys) * span <= np.iinfo(np.int16).max
        order = np.argsort(groups.astype(np.int16) if small else groups, kind="stable")  # numpy counts small ones
        ordered = groups[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        counts = self._router.bucket_counts(partitions)
        for start, end in zip(starts, np.append(starts[1:], len(order)), strict=True):
            code, number = divmod(int(ordered[start]), span)
            bucket = (partitions.keys[code], number + least)
            place = self._places.get(bucket)
            if place is None:
                folder = self._target.folder(rows, int(partitions.first[code]), bucket[1])
                total = TOTAL_BUCKETS.get(self._target.mode, int(counts[code]))
                place = self._places[bucket] = _Place(bucket, folder, total)
            sequence = self._next.get(bucket)
            if sequence is None:
                sequence = self._target.state.sequences.get(bucket, -1) + 1
            self._next[bucket] = sequence + int(end - start)
            yield place, Arrivals(rows, order[start:end], assigned.kinds, sequence, repeats)
