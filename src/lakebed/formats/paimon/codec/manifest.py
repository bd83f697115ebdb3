"""The values of manifests, manifest lists and index manifests: the files of a snapshot.

Rules: Paimon's ManifestEntry, ManifestFileMeta, IndexManifestEntry and DataFileMeta. Keys, partitions and
statistics are binary rows that begin with their number of fields. These values hold them as bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lakebed.formats.paimon.codec.binary_row import EMPTY_ROW, with_arity
from lakebed.kernel.decoding import Stated

ADD, DELETE = 0, 1
"""The kinds of an entry."""
SOURCE_APPEND, SOURCE_COMPACT = 0, 1
"""What wrote a data file: an append or a compaction."""
HASH_INDEX, DELETION_VECTORS = "HASH", "DELETION_VECTORS"
"""Types of index files."""

_EMPTY = with_arity(EMPTY_ROW, 0)


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """The least and greatest value of each column, as serialized rows, and its count of nulls (None: not counted)."""

    min_values: bytes = _EMPTY
    max_values: bytes = _EMPTY
    null_counts: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """One data file. Sizes are bytes, and `creation_time` is milliseconds since 1970.

    The value statistics cover the columns `value_stats_cols`, or every column where it is None.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the file and of those beside it that belong to it."""
        return (self.file_name, *self.extra_files)

    @property
    def stated(self) -> Stated:
        """The size in bytes and the row count that the manifest states for the file."""
        return Stated(self.file_size, self.row_count)

    @property
    def is_blob(self) -> bool:
        """Whether the file has the large values of one column alone."""
        return self.file_name.endswith((".blob", ".video"))

    @property
    def is_vector_store(self) -> bool:
        """Whether it has only columns of vectors, beside the data file of the same rows."""
        return ".vector." in self.file_name


Identity = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data file that was added or deleted.

    `total_buckets` is -1 where the number of buckets is not fixed, -2 for postponed buckets.
    """

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def without_stats(self) -> ManifestEntry:
        """The entry without statistics of the file's value columns."""
        return replace(self, file=replace(self.file, value_stats=SimpleStats(), value_stats_cols=()))

    @property
    def identity(self) -> Identity:
        """Equal for two entries of the same file."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )


@dataclass(frozen=True, slots=True)
class ManifestFileMeta:
    """One manifest in a manifest list, with a summary of its entries."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None


@dataclass(frozen=True, slots=True)
class DeletionVectorRange:
    """The range of an index file, in bytes, that holds the deletion vector of one data file."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class IndexManifestEntry:
    """An index file of a bucket: a HASH index, or deletion vectors."""

    kind: int
    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    ranges: tuple[DeletionVectorRange, ...] | None = field(default=None)
    external_path: str | None = None
