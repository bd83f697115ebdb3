"""The system tables of the newest snapshot's files: `files`, `manifests`, `partitions` and `buckets`.

Rule: FilesTable, ManifestsTable, PartitionsTable and BucketsTable of Paimon. Values of partitions, keys and statistics
are texts there, as Java prints them. Times have no zone: Paimon gives them in the zone of its JVM, we give them in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import SOURCE_APPEND, DataFileMeta, ManifestEntry, SimpleStats
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, DataType
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, bucket_folder
from lakebed.formats.paimon.manifests import changelog_lists, data_manifests, live_files, metas_of_lists
from lakebed.formats.paimon.partition_text import spellings
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.system_tables.log_tables import TIME
from lakebed.kernel.options import Options
from lakebed.verbs.system_tables import SystemTable, of_rows

_FILES = pa.schema([
    pa.field("partition", pa.string()), pa.field("bucket", pa.int32(), False),
    pa.field("file_path", pa.string(), False), pa.field("file_format", pa.string(), False),
    pa.field("schema_id", pa.int64(), False), pa.field("level", pa.int32(), False),
    pa.field("record_count", pa.int64(), False), pa.field("file_size_in_bytes", pa.int64(), False),
    pa.field("min_key", pa.string()), pa.field("max_key", pa.string()),
    pa.field("null_value_counts", pa.string(), False), pa.field("min_value_stats", pa.string(), False),
    pa.field("max_value_stats", pa.string(), False), pa.field("min_sequence_number", pa.int64()),
    pa.field("max_sequence_number", pa.int64()), pa.field("creation_time", TIME),
    pa.field("deleteRowCount", pa.int64()), pa.field("file_source", pa.string()),
])  # fmt: skip
_MANIFESTS = pa.schema([
    pa.field("file_name", pa.string(), False), pa.field("file_size", pa.int64(), False),
    pa.field("num_added_files", pa.int64(), False), pa.field("num_deleted_files", pa.int64(), False),
    pa.field("schema_id", pa.int64(), False), pa.field("min_partition_stats", pa.string()),
    pa.field("max_partition_stats", pa.string()),
])  # fmt: skip
_SUMS = (
    pa.field("record_count", pa.int64(), False), pa.field("file_size_in_bytes", pa.int64(), False),
    pa.field("file_count", pa.int64(), False), pa.field("last_update_time", TIME),
)  # fmt: skip
_PARTITIONS = pa.schema([pa.field("partition", pa.string()), *_SUMS])
_BUCKETS = pa.schema([pa.field("partition", pa.string()), pa.field("bucket", pa.int32(), False), *_SUMS])


@dataclass(frozen=True)
class FileTables:
    """The tables of a branch, with the table's newest schema and its options."""

    history: History
    schema: TableSchema
    options: Options

    def files(self) -> SystemTable:
        """One row per data file of the newest snapshot that readers see: no postponed ones."""
        return of_rows(_FILES, lambda: map(self._file, self._seen()))

    def manifests(self) -> SystemTable:
        """One row per manifest of the newest snapshot, those of its changelog too."""

        def rows() -> Iterator[tuple[Any, ...]]:
            latest = self.history.latest()
            if latest is None:
                return
            store = self.history.store
            changelogs = [meta for metas in metas_of_lists(store, changelog_lists(latest)) for meta in metas]
            for meta in (*data_manifests(store, latest), *changelogs):
                stats = meta.partition_stats
                yield (
                    meta.file_name, meta.file_size, meta.num_added_files, meta.num_deleted_files, meta.schema_id,
                    self._partition(stats.min_values), self._partition(stats.max_values),
                )  # fmt: skip

        return of_rows(_MANIFESTS, rows)

    def partitions(self) -> SystemTable:
        """One row per partition with files, by its text. Postponed files, which readers do not see, do not count."""
        return of_rows(_PARTITIONS, lambda: self._summed(self._seen(), lambda e: (self._partition(e.partition),)))

    def buckets(self) -> SystemTable:
        """One row per bucket with files, by its partition and number."""
        return of_rows(_BUCKETS, lambda: self._summed(self._live(), lambda e: (self._partition(e.partition), e.bucket)))

    def _live(self) -> Sequence[ManifestEntry]:
        return live_files(self.history.store, self.history.latest())

    def _seen(self) -> Sequence[ManifestEntry]:
        return [entry for entry in self._live() if entry.bucket != POSTPONE_BUCKET]

    def _summed(
        self, entries: Sequence[ManifestEntry], place: Callable[[ManifestEntry], tuple[Any, ...]]
    ) -> list[tuple[Any, ...]]:
        sums: dict[tuple[Any, ...], list[int]] = {}
        for entry in entries:
            counts = sums.setdefault(place(entry), [0, 0, 0, 0])
            counts[0] += entry.file.row_count
            counts[1] += entry.file.file_size
            counts[2] += 1
            counts[3] = max(counts[3], entry.file.creation_time or 0)
        return [(*key, *figures) for key, figures in sorted(sums.items())]

    def _file(self, entry: ManifestEntry) -> tuple[Any, ...]:
        file, store = entry.file, self.history.store
        folder = bucket_folder(self._folders.of_row(entry.partition), entry.bucket)
        source = None if file.file_source is None else "APPEND" if file.file_source == SOURCE_APPEND else "COMPACT"
        nulls, low, high = self._stats(file)
        return (
            self._partition(entry.partition), entry.bucket, f"{store.location}/{folder}/{file.file_name}",
            file.file_name.rpartition(".")[2], file.schema_id, file.level, file.row_count, file.file_size,
            self._key(file, file.min_key), self._key(file, file.max_key), nulls, low, high, file.min_sequence_number,
            file.max_sequence_number, file.creation_time, file.delete_row_count, source,
        )  # fmt: skip

    @cached_property
    def _folders(self) -> PartitionFolders:
        return PartitionFolders.of(self.history.store, self.schema, self.options)

    def _partition(self, partition: bytes) -> str | None:
        """The text of a partition: `{a, b}`, and `{}` without partition columns."""
        kinds = [field.type for field in self.schema.project(self.schema.partition_keys)]
        values = decode_row(without_arity(partition), kinds)
        return f"{{{', '.join(_text(value, kind, False) for value, kind in zip(values, kinds, strict=True))}}}"

    def _key(self, file: DataFileMeta, key: bytes) -> str | None:
        written = self.history.schema(file.schema_id)
        kinds = [field.type for field in written.project(written.trimmed_primary_keys)]
        if not kinds or not int.from_bytes(key[:4], "big"):
            return None
        values = decode_row(without_arity(key), kinds)
        return f"[{', '.join(_text(value, kind) for value, kind in zip(values, kinds, strict=True))}]"

    def _stats(self, file: DataFileMeta) -> tuple[str, str, str]:
        """The counts of nulls, the least and the greatest values of the table's columns, as Java prints a map."""
        written = self.history.schema(file.schema_id)
        names = file.value_stats_cols if file.value_stats_cols is not None else file.write_cols
        fields = written.fields if names is None else tuple(written.field(n) for n in names if n in written.names)
        known = _columns(file.value_stats, fields)
        nulls: dict[str, str] = {}
        low: dict[str, str] = {}
        high: dict[str, str] = {}
        for field in self.schema.fields:
            absent = field.id not in {other.id for other in written.fields}
            count, least, greatest = known.get(field.id, (file.row_count if absent else None, "null", "null"))
            nulls[field.name] = "null" if count is None else str(count)
            low[field.name], high[field.name] = least, greatest
        return _printed(nulls), _printed(low), _printed(high)


def _columns(stats: SimpleStats, fields: Sequence[DataField]) -> Mapping[int, tuple[int | None, str, str]]:
    """The count of nulls, the least and the greatest value of columns, by field id."""
    if not stats.null_counts:
        return {}
    kinds = [field.type for field in fields]
    least, greatest = (decode_row(without_arity(row), kinds) for row in (stats.min_values, stats.max_values))
    rows = zip(fields, stats.null_counts, least, greatest, strict=False)
    return {field.id: (count, _text(low, field.type), _text(high, field.type)) for field, count, low, high in rows}


def _text(value: Any, kind: DataType, legacy: bool = True) -> str:
    """A value as Java prints it, or with `legacy` False as Paimon casts it to text. Bytes, for which Java prints an
    address, are in hexadecimal digits."""
    if value is None:
        return "null"
    try:
        return spellings(value, kind, legacy)[0]
    except UnsupportedError:
        return bytes(value).hex() if isinstance(value, bytes) else str(value)


def _printed(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{name}={values[name]}' for name in sorted(values))}}}"
