"""Writing manifests: entries to files of about `manifest.target-file-size`, each with its summary in manifest lists.

Rules: Paimon's ManifestFile and RollingFileWriterImpl, which looks at the size of a file at every thousandth entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakebed.formats.paimon.codec.binary_row import decode_row, encode_row, with_arity, without_arity
from lakebed.formats.paimon.codec.entry_columns import entry_blocks
from lakebed.formats.paimon.codec.manifest import ADD, ManifestEntry, ManifestFileMeta, SimpleStats
from lakebed.formats.paimon.codec.manifest_avro import manifest_blocks, manifest_header
from lakebed.formats.paimon.codec.types import DataType
from lakebed.formats.paimon.entries import Entries
from lakebed.kernel.avro.container import Framing
from lakebed.kernel.avro.records import BLOCK_RECORDS


def rolled(pieces: Iterable[Sequence[ManifestEntry]], target_size: int) -> Iterator[tuple[bytes, EntrySummary]]:
    """The manifests of entries, given in pieces: the bytes of each, and what it holds."""
    manifest: _Manifest | None = None
    for piece in _in_blocks(pieces):
        at = 0
        blocks = entry_blocks(piece.table) if isinstance(piece, Entries) else manifest_blocks(piece)
        for count, block in blocks:
            manifest = manifest or _Manifest()
            manifest.add(count, block, piece[at : at + count])
            at += count
            if manifest.size >= target_size:
                yield manifest.data, manifest.summary
                manifest = None
    if manifest is not None:
        yield manifest.data, manifest.summary


def _in_blocks(pieces: Iterable[Sequence[ManifestEntry]]) -> Iterator[Sequence[ManifestEntry]]:
    """Pieces of columns cut anew, so that only the last one has a block that is not whole."""
    rest: Entries | None = None
    for piece in pieces:
        if not isinstance(piece, Entries):
            yield piece
            continue
        joined = piece if rest is None else Entries.joined([rest, piece])
        whole = len(joined) - len(joined) % BLOCK_RECORDS
        yield joined[:whole]
        rest = joined[whole:]
    if rest is not None:
        yield rest


class _Manifest:
    """A manifest that is being written."""

    def __init__(self) -> None:
        self._framing = Framing.new("zstandard", level=1)
        self._chunks = [manifest_header(self._framing)]
        self.size, self.summary = len(self._chunks[0]), EntrySummary()

    def add(self, count: int, block: bytes, entries: Sequence[ManifestEntry]) -> None:
        self._chunks.append(self._framing.block(count, block))
        self.size += len(self._chunks[-1])
        self.summary.add(entries)

    @property
    def data(self) -> bytes:
        return b"".join(self._chunks)


@dataclass(slots=True)
class EntrySummary:
    """The summary of a manifest's entries that a manifest list holds."""

    added: int = 0
    deleted: int = 0
    buckets: tuple[int, int] | None = None
    levels: tuple[int, int] | None = None
    partitions: dict[bytes, int] = field(default_factory=dict)
    """The number of entries in each partition."""

    def add(self, entries: Sequence[ManifestEntry]) -> None:
        """Count more entries."""
        counts: Mapping[bytes, int]
        if isinstance(entries, Entries):
            codes, names = entries.partitions
            counts = dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))
            added = int((entries.numbers("kind") == ADD).sum())
            buckets, levels = entries.numbers("bucket").tolist(), entries.numbers("level").tolist()
        else:
            counts = {}
            for entry in entries:
                counts[entry.partition] = counts.get(entry.partition, 0) + 1
            added = sum(entry.kind == ADD for entry in entries)
            buckets, levels = [entry.bucket for entry in entries], [entry.file.level for entry in entries]
        self.added, self.deleted = self.added + added, self.deleted + len(entries) - added
        self.buckets, self.levels = _widened(self.buckets, buckets), _widened(self.levels, levels)
        for partition, count in counts.items():
            self.partitions[partition] = self.partitions.get(partition, 0) + count

    def meta(self, name: str, size: int, schema_id: int, types: Sequence[DataType]) -> ManifestFileMeta:
        """The line of a manifest list."""
        assert self.buckets is not None and self.levels is not None
        stats = SimpleStats()
        if types:
            rows = [(partition_values(key, types), count) for key, count in self.partitions.items()]
            nulls = [sum(count for row, count in rows if row[place] is None) for place in range(len(types))]
            stats = partition_stats([row for row, _ in rows], nulls, types)
        return ManifestFileMeta(name, size, self.added, self.deleted, stats, schema_id, *self.buckets, *self.levels)


def _widened(bounds: tuple[int, int] | None, numbers: Sequence[int]) -> tuple[int, int]:
    known = bounds or (numbers[0], numbers[0])
    return min(known[0], *numbers), max(known[1], *numbers)


def partition_values(row: bytes, types: Sequence[DataType]) -> Sequence[Any]:
    """The partition values of a serialized row."""
    return decode_row(without_arity(row), types)


def partition_stats(rows: Sequence[Sequence[Any]], nulls: Sequence[int], types: Sequence[DataType]) -> SimpleStats:
    """The least and greatest value of each partition column."""
    low: list[Any] = []
    high: list[Any] = []
    for position in range(len(types)):
        values = [row[position] for row in rows if row[position] is not None]
        low.append(min(values, default=None))
        high.append(max(values, default=None))
    arity = len(types)
    return SimpleStats(
        with_arity(encode_row(low, types), arity), with_arity(encode_row(high, types), arity), tuple(nulls)
    )
