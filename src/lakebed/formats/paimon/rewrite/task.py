"""The task of a compaction: one bucket of a table with a primary key.

Rules: Paimon's MergeTreeCompactTask and CompactResult.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakebed.formats.paimon import compaction_options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta, IndexManifestEntry
from lakebed.formats.paimon.commit.leftovers import remove_files
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.layout import NameFactory
from lakebed.formats.paimon.read.split import DeletionFile
from lakebed.formats.paimon.rewrite.merge_tree import MergeTree
from lakebed.formats.paimon.rewrite.record_expiry import RecordExpiry
from lakebed.formats.paimon.rewrite.unit import CompactionRules, CompactionUnit
from lakebed.formats.paimon.rewrite.vectors import BucketVectors
from lakebed.formats.paimon.snapshot import History


@dataclass(frozen=True, slots=True)
class BucketTask:
    """What one task compacts: a unit of a bucket. `deletions` and `indexes` are the bucket's deletion vectors, by data
    file and as index files."""

    partition: bytes
    bucket: int
    total_buckets: int
    folder: str
    unit: CompactionUnit
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)
    indexes: tuple[IndexManifestEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class BucketCompactor:
    """Compacts buckets of one table. Picklable."""

    history: History
    rules: CompactionRules
    expiry: RecordExpiry | None

    @classmethod
    def of(cls, history: History, rules: CompactionRules) -> BucketCompactor:
        """By the options of the table. OptionError where rows expire by a column that has no time."""
        return cls(history, rules, RecordExpiry.of(rules.schema, rules.options.table, history.store.location))

    def expired(self, file: DataFileMeta) -> bool:
        """Whether a file has rows that expired."""
        return self.expiry is not None and self.expiry.has_expired(file, self.history.schema(file.schema_id))

    def __call__(self, task: BucketTask) -> PaimonMessage:
        """Compact a bucket. What the task wrote is removed when it fails."""
        unit, rules = task.unit, self.rules
        vectors = BucketVectors(self.history.store, (*unit.older, *unit.files), task.deletions)
        tree = MergeTree(self.history, rules, self.expiry, task.folder, vectors)
        names = NameFactory(rules.options.data_prefix)
        reads = rules.full_changelog or rules.lookup.changelog or rules.lookup.vectors
        known = {file.file_name for file in (*unit.older, *unit.files) if file.level > 0}
        known |= {entry.file_name for entry in task.indexes}
        needs_all = rules.lookup.needed or rules.full_changelog
        place = (task.partition, task.bucket, task.total_buckets, task.folder)
        done = PaimonMessage(*place, compact_known=frozenset(known) if needs_all else None)
        try:
            for action in rules.actions(unit, self.expired):
                after: tuple[DataFileMeta, ...] = ()
                changelog: tuple[DataFileMeta, ...] = ()
                if action.rewrites or (action.notes_changes and reads):
                    written = tree.rewrite(unit, action, names)
                    after, changelog = written.files, written.changelog
                if action.rewrites:
                    for file in action.files:
                        vectors.forget(file)
                else:
                    after = tuple(replace(file, level=unit.output_level) for file in action.files)
                done = replace(
                    done,
                    compact_before=(*done.compact_before, *action.files),
                    compact_after=(*done.compact_after, *after),
                    compact_changelog=(*done.compact_changelog, *changelog),
                )
            if not vectors.changed:
                return done
            indexes = vectors.write(task.partition, task.bucket, rules.options.table[opt.VECTORS_64])
            return replace(done, compact_new_index_files=indexes, compact_deleted_index_files=task.indexes)
        except BaseException:
            remove_files(self.history.store, [done])
            raise
