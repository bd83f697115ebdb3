"""Look keys up in base files: by the key range and the bloom filter of their footers, then in the files themselves.
Where a compaction has replaced a base file, some keys may be in logs alone: see `keys_in_logs`.

The metadata table may know ranges and filters too: then no footer is read of a file that cannot have a key.

Rules: Hudi's `HoodieBloomIndex` and `HoodieSimpleIndex`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.formats.hudi.codec.bloom import parse_filter
from lakebed.formats.hudi.index.file_hints import FileHints, OpenHints
from lakebed.formats.hudi.index.keys_in_logs import KeysInLogs
from lakebed.formats.hudi.layout import PARTITION_PATH, RECORD_KEY, file_path
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.stored_keys import StoredKeys
from lakebed.formats.hudi.write.tagging import Tagged
from lakebed.kernel.arrays import Int64s, from_numpy, one_chunk, to_numpy
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store
from lakebed.kernel.predicates.row_groups import leaf_of, row_group_facts

_FILTERED_SHARE = 16
"""Keys are tested by a bloom filter where they are at most this part of the file's rows: to test a key takes longer
than to read one."""
_KEYS_READ = 1 << 19
_BY_META_COLUMN = StoredKeys()


@dataclass(frozen=True, slots=True)
class BaseFileIndex:
    """Finds keys in the base files of their own partition. Picklable."""

    files: BaseFileKeys

    def __call__(self, rows: pa.Table) -> Tagged:
        """The file group of each row."""
        codes = np.full(len(rows), -1, np.int64)
        groups: list[FileSlice] = []
        partitions = one_chunk(rows.column(PARTITION_PATH)).dictionary_encode()
        keys, of_row = one_chunk(rows.column(RECORD_KEY)), to_numpy(partitions.indices)
        names = partitions.dictionary.to_pylist()
        opened = self.files.opened(names)
        for number, partition in enumerate(names):
            at = np.flatnonzero(of_row == number)
            wanted = keys.take(from_numpy(at)) if len(names) > 1 else keys
            for file_slice, places in opened.find(self.files.slices.get(partition, ()), wanted):
                codes[at[places]] = len(groups)
                groups.append(file_slice)
        return Tagged(rows, codes, tuple(groups))


@dataclass(frozen=True, slots=True)
class BaseFileKeys:
    """Finds keys in base files: those of the file slices of each partition. Picklable.

    With `hints` the metadata table is asked which files may have a key, before their footers are. `stored` says what
    tells the keys of a file. `logs` finds those that no base file has.
    """

    store: Store
    slices: Mapping[str, Sequence[FileSlice]]
    hints: FileHints | None = None
    stored: StoredKeys = _BY_META_COLUMN
    logs: KeysInLogs | None = None

    def __call__(self, keys: pa.StringArray) -> Iterator[tuple[FileSlice, Int64s]]:
        """The slices of all partitions that have some of the keys, and the places of these."""
        opened = self.opened(list(self.slices))
        return opened.find([each for some in self.slices.values() for each in some], keys)

    def opened(self, partitions: Sequence[str]) -> OpenBaseFiles:
        """A look at the files of some partitions."""
        hints = self.hints.opened(partitions) if self.hints is not None else None
        return OpenBaseFiles(self.store, hints, self.stored, self.logs)


@dataclass(frozen=True, slots=True)
class OpenBaseFiles:
    """The base files with their key ranges and filters, after one read of the metadata table."""

    store: Store
    hints: OpenHints | None
    stored: StoredKeys = _BY_META_COLUMN
    logs: KeysInLogs | None = None

    def find(self, slices: Sequence[FileSlice], keys: pa.StringArray) -> Iterator[tuple[FileSlice, Int64s]]:
        """The slices that have some of the keys, each once, and the places of these."""
        every = np.arange(len(keys))
        if self.logs is not None:
            for file_slice in (each for each in slices if self.logs.covers(each)):
                places = np.union1d(self._found(file_slice, keys), self.logs.find(file_slice, keys))
                if len(places):
                    yield file_slice, places
            slices = [each for each in slices if not self.logs.covers(each)]
        if self.hints is not None and len(keys):
            candidates = self.hints.candidates(slices, keys)
        else:
            candidates = ((each, every) for each in slices)
        for file_slice, at in candidates:
            if file_slice.base is not None:
                wanted = keys if len(at) == len(keys) else keys.take(from_numpy(at))
                places = self._found(file_slice, wanted)
                if len(places):
                    yield file_slice, at[places]

    def _found(self, file_slice: FileSlice, keys: pa.Array) -> Int64s:
        """The places of those keys that a base file has."""
        assert file_slice.base is not None
        path = file_path(file_slice.partition, file_slice.base.name)
        with (
            decoding(
                "a base file cannot be read", table=self.store.location, file=path, todo="Restore the file from a copy"
            ),
            self.store.open_input(path, file_slice.base.size) as source,
        ):
            file = pq.ParquetFile(source)
            footer = file.metadata.metadata or {}
            candidates = np.arange(len(keys))
            least, greatest = footer.get(b"hoodie_min_record_key"), footer.get(b"hoodie_max_record_key")
            if least is not None and greatest is not None:
                inside = pc.and_(
                    pc.greater_equal(keys.cast(pa.binary()), least), pc.less_equal(keys.cast(pa.binary()), greatest)
                )
                candidates = np.flatnonzero(to_numpy(inside))
            text = footer.get(b"org.apache.hudi.bloomfilter")
            if text and 0 < len(candidates) * _FILTERED_SHARE <= file.metadata.num_rows:
                kind = footer.get(b"hoodie_bloom_filter_type_code", b"SIMPLE").decode()
                candidates = candidates[parse_filter(text, kind).may_have(keys.take(from_numpy(candidates)))]
            if not len(candidates):
                return candidates
            subset = keys.take(from_numpy(candidates)).dictionary_encode()  # a write may bring a key more than once
            distinct = subset.dictionary
            is_in_file = np.zeros(len(distinct), bool)
            groups = _groups_with(file, distinct)
            wanted = [*self.stored.columns]
            for batch in file.iter_batches(_KEYS_READ, row_groups=groups, columns=wanted, use_threads=False):
                places = to_numpy(pc.index_in(self.stored.keys(batch), value_set=distinct).drop_null())
                is_in_file[places] = True
            hits: Int64s = candidates[is_in_file[to_numpy(subset.indices)]]
            return hits


def _groups_with(file: pq.ParquetFile, keys: pa.Array) -> list[int]:
    """The row groups that can have some of the keys, by the least and the greatest key of each."""
    metadata = file.metadata
    groups = range(metadata.num_row_groups)
    place = file.schema_arrow.get_field_index(RECORD_KEY)
    leaf = leaf_of(file.schema_arrow, place) if place >= 0 else None
    facts = None
    if leaf is not None and len(groups) > 1:
        facts = row_group_facts(metadata, leaf, groups, pa.string(), lambda bounds: bounds)
    if facts is None:
        return [*groups]
    kept = []
    for group, least, greatest in zip(groups, facts.lower, facts.upper, strict=True):
        known = least.is_valid and greatest.is_valid
        inside = pc.and_(pc.greater_equal(keys, least), pc.less_equal(keys, greatest)) if known else None
        if inside is None or pc.any(inside).as_py():
            kept.append(group)
    return kept
