"""Iceberg's codecs: table metadata, manifest lists and manifests, Puffin files, vectors, sketches, schemas."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg import types as T
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.transforms import parse_transform

from lakebed.formats.iceberg.codec import puffin, theta
from lakebed.formats.iceberg.codec.avro_file import open_container
from lakebed.formats.iceberg.codec.bounds import decoded_bounds, values_of_field
from lakebed.formats.iceberg.codec.manifest import COLUMNS, STATS, decode_entries
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile, decode_manifest_list
from lakebed.formats.iceberg.codec.metadata import brief, metadata_from_json, metadata_to_json
from lakebed.formats.iceberg.codec.partition_type import learn, partition_type
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.codec.transforms import result_type, transformed
from lakebed.kernel.avro.container import take_apart
from lakebed.kernel.decoding import decoding
from tests.fuzz import mutators
from tests.fuzz.target import Target, files, values

# ---- metadata ----


def metadata(data: bytes) -> None:
    """A metadata file: all that is read of it, and written again."""
    table = metadata_from_json(data, "m")
    _ = table.snapshot_log, table.metadata_log, table.statistics_files, table.refs, table.sort_orders
    for snapshot_id in table.snapshots:
        table.snapshot(snapshot_id)
        table.line(snapshot_id)
    for schema in table.schemas.values():
        arrow_schema(schema)
    for spec in table.specs.values():
        partition_type(table, spec)
    again = metadata_from_json(metadata_to_json(table.document), "m")
    # pyiceberg's schema without columns equals none, not even itself.
    assert again.schema.fields == table.schema.fields and [*again.snapshots] == [*table.snapshots]
    with decoding("it cannot be shortened"):
        brief(table)


def _metadata() -> Iterator[bytes]:
    found = [
        *files(
            "iceberg/transforms/*.metadata.json",
            "iceberg/types_nested/*.metadata.json",
            "iceberg/branches_tags/*.metadata.json",
            "iceberg/column_defaults_v3/*.metadata.json",
            "iceberg/years_and_void_v1/*.metadata.json",
        )()
    ]
    yield from found
    yield gzip.compress(found[0], mtime=0)


# ---- manifests ----

_SPECS = {
    "transforms": files("iceberg/transforms/*.metadata.json"),
    "dv_v3": files("iceberg/dv_v3/*.metadata.json"),
    "spec_evolution": files("iceberg/spec_evolution/*.metadata.json"),
}


def manifest(data: bytes) -> None:
    """A manifest, read with the spec and the schema of its own header: entries, metrics and bounds."""
    container = open_container(data, "m")
    with decoding("a manifest's header cannot be read"):
        table = metadata_from_json(_table_of(container.metadata), "m")
        learn(table, 0, container.metadata, "m")
    spec = table.specs[0]
    rows = container.rows
    stated = ManifestFile("m", len(data), 0, 0, 5, 1, 7, rows, 0, 0, rows, 0, 0, first_row_id=0)
    entries = decode_entries([stated], [data], spec, partition_type(table, spec), (*COLUMNS, *STATS), live_only=False)
    assert entries.num_rows == rows
    for field in table.schema.fields:
        if field.field_type.is_primitive:
            with decoding("bounds cannot be read"):
                for name in ("lower_bounds", "upper_bounds"):
                    decoded_bounds(values_of_field(entries[name], field.field_id), field.field_type)


def _table_of(header: Any) -> bytes:
    """A table's metadata with the schema and the spec of a manifest's header."""
    fields = json.loads(header["partition-spec"])
    fields = fields["fields"] if isinstance(fields, dict) else fields
    schema = json.loads(header["schema"])
    document = {
        "format-version": 2,
        "location": "t",
        "table-uuid": "u",
        "last-sequence-number": 9,
        "last-updated-ms": 1,
        "last-column-id": 99,
        "schemas": [schema],
        "current-schema-id": schema.get("schema-id", 0),
        "partition-specs": [{"spec-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "last-partition-id": 1999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
    }
    return json.dumps(document).encode()


def manifest_list(data: bytes) -> None:
    """A manifest list: as many manifests as its blocks state."""
    assert len(decode_manifest_list(data, "l")) == take_apart(data).rows


# ---- Puffin, vectors, sketches ----


def puffin_file(data: bytes) -> None:
    """A Puffin file: its footer, and each blob that lies in it as what it says it is."""
    blobs, _ = puffin.read_footer(data, "p")
    for blob in blobs:
        body = data[blob.offset : blob.offset + blob.length]
        if blob.type == puffin.DELETION_VECTOR:
            puffin.decode_vector(body, "p", 1 << 20)
        elif blob.type == theta.THETA:
            theta.decoded(body, "p")


def vector(data: bytes) -> None:
    """A deletion vector. What was decoded has no more rows than its file and survives being written."""
    positions = puffin.decode_vector(data, "f", 1 << 20)
    again = puffin.decode_vector(puffin.encode_vector(positions), "f", 1 << 20, len(positions))
    assert (again == positions).all()


def sketch(data: bytes) -> None:
    """A theta sketch: its estimate, merged and written again."""
    found = theta.decoded(data, "s")
    both = found.merged(theta.Sketch(), found)
    assert both.estimate >= 0
    assert theta.decoded(both.encoded(), "s").estimate == both.estimate


_VECTORS = tuple(
    puffin.encode_vector(np.array(positions, np.int64))
    for positions in ([], [0, 5, 6, 7], range(0, 65_000, 2), range(70_000), [1, 900_000])
)
_SKETCHES = tuple(theta.sketch_of(pa.array(range(count), pa.int64())).encoded() for count in (0, 1, 50, 6000))


def _puffins() -> Iterator[bytes]:
    blobs = [(puffin.Blob(puffin.DELETION_VECTOR, 0, 0, (2147483546,), properties={"cardinality": "4"}), _VECTORS[1])]
    blobs += [(puffin.Blob(theta.THETA, 0, 0, (1,), 5, 7, {"ndv": "50"}), _SKETCHES[2])]
    yield puffin.write_puffin(blobs, {"created-by": "x"})[0]
    whole, _ = puffin.write_puffin(blobs[:1])
    (size,) = struct.unpack("<I", whole[-12:-8])
    packed = pa.Codec("lz4").compress(whole[-12 - size : -12], asbytes=True)
    yield whole[: -12 - size] + packed + struct.pack("<II", len(packed), 1) + whole[-4:]
    yield from files("iceberg/dv_v3/*.puffin")()


# ---- transforms and name mappings ----

_SOURCES: tuple[tuple[Any, pa.Array], ...] = (
    (T.LongType(), pa.array([1, None, -5, 2**62])),
    (T.StringType(), pa.array(["a", None, "é😀", ""])),
    (T.DateType(), pa.array([0, None, -1, 10**6], pa.int32()).cast(pa.date32())),
    (T.TimestampType(), pa.array([0, None, -1, 10**15], pa.int64()).cast(pa.timestamp("us"))),
    (T.DecimalType(9, 2), pa.array([1, None, -5, 100]).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2))),
)


def transform(data: bytes) -> None:
    """The text of a transform, applied to columns of several types; and a table's name mapping."""
    with decoding("it is no transform"):
        kind = parse_transform(data.decode())
    for source, column in _SOURCES:
        if kind.can_transform(source):
            with decoding("it cannot be applied"):
                assert len(transformed(kind, column, source)) == len(column)
                result_type(kind, source)


