"""Read the bloom filters that the metadata table keeps: of each base file the one that its footer has too.

Rules: Hudi's `HoodieMetadataPayload.createBloomFilterMetadataRecord`, `HoodieBackedTableMetadata.getBloomFilters`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.bloom import BloomFilter, parse_filter
from lakebed.formats.hudi.codec.metadata_keys import file_groups_of, file_hash, partition_hash
from lakebed.formats.hudi.metadata_table.entries import Entries, entries_around
from lakebed.formats.hudi.metadata_table.keys_written import BLOOM_FILTERS
from lakebed.formats.hudi.metadata_table.named import REBUILD
from lakebed.formats.hudi.metadata_table.opened import Image, MetadataTable
from lakebed.formats.hudi.slices import FileSlice
from lakebed.kernel.arrays import from_numpy

_GROUP = re.compile(r"^bloom-filters-(\d{4})-\d+$")


@dataclass(slots=True)
class BloomFilters:
    """The filters of one state of a table, each read when it is asked for. Log files are read once."""

    table: MetadataTable
    groups: Sequence[FileSlice]
    _images: dict[int, list[Image]]

    @classmethod
    def opened(cls, table: MetadataTable) -> BloomFilters:
        """UnsupportedError where a file group is missing."""
        slices = {}
        for file_slice in table.slices(BLOOM_FILTERS):
            parsed = _GROUP.match(file_slice.file_id)
            slices[int(parsed[1]) if parsed else -1] = file_slice
        if not slices or sorted(slices) != list(range(len(slices))):
            raise UnsupportedError("the bloom filters of the metadata table lack a file group", todo=REBUILD)
        return cls(table, [slices[number] for number in range(len(slices))], {})

    def of(self, files: Sequence[FileSlice]) -> list[BloomFilter | None]:
        """The filter of each slice's base file, None where there is none.

        Raises what `opened.UNUSABLE` has where it cannot be read.
        """
        keys = pa.array([_key(each) for each in files], pa.binary())
        of_file = file_groups_of(keys.cast(pa.string()), len(self.groups))
        filters: list[BloomFilter | None] = [None] * len(files)
        for number in np.unique(of_file).tolist():
            places = np.flatnonzero(of_file == number)
            wanted = keys.take(from_numpy(places))
            for image in self._read(number):
                entries = entries_around(image, wanted.to_pylist())
                mine = entries.only(pc.is_in(entries.keys, value_set=wanted))
                at = pc.index_in(mine.keys, value_set=wanted).to_numpy(zero_copy_only=False)
                for place, bloom in zip(places[at].tolist(), _filters(mine), strict=True):
                    filters[place] = bloom
        return filters

    def _read(self, number: int) -> list[Image]:
        if number not in self._images:
            self._images[number] = list(self.table.images(self.groups[number]))
        return self._images[number]


def _key(file_slice: FileSlice) -> bytes:
    assert file_slice.base is not None
    return partition_hash(file_slice.partition) + file_hash(file_slice.base.name)


def _filters(entries: Entries) -> list[BloomFilter | None]:
    """The filter in each record, None in records of files that are gone."""
    if not len(entries.keys):
        return []
    fields = entries.decoded("BloomFilterMetadata")
    if fields is None:
        return [None] * len(entries.keys)
    return [
        parse_filter(text, kind) if text and not gone else None
        for text, kind, gone in zip(
            fields["bloomFilter"].to_pylist(), fields["type"].to_pylist(), fields["isDeleted"], strict=True
        )
    ]
