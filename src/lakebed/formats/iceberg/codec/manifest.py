"""The entries of manifests as whole Arrow columns: what their Avro files hold, and what they inherit.

Rule: the specification's "Manifests". Fields are found by id, never by name. An entry inherits what it leaves out from
its manifest's place in the manifest list: snapshot id, sequence numbers and first row ids (InheritableMetadataFactory
and ManifestReader of the reference engine). Only requested columns are decoded: column metrics are nine tenths of a
manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.codec.avro_file import cast_columns, decode_columns, open_container
from lakebed.formats.iceberg.codec.encryption import encrypted
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.partition_type import partition_structs
from lakebed.kernel.arrays import from_numpy, from_values, scalar_of, to_numpy
from lakebed.kernel.avro.container import Container
from lakebed.kernel.avro.recent import Recent
from lakebed.kernel.decoding import Stated, decoding

EXISTING, ADDED, DELETED = 0, 1, 2
"""The status of an entry."""

_STATS: dict[str, tuple[int, pa.DataType]] = {
    "column_sizes": (108, pa.map_(pa.int32(), pa.int64())),
    "value_counts": (109, pa.map_(pa.int32(), pa.int64())),
    "null_value_counts": (110, pa.map_(pa.int32(), pa.int64())),
    "nan_value_counts": (137, pa.map_(pa.int32(), pa.int64())),
    "lower_bounds": (125, pa.map_(pa.int32(), pa.binary())),
    "upper_bounds": (128, pa.map_(pa.int32(), pa.binary())),
}
STATS = tuple(_STATS)
"""The columns with metrics of data columns; they are the bulk of a manifest."""
_ENTRY: dict[str, tuple[int, pa.DataType]] = {
    "status": (0, pa.int8()),
    "snapshot_id": (1, pa.int64()),
    "sequence_number": (3, pa.int64()),
    "file_sequence_number": (4, pa.int64()),
}
_FIRST: dict[str, tuple[int, pa.DataType]] = {
    "content": (134, pa.int8()),
    "file_path": (100, pa.string()),
    "file_format": (101, pa.string()),
}
_MORE: dict[str, tuple[int, pa.DataType]] = {
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
_FIELDS = _ENTRY | _FIRST | _MORE
_ORDER = (*_ENTRY, *_FIRST, "spec_id", "partition", *_MORE)
_MAY_LACK = frozenset({"content"})
"""Columns that manifests of format version 1 do not have."""
COLUMNS = tuple(name for name in _ORDER if name not in _STATS)
"""The columns of entries without the metrics of data columns."""
_RECENT = Recent()


def entry_schema(columns: Collection[str], partition: pa.StructType) -> pa.Schema:
    """The Arrow schema of entries with these columns, in their fixed order."""
    types = {name: kind for name, (_, kind) in _FIELDS.items()} | {"spec_id": pa.int32(), "partition": partition}
    return pa.schema([pa.field(name, types[name]) for name in _ORDER if name in columns])


def decode_entries(
    manifests: Sequence[ManifestFile], contents: Sequence[bytes], spec: PartitionSpec, partition: pa.StructType,
    columns: Collection[str] = COLUMNS, live_only: bool = True,
) -> pa.Table:  # fmt: skip
    """The entries of manifests of one spec, in order, as columns. `contents` are the manifests' bytes.

    `columns` are names of `COLUMNS` and `STATS`. CorruptError names the manifest that cannot be read, or that has
    another number of entries than its list says. Those of few bytes are kept for the next call: a commit that is tried
    again and a stream that looks for news read the same ones.
    """
    return _RECENT.rows(
        lambda: [repr((manifests, spec.spec_id, spec.fields, str(partition), sorted(columns), live_only)).encode()],
        contents,
        lambda: _decode(manifests, contents, spec, partition, columns, live_only),
    )


def _decode(
    manifests: Sequence[ManifestFile], contents: Sequence[bytes], spec: PartitionSpec, partition: pa.StructType,
    columns: Collection[str], live_only: bool,
) -> pa.Table:  # fmt: skip
    schema = entry_schema(columns, partition)
    tables = []
    for run, containers in _runs_of_one_schema(manifests, contents):
        with decoding("a manifest cannot be read", file=run[0].path):
            raw = _decoded(containers, schema, spec, run[0].path)
            _check_values(raw, run[0].path)
            tables.append(_inherited(raw, run, [container.rows for container in containers], spec, live_only, schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _opened(manifest: ManifestFile, data: bytes) -> Container:
    """A manifest, with its number of entries checked against its list.

    Its length is not checked: Iceberg's action that copies tables keeps the length of the original in the list.
    """
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    entries = sum(count for count in counts if count is not None) if None not in counts else -1
    container = open_container(data, manifest.path)
    Stated(rows=entries).check_rows(container.rows, "a manifest", file=manifest.path)
    return container


def _check_values(raw: Mapping[str, pa.ChunkedArray], file: str) -> None:
    """CorruptError when an entry lacks a value or has an unknown code, UnsupportedError when files are encrypted."""
    keys = raw["key_metadata"]
    if keys.null_count < len(keys) and pc.any(pc.greater(pc.binary_length(keys), scalar_of(0, pa.int32()))).as_py():
        raise encrypted("a manifest holds keys of its files", file=file)
    for name, most in (("status", DELETED), ("content", 2), ("file_path", None), ("record_count", None)):
        column = raw.get(name)
        if column is None or (name in _MAY_LACK and not column.null_count < len(column)):
            continue
        if column.null_count and name not in _MAY_LACK:
            raise CorruptError("a manifest cannot be read", file=file, why=f"an entry has no {name}")
        if most is not None and not 0 <= pc.min(column).as_py() <= pc.max(column).as_py() <= most:
            raise CorruptError("a manifest cannot be read", file=file, why=f"an entry has an unknown {name}")


def _runs_of_one_schema(
    manifests: Sequence[ManifestFile], contents: Sequence[bytes]
) -> Iterator[tuple[list[ManifestFile], list[Container]]]:
    """Runs of manifests of one schema and codec, without those that have no entries."""
    opened = [(m, _opened(m, data)) for data, m in zip(contents, manifests, strict=True)]
    filled = [(manifest, container) for manifest, container in opened if container.rows]
    for _, run in groupby(filled, lambda pair: (pair[1].metadata["avro.schema"], pair[1].codec)):
        run_manifests, containers = zip(*run, strict=True)
        yield [*run_manifests], [*containers]


def _decoded(
    containers: Sequence[Container], schema: pa.Schema, spec: PartitionSpec, file: str
) -> dict[str, pa.ChunkedArray]:
    """The columns of `schema` and those that inheritance needs, as the files have them; null where they lack one."""
    names = {"status", "key_metadata", *schema.names} | ({"record_count"} if "first_row_id" in schema.names else set())
    ids = {_FIELDS[name][0] for name in names if name in _FIELDS}
    if "partition" in names:
        ids |= {field.field_id for field in spec.fields}
    rows = sum(container.rows for container in containers)
    decoded = decode_columns(containers, ids, file)
    columns = cast_columns(decoded, {name: _FIELDS[name] for name in names & _FIELDS.keys()}, rows)
    if "partition" in names:
        columns["partition"] = partition_structs(decoded, spec, schema.field("partition").type, rows)
    return columns


def _inherited(
    raw: dict[str, pa.ChunkedArray], manifests: Sequence[ManifestFile], counts: Sequence[int], spec: PartitionSpec,
    live_only: bool, schema: pa.Schema,
) -> pa.Table:  # fmt: skip
    """The entries with inherited values and only the columns of `schema`. `counts` has the entries per manifest."""
    status, sizes = to_numpy(raw["status"]), np.array(counts)

    def of_manifest(values: Sequence[int], kind: pa.DataType) -> pa.Array:
        return from_values(values, kind).take(from_numpy(np.repeat(np.arange(len(sizes)), sizes)))

    if "snapshot_id" in raw:
        given = of_manifest([m.added_snapshot_id or 0 for m in manifests], pa.int64())
        raw["snapshot_id"] = pc.coalesce(raw["snapshot_id"], given)
    if raw.keys() & {"sequence_number", "file_sequence_number"}:
        sequence = np.repeat([m.sequence_number for m in manifests], sizes)
        own = from_numpy(sequence.astype(np.int64, copy=False), (status != ADDED) & (sequence != 0))
        for name in raw.keys() & {"sequence_number", "file_sequence_number"}:
            raw[name] = pc.coalesce(raw[name], own)
    if "content" in raw:
        raw["content"] = pc.coalesce(raw["content"], of_manifest([m.content for m in manifests], pa.int8()))
    if "first_row_id" in raw:
        raw["first_row_id"] = _row_ids(raw, manifests, sizes, status)
    if "file_format" in raw:
        raw["file_format"] = pc.utf8_upper(raw["file_format"])
    raw["spec_id"] = pa.chunked_array([from_numpy(np.full(len(status), spec.spec_id, np.int32))])
    table = pa.table({name: raw[name] for name in schema.names}, schema)
    if live_only and (status == DELETED).any():
        return table.filter(from_numpy(status != DELETED))
    return table


def _row_ids(
    raw: dict[str, pa.ChunkedArray], manifests: Sequence[ManifestFile], sizes: Any, status: Any
) -> pa.ChunkedArray:
    """First row ids. Files without one are numbered on from their manifest's first row id, if that has one."""
    if all(m.first_row_id is None for m in manifests):
        return raw["first_row_id"]
    first = np.repeat([-1 if m.first_row_id is None else m.first_row_id for m in manifests], sizes)
    takes = to_numpy(raw["first_row_id"].is_null()) & (status != DELETED) & (first >= 0)
    rows = np.where(takes, to_numpy(raw["record_count"]), 0)
    before = np.cumsum(rows) - rows
    starts = np.cumsum(sizes) - sizes
    within = before - np.repeat(before[starts], sizes)
    return pc.coalesce(raw["first_row_id"], from_numpy((first + within).astype(np.int64, copy=False), ~takes))
