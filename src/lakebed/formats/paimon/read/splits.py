"""Data files as splits: one per bucket where files are merged, else packed in their order.

Rules: Paimon's AppendOnlySplitGenerator and MergeTreeSplitGenerator (BinPacking.packForOrdered). The splits of many
files are made when they are asked for, since each has the values of its files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.entry_columns import file_values
from lakebed.formats.paimon.codec.manifest import DataFileMeta, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.layout import bucket_folder
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.read.split import DeletionFile, PaimonSplit
from lakebed.kernel.arrays import Bools, Int64s
from lakebed.kernel.options import Options
from lakebed.verbs.many_splits import MANY, ManySplits

Deletions = Mapping[tuple[bytes, int], Mapping[str, DeletionFile]]
"""The deletion vectors by partition and bucket, then by data file name."""


def bucket_splits(
    entries: Sequence[ManifestEntry],
    deletions: Deletions,
    folders: PartitionFolders,
    schema: TableSchema,
    options: Options,
) -> Sequence[PaimonSplit]:
    """The splits of data files, by bucket in the order of their first files: one per bucket, or several where no rows
    are merged. Those of many files are made on demand, without statistics."""
    if not len(entries):
        return ()
    files = Entries.of(entries)
    buckets = files.buckets
    folders.look(buckets.partitions)
    places = [
        (partition, number, bucket_folder(folders.of_row(partition), number))
        for partition, number in zip(buckets.partitions, buckets.numbers.tolist(), strict=True)
    ]
    if schema.primary_keys:
        order = np.argsort(buckets.codes, kind="stable")
    else:  # a compaction may add rows later that are older
        order = np.lexsort((files.numbers("min_sequence_number"), buckets.codes))
    many = len(files) > MANY
    ordered = files.without_stats() if many else files
    if many or (np.diff(order) < 0).any():
        ordered = ordered.at(order)
    starts = np.flatnonzero(np.diff(buckets.codes[order], prepend=-1))
    unmerged = np.zeros(len(starts), np.bool_)
    if skips_level_0(schema, options):
        unmerged = np.minimum.reduceat(ordered.numbers("level"), starts) > 0
    packs = np.ones(len(starts), np.bool_) if not schema.primary_keys else unmerged
    splits = BucketSplits.of(ordered, starts, packs, unmerged, places, deletions, options)
    return splits if many else tuple(splits)


def skips_level_0(schema: TableSchema, options: Options) -> bool:
    """Whether batch reads leave level 0 out because only a compaction makes its rows visible."""
    return bool(schema.primary_keys) and (options[opt.DELETION_VECTORS] or options[opt.MERGE_ENGINE] == "first-row")


def packed(files: Sequence[DataFileMeta], options: Options) -> list[Sequence[DataFileMeta]]:
    """Files in order, in parts of about `source.split.target-size`. A file counts `source.split.open-file-cost` at
    least."""
    begins = part_begins([file.file_size for file in files], {0}, options)
    return [files[begin:end] for begin, end in zip(begins, [*begins[1:], len(files)], strict=True)]


def part_begins(sizes: Sequence[int], fixed: set[int], options: Options) -> list[int]:
    """Where the parts of files begin, by their sizes; at the places in `fixed` too."""
    target, least = options[opt.SPLIT_SIZE], options[opt.SPLIT_OPEN_COST]
    begins: list[int] = []
    size = 0
    for place, file_size in enumerate(sizes):
        weight = file_size if file_size > least else least
        if size + weight > target or place in fixed:
            begins.append(place)
            size = weight
        else:
            size += weight
    return begins


@dataclass(frozen=True, slots=True, eq=False)
class BucketSplits(ManySplits[PaimonSplit]):
    """Splits that are made of the columns of their files when they are asked for.

    Split i has the files from `begins[i]` to `begins[i + 1]`, of the bucket at `buckets[i]` in `places` (partition,
    number and folder), and it is number `numbers[i]` of `counts[i]` splits there.
    """

    files: Entries
    begins: Int64s
    buckets: Int64s
    numbers: Int64s
    counts: Int64s
    sizes: Int64s
    unmerged: Bools
    places: Sequence[tuple[bytes, int, str]]
    deletions: Deletions

    @classmethod
    def of(
        cls, files: Entries, starts: Int64s, packs: Bools, unmerged: Bools, places: Sequence[tuple[bytes, int, str]],
        deletions: Deletions, options: Options,
    ) -> BucketSplits:  # fmt: skip
        """Of files ordered by bucket: bucket i begins at `starts[i]`, and is several splits where `packs[i]`."""
        sizes = files.numbers("file_size")
        begins = starts
        if packs.any():
            ends = np.append(starts[1:], len(files))
            every = np.array(part_begins(sizes.tolist(), {*starts.tolist()}, options), np.int64)
            of_bucket = np.searchsorted(starts, every, side="right") - 1
            begins = every[packs[of_bucket] | (every == starts[of_bucket])]
            assert begins[-1] < ends[-1]
        buckets = np.searchsorted(starts, begins, side="right") - 1
        firsts = np.searchsorted(begins, starts)
        counts = np.diff(np.append(firsts, len(begins)))
        return cls(
            files, np.append(begins, len(files)), buckets, np.arange(len(begins)) - firsts[buckets], counts[buckets],
            np.add.reduceat(sizes, begins), unmerged[buckets], places, deletions,
        )  # fmt: skip

    def made(self, places: Int64s) -> Iterator[PaimonSplit]:
        """The splits at these places."""
        part = self.taken(places)
        files, begins = tuple(file_values(part.files.table)), part.begins.tolist()
        columns = (part.buckets, part.numbers, part.counts, part.sizes, part.unmerged)
        rest = (column.tolist() for column in columns)
        ranges = zip(begins[:-1], begins[1:], *rest, strict=True)
        for first, last, bucket, number, count, size, unmerged in ranges:
            partition, bucket_number, folder = part.places[bucket]
            own = files[first:last]
            vectors = part.deletions.get((partition, bucket_number), {})
            if count > 1 and vectors:
                vectors = {f.file_name: vectors[f.file_name] for f in own if f.file_name in vectors}
            group = f"{folder}#{number}" if number else folder
            yield PaimonSplit(group, size, partition, bucket_number, folder, own, vectors, unmerged)

    def taken(self, places: Int64s) -> BucketSplits:
        """The splits at these places, with their files, folders and deletion vectors alone."""
        counts = self.begins[places + 1] - self.begins[places]
        begins = np.append(0, np.cumsum(counts))
        rows = np.arange(begins[-1]) + np.repeat(self.begins[places] - begins[:-1], counts)
        old, buckets = np.unique(self.buckets[places], return_inverse=True)
        folders = [self.places[bucket] for bucket in old.tolist()]
        keys = [(partition, number) for partition, number, _ in folders]
        vectors = {key: self.deletions[key] for key in keys if key in self.deletions}
        return BucketSplits(
            self.files.at(rows), begins, buckets, self.numbers[places], self.counts[places], self.sizes[places],
            self.unmerged[places], folders, vectors,
        )  # fmt: skip
