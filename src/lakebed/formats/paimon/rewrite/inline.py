"""Compaction inside a write: its buckets are compacted with the new files before the commit, when their runs say so.

Rules: Paimon's MergeTreeWriter and MergeTreeCompactManager, whose batch commits wait for one compaction per bucket;
GlobalFullCompactionSinkWrite for `full-compaction.delta-commits`. The same commit makes two snapshots then, first
APPEND, then COMPACT. What the plan of the write knows of its buckets says whether one may be due, so a write that
compacts nothing reads nothing more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.bucket_summaries import bucket_summaries
from lakebed.formats.paimon.codec.manifest import ADD, DELETION_VECTORS, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.commit.leftovers import remove_files, removed_on_failure
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.definition import BucketMode, bucket_mode
from lakebed.formats.paimon.manifests import data_manifests, index_files, live_files
from lakebed.formats.paimon.rewrite.levels import number_of_levels, sorted_runs
from lakebed.formats.paimon.rewrite.plan import LiveBucket, buckets_of
from lakebed.formats.paimon.rewrite.task import BucketCompactor, BucketTask
from lakebed.formats.paimon.rewrite.unit import CompactionRules, CompactionUnit
from lakebed.formats.paimon.rewrite.universal import UniversalPicker
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.state import WriteState
from lakebed.kernel import clock
from lakebed.kernel.arrays import Bools, Int64s
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options
from lakebed.kernel.sizing.finalize import HERE_BYTES
from lakebed.verbs.write import Prepared

Bucket = tuple[bytes, int]
"""A serialized partition row, and the number of a bucket in it."""


def inline_compaction(history: History, schema: TableSchema, options: Options) -> InlineCompaction | None:
    """The compaction of a table's writes, None for a table whose writes compact nothing."""
    if not schema.primary_keys or options[opt.WRITE_ONLY] or bucket_mode(schema, options) is BucketMode.POSTPONE_MODE:
        return None
    rules = CompactionRules.of(schema, WriteOptions.of(schema, options))
    return InlineCompaction(BucketCompactor.of(history, rules))


