"""Manifests and manifest lists as whole Arrow columns: what their Avro files say.

Rule: the specification's "Manifests" and "Manifest Lists". Fields are found by id, never by name. What an entry leaves
out it inherits from its manifest's place in the manifest list: snapshot id, sequence numbers, and first row ids
(InheritableMetadataFactory and ManifestReader of the reference engine).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as T
from pyiceberg.partitioning import PartitionSpec

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.iceberg.codec.avro_file import joined, open_container
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.kernel.avro_container import Container
from lakebed.kernel.datafusion import ordered_session
from lakebed.kernel.scratch import Scratch

EXISTING, ADDED, DELETED = 0, 1, 2
"""Status of an entry."""


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """What the partition values of one field are in a whole manifest; bounds in the single-value form."""

    contains_null: bool
    contains_nan: bool | None
    lower_bound: bytes | None
    upper_bound: bytes | None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One manifest, as its manifest list has it. `content` is 0 for data files, 1 for delete files.

    Counts are None where an old list of version 1 leaves them out; so are sequence numbers 0. `first_row_id` is None
    below version 3 and for manifests of delete files.
    """

    path: str
    length: int
    spec_id: int
    content: int = 0
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def has_live(self) -> bool:
        """Whether it may hold live entries."""
        return self.added_files_count != 0 or self.existing_files_count != 0


_STATS: dict[str, tuple[int, pa.DataType]] = {
    "column_sizes": (108, pa.map_(pa.int32(), pa.int64())),
    "value_counts": (109, pa.map_(pa.int32(), pa.int64())),
    "null_value_counts": (110, pa.map_(pa.int32(), pa.int64())),
    "nan_value_counts": (137, pa.map_(pa.int32(), pa.int64())),
    "lower_bounds": (125, pa.map_(pa.int32(), pa.binary())),
    "upper_bounds": (128, pa.map_(pa.int32(), pa.binary())),
}
STATS = tuple(_STATS)
"""Columns of per-column figures; they are the bulk of a manifest."""
_FILE: dict[str, tuple[int, pa.DataType]] = {
    "content": (134, pa.int8()),
    "file_path": (100, pa.string()),
    "file_format": (101, pa.string()),
    "partition": (102, pa.struct([])),
    "record_count": (103, pa.int64()),
    "file_size_in_bytes": (104, pa.int64()),
    **_STATS,
    "key_metadata": (131, pa.binary()),
    "split_offsets": (132, pa.list_(pa.int64())),
    "equality_ids": (135, pa.list_(pa.int32())),
    "sort_order_id": (140, pa.int32()),
    "first_row_id": (142, pa.int64()),
    "referenced_data_file": (143, pa.string()),
    "content_offset": (144, pa.int64()),
    "content_size_in_bytes": (145, pa.int64()),
}
_ENTRY: dict[str, tuple[int, pa.DataType]] = {
    "status": (0, pa.int8()),
    "snapshot_id": (1, pa.int64()),
    "sequence_number": (3, pa.int64()),
    "file_sequence_number": (4, pa.int64()),
}
COLUMNS = (*_ENTRY, *(name for name in _FILE if name not in _STATS), "spec_id")
"""Columns of entries without the per-column figures."""
_LIST: Mapping[str, tuple[int, pa.DataType]] = {
    "path": (500, pa.string()),
    "length": (501, pa.int64()),
    "spec_id": (502, pa.int32()),
    "content": (517, pa.int32()),
    "sequence_number": (515, pa.int64()),
    "min_sequence_number": (516, pa.int64()),
    "added_snapshot_id": (503, pa.int64()),
    "added_files_count": (504, pa.int32()),
    "existing_files_count": (505, pa.int32()),
    "deleted_files_count": (506, pa.int32()),
    "added_rows_count": (512, pa.int64()),
    "existing_rows_count": (513, pa.int64()),
    "deleted_rows_count": (514, pa.int64()),
    "partitions": (507, pa.list_(pa.struct([]))),
    "key_metadata": (519, pa.binary()),
    "first_row_id": (520, pa.int64()),
}
_SUMMARY_IDS = {509: "contains_null", 518: "contains_nan", 510: "lower_bound", 511: "upper_bound"}


# ---- types -----------------------------------------------------------------------------------------------------------

_ARROW: Mapping[type[Any], pa.DataType] = {
    T.BooleanType: pa.bool_(), T.IntegerType: pa.int32(), T.LongType: pa.int64(), T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(), T.DateType: pa.date32(), T.TimeType: pa.time64("us"), T.StringType: pa.string(),
    T.TimestampType: pa.timestamp("us"), T.TimestamptzType: pa.timestamp("us", "UTC"), T.BinaryType: pa.binary(),
    T.TimestampNanoType: pa.timestamp("ns"), T.TimestamptzNanoType: pa.timestamp("ns", "UTC"),
    T.UUIDType: pa.binary(16), T.UnknownType: pa.null(),
}  # fmt: skip


