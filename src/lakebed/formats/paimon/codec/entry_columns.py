"""The entries of manifests as whole Arrow columns, for manifests with too many entries to make a value of each.

Rules: as in `manifest_avro`. A record inside a record (an entry's file, a file's statistics) has no bytes of its own in
Avro, so its fields are read as fields of the outer record: the decoder skips those that are not wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.formats.paimon.codec.manifest import DataFileMeta, ManifestEntry, SimpleStats
from lakebed.formats.paimon.codec.manifest_avro import MANIFEST_VERSION
from lakebed.kernel.arrays import from_numpy, from_values, one_chunk
from lakebed.kernel.avro.container import Container, take_apart
from lakebed.kernel.avro.decode import decode_blocks
from lakebed.kernel.avro.encode import encode_records
from lakebed.kernel.avro.records import BLOCK_RECORDS
from lakebed.kernel.avro.schema import checked_schema, plain_fields
from lakebed.kernel.decoding import decoding, parsed_json
from lakebed.kernel.scratch import Scratch

_BATCH_ROWS = 1 << 16
_VALUES_AT_ONCE = 1 << 13
_STRINGS, _COUNTS = pa.list_(pa.string()), pa.list_(pa.int64())

_COLUMNS: dict[str, tuple[str, pa.DataType, bool]] = {
    "kind": ("_KIND", pa.int32(), False),
    "partition": ("_PARTITION", pa.binary(), False),
    "bucket": ("_BUCKET", pa.int32(), False),
    "total_buckets": ("_TOTAL_BUCKETS", pa.int32(), False),
    "file_name": ("_FILE._FILE_NAME", pa.string(), False),
    "file_size": ("_FILE._FILE_SIZE", pa.int64(), False),
    "row_count": ("_FILE._ROW_COUNT", pa.int64(), False),
    "min_key": ("_FILE._MIN_KEY", pa.binary(), False),
    "max_key": ("_FILE._MAX_KEY", pa.binary(), False),
    "key_stats_min": ("_FILE._KEY_STATS._MIN_VALUES", pa.binary(), False),
    "key_stats_max": ("_FILE._KEY_STATS._MAX_VALUES", pa.binary(), False),
    "key_stats_nulls": ("_FILE._KEY_STATS._NULL_COUNTS", _COUNTS, True),
    "value_stats_min": ("_FILE._VALUE_STATS._MIN_VALUES", pa.binary(), False),
    "value_stats_max": ("_FILE._VALUE_STATS._MAX_VALUES", pa.binary(), False),
    "value_stats_nulls": ("_FILE._VALUE_STATS._NULL_COUNTS", _COUNTS, True),
    "min_sequence_number": ("_FILE._MIN_SEQUENCE_NUMBER", pa.int64(), False),
    "max_sequence_number": ("_FILE._MAX_SEQUENCE_NUMBER", pa.int64(), False),
    "schema_id": ("_FILE._SCHEMA_ID", pa.int64(), False),
    "level": ("_FILE._LEVEL", pa.int32(), False),
    "extra_files": ("_FILE._EXTRA_FILES", _STRINGS, False),
    "creation_time": ("_FILE._CREATION_TIME", pa.int64(), True),
    "delete_row_count": ("_FILE._DELETE_ROW_COUNT", pa.int64(), True),
    "embedded_index": ("_FILE._EMBEDDED_FILE_INDEX", pa.binary(), True),
    "file_source": ("_FILE._FILE_SOURCE", pa.int32(), True),
    "value_stats_cols": ("_FILE._VALUE_STATS_COLS", _STRINGS, True),
    "external_path": ("_FILE._EXTERNAL_PATH", pa.string(), True),
    "first_row_id": ("_FILE._FIRST_ROW_ID", pa.int64(), True),
    "write_cols": ("_FILE._WRITE_COLS", _STRINGS, True),
}
"""Each column, in the order of the values' fields: its field in the records, its type, and whether it may be null."""
ENTRY_SCHEMA = pa.schema([pa.field(name, kind, nullable) for name, (_, kind, nullable) in _COLUMNS.items()])
"""The columns of entries. Serialized rows are binary; times are milliseconds since 1970."""

