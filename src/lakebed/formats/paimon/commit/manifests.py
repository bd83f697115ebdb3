"""Writing manifests: the new ones of a commit, and old ones that it merges.

Rules: Paimon's ManifestFileMerger. Small manifests are joined up to `manifest.target-file-size`. When the changed ones
together pass `manifest.full-compaction-threshold-size`, all are rewritten without the deleted entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.bucket_summaries import remember_joined
from lakebed.formats.paimon.codec.binary_row import decode_row, encode_row, with_arity, without_arity
from lakebed.formats.paimon.codec.manifest import ADD, IndexManifestEntry, ManifestEntry, ManifestFileMeta, SimpleStats
from lakebed.formats.paimon.codec.manifest_avro import (
    index_manifest_to_bytes,
    manifest_list_to_bytes,
    manifest_to_bytes,
)
from lakebed.formats.paimon.codec.manifest_summary import joined_manifests
from lakebed.formats.paimon.codec.types import DataType
from lakebed.formats.paimon.layout import NameFactory, manifest_path
from lakebed.formats.paimon.manifests import entries_of, manifest_bytes, manifest_file, merge
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options

_ENTRY_BYTES = 400
"""An estimate, by which entries are cut into manifests of the target size."""
_JOINED_SIZE = 2
"""Manifests with more bytes than this many times the target size do not become one."""
_BUFFER_BYTES = 32 << 20
"""Files are held until they have so many bytes, to be written together."""


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """When manifests are merged; sizes in bytes."""

    target_size: int
    merge_min_count: int
    full_threshold: int

    @classmethod
    def of(cls, options: Options) -> MergeSettings:
        """By the options `manifest.*`."""
        return cls(
            options[opt.MANIFEST_TARGET_SIZE], options[opt.MANIFEST_MERGE_COUNT], options[opt.MANIFEST_FULL_SIZE]
        )


class ManifestWriter:
    """Makes the metadata files of one commit attempt, and remembers them so that a lost race can be cleaned up.

    `flush` writes them together, since each write waits for its disk or its store, and so all wait at the same time.
    """

    def __init__(
        self, store: Store, partition_types: Sequence[DataType], schema_id: int, settings: MergeSettings
    ) -> None:
        self._store, self._types, self._schema_id, self._settings = store, tuple(partition_types), schema_id, settings
        self._manifests, self._lists, self._indexes = (
            NameFactory("manifest-"),
            NameFactory("manifest-list-"),
            NameFactory("index-manifest-"),
        )
        self.written: list[str] = []
        self._waiting: dict[str, bytes] = {}

    def flush(self) -> None:
        """Write the files made so far. Nothing may name them before that."""
        waiting, self._waiting = self._waiting, {}
        self._store.write_immutable(waiting)

    def manifests(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Make manifests of about the target size."""
        size = max(1, min(len(entries), self._settings.target_size // _ENTRY_BYTES))
        return [self._manifest(entries[start : start + size]) for start in range(0, len(entries), size)]

    def manifest_list(self, metas: Iterable[ManifestFileMeta]) -> tuple[str, int]:
        """Make a manifest list; returns its name and size in bytes."""
        return self._put(self._lists(), manifest_list_to_bytes(metas))

    def index_manifest(self, entries: Sequence[IndexManifestEntry]) -> str | None:
        """Make an index manifest; returns its name, None for no entries."""
        return self._put(self._indexes(), index_manifest_to_bytes(entries))[0] if entries else None

    def merged(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """The manifests that the next snapshot names for what the last one holds."""
        return self._rewritten(metas) or self._joined(metas)

    def _rewritten(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta] | None:
        """All manifests without deleted entries, when the changed ones have passed the threshold; else None."""
        full = [meta for meta in metas if not meta.num_deleted_files and meta.file_size >= self._settings.target_size]
        changed = [meta for meta in metas if meta not in full]
        if sum(meta.file_size for meta in changed) < self._settings.full_threshold:
            return None
        deleted = {entry.identity for entry in merge(entries_of(self._store, changed)) if entry.kind != ADD}
        untouched = [meta for meta in full if not deleted or not self._names_any(meta, deleted)]
        touched = [meta for meta in metas if meta not in untouched]
        live = [entry for entry in merge(entries_of(self._store, touched)) if entry.kind == ADD]
        return untouched + self.manifests(live)

    def _names_any(self, meta: ManifestFileMeta, identities: set[Any]) -> bool:
        return any(entry.identity in identities for entry in entries_of(self._store, [meta]))

    def _joined(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Neighbouring small manifests as one, where they fill a manifest together, or are many."""
        joined: list[ManifestFileMeta] = []
        waiting: list[ManifestFileMeta] = []
        for meta in metas:
            waiting.append(meta)
            if sum(item.file_size for item in waiting) >= self._settings.target_size:
                joined += self._as_one(waiting)
                waiting = []
        return joined + (self._as_one(waiting) if len(waiting) >= self._settings.merge_min_count else waiting)

    def _as_one(self, metas: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
        if len(metas) == 1:
            return metas
        joined = self._as_they_are(metas)
        return self.manifests(merge(entries_of(self._store, metas))) if joined is None else [joined]

    def _as_they_are(self, metas: Sequence[ManifestFileMeta]) -> ManifestFileMeta | None:
        """Manifests as one that has their entries unread, in order. None where entries may cancel each other, or where
        only the entries tell what the list says of the new manifest."""
        bounds = [(meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level) for meta in metas]
        counts = [meta.partition_stats.null_counts for meta in metas]
        if (
            any(meta.num_deleted_files or not meta.num_added_files for meta in metas)
            or any(None in numbers for numbers in bounds)
            or any(len(numbers) != len(self._types) or None in numbers for numbers in counts)
            or sum(meta.file_size for meta in metas) > _JOINED_SIZE * self._settings.target_size
        ):
            return None
        contents = manifest_bytes(self._store, [*map(manifest_file, metas)])
        data = joined_manifests([(manifest_path(file.name), content) for file, content in contents])
        if data is None:
            return None
        name, size = self._put(self._manifests(), data)
        stats = SimpleStats()
        if self._types:
            rows = [
                self._values(row) for m in metas for row in (m.partition_stats.min_values, m.partition_stats.max_values)
            ]
            stats = self._stats(rows, [sum(of_column) for of_column in zip(*counts, strict=True)])
        low, high, lowest, highest = zip(*bounds, strict=True)
        added = sum(meta.num_added_files for meta in metas)
        bounds_of_all = min(low), max(high), min(lowest), max(highest)
        joined = ManifestFileMeta(name, size, added, 0, stats, self._schema_id, *bounds_of_all)
        remember_joined(self._store, metas, joined)
        return joined

    def _manifest(self, entries: Sequence[ManifestEntry]) -> ManifestFileMeta:
        name, size = self._put(self._manifests(), manifest_to_bytes(entries))
        added = sum(entry.kind == ADD for entry in entries)
        buckets = [entry.bucket for entry in entries]
        levels = [entry.file.level for entry in entries]
        return ManifestFileMeta(
            name,
            size,
            added,
            len(entries) - added,
            self._partition_stats(entries),
            self._schema_id,
            min(buckets),
            max(buckets),
            min(levels),
            max(levels),
        )

    def _partition_stats(self, entries: Sequence[ManifestEntry]) -> SimpleStats:
        if not self._types:
            return SimpleStats()
        counts: dict[bytes, int] = {}
        for entry in entries:
            counts[entry.partition] = counts.get(entry.partition, 0) + 1
        rows = [(self._values(key), count) for key, count in counts.items()]
        nulls = [sum(count for row, count in rows if row[position] is None) for position in range(len(self._types))]
        return self._stats([row for row, _ in rows], nulls)

    def _values(self, row: bytes) -> Sequence[Any]:
        """The partition values of a serialized row."""
        return decode_row(without_arity(row), self._types)

    def _stats(self, rows: Sequence[Sequence[Any]], nulls: Sequence[int]) -> SimpleStats:
        """The least and greatest value of each partition column."""
        low: list[Any] = []
        high: list[Any] = []
        for position in range(len(self._types)):
            values = [row[position] for row in rows if row[position] is not None]
            low.append(min(values, default=None))
            high.append(max(values, default=None))
        arity = len(self._types)
        return SimpleStats(
            with_arity(encode_row(low, self._types), arity),
            with_arity(encode_row(high, self._types), arity),
            tuple(nulls),
        )

    def _put(self, name: str, data: bytes) -> tuple[str, int]:
        path = manifest_path(name)
        self.written.append(path)
        self._waiting[path] = data
        if sum(map(len, self._waiting.values())) >= _BUFFER_BYTES:
            self.flush()
        return name, len(data)