@dataclass(slots=True)
class InlineCompaction:
    """Implements `lakebed.formats.paimon.write.compaction.CompactionOfWrites`.

    A bucket with files that were prepared and not committed yet is left alone until they are: they are older than the
    new ones, and nobody sees them.
    """

    compactor: BucketCompactor
    _waiting: dict[Bucket, set[str]] = field(default_factory=dict)
    """Names of files that were prepared and not committed yet, as far as is known."""
    _runs: dict[Bucket, tuple[int, int]] = field(default_factory=dict)
    """Sorted runs, and files of level 0, of buckets that were written to since the snapshot `_planned`."""
    _planned: int = -1

    def compact(self, state: WriteState, prepared: Prepared, engine: Engine, replaces: bool) -> Prepared:
        """Add to messages what a compaction makes of their buckets. A note says why a bucket could not be compacted.

        When a compaction fails, the files of all messages are removed.
        """
        messages = [message for message in prepared.messages if isinstance(message, PaimonMessage)]
        try:
            compacted, notes = self._compacted(state, messages, engine, replaces)
        except BaseException:
            remove_files(self.compactor.history.store, messages)
            raise
        return Prepared(tuple(compacted), (*prepared.notes, *notes))

    def forget(self, messages: Sequence[PaimonMessage]) -> None:
        """These messages were committed, or never will be."""
        for message in messages:
            waiting = self._waiting.get((message.partition, message.bucket))
            if waiting is not None:
                waiting.difference_update(names_of(message))

    # ---- what is due ----

    def _compacted(
        self, state: WriteState, messages: Sequence[PaimonMessage], engine: Engine, replaces: bool
    ) -> tuple[list[PaimonMessage], tuple[str, ...]]:
        groups: dict[Bucket, list[PaimonMessage]] = {}
        for message in messages:
            if message.new_files and not message.compacts:
                groups.setdefault((message.partition, message.bucket), []).append(message)
        if state.snapshot != self._planned:
            self._planned, self._runs = state.snapshot, {}
        known = {} if replaces else {**state.runs, **self._runs}
        due = {bucket for bucket, group in groups.items() if self._may_be_due(known.get(bucket, (0, 0)), group)}
        commits = self._rules.options.table[compaction.FULL_COMPACTION_COMMITS]
        for bucket, group in groups.items():
            runs, in_level_0 = known.get(bucket, (0, 0))
            files = sum(len(message.new_files) for message in group)
            self._runs[bucket] = (runs + files, in_level_0 + files)
        added: dict[Bucket, PaimonMessage] = {}
        notes: tuple[str, ...] = ()
        if due or commits is not None:
            try:
                added = self._run(self._tasks(groups, due, commits, replaces), engine)
            except DataCleanedError as error:
                notes = (f"nothing was compacted, and a later write does it: {error.what}",)
        for message in messages:
            self._waiting.setdefault((message.partition, message.bucket), set()).update(names_of(message))
        return joined(messages, added), notes

    def _may_be_due(self, known: tuple[int, int], group: Sequence[PaimonMessage]) -> bool:
        files = sum(len(message.new_files) for message in group)
        picker = UniversalPicker.of(self._rules.options.table, self._rules.lookup.needed)
        return picker.may_pick(known[0] + files, known[1] + files)

    def _tasks(
        self, groups: Mapping[Bucket, Sequence[PaimonMessage]], due: Collection[Bucket], commits: int | None,
        replaces: bool,
    ) -> list[BucketTask]:  # fmt: skip
        """What to compact, on the newest snapshot and the new files."""
        history, store = self.compactor.history, self.compactor.history.store
        latest = None if replaces else history.latest()
        partitions = {partition for partition, _ in (due if commits is None else groups)}

        def keep(of_buckets: Sequence[bytes], numbers: Int64s) -> Bools:
            wanted = [commits is not None or partition in partitions for partition in of_buckets]
            return np.array(wanted, np.bool_) & (numbers >= 0)

        entries = live_files(store, latest, keep)
        indexes = index_files(store, latest) if self._rules.lookup.vectors else []
        new = [entry for bucket, group in groups.items() for entry in self._new_entries(group)]
        old_rows = None if commits is None else self._oldest_fresh(history, latest, commits)
        committed = {entry.file.file_name for entry in entries}
        tasks: list[BucketTask] = []
        rules = self._rules
        for bucket in buckets_of(store, rules.schema, rules.options.table, [*entries, *new], self._vectors(indexes)):
            place = (bucket.entries[0].partition, bucket.entries[0].bucket)
            waiting = self._waiting.get(place, set())
            waiting -= committed
            if waiting and not replaces:
                continue
            unit = self._unit(bucket, place in due, old_rows)
            if unit is not None:
                tasks.append(bucket.task(unit))
        return tasks

    def _unit(self, bucket: LiveBucket, is_due: bool, old_rows: _Bounds | None) -> CompactionUnit | None:
        """What to compact of a bucket. `old_rows` has the sequence numbers up to which rows have waited for a full
        compaction for too long."""
        files = [entry.file for entry in bucket.entries]
        top = number_of_levels(self._rules.options.table, files) - 1
        if old_rows is not None:
            first = bucket.entries[0]
            bound = old_rows.get((first.partition, first.bucket), -1)
            if any(file.level < top and file.min_sequence_number <= bound for file in files):
                return self._rules.full(files, (), self.compactor.expired)
        return self._rules.picked(files, clock.now_ms()) if is_due else None

    def _oldest_fresh(self, history: History, latest: Snapshot | None, commits: int) -> _Bounds:
        """The greatest sequence number of each bucket that is so many commits old, the one under way included."""
        if commits == 1:
            return _Bounds(everything=True)
        appends = (
            s for s in history.backwards(0, latest) if s.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE)
        )
        oldest = next(islice(appends, commits - 2, None), None) if latest is not None else None
        if oldest is None:
            return _Bounds()
        buckets = bucket_summaries(history.store, oldest, data_manifests(history.store, oldest))
        return _Bounds({(p, b): summary.greatest_sequence for (p, b, _), summary in buckets.items()})

    @staticmethod
    def _vectors(indexes: Sequence[IndexManifestEntry]) -> list[IndexManifestEntry]:
        return [entry for entry in indexes if entry.index_type == DELETION_VECTORS]

    @staticmethod
    def _new_entries(group: Sequence[PaimonMessage]) -> list[ManifestEntry]:
        return [
            ManifestEntry(ADD, message.partition, message.bucket, message.total_buckets, file)
            for message in group
            for file in message.new_files
        ]

    # ---- doing it ----

    def _run(self, tasks: Sequence[BucketTask], engine: Engine) -> dict[Bucket, PaimonMessage]:
        size = sum(file.file_size for task in tasks for file in task.unit.files)
        if size <= HERE_BYTES:
            engine = LocalEngine()
        done: dict[Bucket, PaimonMessage] = {}
        with removed_on_failure(self.compactor.history.store, self.compactor) as work:
            for task, message in zip(tasks, engine.map(work, tasks), strict=True):
                done[task.partition, task.bucket] = message
        for task in tasks:
            after = sorted_runs((*task.unit.older, *done[task.partition, task.bucket].compact_after))
            self._runs[task.partition, task.bucket] = (len(after), sum(1 for run in after if run.level == 0))
        return done

    @property
    def _rules(self) -> CompactionRules:
        return self.compactor.rules


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Sequence numbers by bucket; with `everything` above all that there are."""

    greatest: Mapping[Bucket, int] = field(default_factory=dict)
    everything: bool = False

    def get(self, bucket: Bucket, default: int) -> int:
        """The number of a bucket."""
        return 2**63 - 1 if self.everything else self.greatest.get(bucket, default)


def joined(messages: Sequence[PaimonMessage], added: dict[Bucket, PaimonMessage]) -> list[PaimonMessage]:
    """Messages with the compaction of their buckets, each in the first message of its bucket."""
    joined: list[PaimonMessage] = []
    for message in messages:
        done = added.pop((message.partition, message.bucket), None)
        if done is not None:
            message = replace(
                message,
                compact_before=done.compact_before,
                compact_after=done.compact_after,
                compact_changelog=done.compact_changelog,
                compact_new_index_files=done.compact_new_index_files,
                compact_deleted_index_files=done.compact_deleted_index_files,
                compact_known=done.compact_known,
            )
        joined.append(message)
    return [*joined, *added.values()]


def names_of(message: PaimonMessage) -> set[str]:
    """The data files that a message adds."""
    return {file.file_name for file in (*message.new_files, *message.compact_after)}
