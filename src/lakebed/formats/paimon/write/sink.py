"""The table as the target of one write by many tasks: what a task needs, and how its messages are committed.

The sink is made on the driver. When it is pickled for workers it carries what the table's files say of each bucket:
the greatest sequence number, and the number of buckets of each partition. After a commit it forgets that, so that the
next copy carries the new state.
"""

from __future__ import annotations

import dataclasses
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import plain
from lakebed.formats.paimon.codec.manifest import HASH_INDEX, IndexManifestEntry
from lakebed.formats.paimon.codec.message import PaimonMessage
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.definition import BucketMode, bucket_mode, refuse_unserved
from lakebed.formats.paimon.layout import NameFactory, bucket_folder, partition_folder
from lakebed.formats.paimon.manifests import index_files, live_files
from lakebed.formats.paimon.read.plan import plan_snapshot, skips_level_0
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.assigning import Assigner, Bucket, DirectAssigner
from lakebed.formats.paimon.write.bucket import BucketFiles
from lakebed.formats.paimon.write.commit import Committer, remove_files
from lakebed.formats.paimon.write.fit import check_fit, fit
from lakebed.formats.paimon.write.hash_dynamic import DynamicSettings, HashAssigner, index_bytes
from lakebed.formats.paimon.write.key_dynamic import KeyAssigner
from lakebed.formats.paimon.write.kinds import KindRule
from lakebed.formats.paimon.write.overwrite import replaced_by
from lakebed.formats.paimon.write.routing import Ints, Partitions, Router, partition_bucket_counts
from lakebed.kernel.commit.callbacks import CommitCallback, load_callbacks
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.model.commit import CommitMessage, CommitResult, Outcome
from lakebed.model.rowkind import RowKind
from lakebed.verbs.write import Mode

_TOTAL_BUCKETS = {
    BucketMode.BUCKET_UNAWARE: -1,
    BucketMode.HASH_DYNAMIC: -1,
    BucketMode.KEY_DYNAMIC: -1,
    BucketMode.POSTPONE_MODE: -2,
}


@dataclass(frozen=True, slots=True)
class WriteState:
    """What files of the table say to a writer: the greatest sequence number of each bucket, and the partitions with
    their own bucket count."""

    sequences: Mapping[Bucket, int] = field(default_factory=dict)
    partition_buckets: Mapping[bytes, int] = field(default_factory=dict)
    indexes: Mapping[bytes, tuple[IndexManifestEntry, ...]] = field(default_factory=dict)
    snapshot: int = 0


