"""Full compaction of buckets, for tables whose batch reads leave level 0 out.

Rules: Paimon's MergeTreeCompactManager for such tables (lookup of first-row, deletion vectors), whose compactions take
level 0 to higher levels. Here a bucket that gains rows is compacted fully: its files, with their deletion vectors, and
the new rows become files of the highest level, which hold each key once and no deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import (
    DELETION_VECTORS,
    SOURCE_COMPACT,
    DataFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.read.plan import deletion_files
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.assigners import DirectAssigner
from lakebed.formats.paimon.write.task import PaimonTaskWriter, TaskTarget
from lakebed.kernel.options import Options


@dataclass(frozen=True, slots=True)
class FullCompaction:
    """Compacts buckets of one partition fully, as of the snapshot of a plan. `live` are its data files then, `indexes`
    its index files."""

    history: History
    target: TaskTarget
    live: Sequence[ManifestEntry]
    indexes: Sequence[IndexManifestEntry]

    @classmethod
    def of(cls, history: History, target: TaskTarget, partition: bytes) -> FullCompaction:
        """Read what the snapshot of the plan has in a partition."""
        snapshot = target.state.snapshot
        planned = history.snapshot(snapshot) if snapshot else None
        live, indexes = live_and_index_files(history.store, planned)
        return cls(
            history,
            target,
            [entry for entry in live if entry.partition == partition],
            [entry for entry in indexes if entry.partition == partition],
        )

    def __call__(self, written: PaimonMessage) -> PaimonMessage:
        """Compact the bucket of newly written level-0 files, which nothing needs then."""
        schema = self.target.schema
        place = (written.partition, written.bucket)
        old = [entry.file for entry in self.live if entry.bucket == written.bucket]
        vectors = [entry for entry in self.indexes if _is_vector(entry, place)]
        files = (*old, *written.new_files)
        deletions = deletion_files(vectors).get(place, {})
        split = PaimonSplit(
            written.folder, sum(file.file_size for file in files), *place, written.folder, files, deletions
        )
        reader = BucketReader(self.history, schema, self.target.options.table, schema.names, schema.names, None)
        compacted = self._written(reader, split)
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
