"""One file group of a compaction: its slice read, merged, and written as a new base file.

The base file streams through, the log of the one file group is in memory. Rows keep the meta columns of the version
that won. Where a bucket index puts new rows into logs too, a table with change logs gets one beside the new base file.

Rules: Hudi's `HoodieCompactor.compact` and the counts of its write stats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakebed.formats.hudi.codec.service_plans import PlannedSlice
from lakebed.formats.hudi.metadata_table.change import NEW_GROUP, WrittenFile
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.write.base_file import REPEATING, BaseFileWriter, known_keys
from lakebed.formats.hudi.write.change_log import ChangeLog, watched
from lakebed.formats.hudi.write.files import FileTarget, new_token
from lakebed.formats.hudi.write.served import is_bucket


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """What one task does: `number` is its place in the plan, `log_bytes` the size of the logs."""

    number: int
    part: PlannedSlice
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts file groups. Picklable. `rings` says that the table has consistent hashing."""

    reader: SliceReader
    target: FileTarget
    rings: bool = False

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
        columns = tuple(self.target.kept_schema.names)
        merged = self.reader.open(paths, columns).repeating(REPEATING)
        token = new_token(task.number)
        log = None
        if self.target.config.cdc and (self.rings or is_bucket(part.file_id, self.target.config)):
            merged = watched(merged)
            log = ChangeLog(self.target, part.partition, part.file_id, token, merged)
        known = known_keys(self.target, merged, merged.base_footer()[1])
        writer = BaseFileWriter(self.target, part.partition, part.file_id, token, "MERGE", known)
        try:
            for batch in merged.rows():
                writer.write(batch)
            if known is not None:
                known.add_new(merged.new_keys())
            inserts, updates, deletes, keys = merged.counts()
            changes = log.write() if log is not None else {}
            written = writer.close(
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
            return replace(written, changes=changes)
        except BaseException:
            writer.abort()
            raise
