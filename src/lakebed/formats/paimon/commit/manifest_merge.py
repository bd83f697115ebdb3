"""Which manifests a commit merges, and what becomes of them.

Rules: Paimon's ManifestFileMerger. When the changed manifests (small ones, and those with deletes) together pass
`manifest.full-compaction-threshold-size`, they and all that have deleted entries are written anew without these (a full
merge). Else neighbours are joined up to `manifest.target-file-size`, and the rest when they are at least
`manifest.merge-min-count` (a minor one, in `manifests`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from lakebed.formats.paimon import file_options
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import ADD, DELETE, ManifestFileMeta
from lakebed.formats.paimon.codec.types import DataType
from lakebed.formats.paimon.commit.manifest_files import partition_values
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.manifests import entries_of, runs_of
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """When manifests are merged; sizes in bytes. `drops_stats`: deleted files keep no statistics of their columns."""

    target_size: int
    merge_min_count: int
    full_threshold: int
    drops_stats: bool = False

    @classmethod
    def of(cls, options: Options) -> MergeSettings:
        """The settings that the options `manifest.*` give."""
        return cls(
            options[opt.MANIFEST_TARGET_SIZE],
            options[opt.MANIFEST_MERGE_COUNT],
            options[opt.MANIFEST_FULL_SIZE],
            options[file_options.DROP_DELETED_STATS],
        )

    @property
    def of_a_rewrite(self) -> MergeSettings:
        """The settings of a rewrite of manifests, which merges all that can be merged."""
        return MergeSettings(self.target_size, 1, 1)

    def must_change(self, meta: ManifestFileMeta) -> bool:
        """Whether a full merge writes a manifest anew: it is small, or has deletes."""
        return meta.num_deleted_files > 0 or meta.file_size < self.target_size


class NothingToMergeError(Exception):
    """A rewrite of manifests would leave them as they are. It never leaves lakebed."""


def minor_groups(metas: Sequence[ManifestFileMeta], settings: MergeSettings) -> list[list[ManifestFileMeta]]:
    """Neighbouring manifests in order, in groups that a minor merge joins; a group of one stays."""
    groups: list[list[ManifestFileMeta]] = []
    waiting: list[ManifestFileMeta] = []
    size = 0
    for meta in metas:
        waiting.append(meta)
        size += meta.file_size
        if size >= settings.target_size:
            groups.append(waiting)
            waiting, size = [], 0
    if waiting and len(waiting) >= settings.merge_min_count:
        return [*groups, waiting]
    return [*groups, *([meta] for meta in waiting)]


@dataclass(frozen=True, slots=True)
class FullMerge:
    """A full merge of the manifests of a snapshot.

    `kept` stay, since no delete is in their partitions. `touched` are written anew where they must change or have
    deleted entries; `deletes` are all deletes.
    """

    settings: MergeSettings
    kept: tuple[ManifestFileMeta, ...]
    touched: tuple[ManifestFileMeta, ...]
    deletes: Entries

    @classmethod
    def of(
        cls, store: Store, metas: Sequence[ManifestFileMeta], settings: MergeSettings, types: Sequence[DataType]
    ) -> FullMerge | None:
        """The full merge of manifests. None where the changed ones are too small together, or fewer than two would be
        merged. `types` are those of the partition columns."""
        changed = [meta for meta in metas if settings.must_change(meta)]
        if sum(meta.file_size for meta in changed) < settings.full_threshold or not changed:
            return None
        with_deletes = [meta for meta in changed if meta.num_deleted_files]
        deleted_entries = Entries.of(entries_of(store, with_deletes, stats=False)) if with_deletes else None
        deletes = deleted_entries.of_kind(DELETE) if deleted_entries is not None else Entries.of([])
        spread = _Spread.of(deletes, types)
        touched = [settings.must_change(meta) or spread.may_touch(meta) for meta in metas]
        kept = tuple(meta for meta, is_touched in zip(metas, touched, strict=True) if not is_touched)
        if len(metas) - len(kept) < 2:
            return None
        return cls(settings, kept, tuple(compress(metas, touched)), deletes)

    def pieces(self, store: Store) -> Iterator[tuple[ManifestFileMeta | None, Entries]]:
        """The entries that remain, in order: with the manifest that has exactly them, or without where they are written
        anew. Some runs of manifests are in memory at a time."""

        def read(run: Sequence[ManifestFileMeta]) -> tuple[ManifestFileMeta | None, Entries]:
            entries = Entries.of(entries_of(store, run))
            left = entries.of_kind(ADD).without(self.deletes)
            stays = not self.settings.must_change(run[0]) and len(left) == len(entries)
            return (run[0] if stays else None), left

        yield from LocalEngine().map(read, [*self._runs()])

    def _runs(self) -> Iterator[Sequence[ManifestFileMeta]]:
        """Changed neighbours together, others alone."""
        changed: list[ManifestFileMeta] = []
        for meta in self.touched:
            if self.settings.must_change(meta):
                changed.append(meta)
                continue
            yield from runs_of(changed)
            changed = []
            yield [meta]
        yield from runs_of(changed)


@dataclass(frozen=True, slots=True)
class _Spread:
    """Where deletes are: the least and the greatest value of each partition column (None: only nulls), and whether some
    are null there."""

    is_empty: bool
    bounds: tuple[tuple[Any, Any] | None, ...]
    nulls: tuple[bool, ...]
    types: tuple[DataType, ...]

    @classmethod
    def of(cls, deletes: Entries, types: Sequence[DataType]) -> _Spread:
        rows = [partition_values(row, types) for row in deletes.partitions[1]] if types else []
        bounds: list[tuple[Any, Any] | None] = []
        for place in range(len(types)):
            values = [row[place] for row in rows if row[place] is not None]
            bounds.append((min(values), max(values)) if values else None)
        nulls = tuple(any(row[place] is None for row in rows) for place in range(len(types)))
        return cls(not len(deletes), tuple(bounds), nulls, tuple(types))

    def may_touch(self, meta: ManifestFileMeta) -> bool:
        """Whether a manifest may have entries of a partition with deletes."""
        if self.is_empty or not self.types:
            return not self.is_empty
        stats = meta.partition_stats
        if len(stats.null_counts) != len(self.types):
            return True
        lows, highs = (partition_values(row, self.types) for row in (stats.min_values, stats.max_values))
        columns = zip(lows, highs, stats.null_counts, self.bounds, self.nulls, strict=True)
        return all(
            _overlap(low, high, bounds) or (has_nulls and count != 0) for low, high, count, bounds, has_nulls in columns
        )


def _overlap(low: Any, high: Any, bounds: tuple[Any, Any] | None) -> bool:
    return bounds is not None and low is not None and high is not None and low <= bounds[1] and high >= bounds[0]
