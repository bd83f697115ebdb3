"""Full compaction of the buckets that postponed rows move into, where only a compaction makes them visible or writes
their changelog.

Rules: Paimon's MergeTreeCompactManager for such tables. The files of a bucket, with their deletion vectors, and the new
rows become files of the highest level, which hold each key once and no deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakebed.formats.paimon.codec.manifest import DELETION_VECTORS, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.read.plan import deletion_files
from lakebed.formats.paimon.rewrite.task import BucketCompactor, BucketTask
from lakebed.formats.paimon.rewrite.unit import CompactionRules
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.task import TaskTarget


@dataclass(frozen=True, slots=True)
class FullCompaction:
    """Compacts buckets of one partition fully, as of the snapshot of a plan. `live` are its data files then, `indexes`
    its index files."""

    compactor: BucketCompactor
    live: Sequence[ManifestEntry]
    indexes: Sequence[IndexManifestEntry]

    @classmethod
    def of(cls, history: History, target: TaskTarget, partition: bytes) -> FullCompaction:
        """Read what the snapshot of the plan has in a partition."""
        snapshot = target.state.snapshot
        planned = history.snapshot(snapshot) if snapshot else None
        live, indexes = live_and_index_files(history.store, planned)
        return cls(
            BucketCompactor.of(history, CompactionRules.of(target.schema, target.options)),
            [entry for entry in live if entry.partition == partition],
            [entry for entry in indexes if entry.partition == partition and entry.index_type == DELETION_VECTORS],
        )

    def __call__(self, written: PaimonMessage) -> PaimonMessage:
        """Compact the bucket of newly written level-0 files. Those that nothing needs then are removed."""
        place = (written.partition, written.bucket)
        old = [entry.file for entry in self.live if entry.bucket == written.bucket]
        indexes = tuple(entry for entry in self.indexes if entry.bucket == written.bucket)
        deletions = deletion_files(indexes).get(place, {})
        compactor = self.compactor
        unit = compactor.rules.full((*old, *written.new_files), {*deletions}, compactor.expired)
        if unit is None:
            return written
        done = compactor(BucketTask(*place, written.total_buckets, written.folder, unit, deletions, indexes))
        new = {file.file_name for file in written.new_files}
        moved = {file.file_name for file in done.compact_after} & new
        unneeded = [file for file in written.new_files if file.file_name not in moved]
        compactor.history.store.delete_many([f"{written.folder}/{name}" for file in unneeded for name in file.names])
        return replace(
            done,
            compact_before=tuple(file for file in done.compact_before if file.file_name not in new),
            compact_changelog=(*written.changelog_files, *done.compact_changelog),
        )


def compacts_fully(rules: CompactionRules) -> bool:
    """Whether a table needs it."""
    return rules.lookup.needed or rules.full_changelog
