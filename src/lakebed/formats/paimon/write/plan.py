"""The plan of a write into a Paimon table: which task takes each row, and what all tasks need to write files.

The driver makes it from the newest snapshot; tasks get copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.read.plan import ReadRequest, plan_snapshot
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.formats.paimon.write.assigners import Assigner, Bucket, DirectAssigner
from lakebed.formats.paimon.write.conform import check_conformable, conform
from lakebed.formats.paimon.write.hash_dynamic import DynamicSettings, HashAssigner
from lakebed.formats.paimon.write.key_dynamic import KeyAssigner
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.routing import Router
from lakebed.formats.paimon.write.staging import StagingTaskWriter
from lakebed.formats.paimon.write.task import PaimonTaskWriter, TaskTarget


@dataclass(frozen=True, slots=True)
class PaimonRouting:
    """Implements `lakebed.verbs.write.Routing`: rows go to tasks by (partition, bucket), in dynamic modes by the hash
    of their key."""

    router: Router
    dynamic: DynamicSettings
    table: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of keys and partitions."""
        schema = self.router.schema
        keys = {*schema.partition_keys, *schema.bucket_keys, *schema.primary_keys}
        return tuple(name for name in schema.names if name in keys)

    def channels(self, batch: pa.RecordBatch) -> pa.Array:
        """The int32 task of each row. SchemaError for a value that does not conform to the table."""
        given = pa.Table.from_batches([batch.select([name for name in self.columns if name in batch.schema.names])])
        check_conformable(given.schema, self.router.schema, self.table, self.columns)
        rows = conform(given, self.router.schema, self.table, self.columns)
        return pa.array(self.router.channels(rows, self.dynamic.tasks, self.dynamic.assigners), pa.int32())


@dataclass(frozen=True, slots=True)
class PaimonWritePlan:
    """Implements `lakebed.verbs.write.WritePlan`. `write_id` begins the names of the files that the write's tasks
    stage."""

    history: History
    target: TaskTarget
    dynamic: DynamicSettings
    write_id: str

    @property
    def routing(self) -> PaimonRouting | None:
        """None for a table without buckets: tasks stage its rows where they are, and sizes decide what follows."""
        if self.target.mode is BucketMode.BUCKET_UNAWARE:
            return None
        return PaimonRouting(self.target.router, self.dynamic, self.target.store.location)

    @property
    def is_routed(self) -> bool:
        """Whether rows are routed to several tasks."""
        return self.dynamic.tasks > 1

    def task_writer(self, threads: int | None = None) -> PaimonTaskWriter | StagingTaskWriter:
        """A writer for one task. With `threads` it is the only one, in the process that finalizes, and writes files of
        so many buckets at once."""
        if self.target.mode is BucketMode.BUCKET_UNAWARE:
            return StagingTaskWriter(self.target, alone=threads is not None, write_id=self.write_id)
        return PaimonTaskWriter(self.target, self._assigner(), threads or 1)

    def live_keys(self) -> Iterator[tuple[Bucket, pa.Table]]:
        """The primary keys of the snapshot that the plan was made from, bucket by bucket."""
        target = self.target
        if not target.state.snapshot:
            return
        snapshot = self.history.snapshot(target.state.snapshot)
        names, options = target.schema.primary_keys, target.options.table
        request = ReadRequest(self.history, target.schema, options, names)
        plan = plan_snapshot(request, snapshot, level_0=True, use=Use.WRITE)
        for split in plan.splits:
            for batch in plan.read(split):
                yield (split.partition, split.bucket), pa.Table.from_batches([batch.select(list(names))])

    def _assigner(self) -> Assigner:
        """The bucket strategy of one task."""
        target, options = self.target, self.target.options
        match options.mode:
            case BucketMode.HASH_DYNAMIC:
                return HashAssigner(target.router, target.store, target.state.indexes, self.dynamic)
            case BucketMode.KEY_DYNAMIC:
                engine, scratch = options.merge_engine, options.spill.folder
                return KeyAssigner(target.router, engine, self.live_keys, self.dynamic, scratch)
        return DirectAssigner(target.router)


def dynamic_settings(options: WriteOptions, tasks: int) -> DynamicSettings:
    """How so many tasks share the keys of dynamic buckets.

    Of HASH_DYNAMIC tables `dynamic-bucket.assigner-parallelism` bounds the tasks, and no more of them share a
    partition's keys than `dynamic-bucket.initial-buckets` and `dynamic-bucket.max-buckets` allow.
    """
    dynamic = options.dynamic
    assigners = tasks
    if options.mode is BucketMode.HASH_DYNAMIC:
        tasks = min(tasks, dynamic.assigners or tasks)
        most = dynamic.max_buckets if dynamic.max_buckets > 0 else tasks
        assigners = max(1, min(dynamic.initial_buckets or tasks, tasks, most))
    return DynamicSettings(dynamic.target_rows, dynamic.max_buckets, assigners, tasks)
