"""The commit message of a Paimon table: what one task wrote into one bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakebed.formats.paimon.codec.manifest import DataFileMeta, IndexManifestEntry
from lakebed.model.commit import CommitMessage


@dataclass(frozen=True, slots=True)
class PaimonMessage(CommitMessage):
    """Files of one (partition, bucket). `partition` is the serialized row, `folder` the bucket's folder in the table.

    Files without `compact_` in their name belong to the APPEND snapshot of the commit, the others to its COMPACT
    snapshot.
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
    """Key hashes that a dynamic bucket gained, in the form of its index file. The commit adds them to that file."""
    compact_known: frozenset[str] | None = None
    """The names of the bucket's files above level 0 and of its deletion vectors' index files that the compaction was
    made with, where others would change what it says; None: none would."""
    planned_on: int | None = None
    """The snapshot that rows got their buckets on, 0 for an empty table; None where no other commit changes these."""
    write_id: str = ""
    """The write that assigned dynamic buckets: it knows the keys of its earlier commits. "" where that is unknown."""

    @property
    def is_empty(self) -> bool:
        """Whether the message names no file."""
        return not (self.appends or self.compacts)

    @property
    def appends(self) -> bool:
        """Whether the message has files for the APPEND snapshot."""
        return bool(
            self.new_files
            or self.deleted_files
            or self.changelog_files
            or self.new_index_files
            or self.deleted_index_files
        )

    @property
    def compacts(self) -> bool:
        """Whether the message has files for the COMPACT snapshot."""
        return bool(
            self.compact_before
            or self.compact_after
            or self.compact_changelog
            or self.compact_new_index_files
            or self.compact_deleted_index_files
        )

    @property
    def compaction(self) -> PaimonMessage:
        """The message without what belongs to the APPEND snapshot."""
        return replace(
            self, new_files=(), deleted_files=(), changelog_files=(), new_index_files=(), deleted_index_files=()
        )

    @property
    def appended_names(self) -> Iterator[str]:
        """The names of the data and index files that the APPEND snapshot adds."""
        yield from (file.file_name for file in self.new_files)
        yield from (entry.file_name for entry in self.new_index_files)

    @property
    def compacted_names(self) -> Iterator[str]:
        """The names of the files that the COMPACT snapshot adds."""
        yield from (file.file_name for file in (*self.compact_after, *self.compact_changelog))
        yield from (entry.file_name for entry in self.compact_new_index_files)

    def written_files(self) -> tuple[DataFileMeta, ...]:
        """The data and changelog files that the writer made, without files that a compaction only moved to another
        level."""
        before = {file.file_name for file in self.compact_before}
        compacted = tuple(file for file in self.compact_after if file.file_name not in before)
        return (*self.new_files, *self.changelog_files, *compacted, *self.compact_changelog)

    def written_index_files(self) -> tuple[IndexManifestEntry, ...]:
        """The index files that the writer made."""
        return (*self.new_index_files, *self.compact_new_index_files)
