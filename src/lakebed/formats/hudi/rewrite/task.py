"""One file group of a compaction: its slice read, merged, and written as a new base file.

The base file streams through, the log of the one file group is in memory. Rows keep the meta columns of the version
that won. Rules: Hudi's `HoodieCompactor.compact` and the counts of its write stats.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.formats.hudi.codec.service_plans import PlannedSlice
from lakebed.formats.hudi.metadata_table.change import NEW_GROUP, WrittenFile
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.write.base_file import BaseFileWriter
from lakebed.formats.hudi.write.files import FileTarget, new_token


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """What one task does: `number` is its place in the plan, `log_bytes` the size of the logs."""

    number: int
    part: PlannedSlice
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts file groups. Picklable."""

    reader: SliceReader
    target: FileTarget

    def __call__(self, task: CompactionTask) -> WrittenFile:
        """Write the new base file of a file group. It is removed again where that fails."""
        part = task.part
        prefix = f"{part.partition}/" if part.partition else ""
        paths = SlicePaths(
            part.partition,
            part.file_id,
            prefix + part.base if part.base else "",
            tuple(prefix + name for name in part.logs),
        )
        columns = tuple(self.target.file_schema.names)
        merged = self.reader.open(paths, columns)
        writer = BaseFileWriter(self.target, part.partition, part.file_id, new_token(task.number), "MERGE")
        try:
            for batch in merged.rows():
                writer.write(batch)
            inserts, updates, deletes, keys = merged.counts()
            return writer.close(
                part.base_instant if part.base else NEW_GROUP,
                inserts=inserts,
                updates=updates,
                deletes=deletes,
                previous_base=part.base,
                log_stats={  # type: ignore[arg-type]
                    "totalLogRecords": keys,
                    "totalLogFilesCompacted": len(part.logs),
                    "totalLogSizeCompacted": task.log_bytes,
                    "totalUpdatedRecordsCompacted": keys,
                },
            )
        except BaseException:
            writer.abort()
            raise