def partition_types(metadata: TableMetadata, spec: PartitionSpec) -> list[tuple[str, Any]]:
    """(name, Iceberg type) of each field of a spec: the transform's result type.

    A source column that was dropped is looked up in older schemas; UnsupportedError when none has it, or for a
    transform that this build does not know.
    """
    schemas = [metadata.schema, *list(metadata.schemas.values())[::-1]]
    found: list[tuple[str, Any]] = []
    for field in spec.fields:
        source = next((s.find_type(field.source_id) for s in schemas if field.source_id in s.field_ids), None)
        if source is None and str(field.transform) != "void":
            raise UnsupportedError(
                f"partition field {field.name!r} comes from column {field.source_id}, which no schema has",
                table=metadata.location,
            )
        found.append((field.name, T.UnknownType() if source is None else field.transform.result_type(source)))
    return found


def partition_type(metadata: TableMetadata, spec: PartitionSpec) -> pa.StructType:
    """The Arrow struct of a spec's partition values, all nullable; UUIDs are 16 bytes."""
    return pa.struct([pa.field(name, arrow_type(kind)) for name, kind in partition_types(metadata, spec)])


def arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type of partition values of a primitive type."""
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, T.FixedType):
        return pa.binary(len(kind))
    return _ARROW[type(kind)]


# ---- entries ---------------------------------------------------------------------------------------------------------


def decode_entries(
    manifests: Sequence[ManifestFile], contents: Sequence[bytes], spec: PartitionSpec, partition: pa.StructType,
    columns: Collection[str] = COLUMNS, live_only: bool = True, scratch: Scratch | None = None,
) -> pa.Table:  # fmt: skip
    """The entries of some manifests of one spec, in order, as columns; `contents` are the manifests' bytes.

    `columns` are names of `COLUMNS` and `STATS`. CorruptError names the manifest that cannot be read.
    """
    schema = entry_schema(columns, partition)
    wanted = {*columns, "status", "content", "first_row_id", "record_count", "snapshot_id", *_ENTRY}
    groups: list[tuple[str, str, list[int]]] = []
    containers = [open_container(data, m.path) for data, m in zip(contents, manifests, strict=True)]
    for place, container in enumerate(containers):
        kind = (container.metadata["avro.schema"].decode(), container.codec)
        if not groups or groups[-1][:2] != kind:
            groups.append((*kind, []))
        groups[-1][2].append(place)
    tables = []
    for _, _, places in groups:
        some = [containers[place] for place in places if containers[place].rows]
        if some:
            raw = _columns(some, wanted, spec, partition, manifests[places[0]].path, scratch or Scratch())
            of = [manifests[place] for place in places if containers[place].rows]
            tables.append(_inherited(raw, of, [container.rows for container in some], spec.spec_id, live_only, schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def entry_schema(columns: Collection[str], partition: pa.StructType) -> pa.Schema:
    """The Arrow schema of entries with those columns, in their fixed order."""
    order = (*_ENTRY, "content", "file_path", "file_format", "spec_id", *(n for n in _FILE if n not in _FIRST))
    types = {name: kind for name, (_, kind) in (_ENTRY | _FILE).items()}
    types |= {"spec_id": pa.int32(), "partition": partition}
    return pa.schema([pa.field(name, types[name]) for name in order if name in columns])


_FIRST = ("content", "file_path", "file_format")


def _columns(
    containers: Sequence[Container], wanted: set[str], spec: PartitionSpec, partition: pa.StructType,
    file: str, scratch: Scratch,
) -> pa.Table:  # fmt: skip
    """The columns of files of one schema and codec, cast to their types; those that the files lack are null."""
    written = containers[0].schema
    by_id = {field.get("field-id"): field for field in written["fields"]}
    inner = _record(by_id[2]["type"]) if 2 in by_id else {"fields": []}
    in_file = {field.get("field-id"): field for field in inner["fields"]}
    partitions = _record(in_file[102]["type"])["fields"] if 102 in in_file else []
    schema = _plain(written, {102} if not partitions else set())
    paths: dict[str, list[str]] = {}
    for name, (number, _) in _ENTRY.items():
        if number in by_id and name in wanted:
            paths[name] = [f"f{number}"]
    for name, (number, _) in _FILE.items():
        if number in in_file and name in wanted and not (name == "partition" and not partitions):
            paths[name] = ["f2", f"f{number}"]
    rows = sum(container.rows for container in containers)
    found = decode_columns(joined(containers, schema), paths, rows, file, scratch)
    arrays: dict[str, pa.ChunkedArray] = {}
    for name in wanted - {"spec_id"}:
        kind = (_ENTRY | _FILE)[name][1]
        if name == "partition":
            arrays[name] = _partition(found.get(name), {f["field-id"] for f in partitions}, spec, partition, rows)
        elif name in found:
            arrays[name] = _cast(found[name], kind)
        else:
            arrays[name] = pa.chunked_array([pa.nulls(rows, kind)])
    return pa.table(arrays)


def _inherited(
    raw: pa.Table, manifests: Sequence[ManifestFile], counts: Sequence[int], spec_id: int, live_only: bool,
    schema: pa.Schema,
) -> pa.Table:  # fmt: skip
    """The rows with what they leave out, and only the columns of `schema`."""
    status = raw["status"].to_numpy()
    sizes = np.array(counts)
    given = {
        "snapshot_id": np.repeat([m.added_snapshot_id or 0 for m in manifests], sizes),
        "sequence": np.repeat([m.sequence_number for m in manifests], sizes),
        "content": np.repeat([m.content for m in manifests], sizes),
    }
    raw = _put(raw, "snapshot_id", pc.coalesce(raw["snapshot_id"], pa.array(given["snapshot_id"], pa.int64())))
    inherits = pa.array((status == ADDED) | (given["sequence"] == 0))
    number = pc.if_else(inherits, pa.array(given["sequence"], pa.int64()), pa.scalar(None, pa.int64()))
    for name in ("sequence_number", "file_sequence_number"):
        raw = _put(raw, name, pc.coalesce(raw[name], number))
    raw = _put(raw, "content", pc.coalesce(raw["content"], pa.array(given["content"], pa.int8())))
    if "first_row_id" in schema.names:
        raw = _put(raw, "first_row_id", _row_ids(raw, manifests, sizes, status))
    if "file_format" in schema.names:
        raw = _put(raw, "file_format", pc.utf8_upper(raw["file_format"]))
    if "spec_id" in schema.names:
        raw = raw.append_column("spec_id", pa.array(np.full(len(raw), spec_id, np.int32)))
    if live_only and (status == DELETED).any():
        raw = raw.filter(pa.array(status != DELETED))
    return raw.select(schema.names).cast(schema)


def _row_ids(raw: pa.Table, manifests: Sequence[ManifestFile], sizes: Any, status: Any) -> Any:
    """Row ids: files without one take them in order from their manifest's first; a manifest without gives none."""
    if all(m.first_row_id is None for m in manifests):
        return raw["first_row_id"]
    first = np.repeat([-1 if m.first_row_id is None else m.first_row_id for m in manifests], sizes)
    takes = raw["first_row_id"].is_null().to_numpy() & (status != DELETED) & (first >= 0)
    rows = np.where(takes, raw["record_count"].to_numpy(), 0)
    before = np.cumsum(rows) - rows
    starts = np.cumsum(sizes) - sizes
    within = before - np.repeat(before[starts], sizes)
    return pc.coalesce(raw["first_row_id"], pa.array(first + within, pa.int64(), mask=~takes))


