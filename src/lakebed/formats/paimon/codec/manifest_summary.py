"""Manifests as a whole: what one says of each bucket, and several joined to one, without a value for each entry.

A table that is written for long has many entries. A writer needs to know only few things of them, so these functions
take the records as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakebed.formats.paimon.codec.manifest import ADD
from lakebed.kernel.avro.container import Container, Framing, take_apart
from lakebed.kernel.avro.records import read_records
from lakebed.kernel.decoding import decoding

BucketOf = tuple[bytes, int, int]
"""A serialized partition row, the number of a bucket in it, and the number of buckets that its entries state."""

_BLOCK_RECORDS = 1000
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class BucketSummary:
    """What entries say of one bucket: the greatest sequence number of the files that they add (-1: they add none), how
    many files they add to each level, and how many `bytes`, less those that they delete.

    `newest` is when the newest file that any of them names was created, in milliseconds since 1970 (0: not known).
    """

    greatest_sequence: int
    levels: Mapping[int, int]
    bytes: int = 0
    newest: int = 0

    @property
    def files(self) -> int:
        """How many files the entries add, less those that they delete."""
        return sum(self.levels.values())

    @property
    def sorted_runs(self) -> int:
        """Sorted runs of these files: each one of level 0, and each higher level that has any."""
        return self.levels.get(0, 0) + sum(1 for level, files in self.levels.items() if level > 0 and files > 0)

    def plus(self, other: BucketSummary) -> BucketSummary:
        """The sum of two summaries of a bucket."""
        levels = dict(self.levels)
        for level, files in other.levels.items():
            levels[level] = levels.get(level, 0) + files
        greatest, newest = max(self.greatest_sequence, other.greatest_sequence), max(self.newest, other.newest)
        return BucketSummary(greatest, levels, self.bytes + other.bytes, newest)


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """The summary of a manifest by bucket, and its `external` files: names and places outside the table."""

    buckets: Mapping[BucketOf, BucketSummary]
    external: tuple[tuple[str, str], ...]


def manifest_summary(data: bytes, file: str) -> ManifestSummary:
    """The summary of a manifest. Raises CorruptError where its entries cannot be read."""
    files: dict[BucketOf, dict[int, int]] = {}
    greatest: dict[BucketOf, int] = {}
    sizes: dict[BucketOf, int] = {}
    newest: dict[BucketOf, int] = {}
    external: list[tuple[str, str]] = []
    with decoding("a manifest cannot be read", file=file):
        for record in read_records(data, numbers=True):
            bucket = (record["_PARTITION"], record["_BUCKET"], record["_TOTAL_BUCKETS"])
            entry = record["_FILE"]
            place = entry.get("_EXTERNAL_PATH")
            if place:
                external.append((entry["_FILE_NAME"], place))
            levels, level = files.setdefault(bucket, {}), entry["_LEVEL"]
            sign = 1 if record["_KIND"] == ADD else -1
            sizes[bucket] = sizes.get(bucket, 0) + sign * entry["_FILE_SIZE"]
            newest[bucket] = max(newest.get(bucket, 0), entry.get("_CREATION_TIME") or 0)
            levels[level] = levels.get(level, 0) + sign
            if record["_KIND"] == ADD:
                greatest[bucket] = max(greatest.get(bucket, -1), entry["_MAX_SEQUENCE_NUMBER"])
        summaries = {
            bucket: BucketSummary(greatest.get(bucket, -1), levels, sizes[bucket], newest[bucket])
            for bucket, levels in files.items()
        }
    return ManifestSummary(summaries, tuple(external))


def joined_manifests(manifests: Sequence[tuple[str, bytes]]) -> bytes | None:
    """One manifest with the entries of several, given by path and bytes, in order. None where they were written with
    different schemas."""
    with decoding("a manifest cannot be read", file=", ".join(path for path, _ in manifests)):
        containers = [take_apart(data) for _, data in manifests]
        schema = containers[0].metadata["avro.schema"]
        if any(container.metadata["avro.schema"] != schema for container in containers):
            return None
        framing = Framing.new("zstandard", level=1)
        blocks = (framing.block(count, records) for count, records in _blocks(containers))
        return b"".join([framing.header({"avro.schema": schema}), *blocks])


def _blocks(containers: Sequence[Container]) -> Iterator[tuple[int, bytes]]:
    """Records of files, in order, as blocks of a good size: their number and their bytes."""
    held: list[bytes | memoryview] = []
    count = size = 0
    for container in containers:
        for records, content in container.contents():
            if held and (count + records > _BLOCK_RECORDS or size + len(content) > _BLOCK_BYTES):
                yield count, b"".join(held)
                held, count, size = [], 0, 0
            held.append(content)
            count, size = count + records, size + len(content)
    if held:
        yield count, b"".join(held)