STATS = tuple(name for name in _COLUMNS if name.startswith(("key_stats_", "value_stats_")))
"""The columns with statistics, and that with the columns that have some."""
_BARE_SCHEMA = pa.schema([field for field in ENTRY_SCHEMA if field.name not in STATS])


def decode_entries(manifests: Sequence[tuple[str, bytes]], stats: bool = True) -> pa.Table:
    """The entries of manifests, given by path and bytes, in order: `ENTRY_SCHEMA`, one row each. The statistics, which
    are the bulk, are left out without `stats`.

    Raises CorruptError where entries cannot be read, UnsupportedError beyond the bounds of `decode_blocks`.
    """
    tables: list[pa.Table] = []
    opened = [(path, _opened(path, data)) for path, data in manifests]
    filled = [(path, container) for path, container in opened if container.rows]
    for _, run in groupby(filled, lambda pair: (pair[1].metadata["avro.schema"], pair[1].codec)):
        paths, containers = zip(*run, strict=True)
        with decoding("a manifest cannot be read", file=", ".join(paths)):
            tables.append(_decoded(containers, ENTRY_SCHEMA if stats else _BARE_SCHEMA))
    return pa.concat_tables(tables) if tables else (ENTRY_SCHEMA if stats else _BARE_SCHEMA).empty_table()


def entry_table(entries: Sequence[ManifestEntry]) -> pa.Table:
    """Entries as columns of `ENTRY_SCHEMA`."""
    files = [entry.file for entry in entries]
    columns: dict[str, list[Any]] = {
        name: [getattr(entry, name) for entry in entries] for name in ("kind", "partition", "bucket", "total_buckets")
    }
    for name in _COLUMNS.keys() - columns.keys():
        stats, _, part = name.rpartition("_")
        if stats in ("key_stats", "value_stats") and part in _PARTS:
            columns[name] = [getattr(getattr(file, stats), _PARTS[part]) for file in files]
        else:
            columns[name] = [getattr(file, name) for file in files]
    return pa.Table.from_arrays([from_values(columns[f.name], f.type) for f in ENTRY_SCHEMA], schema=ENTRY_SCHEMA)


_PARTS = {"min": "min_values", "max": "max_values", "nulls": "null_counts"}


def entry_values(table: pa.Table) -> Iterator[ManifestEntry]:
    """The value of each row, in order; a table without statistics makes values without. Some thousand of them are in
    memory at once."""
    for start in range(0, len(table), _VALUES_AT_ONCE):
        rows = table.slice(start, _VALUES_AT_ONCE)
        places = (rows.column(number).to_pylist() for number in range(4))
        for kind, partition, bucket, total, file in zip(*places, file_values(rows), strict=True):
            yield ManifestEntry(kind, partition, bucket, total, file)


def file_values(table: pa.Table) -> Iterator[DataFileMeta]:
    """The data file of each row, in order."""
    for start in range(0, len(table), _VALUES_AT_ONCE):
        rows = table.slice(start, _VALUES_AT_ONCE)
        columns = {name: rows.column(name).to_pylist() for name in rows.column_names if name not in _ENTRY_ONLY}
        for name in ("key_stats", "value_stats"):
            if f"{name}_min" not in columns:
                columns[name] = [SimpleStats()] * len(rows)
                continue
            rows_of = zip(*(columns.pop(f"{name}_{part}") for part in _PARTS), strict=True)
            columns[name] = [SimpleStats(low, high, tuple(nulls or ())) for low, high, nulls in rows_of]
        if "value_stats_cols" not in columns:
            columns["value_stats_cols"] = [()] * len(rows)
        for name in ("extra_files", "value_stats_cols", "write_cols"):
            columns[name] = [None if texts is None else tuple(texts) for texts in columns[name]]
        yield from map(DataFileMeta, *(columns[name] for name in _FILE_FIELDS))


_ENTRY_ONLY = ("kind", "partition", "bucket", "total_buckets")
_FILE_FIELDS = tuple(DataFileMeta.__dataclass_fields__)