def _put(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


# ---- manifest lists --------------------------------------------------------------------------------------------------


def decode_manifest_list(data: bytes, file: str = "", scratch: Scratch | None = None) -> list[ManifestFile]:
    """The manifests of a snapshot, in order. CorruptError when the bytes are no manifest list."""
    container = open_container(data, file)
    if not container.rows:
        return []
    written = container.schema
    by_id = {field.get("field-id"): field for field in written["fields"]}
    paths = {name: [f"f{number}"] for name, (number, _) in _LIST.items() if number in by_id}
    found = decode_columns(
        joined([container], _plain(written, set())), paths, container.rows, file, scratch or Scratch()
    )
    columns = {name: found[name].to_pylist() if name in found else [None] * container.rows for name in _LIST}
    return [_manifest(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def _manifest(row: dict[str, Any]) -> ManifestFile:
    for name in ("content", "sequence_number", "min_sequence_number"):
        row[name] = row[name] or 0
    if row["partitions"] is not None:
        row["partitions"] = tuple(
            FieldSummary(**{name: summary.get(f"f{number}") for number, name in _SUMMARY_IDS.items()})
            for summary in row["partitions"]
        )
    return ManifestFile(**row)


# ---- Avro to Arrow ---------------------------------------------------------------------------------------------------


def decode_columns(
    chunks: Sequence[bytes | memoryview], paths: Mapping[str, Sequence[str]], rows: int, file: str, scratch: Scratch
) -> dict[str, pa.ChunkedArray]:
    """Columns of an Avro file by their path in its records, in DataFusion's own types."""
    if not paths:
        return {}
    with scratch.holding(chunks) as url:
        try:
            frame = ordered_session(_BATCH_ROWS).read_avro(url, file_extension="")
            columns = {name: _column(path) for name, path in paths.items()}
            table = frame.select(*[column.alias(name) for name, column in columns.items()]).to_arrow_table()
        # DataFusion has no error type of its own: what Rust says arrives as a bare Exception.
        except Exception as error:
            raise CorruptError("a manifest cannot be read", file=file, why=str(error).splitlines()[0][:300]) from error
    if len(table) != rows:
        raise CorruptError("a manifest is damaged", file=file, why=f"it has {len(table)} records of {rows}")
    return {name: table[name] for name in paths}


_BATCH_ROWS = 65536


def _column(path: Sequence[str]) -> Any:
    found = import_module("datafusion").col(path[0])  # loaded late, as the session is
    return found if len(path) == 1 else found[path[1]]


def _record(kind: Any) -> Any:
    """The record in a type that may be a union with null."""
    return next(k for k in kind if k != "null") if isinstance(kind, list) else kind


def _plain(schema: Any, dropped: Collection[int], name: str = "r") -> Any:
    """The same layout with names made of field ids, and no logical type but decimals. Fields of the ids in `dropped`
    are left out: records without fields, which take no bytes and which DataFusion does not read."""
    if isinstance(schema, list):
        return [_plain(kind, dropped, name) for kind in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"]
    if kind == "record":
        fields = [
            {"name": f"f{f['field-id']}", "type": _plain(f["type"], dropped, f"{name}_{f['field-id']}")}
            for f in schema["fields"]
            if f["field-id"] not in dropped
        ]
        return {"type": "record", "name": name, "fields": fields}
    if kind == "array":
        return {"type": "array", "items": _plain(schema["items"], dropped, f"{name}_e")}
    if kind == "map":
        return {"type": "map", "values": _plain(schema["values"], dropped, f"{name}_v")}
    plain = {"type": kind}
    if kind == "fixed":
        plain |= {"name": name, "size": schema["size"]}
    if schema.get("logicalType") == "decimal":
        plain |= {key: schema[key] for key in ("logicalType", "precision", "scale") if key in schema}
    return plain if len(plain) > 1 else kind


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A decoded column in its type; an array of key-value records becomes a map, whose layout is the same."""
    if column.type == kind:
        return column
    if not pa.types.is_map(kind):
        return column.cast(kind)
    chunks = [_map(chunk, kind) for chunk in column.chunks]
    return pa.chunked_array(chunks, kind)


def _map(pairs: pa.Array, kind: pa.MapType) -> pa.Array:
    values = pairs.values
    keys, items = values.field(0).cast(kind.key_type), values.field(1).cast(kind.item_type)
    entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    buffers = pairs.buffers()[:2]
    return pa.Array.from_buffers(kind, len(pairs), buffers, -1, pairs.offset, [entries])


def _partition(
    column: pa.ChunkedArray | None, there: Collection[int], spec: PartitionSpec, kind: pa.StructType, rows: int
) -> pa.ChunkedArray:
    """Partition structs in the spec's own fields, found by id."""
    if not len(spec.fields):
        return pa.chunked_array([_structs([], kind, rows)])
    if column is None:
        return pa.chunked_array([pa.StructArray.from_arrays([pa.nulls(rows, f.type) for f in kind], fields=[*kind])])
    chunks = []
    for chunk in column.chunks:
        arrays = []
        for field, wanted in zip(spec.fields, kind, strict=True):
            if field.field_id in there:
                arrays.append(_value(pc.struct_field(chunk, f"f{field.field_id}"), wanted.type))
            else:
                arrays.append(pa.nulls(len(chunk), wanted.type))
        chunks.append(pa.StructArray.from_arrays(arrays, fields=[*kind]))
    return pa.chunked_array(chunks, kind)


def _value(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A physical partition value as its type: whole numbers become dates, times and timestamps."""
    if array.type == kind:
        return array
    if pa.types.is_null(kind):
        return pa.nulls(len(array))
    if pa.types.is_temporal(kind):
        return array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return array.cast(kind)


def _structs(arrays: Sequence[pa.Array], kind: pa.StructType, rows: int) -> pa.StructArray:
    """Structs, also of no fields at all, which Arrow cannot make of arrays."""
    return pa.Array.from_buffers(kind, rows, [None], 0, 0, list(arrays))
