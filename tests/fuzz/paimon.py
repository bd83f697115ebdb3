"""Paimon's codecs: JSON files, manifests, rows, deletion vectors, indexes of files and buckets, sets."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.paimon.codec import blob_index, deletion_vectors, hash_index
from lakebed.formats.paimon.codec.binary_row import decode_row, encode_row, with_arity, without_arity
from lakebed.formats.paimon.codec.entry_columns import decode_entries, entry_values
from lakebed.formats.paimon.codec.file_index.container import read_container, write_container
from lakebed.formats.paimon.codec.file_index.kinds import KINDS, IndexRule, read_index, takes
from lakebed.formats.paimon.codec.manifest_avro import (
    index_manifest_from_bytes,
    manifest_from_bytes,
    manifest_list_from_bytes,
)
from lakebed.formats.paimon.codec.manifest_summary import joined_manifests, manifest_summary
from lakebed.formats.paimon.codec.row_fields import row_fields
from lakebed.formats.paimon.codec.schema_json import schema_from_json, schema_to_json
from lakebed.formats.paimon.codec.snapshot_json import snapshot_from_json, snapshot_to_json
from lakebed.formats.paimon.codec.success_json import success_json
from lakebed.formats.paimon.codec.tag_json import tag_from_json, tag_to_json
from lakebed.formats.paimon.codec.types import arrow_schema, arrow_type, type_from_json
from lakebed.formats.paimon.merge.sets import SET_FUNCTIONS
from lakebed.kernel.decoding import decoding
from tests.fuzz import mutators
from tests.fuzz.target import Target, files, numbered, values

# ---- JSON ----


def documents(data: bytes) -> None:
    """A snapshot, a schema, a tag or a success file, by the first byte; what was read is written and read again."""
    number, body = (data[0] if data else 0), data[1:]
    match number % 4:
        case 0:
            snapshot = snapshot_from_json(body)
            assert snapshot_from_json(snapshot_to_json(snapshot)) == snapshot
        case 1:
            schema = schema_from_json(body)
            arrow_schema(schema.fields)
            assert schema_from_json(schema_to_json(schema)) == schema
        case 2:
            tag = tag_from_json(body)
            _ = tag.ends
            tag_from_json(tag_to_json(tag))
        case _:
            success_json(body, 5)


# ---- manifests ----


def manifest(data: bytes) -> None:
    """A manifest: as values, as columns, summed up and joined. Both decoders give the same entries."""
    entries = [*manifest_from_bytes(data, "m")]
    table = decode_entries([("m", data)])
    assert table.num_rows == len(entries)
    assert [*entry_values(table)] == entries, "the entries of two decoders differ"
    manifest_summary(data, "m")
    joined = joined_manifests([("m", data), ("m", data)])
    assert joined is None or len([*manifest_from_bytes(joined, "m")]) == 2 * len(entries)


def manifest_lists(data: bytes) -> None:
    """A manifest list or an index manifest, by the first byte."""
    number, body = (data[0] if data else 0), data[1:]
    read = index_manifest_from_bytes if number % 2 else manifest_list_from_bytes
    _ = [*read(body, "m")]


# ---- rows ----

_TYPES = tuple(
    type_from_json(text)
    for text in (
        "INT",
        "STRING",
        "BIGINT",
        "DECIMAL(10, 2)",
        "DECIMAL(30, 5)",
        "TIMESTAMP(3)",
        "TIMESTAMP(9)",
        "DATE",
        "BOOLEAN",
        "BYTES",
        "DOUBLE",
        "TIME(0)",
        "TINYINT",
    )
)
_SAMPLES = (
    5,
    "a longer text",
    2**40,
    "1.25",
    "12345678901234567890.5",
    1000,
    10**15 + 1,
    3,
    True,
    b"abcdefghi",
    1.5,
    7,
    1,
)


def row(data: bytes) -> None:
    """A serialized row of every type, alone and as columns: both readers agree on what is not a float."""
    body = without_arity(data)
    decoded = decode_row(body, _TYPES)
    rows = pa.array([data, data], pa.binary())
    for place, kind in enumerate(_TYPES):
        with decoding("a row cannot be read"):
            column = row_fields(rows, place, len(_TYPES), kind)
        assert column.type == arrow_type(kind)
        if kind.root in ("INT", "BIGINT", "STRING", "TINYINT", "BOOLEAN"):
            assert column[0].as_py() == decoded[place]


def _rows() -> Iterator[bytes]:
    from decimal import Decimal

    given = [Decimal(v) if k.root == "DECIMAL" else v for v, k in zip(_SAMPLES, _TYPES, strict=True)]
    yield with_arity(encode_row(given, _TYPES), len(_TYPES))
    yield with_arity(encode_row([None] * len(_TYPES), _TYPES), len(_TYPES))


# ---- deletion vectors, hash indexes, blobs, sets ----


def vector(data: bytes) -> None:
    """A deletion vector. What was decoded has no more rows than its file and survives being written."""
    positions = deletion_vectors.decode_vector(data, "f", 1 << 20)
    assert not len(positions) or (positions[0] >= 0 and positions[-1] < 1 << 20)
    again = deletion_vectors.encode_vector(positions, True)
    assert (deletion_vectors.decode_vector(again, "f", 1 << 20, len(positions)) == positions).all()


_POSITIONS = np.array([0, 5, 6, 7, 70_000, 99_999], np.int64)
_DENSE = np.arange(0, 65_000, 2, dtype=np.int64)


def hashes(data: bytes) -> None:
    """A HASH index file."""
    with decoding("a hash index cannot be read"):
        found = hash_index.hashes_of(data)
        assert hash_index.index_bytes(found) == data


def blobs(data: bytes) -> None:
    """A file of large values: footer, index, values."""
    size = blob_index.index_bytes(data[-blob_index.FOOTER_BYTES :])
    end = len(data) - blob_index.FOOTER_BYTES - size
    with decoding("the blobs cannot be read"):
        lengths = blob_index.record_lengths(data[max(end, 0) : len(data) - blob_index.FOOTER_BYTES], max(end, 0))
        records = lengths[lengths >= 0]
        starts = np.cumsum(records) - records
        assert len(blob_index.values_in(data, starts, records)) == len(records)


def _blob_file() -> Iterator[bytes]:
    records, index, before = b"", b"", 0
    for value in (b"abc", b"", b"x" * 300):
        body = struct.pack("<i", 1481511375) + value
        record = body + struct.pack("<qI", len(body) + 12, 0)
        records += record
        coded = (len(record) - before) << 1 if len(record) >= before else ((before - len(record)) << 1) - 1
        before = len(record)
        while coded > 0x7F:
            index += bytes([coded & 0x7F | 0x80])
            coded >>= 7
        index += bytes([coded])
    yield records + index + struct.pack("<iB", len(index), 1)


def sets(data: bytes) -> None:
    """Two values of an aggregated set, united as a merge unites them."""
    number, body = (data[0] if data else 0), data[1:]
    function = [*SET_FUNCTIONS.values()][number % len(SET_FUNCTIONS)]
    half = len(body) // 2
    try:
        function.write(function.unite(function.read(body[:half]), function.read(body[half:])))
    except (ValueError, RuntimeError, IndexError) as error:  # as `unions` takes them
        raise UsageError("a value is no set", why=str(error)) from error


def _set_values() -> Iterator[bytes]:
    import datasketches
    from pyroaring import BitMap

    from lakebed.formats.paimon.codec.roaring64 import chunks_to_bytes

    for bitmap in (BitMap([1, 5, 70_000]), BitMap(range(10_000)), BitMap(range(0, 20_000, 2))):
        bitmap.run_optimize()
        yield b"\0" + 2 * bitmap.serialize()
    yield b"\1" + 2 * chunks_to_bytes({bytes(6): BitMap([1, 2]), b"\0\0\0\0\1\2": BitMap(range(9000))})
    for count in (0, 1, 100):
        theta, hll = datasketches.update_theta_sketch(), datasketches.hll_sketch(8)
        for number in range(count):
            theta.update(number)
            hll.update(number)
        yield b"\2" + 2 * theta.compact().serialize()
        yield b"\3" + 2 * hll.serialize_compact()


# ---- indexes of data files ----

_INDEXED = ("INT", "STRING", "BIGINT", "DOUBLE", "DECIMAL(10, 2)", "TIMESTAMP(3)", "BOOLEAN", "DATE")
_LITERALS = {"STRING": [b"", b"b", b"zz"]}


def file_index(data: bytes) -> None:
    """A file index with all its questions: only errors of lakebed, and True or False."""
    with decoding("a file index cannot be read"):
        for column, kinds in read_container(data).items():
            kind = type_from_json(column if column in _INDEXED else "INT")
            for name, blob in kinds.items():
                index = None if blob is None else read_index(name, kind, blob)
                if index is None:
                    continue
                keys = _LITERALS.get(kind.root if kind.root != "VARCHAR" else "STRING", [-1, 0, 3, 2**40])
                index.may_equal(keys)
                index.may_differ(keys)
                for key in keys:
                    for inclusive in (True, False):
                        index.may_be_less(key, inclusive)
                        index.may_be_greater(key, inclusive)


def _file_indexes() -> Iterator[bytes]:
    for text in _INDEXED:
        kind = type_from_json(text)
        arrow = arrow_type(kind)
        samples = pa.array(["b", "c", None, "b", "a longer text"]) if text == "STRING" else pa.array([1, 0, None, 1, 1])
        if pa.types.is_decimal(arrow):
            samples = samples.cast(pa.decimal128(20, 0))
        elif pa.types.is_date(arrow):
            samples = samples.cast(pa.int32())
        built: dict[str, bytes | None] = {}
        for name in KINDS:
            if takes(name, kind):
                builder = IndexRule(name, {"items": "20"} if name == "bloom-filter" else {}).builder(kind)
                builder.add(samples.cast(arrow))
                built[name] = builder.to_bytes()
        if "bitmap" in built:
            old = IndexRule("bitmap", {"version": "1"}).builder(kind)
            old.add(samples.cast(arrow))
            yield write_container({text: {"bitmap": old.to_bytes()}})
        yield write_container({text: built})
        yield write_container({text: dict([[*built.items()][-1]]), "x": {"bsi": None}})


_AVRO = mutators.any_of(mutators.avro_file, mutators.avro_file, mutators.plain)

TARGETS = (
    Target(
        "paimon-json",
        documents,
        numbered(
            files("paimon/pk_dv/snapshot/snapshot-*", "paimon/overwrite_pk/snapshot/snapshot-*"),
            files(
                "paimon/types_avro/schema/schema-0", "paimon/evolve/schema/schema-*", "paimon/pk_fixed/schema/schema-0"
            ),
            files("paimon/tags_branches/tag/tag-*"),
            values(b'{"creationTime": 5, "modificationTime": 7}'),
        ),
        mutators.behind(1, mutators.json_text),
    ),
    Target(
        "paimon-manifest",
        manifest,
        files(
            "paimon/pk_dv/manifest/manifest-????????-*-?",
            "paimon/evolve/manifest/manifest-????????-*-?",
            "paimon/row_tracking/manifest/manifest-????????-*-?",
        ),
        _AVRO,
    ),
    Target(
        "paimon-manifest-list",
        manifest_lists,
        numbered(
            files("paimon/pk_dv/manifest/manifest-list-*"),
            files("paimon/pk_dv/manifest/index-manifest-*", "paimon/pk_dynamic/manifest/index-manifest-*"),
        ),
        mutators.behind(1, _AVRO),
    ),
    Target("paimon-row", row, _rows, mutators.plain),
    Target(
        "paimon-vector",
        vector,
        values(*(deletion_vectors.encode_vector(p, wide) for p in (_POSITIONS, _DENSE) for wide in (True, False))),
        mutators.any_of(mutators.vector, mutators.vector, mutators.plain),
    ),
    Target("paimon-index-hash", hashes, values(bytes(8), b"\x7f\xff\xff\xff"), mutators.plain),
    Target("paimon-index-file", file_index, _file_indexes, mutators.plain),
    Target("paimon-blob", blobs, _blob_file, mutators.plain),
    Target("paimon-set", sets, _set_values, mutators.behind(1, mutators.plain)),
)