def entry_blocks(table: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Entries of `ENTRY_SCHEMA` as blocks of a manifest, as `manifest_blocks` makes them of values."""
    required = pa.list_(pa.field("item", pa.string(), nullable=False))
    for start in range(0, len(table), BLOCK_RECORDS):
        rows = table.slice(start, BLOCK_RECORDS)
        columns = [from_numpy(np.full(len(rows), MANIFEST_VERSION, np.int32))]
        fields = [pa.field("version", pa.int32(), nullable=False)]
        for field in ENTRY_SCHEMA:
            texts = field.type == _STRINGS
            columns.append(one_chunk(rows.column(field.name).cast(required) if texts else rows.column(field.name)))
            fields.append(field.with_type(required) if texts else field)
        yield len(rows), encode_records(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))


# ---- decoding --------------------------------------------------------------------------------------------------------


def _opened(path: str, data: bytes) -> Container:
    with decoding("a manifest cannot be read", file=path):
        container = take_apart(data)
        checked_schema(container.metadata["avro.schema"])
        return container


def _decoded(containers: Sequence[Container], schema: pa.Schema) -> pa.Table:
    """The entries of manifests of one schema and codec, with the columns of `schema`."""
    fields = dict(_outer_fields(parsed_json(containers[0].metadata["avro.schema"]), "", {}))
    for path, _, nullable in _COLUMNS.values():
        if path not in fields and not nullable:
            raise CorruptError("a manifest cannot be read", why=f"its entries have no {path}")
    known = [name for name in schema.names if _COLUMNS[name][0] in fields]
    record = {"type": "record", "name": "entry", "fields": [{"name": path, "type": t} for path, t in fields.items()]}
    order = {path: place for place, path in enumerate(fields)}
    wanted = [order[_COLUMNS[name][0]] for name in known]
    batches = [*decode_blocks(containers, plain_fields(record), wanted, _BATCH_ROWS, Scratch())]
    rows = sum(batch.num_rows for batch in batches)
    decoded = {name: pa.chunked_array([batch.column(n) for batch in batches]) for n, name in enumerate(known)}
    columns = [_column(decoded.get(field.name), field, rows) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(column: pa.ChunkedArray | None, field: pa.Field, rows: int) -> pa.ChunkedArray:
    if column is None:
        return pa.chunked_array([pa.nulls(rows, field.type)])
    if column.null_count and not field.nullable:
        raise CorruptError("a manifest cannot be read", why=f"an entry has no {_COLUMNS[field.name][0]}")
    if field.type == _STRINGS and pc.list_flatten(column).null_count:
        raise CorruptError("a manifest cannot be read", why=f"{_COLUMNS[field.name][0]} has a text that is null")
    return column.cast(field.type)


def _outer_fields(record: Mapping[str, Any], path: str, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a record and of the records in it, by path, without logical types. `known` collects the records by
    name, since a later field may name one.

    CorruptError for a record that may be null: its fields would be lost. Paimon has no such record in entries.
    """
    known[str(record.get("name"))] = record
    for field in record["fields"]:
        kind, inner = field["type"], f"{path}{field['name']}"
        if isinstance(kind, str) and kind in known:
            kind = known[kind]
        if isinstance(kind, dict) and kind["type"] == "record":
            yield from _outer_fields(kind, f"{inner}.", known)
        elif _may_be_record(kind, known):
            raise CorruptError("a manifest cannot be read", why=f"its {inner} may be null")
        else:
            yield inner, _plain(kind)


def _may_be_record(kind: Any, known: Mapping[str, Any]) -> bool:
    branches = kind if isinstance(kind, list) else []
    return any(
        (isinstance(branch, dict) and branch["type"] == "record") or (isinstance(branch, str) and branch in known)
        for branch in branches
    )


def _plain(kind: Any) -> Any:
    """A type without its logical type."""
    if isinstance(kind, list):
        return [_plain(branch) for branch in kind]
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "array":
        return {"type": "array", "items": _plain(kind["items"])}
    return kind["type"] if "logicalType" in kind else kind
