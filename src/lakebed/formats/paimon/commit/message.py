"""What one writer hands to the commit: the files of one bucket."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.formats.paimon.codec.manifest import DataFileMeta, IndexManifestEntry
from lakebed.model.commit import CommitMessage


@dataclass(frozen=True, slots=True)
class PaimonMessage(CommitMessage):
    """Files of one (partition, bucket). `partition` is the serialized row, `folder` the bucket's folder in the table.

    The first group belongs to the APPEND snapshot, the `compact_` group to the COMPACT snapshot of the same commit.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    folder: str
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexManifestEntry, ...] = ()
    deleted_index_files: tuple[IndexManifestEntry, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    compact_new_index_files: tuple[IndexManifestEntry, ...] = ()
    compact_deleted_index_files: tuple[IndexManifestEntry, ...] = ()
    new_hashes: bytes = b""
    """Key hashes that a dynamic bucket gained, as its index file has them; the commit adds them to that file."""
    planned_on: int | None = None
    """Where buckets were assigned by what the table held: the snapshot of that time, 0 for none."""

    @property
    def is_empty(self) -> bool:
        """Whether it names no file."""
        return not (self.appends or self.compacts)

    @property
    def appends(self) -> bool:
        """Whether it has something for the APPEND snapshot."""
        return bool(
            self.new_files
            or self.deleted_files
            or self.changelog_files
            or self.new_index_files
            or self.deleted_index_files
        )

    @property
    def compacts(self) -> bool:
        """Whether it has something for the COMPACT snapshot."""
        return bool(
            self.compact_before
            or self.compact_after
            or self.compact_changelog
            or self.compact_new_index_files
            or self.compact_deleted_index_files
        )

    def written_files(self) -> tuple[DataFileMeta, ...]:
        """The data and changelog files that the writer made. Files that a compaction only moved to another level are
        not among them."""
        moved = {file.file_name for file in self.compact_before}
        made = tuple(file for file in self.compact_after if file.file_name not in moved)
        return (*self.new_files, *self.changelog_files, *made, *self.compact_changelog)

    def written_index_files(self) -> tuple[IndexManifestEntry, ...]:
        """The index files that the writer made."""
        return (*self.new_index_files, *self.compact_new_index_files)
