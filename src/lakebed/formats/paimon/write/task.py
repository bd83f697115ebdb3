"""One task of a write: rows are held, then written bucket by bucket, and messages say what was written.

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
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import plain
from lakebed.formats.paimon.codec.hash_index import index_bytes
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.commit.kinds import remove_files
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.layout import NameFactory, bucket_folder
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.write.assigners import Assigned, Assigner, Bucket
from lakebed.formats.paimon.write.bucket import Arrivals, BucketFiles, Writer
from lakebed.formats.paimon.write.conform import check_conformable, conform
from lakebed.formats.paimon.write.formats import dictionary_columns
from lakebed.formats.paimon.write.routing import Router
from lakebed.formats.paimon.write.spill import Spill
from lakebed.formats.paimon.write.state import WriteState
from lakebed.kernel.arrays import Int8s, Int32s
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.kernel.rows.row_kinds import RowKindRule

TOTAL_BUCKETS = {
    BucketMode.BUCKET_UNAWARE: -1,
    BucketMode.HASH_DYNAMIC: -1,
    BucketMode.KEY_DYNAMIC: -1,
    BucketMode.POSTPONE_MODE: -2,
}
"""What manifests say for the number of buckets where it is not fixed."""
_MOST_OPEN = 64
"""Files of tables without a key that stay open for more rows; with more buckets some get more files."""
_THREADED_BYTES = 1 << 20
_LOOKED_UP_AT = 8
"""Rows whose keys are looked up in the whole table take some eight times their own bytes meanwhile, so they are when a
buffer is filled to this part."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """What the tasks of one write have in common. Picklable."""

    store: Store
    schema: TableSchema
    options: Options
    mode: BucketMode
    router: Router
    kinds: RowKindRule
    state: WriteState
    commit_user: str

    def fitted(self, data: pa.Table) -> pa.Table:
        """Rows in the table's columns and types; SchemaError where they do not fit."""
        check_conformable(data.schema, self.schema, self.store.location)
        return conform(data, self.schema, self.store.location)

    def accepted(self, data: pa.Table) -> tuple[pa.Table, Int8s | None]:
        """Rows of the sink's input schema as the table takes them, with their kinds (None: all +I); those of kinds that
        the table ignores are left out. UsageError for other kinds than +I where there is no primary key."""
        rows, schema, where = self.fitted(data), self.schema, self.store.location
        kinds = self.kinds.kinds(rows if self.kinds.field else data, schema.primary_keys or schema.names[:1], where)
        if kinds is not None and not schema.primary_keys:
            raise UsageError(
                "a table without a primary key takes only +I rows", table=where,
                todo="Filter on _row_kind, or create the table with a primary key",
            )  # fmt: skip
        kept = self.kinds.kept(kinds)
        if kept is not None and kinds is not None:
            rows, kinds = rows.filter(pa.array(kept)), kinds[kept]
        return rows, kinds

    def folder(self, rows: pa.Table, row: int, bucket: int) -> str:
        """The folder of a bucket in the partition of one of fitted rows."""
        folders = PartitionFolders.of(self.store, self.schema, self.options)
        return bucket_folder(folders.of_values([plain(rows.column(item.name)[row]) for item in folders.fields]), bucket)

    def file_prefix(self) -> str:
        """How names of data files begin. Those of postponed files carry the user and a number of their writer, which
        their compaction groups them by."""
        prefix = str(self.options[opt.DATA_FILE_PREFIX])
        if self.mode is BucketMode.POSTPONE_MODE:
            return f"{prefix}-u-{self.commit_user}-s-{secrets.randbelow(2**31)}-w-"
        return prefix


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the files of a bucket lie, and what manifests say of its partition's number of buckets."""

    bucket: Bucket
    folder: str
    total: int


class PaimonTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`.

    Holds rows until they fill `write-buffer-size`. Then those of tables with a key are sorted bucket by bucket and
    spilled, to be merged into files at the end; those of other tables go on into files that stay open, so that
    either way a bucket gets no more files than its bytes fill.
    """

    def __init__(self, target: TaskTarget, assigner: Assigner, threads: int = 1) -> None:
        self._target, self._assigner, self._threads = target, assigner, threads
        self._files = BucketFiles(target.store, target.schema, target.options)
        self._names = NameFactory(target.file_prefix())
        self._held: list[tuple[pa.Table, Int8s | None]] = []
        self._held_bytes = 0
        self._spill = Spill(self._files, target.options)
        self._limit = target.options[opt.WRITE_BUFFER_SIZE]
        if target.mode is BucketMode.KEY_DYNAMIC and self._spill.is_on:
            self._limit //= _LOOKED_UP_AT
        self._places: dict[Bucket, _Place] = {}
        self._open: dict[Bucket, Writer] = {}
        self._next: dict[Bucket, int] = {}
        self._written: dict[Bucket, PaimonMessage] = {}
        self._hashes: dict[Bucket, Int32s] = {}

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the sink's input schema, with `_row_kind` or without."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        self.hold(*self._target.accepted(data))

    def hold(self, rows: pa.Table, kinds: Int8s | None) -> None:
        """Take rows in the table's own columns and types, with their kinds (None: all +I)."""
        if len(rows):
            self._held.append((rows, kinds))
            self._held_bytes += rows.nbytes
        if self._held_bytes >= self._limit:
            self._flush(last=False)

    def finish(self) -> tuple[PaimonMessage, ...]:
        """Write what is held and say what was written since the last call. The writer may be used on."""
        self._flush(last=True)
        self._drain()
        for bucket in list(self._open):
            self._close(bucket)
        self._hashes = dict(self._assigner.new_hashes())
        messages = tuple(self._with_index(message) for message in self._written.values())
        self._written = {}
        return messages

    def abort(self) -> None:
        """Remove what was written since the last `finish`."""
        self._held, self._held_bytes = [], 0
        self._spill.close()
        left = [path for writer in self._open.values() for path in writer.abort()]
        self._open = {}
        with suppress(StorageError):
            self._target.store.delete_many(left)
        remove_files(self._target.store, tuple(self._written.values()))
        self._written = {}

    def _with_index(self, message: PaimonMessage) -> PaimonMessage:
        if self._target.mode not in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC):
            return message
        hashes = self._hashes.get((message.partition, message.bucket))
        return dataclasses.replace(
            message, new_hashes=b"" if hashes is None else index_bytes(hashes), planned_on=self._target.state.snapshot
        )

    # ---- held rows, bucket by bucket ----

    def _flush(self, last: bool) -> None:
        """Take the rows held to their buckets: into files, or, when more may come, to where they wait for it."""
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

        def take(one: tuple[_Place, Arrivals]) -> None:
            place, arrivals = one
            if spills or place.bucket in spilled:
                self._spill.add(place.bucket, self._files.run(arrivals))
            else:
                self._wrote(place, *self._files.write(place.folder, arrivals, self._names))

        self._each(take, list(self._arrivals(assigned)), assigned.rows.nbytes)
        if self._spill.is_full:
            self._drain()

    def _drain(self) -> None:
        """The spilled rows into files."""

        def write(bucket: Bucket) -> None:
            place = self._places[bucket]
            self._wrote(place, *self._files.write_runs(place.folder, self._spill.runs(bucket), self._names))

        self._each(write, self._spill.buckets, self._spill.size)
        self._spill.close()

    def _append(self, place: _Place, arrivals: Arrivals) -> None:
        """Rows in order of arrival, into the bucket's open file."""
        writer = self._open.pop(place.bucket, None)
        if writer is None:
            if len(self._open) >= _MOST_OPEN:
                self._close(next(iter(self._open)))  # the one without rows for the longest time
            writer = self._files.writer(place.folder, self._names, sequence=arrivals.sequence, repeats=arrivals.repeats)
        self._open[place.bucket] = writer
        writer.write(self._files.arrived(arrivals))

    def _close(self, bucket: Bucket) -> None:
        self._wrote(self._places[bucket], self._files.metas(self._open[bucket].close()), ())
        del self._open[bucket]

    def _each(self, act: Callable[[T], None], items: Sequence[T], size: int) -> None:
        """Act on each item, `size` bytes in all: threads for few cost more than they bring."""
        if self._threads > 1 and len(items) > 1 and size >= _THREADED_BYTES:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(act, items))
        else:
            for item in items:
                act(item)

    def _wrote(self, place: _Place, files: tuple[DataFileMeta, ...], changes: tuple[DataFileMeta, ...]) -> None:
        known = self._written.get(place.bucket)
        if known is not None:
            files, changes = known.new_files + files, known.changelog_files + changes
        self._written[place.bucket] = PaimonMessage(
            *place.bucket, place.total, place.folder, files, changelog_files=changes
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
        counts = self._target.router.bucket_counts(partitions)
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
