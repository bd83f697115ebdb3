"""One task of a write: rows are held, then written bucket by bucket, and messages say what was written.

Rules: Paimon's TableWriteImpl and AbstractFileStoreWrite.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import plain
from lakebed.formats.paimon.codec.message import PaimonMessage
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.layout import NameFactory, bucket_folder, partition_folder
from lakebed.formats.paimon.write.assigning import Assigner, Bucket
from lakebed.formats.paimon.write.bucket import BucketFiles
from lakebed.formats.paimon.write.commit import remove_files
from lakebed.formats.paimon.write.fit import check_fit, fit
from lakebed.formats.paimon.write.hash_dynamic import index_bytes
from lakebed.formats.paimon.write.kinds import KindRule, Kinds
from lakebed.formats.paimon.write.routing import Ints, Partitions, Router
from lakebed.formats.paimon.write.state import WriteState
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options

TOTAL_BUCKETS = {
    BucketMode.BUCKET_UNAWARE: -1,
    BucketMode.HASH_DYNAMIC: -1,
    BucketMode.KEY_DYNAMIC: -1,
    BucketMode.POSTPONE_MODE: -2,
}
"""What manifests say for the number of buckets where it is not fixed."""


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """What the tasks of one write have in common. Picklable."""

    store: Store
    schema: TableSchema
    options: Options
    mode: BucketMode
    router: Router
    kinds: KindRule
    state: WriteState
    commit_user: str

    def fitted(self, data: pa.Table) -> pa.Table:
        """Rows in the table's columns and types; SchemaError where they do not fit."""
        check_fit(data.schema, self.schema, self.store.location)
        return fit(data, self.schema, self.store.location)

    def file_prefix(self) -> str:
        """How names of data files begin. Those of postponed files carry the user and a number of their writer, which
        their compaction groups them by."""
        prefix = str(self.options[opt.DATA_FILE_PREFIX])
        if self.mode is BucketMode.POSTPONE_MODE:
            return f"{prefix}-u-{self.commit_user}-s-{secrets.randbelow(2**31)}-w-"
        return prefix


class PaimonTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`: holds rows until they fill `write-buffer-size`, then writes them
    bucket by bucket."""

    def __init__(self, target: TaskTarget, assigner: Assigner, threads: int = 1) -> None:
        self._target, self._assigner, self._threads = target, assigner, threads
        self._files = BucketFiles(target.store, target.schema, target.options)
        self._names = NameFactory(target.file_prefix())
        self._key = target.schema.primary_keys or target.schema.names[:1]
        self._held: list[tuple[pa.Table, Kinds | None]] = []
        self._held_bytes = 0
        self._limit = target.options[opt.WRITE_BUFFER_SIZE]
        self._next: dict[Bucket, int] = {}
        self._written: dict[Bucket, PaimonMessage] = {}
        self._hashes: dict[Bucket, Ints] = {}

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the sink's input schema, with `_row_kind` or without."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        target = self._target
        rows = target.fitted(data)
        kinds = target.kinds.kinds(rows if target.kinds.field else data, self._key, target.store.location)
        self._check_kinds(kinds)
        kept = target.kinds.kept(kinds)
        if kept is not None and kinds is not None:
            rows, kinds = rows.filter(pa.array(kept)), kinds[kept]
        self.hold(rows, kinds)

    def hold(self, rows: pa.Table, kinds: Kinds | None) -> None:
        """Take rows in the table's own columns and types, with their kinds (None: all +I)."""
        if len(rows):
            self._held.append((rows, kinds))
            self._held_bytes += rows.nbytes
        if self._held_bytes >= self._limit:
            self._flush()

    def finish(self) -> tuple[PaimonMessage, ...]:
        """Write what is held and say what was written since the last call. The writer may be used on."""
        self._flush()
        self._hashes = dict(self._assigner.new_hashes())
        messages = tuple(self._with_index(message) for message in self._written.values())
        self._written = {}
        return messages

    def abort(self) -> None:
        """Remove what was written since the last `finish`."""
        self._held, self._held_bytes = [], 0
        remove_files(self._target.store, tuple(self._written.values()))
        self._written = {}

    def _with_index(self, message: PaimonMessage) -> PaimonMessage:
        if self._target.mode not in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC):
            return message
        hashes = self._hashes.get((message.partition, message.bucket))
        return dataclasses.replace(
            message, new_hashes=b"" if hashes is None else index_bytes(hashes), planned_on=self._target.state.snapshot
        )

    def _check_kinds(self, kinds: Any) -> None:
        if kinds is not None and not self._target.schema.primary_keys:
            raise UsageError(
                "a table without a primary key takes only +I rows", table=self._target.store.location,
                todo="Filter on _row_kind, or create the table with a primary key",
            )  # fmt: skip

    def _flush(self) -> None:
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
        jobs = self._jobs(assigned.rows.combine_chunks(), assigned.kinds, assigned.partitions, assigned.buckets)
        if self._threads > 1 and len(jobs) > 1:
            with ThreadPoolExecutor(self._threads) as pool:
                done = list(pool.map(lambda job: job(), jobs))
        else:
            done = [job() for job in jobs]
        for message in done:
            known = self._written.get((message.partition, message.bucket))
            self._written[message.partition, message.bucket] = message if known is None else _joined(known, message)

    def _jobs(
        self, rows: pa.Table, kinds: Any, partitions: Partitions, buckets: Any
    ) -> list[Callable[[], PaimonMessage]]:
        """One call for each bucket that has rows: writes them and gives the message."""
        least = int(buckets.min())
        span = int(buckets.max()) - least + 1
        groups = partitions.codes.astype(np.int64) * span + (buckets - least)
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        counts = self._target.router.bucket_counts(partitions)
        jobs: list[Callable[[], PaimonMessage]] = []
        for start, end in zip(starts, np.append(starts[1:], len(order)), strict=True):
            code, bucket = divmod(int(ordered[start]), span)
            jobs.append(self._job(rows, kinds, order[start:end], partitions, code, bucket + least, int(counts[code])))
        return jobs

    def _job(
        self, rows: pa.Table, kinds: Any, indices: Any, partitions: Partitions, code: int, bucket: int, count: int
    ) -> Callable[[], PaimonMessage]:
        key = (partitions.keys[code], bucket)
        folder = bucket_folder(self._partition_folder(rows, int(partitions.first[code])), bucket)
        sequence = self._next.get(key)
        if sequence is None:
            sequence = self._target.state.sequences.get(key, -1) + 1
        self._next[key] = sequence + len(indices)
        total = TOTAL_BUCKETS.get(self._target.mode, count)

        def write() -> PaimonMessage:
            files = self._files.write(folder, rows, indices, kinds, sequence, self._names)
            changes = self._files.write_changelog(folder, rows, indices, kinds, sequence, self._names)
            return PaimonMessage(key[0], bucket, total, folder, files, changelog_files=changes)

        return write

    def _partition_folder(self, rows: pa.Table, row: int) -> str:
        fields = self._target.schema.project(self._target.schema.partition_keys)
        values = [plain(rows.column(item.name)[row]) for item in fields]
        options = self._target.options
        return partition_folder(fields, values, options[opt.PARTITION_DEFAULT_NAME], options[opt.PARTITION_LEGACY_NAME])


def _joined(first: PaimonMessage, second: PaimonMessage) -> PaimonMessage:
    return dataclasses.replace(
        first,
        new_files=first.new_files + second.new_files,
        changelog_files=first.changelog_files + second.changelog_files,
    )