def mapping(data: bytes) -> None:
    """A name mapping, as pyiceberg reads it."""
    with decoding("it is no name mapping"):
        parse_mapping_from_json(data.decode())


_AVRO = mutators.any_of(mutators.avro_file, mutators.avro_file, mutators.plain)
_MAPPING = (
    b'[{"field-id": 1, "names": ["id", "ID"]}, '
    b'{"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]}]'
)

TARGETS = (
    Target("iceberg-metadata", metadata, _metadata, mutators.json_text),
    Target(
        "iceberg-manifest",
        manifest,
        files(
            "iceberg/transforms/[0-9a-f]*-m[0-9].avro",
            "iceberg/dv_v3/[0-9a-f]*-m[0-9].avro",
            "iceberg/special_partitions/[0-9a-f]*-m[0-9].avro",
            "iceberg/years_and_void_v1/[0-9a-f]*-m[0-9].avro",
        ),
        _AVRO,
    ),
    Target(
        "iceberg-manifest-list",
        manifest_list,
        files("iceberg/transforms/snap-*.avro", "iceberg/dv_v3/snap-*.avro", "iceberg/years_and_void_v1/snap-*.avro"),
        _AVRO,
    ),
    Target("iceberg-puffin", puffin_file, _puffins, mutators.puffin),
    Target(
        "iceberg-puffin-vector",
        vector,
        values(*_VECTORS),
        mutators.any_of(mutators.vector, mutators.vector, mutators.plain),
    ),
    Target("iceberg-puffin-theta", sketch, values(*_SKETCHES), mutators.plain),
    Target(
        "iceberg-transform",
        transform,
        values(b"identity", b"bucket[16]", b"truncate[4]", b"year", b"month", b"day", b"hour", b"void"),
        mutators.text(
            (
                "bucket[",
                "truncate[",
                "]",
                "0",
                "-1",
                "99999999999",
                "2147483648",
                "year",
                "void",
                "identity",
                "\u0661",
                "zorder",
            )
        ),
    ),
    Target("iceberg-name-mapping", mapping, values(_MAPPING), mutators.json_text),
)
