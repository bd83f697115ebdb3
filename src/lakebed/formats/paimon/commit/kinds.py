"""The kinds of commit, and what each changes: APPEND, OVERWRITE, COMPACT.

Rules: Paimon's FileStoreCommitImpl.commit. One commit makes up to two snapshots with one identifier: first what was
written (APPEND, or OVERWRITE where files are replaced or rows marked as deleted), then what was compacted (COMPACT).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.formats.paimon.codec.manifest import (
    ADD,
    DELETE,
    DELETION_VECTORS,
    DataFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from lakebed.formats.paimon.codec.snapshot_json import CommitKind
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.overwrite import ReplacedPartitions


@dataclass(frozen=True, slots=True)
class Changes:
    """What one snapshot changes: data files, changelog files, and index files added and removed."""

    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    new_indexes: tuple[IndexManifestEntry, ...] = ()
    removed_indexes: tuple[IndexManifestEntry, ...] = ()
    known: Mapping[tuple[bytes, int], frozenset[str]] = field(default_factory=dict)
    """By partition and bucket: the files above level 0 and the index files that a compaction was made with, where there
    may be no others."""


@dataclass(frozen=True, slots=True)
class AssignmentBase:
    """What dynamic buckets were assigned on: a snapshot id (0: an empty table), the partitions where another writer's
    rows would matter (None: all), and the writes that assigned them (none where these are unknown)."""

    snapshot: int
    partitions: frozenset[bytes] | None
    writes: frozenset[str] = frozenset()


ORIGIN = "lakebed.commit.origin"
"""The key of a snapshot's origin in its properties."""
WRITES = "lakebed.commit.writes"
"""The key of the writes, divided by commas, that assigned a snapshot's dynamic buckets, in its properties."""


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A snapshot that a commit wants to make, and what may not have happened since it was planned.

    - `replaced`: the partitions that an overwrite replaces.
    - `assigned_on`: what dynamic buckets were assigned on.
    - `routed_on`: the snapshot that rows got fixed buckets on, 0 for an empty table: the number of these may have
      changed since.
    - `check_appends`: look for conflicts before an append too.
    - `rows_since`: no snapshot after this one may have changed rows with the same ids; None: do not look.
    - `last_safe`: no other user may have compacted, overwritten or written to real buckets after this snapshot; None
      or negative: do not look.
    - `watermark`: that of the rows, in milliseconds since 1970; None: that of the latest snapshot.
    - `origin`: where the rows come from, "" where that is unknown (`lakebed.kernel.commit.replay`).
    - `merges_manifests`: it changes no file, and merges all manifests that can be.
    """

    user: str
    identifier: int
    kind: CommitKind
    changes: Changes
    replaced: ReplacedPartitions | None = None
    assigned_on: AssignmentBase | None = None
    check_appends: bool = False
    rows_since: int | None = None
    last_safe: int | None = None
    watermark: int | None = None
    merges_manifests: bool = False
    origin: str = ""
    routed_on: int | None = None


def kind_of_append(messages: Iterable[PaimonMessage], replaced: ReplacedPartitions | None) -> CommitKind:
    """OVERWRITE where partitions or files are replaced or rows are marked as deleted, else APPEND."""
    overwrites = replaced is not None or any(map(_deletes, messages))
    return CommitKind.OVERWRITE if overwrites else CommitKind.APPEND


def append_changes(messages: Sequence[PaimonMessage], indexes: tuple[IndexManifestEntry, ...]) -> Changes:
    """The changes of messages for the first snapshot of a commit, with the HASH `indexes` of dynamic buckets."""
    return Changes(
        tuple(
            entry
            for message in messages
            for entry in (*_entries(DELETE, message, message.deleted_files), *_entries(ADD, message, message.new_files))
        ),
        tuple(entry for message in messages for entry in _entries(ADD, message, message.changelog_files)),
        (*(entry for message in messages for entry in message.new_index_files), *indexes),
        tuple(entry for message in messages for entry in message.deleted_index_files),
    )


def compact_changes(messages: Sequence[PaimonMessage]) -> Changes:
    """The changes of messages for the COMPACT snapshot of a commit."""
    return Changes(
        tuple(
            entry
            for message in messages
            for entry in (
                *_entries(DELETE, message, message.compact_before),
                *_entries(ADD, message, message.compact_after),
            )
        ),
        tuple(entry for message in messages for entry in _entries(ADD, message, message.compact_changelog)),
        tuple(entry for message in messages for entry in message.compact_new_index_files),
        tuple(entry for message in messages for entry in message.compact_deleted_index_files),
        {(m.partition, m.bucket): m.compact_known for m in messages if m.compact_known is not None},
    )


def _deletes(message: PaimonMessage) -> bool:
    return bool(message.deleted_files) or any(entry.index_type == DELETION_VECTORS for entry in message.new_index_files)


def _entries(kind: int, message: PaimonMessage, files: Sequence[DataFileMeta]) -> list[ManifestEntry]:
    return [ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file) for file in files]
