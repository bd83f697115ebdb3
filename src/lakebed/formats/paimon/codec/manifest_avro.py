"""The Avro files that hold manifests, manifest lists and index manifests, compressed with zstd.

Rules: Paimon's ManifestEntrySerializer, ManifestFileMetaSerializer, IndexManifestEntrySerializer and
DataFileMetaSerializer, which define the names of the records, the order of their fields and which are nullable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from lakebed.formats.paimon.codec.manifest import (
    DataFileMeta,
    DeletionVectorRange,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from lakebed.kernel.avro.container import Framing
from lakebed.kernel.avro.records import RecordSchema, read_records, record_blocks, write_records
from lakebed.kernel.decoding import decoding
from lakebed.kernel.remembered import EACH_BYTES, remembered

V = TypeVar("V")
MANIFEST_VERSION, _INDEX_VERSION = 2, 1


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _required(names: str, kind: Any) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind} for name in names.split()]


def _stats(name: str) -> dict[str, Any]:
    counts = {"type": "array", "items": ["null", "long"]}
    return _record(name, [*_required("_MIN_VALUES _MAX_VALUES", "bytes"), _optional("_NULL_COUNTS", counts)])


_NAME = "org.apache.paimon.avro.generated.record"
_STRINGS = {"type": "array", "items": "string"}
_FILE_FIELDS = [
    *_required("_FILE_NAME", "string"),
    *_required("_FILE_SIZE _ROW_COUNT", "long"),
    *_required("_MIN_KEY _MAX_KEY", "bytes"),
    {"name": "_KEY_STATS", "type": _stats(f"{_NAME}__FILE__KEY_STATS")},
    {"name": "_VALUE_STATS", "type": _stats(f"{_NAME}__FILE__VALUE_STATS")},
    *_required("_MIN_SEQUENCE_NUMBER _MAX_SEQUENCE_NUMBER _SCHEMA_ID", "long"),
    *_required("_LEVEL", "int"),
    *_required("_EXTRA_FILES", _STRINGS),
    _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
    _optional("_DELETE_ROW_COUNT", "long"),
    _optional("_EMBEDDED_FILE_INDEX", "bytes"),
    _optional("_FILE_SOURCE", "int"),
    _optional("_VALUE_STATS_COLS", _STRINGS),
    _optional("_EXTERNAL_PATH", "string"),
    _optional("_FIRST_ROW_ID", "long"),
    _optional("_WRITE_COLS", _STRINGS),
]
_MANIFEST = RecordSchema.of(
    _record(
        _NAME,
        [
            *_required("_VERSION _KIND", "int"),
            *_required("_PARTITION", "bytes"),
            *_required("_BUCKET _TOTAL_BUCKETS", "int"),
            {"name": "_FILE", "type": _record(f"{_NAME}__FILE", _FILE_FIELDS)},
        ],
    )
)
_MANIFEST_LIST = RecordSchema.of(
    _record(
        _NAME,
        [
            *_required("_VERSION", "int"),
            *_required("_FILE_NAME", "string"),
            *_required("_FILE_SIZE _NUM_ADDED_FILES _NUM_DELETED_FILES", "long"),
            {"name": "_PARTITION_STATS", "type": _stats(f"{_NAME}__PARTITION_STATS")},
            *_required("_SCHEMA_ID", "long"),
            *(_optional(name, "int") for name in ("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL")),
        ],
    )
)
_RANGE = _record(
    f"{_NAME}__DELETIONS_VECTORS_RANGES",
    [*_required("f0", "string"), *_required("f1 f2", "int"), _optional("_CARDINALITY", "long")],
)
_INDEX_MANIFEST = RecordSchema.of(
    _record(
        _NAME,
        [
            *_required("_VERSION _KIND", "int"),
            *_required("_PARTITION", "bytes"),
            *_required("_BUCKET", "int"),
            *_required("_INDEX_TYPE _FILE_NAME", "string"),
            *_required("_FILE_SIZE _ROW_COUNT", "long"),
            _optional("_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", _RANGE]}),
            _optional("_EXTERNAL_PATH", "string"),
        ],
    )
)


def manifest_to_bytes(entries: Iterable[ManifestEntry]) -> bytes:
    """The bytes of a manifest."""
    return _file(_MANIFEST, map(_entry_record, entries))


def manifest_header(framing: Framing) -> bytes:
    """The beginning of a manifest, before its blocks."""
    return framing.header({"avro.schema": _MANIFEST.text})


def manifest_blocks(entries: Iterable[ManifestEntry]) -> Iterator[tuple[int, bytes]]:
    """Entries as blocks of a thousand: their number and their bytes, uncompressed."""
    return record_blocks(_MANIFEST, map(_entry_record, entries))


def manifest_from_bytes(data: bytes, file: str) -> Iterator[ManifestEntry]:
    """The entries of a manifest, in order."""
    return _values(_entry_value, data, file)


def manifest_list_to_bytes(metas: Iterable[ManifestFileMeta]) -> bytes:
    """The bytes of a manifest list."""
    return _file(_MANIFEST_LIST, map(_meta_record, metas))


def manifest_list_from_bytes(data: bytes, file: str) -> Iterator[ManifestFileMeta]:
    """The manifests of a manifest list, in order."""
    return _values(_meta_value, data, file)


def index_manifest_to_bytes(entries: Iterable[IndexManifestEntry]) -> bytes:
    """The bytes of an index manifest."""
    return _file(_INDEX_MANIFEST, map(_index_record, entries))


def index_manifest_from_bytes(data: bytes, file: str) -> Iterator[IndexManifestEntry]:
    """The entries of an index manifest, in order."""
    return _values(_index_value, data, file)


def _file(schema: RecordSchema, records: Iterable[dict[str, Any]]) -> bytes:
    return write_records(schema, records, Framing.new("zstandard", level=1))


def _values(make: Callable[[dict[str, Any]], V], data: bytes, file: str) -> Iterator[V]:
    """The value of each record, by `make`. Raises CorruptError for a record without a required field."""
    with decoding("a manifest cannot be read", file=file):
        yield from _made(data, make) if len(data) <= EACH_BYTES else map(make, read_records(data, numbers=True))


@remembered
def _made(data: bytes, make: Callable[[dict[str, Any]], V]) -> tuple[V, ...]:
    return tuple(map(make, read_records(data, numbers=True)))


def _stats_record(stats: SimpleStats) -> dict[str, Any]:
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": list(stats.null_counts)}


def _stats_value(record: dict[str, Any]) -> SimpleStats:
    return SimpleStats(record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(record.get("_NULL_COUNTS") or ()))


def _entry_record(entry: ManifestEntry) -> dict[str, Any]:
    file = entry.file
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": _stats_record(file.key_stats),
            "_VALUE_STATS": _stats_record(file.value_stats),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": list(file.extra_files),
            "_CREATION_TIME": file.creation_time,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_index,
            "_FILE_SOURCE": file.file_source,
            "_VALUE_STATS_COLS": None if file.value_stats_cols is None else list(file.value_stats_cols),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": None if file.write_cols is None else list(file.write_cols),
        },
    }


def _entry_value(record: dict[str, Any]) -> ManifestEntry:
    return ManifestEntry(
        record["_KIND"],
        record["_PARTITION"],
        record["_BUCKET"],
        record["_TOTAL_BUCKETS"],
        _file_value(record["_FILE"]),
    )


def _file_value(file: dict[str, Any]) -> DataFileMeta:
    cols, written = file.get("_VALUE_STATS_COLS"), file.get("_WRITE_COLS")
    return DataFileMeta(
        file["_FILE_NAME"],
        file["_FILE_SIZE"],
        file["_ROW_COUNT"],
        file["_MIN_KEY"],
        file["_MAX_KEY"],
        _stats_value(file["_KEY_STATS"]),
        _stats_value(file["_VALUE_STATS"]),
        file["_MIN_SEQUENCE_NUMBER"],
        file["_MAX_SEQUENCE_NUMBER"],
        file["_SCHEMA_ID"],
        file["_LEVEL"],
        tuple(file["_EXTRA_FILES"]),
        file.get("_CREATION_TIME"),
        file.get("_DELETE_ROW_COUNT"),
        file.get("_EMBEDDED_FILE_INDEX"),
        file.get("_FILE_SOURCE"),
        None if cols is None else tuple(cols),
        file.get("_EXTERNAL_PATH"),
        file.get("_FIRST_ROW_ID"),
        None if written is None else tuple(written),
    )


def _meta_record(meta: ManifestFileMeta) -> dict[str, Any]:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": _stats_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
    }


def _meta_value(record: dict[str, Any]) -> ManifestFileMeta:
    return ManifestFileMeta(
        record["_FILE_NAME"],
        record["_FILE_SIZE"],
        record["_NUM_ADDED_FILES"],
        record["_NUM_DELETED_FILES"],
        _stats_value(record["_PARTITION_STATS"]),
        record["_SCHEMA_ID"],
        record.get("_MIN_BUCKET"),
        record.get("_MAX_BUCKET"),
        record.get("_MIN_LEVEL"),
        record.get("_MAX_LEVEL"),
    )


def _index_record(entry: IndexManifestEntry) -> dict[str, Any]:
    return {
        "_VERSION": _INDEX_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if entry.ranges is None
        else [{"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in entry.ranges],
        "_EXTERNAL_PATH": entry.external_path,
    }


def _index_value(record: dict[str, Any]) -> IndexManifestEntry:
    ranges = record.get("_DELETIONS_VECTORS_RANGES")
    return IndexManifestEntry(
        record["_KIND"],
        record["_PARTITION"],
        record["_BUCKET"],
        record["_INDEX_TYPE"],
        record["_FILE_NAME"],
        record["_FILE_SIZE"],
        record["_ROW_COUNT"],
        None
        if ranges is None
        else tuple(DeletionVectorRange(r["f0"], r["f1"], r["f2"], r.get("_CARDINALITY")) for r in ranges),
        record.get("_EXTERNAL_PATH"),
    )
