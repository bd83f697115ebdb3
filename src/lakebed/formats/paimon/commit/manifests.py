"""The metadata files of a commit: new manifests, manifest lists and index manifests, and old manifests that it merges
(`manifest_merge`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakebed.formats.paimon.bucket_summaries import remember_joined
from lakebed.formats.paimon.codec.manifest import ADD, IndexManifestEntry, ManifestEntry, ManifestFileMeta, SimpleStats
from lakebed.formats.paimon.codec.manifest_avro import index_manifest_to_bytes, manifest_list_to_bytes
from lakebed.formats.paimon.codec.manifest_summary import joined_manifests
from lakebed.formats.paimon.codec.types import DataType
from lakebed.formats.paimon.commit.manifest_files import partition_stats, partition_values, rolled
from lakebed.formats.paimon.commit.manifest_merge import FullMerge, MergeSettings, minor_groups
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.layout import NameFactory, manifest_path
from lakebed.formats.paimon.manifests import entries_of, manifest_bytes, manifest_file, merge
from lakebed.kernel.files import Store

_JOINED_SIZE = 2
"""Manifests with more bytes than this many times the target size do not become one."""
_BUFFER_BYTES = 32 << 20
"""Files are held until they have so many bytes, to be written together."""


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

    def flush(self, more: Mapping[str, bytes] = {}) -> None:
        """Write the files made so far, and `more` with them. Nothing may name them before that."""
        self._store.write_immutable({**more, **self.take()})

    def take(self) -> dict[str, bytes]:
        """The files that are made but not written yet, by path. The caller that takes them writes them."""
        waiting, self._waiting = self._waiting, {}
        return waiting

    def manifests(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Make manifests of about the target size."""
        if self._settings.drops_stats and not isinstance(entries, Entries):
            entries = [entry if entry.kind == ADD else entry.without_stats for entry in entries]
        return [*self._rolled([entries])]

    def _rolled(self, pieces: Iterable[Sequence[ManifestEntry]]) -> Iterator[ManifestFileMeta]:
        for data, summary in rolled(pieces, self._settings.target_size):
            name, size = self._put(self._manifests(), data)
            yield summary.meta(name, size, self._schema_id, self._types)

    def manifest_list(self, metas: Iterable[ManifestFileMeta]) -> tuple[str, int]:
        """Make a manifest list; returns its name and size in bytes."""
        return self._put(self._lists(), manifest_list_to_bytes(metas))

    def index_manifest(self, entries: Sequence[IndexManifestEntry]) -> str | None:
        """Make an index manifest; returns its name, None for no entries."""
        return self._put(self._indexes(), index_manifest_to_bytes(entries))[0] if entries else None

    def merged(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """The manifests that the next snapshot names for what the last one holds."""
        full = FullMerge.of(self._store, metas, self._settings, self._types)
        return self._joined(metas) if full is None else self._rewritten(full)

    def _rewritten(self, merge: FullMerge) -> list[ManifestFileMeta]:
        """All manifests without deleted entries: first those that stay, then the new ones."""
        staying = [*merge.kept]

        def pieces() -> Iterator[Entries]:
            for manifest, entries in merge.pieces(self._store):
                if manifest is None:
                    yield entries
                else:
                    staying.append(manifest)

        written = [*self._rolled(pieces())]
        return [*staying, *written]

    def _joined(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Neighbouring small manifests as one, where they fill a manifest together, or are many."""
        return [meta for group in minor_groups(metas, self._settings) for meta in self._as_one(group)]

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
            ends = [row for m in metas for row in (m.partition_stats.min_values, m.partition_stats.max_values)]
            nulls = [sum(of_column) for of_column in zip(*counts, strict=True)]
            stats = partition_stats([partition_values(row, self._types) for row in ends], nulls, self._types)
        low, high, lowest, highest = zip(*bounds, strict=True)
        added = sum(meta.num_added_files for meta in metas)
        bounds_of_all = min(low), max(high), min(lowest), max(highest)
        joined = ManifestFileMeta(name, size, added, 0, stats, self._schema_id, *bounds_of_all)
        remember_joined(self._store, metas, joined)
        return joined

    def _put(self, name: str, data: bytes) -> tuple[str, int]:
        path = manifest_path(name)
        self.written.append(path)
        self._waiting[path] = data
        if sum(map(len, self._waiting.values())) >= _BUFFER_BYTES:
            self.flush()
        return name, len(data)
