"""Full compaction of buckets, for tables whose batch reads leave level 0 out.

Rules: Paimon's MergeTreeCompactManager for such tables (lookup of first-row, deletion vectors), whose compactions take
level 0 to higher levels. Here a bucket that gains rows is compacted fully: its files, with their deletion vectors, and
the new rows become files of the highest level, which hold each key once and no deletes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import (
    DELETION_VECTORS,
    SOURCE_COMPACT,
    DataFileMeta,
    IndexManifestEntry,
)
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.manifests import index_files, live_files
from lakebed.formats.paimon.read.plan import deletion_files
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.assigners import DirectAssigner
from lakebed.formats.paimon.write.task import PaimonTaskWriter, TaskTarget
from lakebed.kernel.options import Options


@dataclass(frozen=True, slots=True)
class FullCompaction:
    """Compacts buckets of one table fully, as of the snapshot of a plan."""

    history: History
    target: TaskTarget

    def __call__(self, written: PaimonMessage) -> PaimonMessage:
        """Compact the bucket of newly written level-0 files; those files are removed again."""
        store, schema = self.history.store, self.target.schema
        snapshot = self.target.state.snapshot
        planned = self.history.snapshot(snapshot) if snapshot else None
        place = (written.partition, written.bucket)
        old = [e.file for e in live_files(store, planned, keep=lambda e: (e.partition, e.bucket) == place)]
        vectors = [e for e in index_files(store, planned) if _is_vector(e, place)]
        files = (*old, *written.new_files)
        deletions = deletion_files(vectors).get(place, {})
        split = PaimonSplit(
            written.folder, sum(file.file_size for file in files), *place, written.folder, files, deletions
        )
        reader = BucketReader(self.history, schema, self.target.options.table, schema.names, schema.names, None)
        compacted = self._written(reader, split)
        store.delete_many([f"{written.folder}/{file.file_name}" for file in written.new_files])
        return PaimonMessage(
            *place,
            written.total_buckets,
            written.folder,
            compact_before=tuple(old),
            compact_after=compacted,
            compact_deleted_index_files=tuple(vectors),
        )

    def _written(self, reader: BucketReader, split: PaimonSplit) -> tuple[DataFileMeta, ...]:
        writer = PaimonTaskWriter(self.target, DirectAssigner(self.target.router))
        whole = arrow_schema(self.target.schema.fields)
        try:
            for batch in reader(split):
                writer.hold(pa.Table.from_batches([batch]).cast(whole), None)
            messages = writer.finish()
        except BaseException:
            writer.abort()
            raise
        level = top_level(self.target.options.table)
        files = [file for message in messages for file in message.new_files]
        return tuple(replace(file, level=level, file_source=SOURCE_COMPACT) for file in files)


def top_level(options: Options) -> int:
    """The highest level of a table."""
    levels: int | None = options[opt.NUM_LEVELS]
    return (options[opt.COMPACTION_TRIGGER] + 1 if levels is None else levels) - 1


def _is_vector(entry: IndexManifestEntry, place: tuple[bytes, int]) -> bool:
    return entry.index_type == DELETION_VECTORS and (entry.partition, entry.bucket) == place
