"""Log compaction: the blocks of a file group's log merged into one block of a new log file, which names those that it
replaces.

The files stay, so that a reader of older commits still has its blocks, until a compaction and a clean take the slice.
Readers that know such blocks skip the others. Those that do not, as Hudi's own by default, read all of them. That gives
the same rows as long as the merged block comes behind all that it holds, and nothing newer before it. So a file group
that was written to since the plan is left out, and a run fails beside such a write.

Rules: Hudi's `HoodieLogCompactionPlanGenerator` and `LogCompactionExecutionHelper`; rows keep their meta columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import counted
from lakebed.formats.hudi.codec.log import HeaderKey, LogBlock
from lakebed.formats.hudi.codec.service_plans import CompactionPlan
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.markers import marked_files, remove_markers
from lakebed.formats.hudi.layout import file_path, parse_log_name
from lakebed.formats.hudi.merge.log import MergedLog, merge_log
from lakebed.formats.hudi.metadata_table.change import WrittenFile
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.rewrite import options as opt
from lakebed.formats.hudi.rewrite.plan import Planned, about, operation_of, slice_name
from lakebed.formats.hudi.rewrite.task import CompactionTask
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.timeline.pending_services import PendingServices
from lakebed.formats.hudi.timeline.writing import remove_pending
from lakebed.formats.hudi.write.files import FileTarget, new_token
from lakebed.formats.hudi.write.log_file import data_block, delete_block, pieces
from lakebed.formats.hudi.write.stored_keys import StoredKeys
from lakebed.kernel.arrays import from_numpy
from lakebed.kernel.options import Options
from lakebed.model.upkeep import RewriteGroup, Skipped

_EXECUTION = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"


def plan_log_compaction(
    slices: Iterable[FileSlice], pending: PendingServices, options: Options, reader: SliceReader
) -> Planned:
    """Choose the newest slices whose logs have many blocks. The logs are read, one slice at a time."""
    chosen: list[FileSlice] = []
    groups: list[RewriteGroup] = []
    skipped: list[Skipped] = []
    for each in slices:
        if not each.logs:
            continue
        instant = pending.taken((each.partition, each.file_id))
        blocks = [] if instant else reader.log_blocks(SlicePaths.of(each))
        why = f"the pending table service {instant} has taken it" if instant else _why_not(blocks, reader, options)
        if why:
            skipped.append(Skipped(slice_name(each), why))
        else:
            chosen.append(each)
            groups.append(about(each, f"its log has {counted(len(blocks), 'block')}"))
    plan = CompactionPlan(tuple(map(operation_of, chosen)), compactor=_EXECUTION)
    return Planned(plan, tuple(groups), tuple(skipped))


def _why_not(blocks: Sequence[LogBlock], reader: SliceReader, options: Options) -> str:
    if len(blocks) < options[opt.LOG_BLOCKS]:
        return f"its log has {counted(len(blocks), 'block')}, fewer than {opt.LOG_BLOCKS.key}"
    if reader.rules.fills or any(block.is_partial for block in blocks):
        return "its rows are partial updates: only a compaction can merge them"
    return ""


@dataclass(frozen=True, slots=True)
class LogCompactor:
    """Writes the merged block of file groups. Picklable."""

    reader: SliceReader
    target: FileTarget

    def __call__(self, task: CompactionTask) -> tuple[WrittenFile, ...]:
        """One new log file, none where no block of the log counts."""
        part, target = task.part, self.target
        names = [file_path(part.partition, name) for name in part.logs]
        base = file_path(part.partition, part.base) if part.base else ""
        blocks = self.reader.log_blocks(SlicePaths(part.partition, part.file_id, base, tuple(names)))
        if not blocks:
            return ()
        schema = self.reader.target(tuple(target.file_schema.names), True)
        merged = merge_log(self.reader.log_reader(schema, self.reader.rules).entries(blocks), self.reader.rules)
        version, named = 1, target.instant
        if not target.config.completion_times:
            named = part.base_instant
            version = 1 + max(self._versions(part.partition, part.file_id, named), default=0)
        path = file_path(part.partition, f".{part.file_id}_{named}.log.{version}_{new_token(task.number)}")
        content, rows, gone = self._content(merged, part.partition, blocks)
        target.markers(path, "APPEND")
        with target.store.open_output(path) as sink:
            for block in content:
                sink.write(block)
        return (
            WrittenFile(
                part.partition,
                part.file_id,
                path,
                sum(map(len, content)),
                part.base_instant or named,
                writes=rows + gone,
                updates=rows,
                deletes=gone,
                base=part.base,
                log_version=version,
                logs=(*part.logs, path.rpartition("/")[2]),
                log_stats={
                    "totalLogRecords": merged.count,
                    "totalLogFilesCompacted": len(part.logs),
                    "totalLogSizeCompacted": task.log_bytes,
                    "totalUpdatedRecordsCompacted": merged.count,
                    "totalLogBlocks": len(blocks),
                },
            ),
        )

    def _versions(self, partition: str, file_id: str, instant: str) -> list[int]:
        parsed = (parse_log_name(info.name) for info in self.target.store.list(partition).files)
        return [log[1].version for log in parsed if log and log[0] == file_id and log[1].instant == instant]

    def _content(self, merged: MergedLog, partition: str, blocks: Sequence[LogBlock]) -> tuple[list[bytes], int, int]:
        """The blocks of the new file, with its numbers of rows and of deletes."""
        replaced = dict.fromkeys(time for block in blocks for time in (*block.compacted_instants, block.instant_time))
        header = {HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(replaced)}
        live, gone = np.flatnonzero(~merged.deleted), np.flatnonzero(merged.deleted)
        rows = self._rows(merged.rows(live, merged.entries.rows.table.schema.names))
        content = [data_block(self.target, part, header) for part in pieces(rows, self.target.options.block_bytes)]
        if len(gone):
            stored = StoredKeys.of(self.target.config, self.target.schema)
            keys = stored.spelled(merged.keys.take(from_numpy(gone)))
            ordering = merged.entries.ordering_values(merged.winner[gone])
            folders = pa.repeat(pa.scalar(partition), len(gone))
            content.append(delete_block(self.target, keys, folders, ordering, header))
        return content, len(live), len(gone)

    def _rows(self, merged: pa.Table) -> pa.Table:
        """Merged rows in the columns of a data block."""
        columns = [
            merged.column(field.name) if field.name in merged.column_names else pa.nulls(len(merged), field.type)
            for field in self.target.file_schema
        ]
        table = pa.table(columns, names=self.target.file_schema.names)
        return table.cast(self.target.file_schema)


def drop(context: WriteContext, instant: str) -> None:
    """Take back a log compaction that failed, with its plan: another one is made from the log as it is then."""
    with context.locked():
        entry = context.timeline().by_time.get(instant)
        if entry is not None and not entry.done:
            context.store.delete_many(marked_files(context.store, instant) or ())
            remove_pending(context.store, context.config, entry)
            remove_markers(context.store, instant)
