"""A write, from staged rows to files: combine and look up keys, assign rows to file groups, write the files.

Its instant is requested before any of that, so that it builds on all that was committed by then. Keys are looked up and
files are written on an engine. The cost grows with the file groups that the rows touch: of partitions that they do not
name nothing is listed, unless the index is a global one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.codec.commit_metadata import FileStat, planned
from lakebed.formats.hudi.commit.message import WrittenFile
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.read.plan import reader_of
from lakebed.formats.hudi.timeline.pending_services import PendingServices
from lakebed.formats.hudi.write.assign import Assigned, Assigner, GroupJob, Way, new_file_id
from lakebed.formats.hudi.write.file_maker import GroupWriter, HudiFileMaker, KeyOrder, encoded_size
from lakebed.formats.hudi.write.files import FileTarget
from lakebed.formats.hudi.write.operation import Operation
from lakebed.formats.hudi.write.place import StagingPlace
from lakebed.formats.hudi.write.preflight import refuse_pending, replaced_partitions
from lakebed.formats.hudi.write.settings import SortMode, WriteSettings
from lakebed.formats.hudi.write.small_files import COMMITS_LOOKED_AT, row_bytes
from lakebed.formats.hudi.write.staged_rows import NewRows, PartOfBuckets, stretches
from lakebed.formats.hudi.write.table_files import TableFiles
from lakebed.formats.hudi.write.tagging import Tagged, Tagging
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.sizing.finalize import HERE_BYTES, finalize
from lakebed.kernel.sizing.ranges import RangeSplitter
from lakebed.kernel.sizing.staging import INLINE_BYTES, Staged, StagedBuckets, StagingLimits

_SAMPLE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class StagedInput:
    """What the tasks of a write staged: rows of `schema`, in partitions of these paths, `by_key` or by partition."""

    staged: tuple[Staged, ...]
    schema: pa.Schema
    partitions: tuple[str, ...]
    by_key: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The files of a write, and the file ids that it takes out of use, by partition."""

    written: tuple[WrittenFile, ...] = ()
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class WriteRun:
    """One attempt at a write. `inflight` is told the planned counts before the first file is made.

    `combine` reduces rows to one per key, and `tag` makes the lookup for the slices of the table; None where the write
    does not need them. `beside_clusterings` says that rows of file groups under a pending clustering are written.
    """

    settings: WriteSettings
    files: TableFiles
    target: FileTarget
    staging: StagingPlace
    engine: Engine
    pending: PendingServices
    inflight: Callable[[Sequence[FileStat]], None]
    combine: Callable[[pa.Table], pa.Table] | None = None
    tag: Callable[[pa.Table], Tagged] | None = None
    beside_clusterings: bool = False
    _restaged: list[str] = field(default_factory=list)

    def run(self, rows: StagedInput | None) -> Outcome:
        """Write the files. What it staged itself is removed; the files of a run that fails are left to the rollback of
        its instant."""
        try:
            operation = self.settings.operation
            if operation is Operation.DELETE_PARTITION:
                self.inflight(())
                return Outcome((), self._replaced(rows.partitions if rows is not None else ()))
            if rows is None:
                self.inflight(())
                return Outcome((), self._replaced(()))
            written = self._written(rows)
            return Outcome(written, self._replaced(rows.partitions) if operation.replaces else {})
        finally:
            self.staging.delete_many(self._restaged)

    def _written(self, rows: StagedInput) -> tuple[WrittenFile, ...]:
        config = self.target.config
        buckets = self._by_group(rows)
        operation = self.settings.operation
        fills = operation in (Operation.INSERT, Operation.UPSERT)
        assigner = Assigner(
            self.settings.sizes,
            config.merge_on_read,
            fills,
            operation in (Operation.INSERT, Operation.BULK_INSERT) and self.settings.concat,
            lambda: self._row_bytes(buckets),
            frozenset(self._taken()),
            self.settings.index.alike and operation is not Operation.BULK_INSERT,
        )
        new = [bucket.partition for bucket in buckets.buckets if isinstance(bucket, NewRows)] if fills else []
        assigned = assigner.assign(buckets, self.files.slices(new))
        self._refuse_clustered(assigned)
        self.inflight(_planned(assigned))
        return (*self._new_groups(buckets, assigned, rows.schema), *self._changed_groups(assigned, rows.schema))

    def _by_group(self, rows: StagedInput) -> StagedBuckets:
        """The rows by file group where keys are looked up, else by partition."""
        buckets = StagedBuckets(rows.staged, rows.schema)
        if not rows.by_key and self.tag is None:
            return buckets
        little = int(buckets.sizes.sum()) <= HERE_BYTES
        local = isinstance(self.engine, LocalEngine)
        engine = LocalEngine(1) if little else self.engine
        place = replace(self.staging, local=self.staging.local and (little or local))
        memory = self._memory() if little or local else 0
        limits = StagingLimits(inline=INLINE_BYTES, memory=memory)
        tagging = Tagging(place, rows.schema, self.combine, self.tag, limits)
        staged = [part for part in engine.map(tagging, stretches(buckets)) if part is not None]
        self._restaged += [part.path for part in staged if part.path]
        return StagedBuckets(staged, rows.schema)

    def _memory(self) -> int:
        return 64 << 20

    def _new_groups(self, buckets: StagedBuckets, assigned: Assigned, schema: pa.Schema) -> list[WrittenFile]:
        """New file groups for rows that no group takes: base files of the right size."""
        if not assigned.fresh:
            return []
        sort = self.settings.sort if self.settings.operation is Operation.BULK_INSERT else SortMode.NONE
        unsorted = sort in (SortMode.NONE, SortMode.PARTITION_PATH_REPARTITION) or not self.target.config.record_keys
        order = None if unsorted else KeyOrder()
        maker = HudiFileMaker(self.target, self.staging, order)
        if self.settings.sizes.split and self.settings.operation is not Operation.BULK_INSERT:
            return self._by_rows(buckets, assigned, schema)
        splitter = None
        if sort is SortMode.GLOBAL_SORT and order is not None:
            splitter = RangeSplitter(self.staging, self.staging.path("")[:-1], schema, order.keys)
        fresh = PartOfBuckets(buckets, {NewRows(partition): part for partition, part in assigned.fresh.items()})
        sizes = self.settings.sizes
        return finalize(fresh, maker, self.engine, sizes.target, sizes.greatest, splitter)

    def _by_rows(self, buckets: StagedBuckets, assigned: Assigned, schema: pa.Schema) -> list[WrittenFile]:
        """New file groups with a fixed number of rows each."""
        jobs: list[GroupJob] = []
        for partition, (at, first, end) in assigned.fresh.items():
            for start in range(first, end, self.settings.sizes.split):
                stop = min(end, start + self.settings.sizes.split)
                number = len(assigned.jobs) + len(jobs)
                run = buckets.run(at, start, stop)
                jobs.append(GroupJob(number, Way.CREATE, partition, new_file_id(), None, (run,), stop - start))
        return self._write(jobs, schema)

    def _changed_groups(self, assigned: Assigned, schema: pa.Schema) -> list[WrittenFile]:
        return self._write(assigned.jobs, schema)

    def _write(self, jobs: Sequence[GroupJob], schema: pa.Schema) -> list[WrittenFile]:
        if not jobs:
            return []
        state, view = self.files.state, self.files.view
        names = self.target.file_schema
        reader = reader_of(state, READ.parse({}), names, view)
        writer = GroupWriter(self.target, reader, self.staging, schema, dict(self.pending.compacting))
        engine = self.engine
        if sum(run.rows for job in jobs for run in job.runs) < _SAMPLE_ROWS and len(jobs) < 8:
            engine = LocalEngine(1 if len(jobs) == 1 else None)
        return [file for files in engine.map(writer, jobs) for file in files]

    def _row_bytes(self, buckets: StagedBuckets) -> float:
        """The bytes of a row in base files: by the newest commits, by the option, or by a sample of the new rows."""
        view = self.files.view
        newest = list(reversed(view.entries))[:COMMITS_LOOKED_AT]
        commits = (self.files.state.files.commits([entry])[entry.time] for entry in newest)
        known = row_bytes(commits, self.settings.sizes)
        if known:
            return known
        if self.settings.row_bytes:
            return float(self.settings.row_bytes)
        at = next(number for number, bucket in enumerate(buckets.buckets) if isinstance(bucket, NewRows))
        sample = buckets.sample(at, _SAMPLE_ROWS)
        rows = pa.Table.from_batches(sample.batches(self.staging), sample.schema)
        return encoded_size(self.target, rows) / max(1, len(rows))

    def _replaced(self, partitions: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The file groups that the write takes out of use."""
        settings = self.settings
        going = replaced_partitions(settings.operation, settings.partitions, self.files, partitions)
        slices = self.files.slices(going)
        refuse_pending(slices, self.pending, self.target.store.location)
        return {
            partition: tuple(file_slice.file_id for file_slice in of_partition)
            for partition, of_partition in slices.items()
            if of_partition
        }

    def _refuse_clustered(self, assigned: Assigned) -> None:
        """Raise for rows of file groups that a pending clustering is going to replace: one of the two would lose."""
        if self.beside_clusterings:
            return
        for job in assigned.jobs:
            instant = self.pending.clustering.get((job.partition, job.file_id))
            if instant:
                raise CommitConflictError(
                    f"rows of file group {job.file_id} cannot be changed",
                    table=self.target.store.location,
                    instant=instant,
                    why="a clustering that has not run is going to replace it",
                    todo="Run that clustering, or take it back (lakebed.rewrite.step), and write again. With "
                    "hoodie.clustering.updates.strategy=SparkAllowUpdateStrategy the clustering loses",
                )

    def _taken(self) -> dict[tuple[str, str], str]:
        return {**self.pending.compacting, **self.pending.log_compacting, **self.pending.clustering}


def _planned(assigned: Assigned) -> list[FileStat]:
    """What the inflight state says: how many rows each file group is going to get."""
    stats = [planned(partition, inserts=end - first) for partition, (_, first, end) in assigned.fresh.items()]
    for job in assigned.jobs:
        previous = job.base_instant or "null"
        stats.append(planned(job.partition, job.file_id, previous, inserts=job.inserts, updates=job.updates))
    return stats