class PaimonSink:
    """Implements `lakebed.verbs.write.Sink` for one table, commit user and mode."""

    def __init__(
        self,
        store: Store,
        history: History,
        schema: TableSchema,
        options: Options,
        mode: Mode,
        commit_user: str | None = None,
        overwrite: Mapping[str, Any] = {},
        callbacks: Sequence[CommitCallback] = (),
    ) -> None:
        self.store, self.history, self.schema, self.options, self.mode = store, history, schema, options, mode
        self.commit_user = commit_user or f"{options[opt.COMMIT_USER_PREFIX]}{uuid.uuid4()}"
        self.overwrite = dict(overwrite)
        self.callbacks = (*callbacks, *self._named_callbacks())
        self.bucket_mode = bucket_mode(schema, options)
        self._state: WriteState | None = None
        self._tasks = 1  # as the driver's call of `channels` says; task writers are made from copies of this
        self._committer: Committer | None = None
        refuse_unserved(schema, options, store.location)
        _refuse_unwritten(schema, options, self.bucket_mode, mode, store.location)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_state": self.state, "_committer": None, "callbacks": ()}

    @property
    def state(self) -> WriteState:
        """What the table's files say now; read once between commits."""
        if self._state is None:
            self._state = self._read_state()
        return self._state

    @property
    def input_schema(self) -> pa.Schema:
        """The table's columns; rows may carry `_row_kind` too where there is a primary key."""
        return arrow_schema(self.schema.fields)

    @property
    def kind_rule(self) -> KindRule:
        """Where row kinds come from."""
        default = RowKind.DELETE if self.mode is Mode.DELETE else RowKind.INSERT
        return KindRule(
            self.options[opt.ROWKIND_FIELD],
            default,
            self.options[opt.IGNORE_DELETE],
            self.options[opt.IGNORE_UPDATE_BEFORE],
        )

    @property
    def router(self) -> Router:
        """Partition, bucket and channel of rows."""
        return Router(
            self.schema,
            self.bucket_mode,
            self.options[opt.BUCKET],
            self.options[opt.BUCKET_FUNCTION],
            {} if self.mode is Mode.OVERWRITE else self.state.partition_buckets,
        )

    def channels(self, batch: pa.RecordBatch, count: int) -> pa.Array | None:
        """The task of each row, by (partition, bucket); None where rows need no routing."""
        if self.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return None
        self._tasks = count
        channels = self.router.channels(self.fitted(pa.Table.from_batches([batch])), count, self._assigners)
        return None if channels is None else pa.array(channels, pa.int32())

    def fitted(self, data: pa.Table) -> pa.Table:
        """Rows in the table's columns and types; SchemaError where they do not fit."""
        check_fit(data.schema, self.schema, self.store.location)
        return fit(data, self.schema, self.store.location)

    def task_writer(self, threads: int = 1) -> PaimonTaskWriter:
        """A writer for one task; `threads` write files of different buckets at once."""
        return PaimonTaskWriter(self, threads)

    def commit(self, identifier: int, messages: Sequence[CommitMessage]) -> CommitResult:
        """Publish messages, exactly once for this commit user and identifier."""
        ours = _ours(messages)
        replaced = None
        if self.mode is Mode.OVERWRITE:
            replaced = replaced_by(ours, self.schema, self.options, self.overwrite, self.store.location)
        result = self.committer.commit(identifier, ours, replaced=replaced)
        self._state = None
        waiting = self._waiting_note()
        if waiting and result.outcome is Outcome.COMMITTED and any(message.new_files for message in ours):
            return dataclasses.replace(result, notes=(*result.notes, waiting))
        return result

    def _waiting_note(self) -> str:
        """What a reader does not see yet, "" where it sees all."""
        if self.bucket_mode is BucketMode.POSTPONE_MODE:
            return "the rows lie in postponed buckets: batch reads see them after a compaction gives them real ones"
        if self.schema.primary_keys and skips_level_0(self.schema, self.options):
            return "the rows lie in level 0: batch reads of this table see them after a compaction"
        return ""

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit those identifiers that this user has not committed yet, in their order; how many they were."""
        done = self.committer.filter_and_commit(
            {identifier: _ours(messages) for identifier, messages in commits.items()}
        )
        self._state = None
        return done

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages, except those that a snapshot of this user may name."""
        self.committer.abort(_ours(messages))

    @property
    def committer(self) -> Committer:
        """The driver's half."""
        if self._committer is None:
            self._committer = Committer(
                self.store, self.history, self.schema, self.options, self.commit_user, self.callbacks
            )
        return self._committer

    def assigner(self) -> Assigner:
        """The bucket strategy of one task."""
        settings = DynamicSettings(
            self.options[opt.DYNAMIC_TARGET_ROWS], self.options[opt.DYNAMIC_MAX_BUCKETS], self._assigners, self._tasks
        )
        match self.bucket_mode:
            case BucketMode.HASH_DYNAMIC:
                return HashAssigner(self.router, self.store, self.state.indexes, settings)
            case BucketMode.KEY_DYNAMIC:
                return KeyAssigner(self.router, self.options[opt.MERGE_ENGINE], self._live_keys, settings)
        return DirectAssigner(self.router)

    @property
    def _assigners(self) -> int:
        """How many tasks share the keys of one partition."""
        if self.bucket_mode is not BucketMode.HASH_DYNAMIC:
            return self._tasks
        wanted = self.options[opt.DYNAMIC_INITIAL_BUCKETS] or self._tasks
        most = self.options[opt.DYNAMIC_MAX_BUCKETS]
        return max(1, min(wanted, self._tasks, most if most > 0 else self._tasks))

    def _named_callbacks(self) -> list[CommitCallback]:
        """Those of the option commit.callbacks, each with its `commit.callback.NAME.param`."""
        raw = {key.lower(): value for key, value in self.options.raw.items()}
        key = opt.COMMIT_CALLBACKS
        return load_callbacks(self.options[key], lambda name: raw.get(f"commit.callback.{name}.param".lower()), key.key)

    def _live_keys(self) -> Iterator[tuple[Bucket, pa.Table]]:
        """The primary keys of the snapshot that the write was planned on."""
        if not self.state.snapshot:
            return
        snapshot = self.history.snapshot(self.state.snapshot)
        names = self.schema.primary_keys
        plan = plan_snapshot(self.history, snapshot, self.schema, self.options, names, None, level_0=True)
        for split in plan.splits:
            for batch in plan.read(split):
                yield (split.partition, split.bucket), pa.Table.from_batches([batch.select(list(names))])

    def _read_state(self) -> WriteState:
        if self.mode is Mode.OVERWRITE:
            return WriteState()
        sequences: dict[Bucket, int] = {}
        counts: dict[bytes, int] = {}
        latest = self.history.latest()
        for entry in live_files(self.store, latest):
            bucket = (entry.partition, entry.bucket)
            sequences[bucket] = max(sequences.get(bucket, -1), entry.file.max_sequence_number)
            if entry.bucket >= 0:
                counts[entry.partition] = entry.total_buckets
        planned = latest.id if latest else 0
        if self.bucket_mode is BucketMode.HASH_DYNAMIC:
            indexes: dict[bytes, tuple[IndexManifestEntry, ...]] = {}
            for index in index_files(self.store, latest):
                if index.index_type == HASH_INDEX:
                    indexes[index.partition] = (*indexes.get(index.partition, ()), index)
            return WriteState(sequences, {}, indexes, planned)
        if self.bucket_mode is not BucketMode.HASH_FIXED:
            return WriteState(sequences, snapshot=planned)
        own = partition_bucket_counts(counts, self.schema, self.options[opt.BUCKET], self.store.location)
        return WriteState(sequences, own, snapshot=planned)


class PaimonTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`: holds rows until they fill `write-buffer-size`, then writes them
    bucket by bucket."""

    def __init__(self, sink: PaimonSink, threads: int) -> None:
        self._sink, self._threads = sink, threads
        self._router, self._kinds, self._state = sink.router, sink.kind_rule, sink.state
        self._assigner = sink.assigner()
        self._files = BucketFiles(sink.store, sink.schema, sink.options)
        self._names = NameFactory(self._prefix(sink))
        self._key = sink.schema.primary_keys or sink.schema.names[:1]
        self._held: list[tuple[pa.Table, Any]] = []
        self._held_bytes = 0
        self._limit = sink.options[opt.WRITE_BUFFER_SIZE]
        self._next: dict[Bucket, int] = {}
        self._written: dict[Bucket, PaimonMessage] = {}
        self._hashes: dict[Bucket, Ints] = {}
        self._base = sink.state.snapshot

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the sink's input schema, with `_row_kind` or without."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        rows = self._sink.fitted(data)
        with_kinds = rows if self._kinds.field else data
        kinds = self._kinds.kinds(with_kinds, self._key, self._sink.store.location)
        self._check_kinds(kinds)
        kept = self._kinds.kept(kinds)
        if kept is not None and kinds is not None:
            rows, kinds = rows.filter(pa.array(kept)), kinds[kept]
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
        remove_files(self._sink.store, tuple(self._written.values()))
        self._written = {}

    @staticmethod
    def _prefix(sink: PaimonSink) -> str:
        """Names of postponed files carry the user and a number of their writer, which their compaction groups them
        by."""
        prefix = sink.options[opt.DATA_FILE_PREFIX]
        if sink.bucket_mode is BucketMode.POSTPONE_MODE:
            return f"{prefix}-u-{sink.commit_user}-s-{secrets.randbelow(2**31)}-w-"
        return prefix

    def _with_index(self, message: PaimonMessage) -> PaimonMessage:
        if self._sink.bucket_mode not in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC):
            return message
        hashes = self._hashes.get((message.partition, message.bucket))
        return dataclasses.replace(
            message, new_hashes=b"" if hashes is None else index_bytes(hashes), planned_on=self._base
        )

    def _check_kinds(self, kinds: Any) -> None:
        if kinds is not None and not self._sink.schema.primary_keys:
            raise UsageError(
                "a table without a primary key takes only +I rows", table=self._sink.store.location,
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
        counts = self._router.bucket_counts(partitions)
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
            sequence = self._state.sequences.get(key, -1) + 1
        self._next[key] = sequence + len(indices)
        total = _TOTAL_BUCKETS.get(self._sink.bucket_mode, count)

        def write() -> PaimonMessage:
            files = self._files.write(folder, rows, indices, kinds, sequence, self._names)
            changes = self._files.write_changelog(folder, rows, indices, kinds, sequence, self._names)
            return PaimonMessage(key[0], bucket, total, folder, files, changelog_files=changes)

        return write

    def _partition_folder(self, rows: pa.Table, row: int) -> str:
        fields = self._sink.schema.project(self._sink.schema.partition_keys)
        values = [plain(rows.column(item.name)[row]) for item in fields]
        options = self._sink.options
        return partition_folder(fields, values, options[opt.PARTITION_DEFAULT_NAME], options[opt.PARTITION_LEGACY_NAME])


def _joined(first: PaimonMessage, second: PaimonMessage) -> PaimonMessage:
    return dataclasses.replace(
        first,
        new_files=first.new_files + second.new_files,
        changelog_files=first.changelog_files + second.changelog_files,
    )


def _ours(messages: Sequence[CommitMessage]) -> list[PaimonMessage]:
    for message in messages:
        if not isinstance(message, PaimonMessage):
            raise UsageError(f"a {type(message).__name__} is no commit message of a Paimon table")
    return [message for message in messages if isinstance(message, PaimonMessage)]


def _refuse_unwritten(schema: TableSchema, options: Options, mode: BucketMode, write: Mode, table: str) -> None:
    if write in (Mode.UPSERT, Mode.DELETE) and not schema.primary_keys:
        raise UsageError(
            f"{write} needs a primary key", table=table, todo="Append, or create the table with a primary key"
        )
    refused = {
        "tables that track rows": options[opt.ROW_TRACKING],
    }
    for what, holds in refused.items():
        if holds:
            raise UnsupportedError(
                f"lakebed does not write {what} yet", table=table, todo="The support grid of the README says what works"
            )
