"""Compaction inside a write to fixed buckets without a primary key: where enough small files lie side by side, the
first of them are put together before the commit.

Rules: Paimon's AppendOnlyWriter and BucketedAppendCompactManager, whose batch commits wait for one compaction per
bucket. Tables without buckets are compacted by `table.rewrite` alone, as in Paimon.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import ADD, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.commit.leftovers import remove_files, removed_on_failure
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.definition import BucketMode, bucket_mode
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.rewrite.append import AppendRules
from lakebed.formats.paimon.rewrite.append_plan import AppendBucket, not_rewritten
from lakebed.formats.paimon.rewrite.append_task import AppendCompactor, AppendTask
from lakebed.formats.paimon.rewrite.inline import Bucket, inline_compaction, joined, names_of
from lakebed.formats.paimon.rewrite.plan import buckets_of
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.compaction import CompactionOfWrites
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.state import WriteState
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options
from lakebed.kernel.sizing.finalize import HERE_BYTES
from lakebed.verbs.write import Prepared


def compaction_of_writes(history: History, schema: TableSchema, options: Options) -> CompactionOfWrites | None:
    """The compaction of a table's writes, None for a table whose writes compact nothing."""
    if schema.primary_keys:
        return inline_compaction(history, schema, options)
    fixed = bucket_mode(schema, options) is BucketMode.HASH_FIXED
    if not fixed or options[opt.WRITE_ONLY] or not_rewritten(options):
        return None
    return AppendInlineCompaction(AppendCompactor(history, schema, WriteOptions.of(schema, options)))


@dataclass(slots=True)
class AppendInlineCompaction:
    """Implements `lakebed.formats.paimon.write.compaction.CompactionOfWrites`.

    A bucket with files that were prepared and not committed yet is left alone until they are: they are older than the
    new ones, and nobody sees them.
    """

    compactor: AppendCompactor
    _waiting: dict[Bucket, set[str]] = field(default_factory=dict)

    def compact(self, state: WriteState, prepared: Prepared, engine: Engine, replaces: bool) -> Prepared:
        """Add to messages what a compaction makes of their buckets. A note says why nothing could be compacted.

        When a compaction fails, the files of all messages are removed.
        """
        messages = [message for message in prepared.messages if isinstance(message, PaimonMessage)]
        groups: dict[Bucket, list[PaimonMessage]] = {}
        for message in messages:
            if message.new_files and not message.compacts:
                groups.setdefault((message.partition, message.bucket), []).append(message)
        added: dict[Bucket, PaimonMessage] = {}
        notes: tuple[str, ...] = ()
        try:
            due = {bucket for bucket, group in groups.items() if self._may_be_due(state, bucket, group, replaces)}
            if due:
                added = self._run(self._tasks(groups, due, replaces), engine)
        except DataCleanedError as error:
            notes = (f"nothing was compacted, and a later write does it: {error.what}",)
        except BaseException:
            remove_files(self.compactor.history.store, messages)
            raise
        for message in messages:
            self._waiting.setdefault((message.partition, message.bucket), set()).update(names_of(message))
        return Prepared(tuple(joined(messages, added)), (*prepared.notes, *notes))

    def forget(self, messages: Sequence[PaimonMessage]) -> None:
        """These messages were committed, or never will be."""
        for message in messages:
            waiting = self._waiting.get((message.partition, message.bucket))
            if waiting is not None:
                waiting.difference_update(names_of(message))

    @property
    def _append_rules(self) -> AppendRules:
        options = self.compactor.options
        return AppendRules.of(options.table, options.format.target_size)

    def _may_be_due(self, state: WriteState, bucket: Bucket, group: Sequence[PaimonMessage], replaces: bool) -> bool:
        files, _ = (0, 0) if replaces else state.runs.get(bucket, (0, 0))
        return files + sum(len(message.new_files) for message in group) >= self._append_rules.min_files

    def _tasks(
        self, groups: Mapping[Bucket, Sequence[PaimonMessage]], due: Collection[Bucket], replaces: bool
    ) -> list[AppendTask]:
        """What to compact, on the newest snapshot and the new files."""
        history, schema, options = self.compactor.history, self.compactor.schema, self.compactor.options.table
        live, indexes = live_and_index_files(history.store, None if replaces else history.latest())
        old = [entry for entry in live if (entry.partition, entry.bucket) in due]
        committed = {entry.file.file_name for entry in old}
        new = [entry for bucket in due for entry in _new_entries(groups[bucket])]
        tasks: list[AppendTask] = []
        for live_bucket in buckets_of(history.store, schema, options, [*old, *new], indexes):
            first = live_bucket.entries[0]
            waiting = self._waiting.get((first.partition, first.bucket), set())
            waiting -= committed
            if waiting and not replaces:
                continue
            bucket = AppendBucket.of(live_bucket, self.compactor, self._append_rules)
            tasks += [bucket.task(files) for files, _ in bucket.packed(minor=True)]
        return tasks

    def _run(self, tasks: Sequence[AppendTask], engine: Engine) -> dict[Bucket, PaimonMessage]:
        if sum(file.file_size for task in tasks for file in task.task.compact_before) <= HERE_BYTES:
            engine = LocalEngine()
        done: dict[Bucket, PaimonMessage] = {}
        with removed_on_failure(self.compactor.history.store, self.compactor) as work:
            for message in engine.map(work, tasks):
                done[message.partition, message.bucket] = message
        return done


def _new_entries(group: Sequence[PaimonMessage]) -> list[ManifestEntry]:
    return [
        ManifestEntry(ADD, message.partition, message.bucket, message.total_buckets, file)
        for message in group
        for file in message.new_files
    ]
