"""What the formats share: Avro, compression, Parquet's structs, locations, options, predicates."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.formats.iceberg.parquet.join import NotJoinable, ParquetJoin
from lakebed.kernel.avro.columns import decode_datums
from lakebed.kernel.avro.container import Framing, take_apart
from lakebed.kernel.avro.decode import read_batches
from lakebed.kernel.avro.records import RecordSchema, read_records, write_records
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files.location import parse_location
from lakebed.kernel.files.places import Places, named_places
from lakebed.kernel.inflate import inflated
from lakebed.kernel.options import Option, OptionSet, at_least, between, boolean, duration_ms, memory_size, one_of
from lakebed.kernel.parquet.thrift import decode, encode
from lakebed.kernel.predicates.where import columns_of, keep, parse_where
from lakebed.kernel.scratch import Scratch
from tests.fuzz import mutators
from tests.fuzz.target import Target, files, values

SCRATCH = Scratch()

# ---- Avro ----


def avro(data: bytes) -> None:
    """An Avro file by both decoders: as many rows as its blocks state, in both."""
    with decoding("it is no Avro file"):
        container = take_apart(data)
    with decoding("its records cannot be read"):
        records = [*read_records(data)]
        assert len(records) == container.rows
        fields = range(len(container.schema["fields"]))
    for wanted in (fields, []):
        with decoding("its columns cannot be read"):
            batches = [*read_batches(container, wanted, 1000, SCRATCH)]
        assert sum(batch.num_rows for batch in batches) == container.rows


_NESTED = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "b", "type": "bytes"},
        {"name": "f", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "x", "type": "double"},
        {"name": "list", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "map", "type": {"type": "map", "values": "string"}},
        {"name": "in", "type": ["null", {"type": "record", "name": "q", "fields": [{"name": "y", "type": "float"}]}]},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ok", "type": "boolean"},
    ],
}
_RECORD = {
    "id": 1,
    "s": "text",
    "b": b"\0\1",
    "f": b"four",
    "x": 1.5,
    "list": [1, None, 3],
    "map": {"k": "v"},
    "in": {"y": 0.5},
    "d": Decimal("1.25"),
    "t": 10**15,
    "day": date(2026, 1, 2),
    "ok": True,
}
_FEWER = {"type": "record", "name": "r", "fields": [_NESTED["fields"][n] for n in (0, 1, 4, 5, 7)]}  # type: ignore[index]


def _avro_files() -> Iterator[bytes]:
    for codec in ("null", "deflate", "zstandard"):
        framing = Framing.new(codec, 1 if codec != "null" else 0)  # type: ignore[arg-type]
        yield write_records(
            RecordSchema.of(_NESTED), [_RECORD, {**_RECORD, "s": None, "in": None, "list": []}], framing
        )
    yield from files("iceberg/mixed_formats/0000*.avro", "paimon/types_avro/bucket-0/*.avro")()


def datums(data: bytes) -> None:
    """Datums of one schema as columns; where fastavro reads the datum too, both agree."""
    size = len(data) // 2
    column = pa.array([data[:size], data[size:]], pa.binary())
    fields = decode_datums(column, _FEWER)
    parsed = fastavro.parse_schema(json.loads(json.dumps(_FEWER)))
    first = fastavro.schemaless_reader(io.BytesIO(data[:size]), parsed, None)
    assert isinstance(first, dict) and first["id"] == int(fields["id"][0])
    with suppress(UnicodeDecodeError):
        assert first["s"] == fields["s"].texts()[0].as_py()


def _datums() -> Iterator[bytes]:
    out = io.BytesIO()
    parsed = fastavro.parse_schema(json.loads(json.dumps(_FEWER)))
    fastavro.schemaless_writer(out, parsed, {name: _RECORD[name] for name in ("id", "s", "x", "list", "in")})
    yield 2 * out.getvalue()


# ---- compression and Parquet ----

_CODECS = ("gzip", "lz4", "null", "deflate", "snappy", "zstandard", "bzip2", "xz")
_MOST = 1 << 20


def compression(data: bytes) -> None:
    """A compressed block, of the codec that the first byte chooses: never more than the bound."""
    with decoding("it cannot be inflated"):
        codec = _CODECS[data[0] % len(_CODECS)] if data else "gzip"
        assert len(inflated(data[1:], codec, _MOST)) <= max(_MOST, len(data))


def _compressed() -> Iterator[bytes]:
    plain = b"abc" * 40 + bytes(200)
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    bodies = (
        gzip.compress(plain, mtime=0),
        pa.Codec("lz4").compress(plain, asbytes=True),
        plain,
        deflate.compress(plain) + deflate.flush(),
        pa.Codec("snappy").compress(plain, asbytes=True) + zlib.crc32(plain).to_bytes(4, "big"),
        pa.Codec("zstd").compress(plain, asbytes=True),
        bz2.compress(plain),
        lzma.compress(plain),
    )
    yield from (bytes([number]) + body for number, body in enumerate(bodies))


_SHAPE = {3: None, 4: {1: {3: {4: None, 7: None}}, 3: None}, 5: {}}


def thrift(data: bytes) -> None:
    """A Thrift struct, decoded lazily: what is written of it is decoded to the same."""
    struct, _ = decode(data, 0, _SHAPE)
    with decoding("it cannot be written"):
        again = encode(struct)
    assert decode(again, 0, _SHAPE)[0] == struct


def _parquet() -> Iterator[bytes]:
    for codec in ("none", "snappy"):
        sink = io.BytesIO()
        pq.write_table(
            pa.table({"a": [1, 2, None], "b": ["x", "y", "z"]}),
            sink,
            compression=codec,
            write_page_checksum=True,
            write_page_index=True,
        )
        yield sink.getvalue()


def _footers() -> Iterator[bytes]:
    for whole in _parquet():
        size = int.from_bytes(whole[-8:-4], "little")
        yield whole[-8 - size : -8]


def parquet_join(data: bytes) -> None:
    """A Parquet file that is joined to itself byte for byte: if that works, there are twice as many rows."""
    sink = pa.BufferOutputStream()
    join = ParquetJoin(sink)
    with suppress(NotJoinable), decoding("it cannot be joined"):
        for _ in range(2):
            join.add(pa.BufferReader(data))
        join.finish()
        with decoding("it cannot be read"):
            before = pq.read_table(pa.BufferReader(data), page_checksum_verification=True).num_rows
        assert join.rows == 2 * before


# ---- locations, options, predicates ----

_PLACES = Places("/t", ("/t", "s3://b/t"))


def location(data: bytes) -> None:
    """A location, or places in an option: what lies inside the roots has no way out."""
    text = data.decode("utf-8", "surrogateescape")
    parsed = parse_location(text)
    assert parse_location(parsed.text) == parsed or parsed.scheme == "file"
    root = _PLACES.root_of(parsed.text)
    assert root is None or (parsed.text.startswith(root) and ".." not in parsed.text.split("/"))
    named_places({"lakebed.storage.places": text})


_OPTIONS = OptionSet(
    (
        Option("size", memory_size, 1, ""),
        Option("time", duration_ms, 1, ""),
        Option("flag", boolean, False, ""),
        Option("count", at_least(1), 1, ""),
        Option("ratio", between(0, 1), 0.5, ""),
        Option("whole", int, 1, ""),
        Option("real", float, 1.0, ""),
        Option("mode", one_of("a", "b"), "a", ""),
        Option("text", str, "", ""),
    ),
    "the fuzzer",
)


def options(data: bytes) -> None:
    """Options, one a line, as KEY=VALUE."""
    pairs = [line.partition("=") for line in data.decode("utf-8", "replace").split("\n")]
    _OPTIONS.parse({key: value for key, _, value in pairs})


_ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "name": ["a", None, "c"],
        "x": [1.5, float("nan"), None],
        "d": pa.array([Decimal("1.25"), None, Decimal("-3")], pa.decimal128(9, 2)),
        "ok": [True, None, False],
        "day": pa.array([date(2026, 1, 2), None, date(1960, 1, 1)]),
        "t": pa.array([0, None, 10**15], pa.timestamp("us", "UTC")),
        "s": pa.array([{"y": 1}, None, {"y": None}], pa.struct([("y", pa.int32())])),
        "b": pa.array([b"", None, b"\1"]),
        "list": pa.array([[1], None, []], pa.list_(pa.int64())),
    }
)
_CONDITIONS = (
    "id = 1 and name in ('a', 'b''c') or not (x >= 1.5e0)",
    "day between '2026-01-01' and date '2026-02-01'",
    "name like 'a%' and ok is not true",
    "d <> 1.25 and s.y is null",
    "t > timestamp '2026-01-01 00:00:00'",
    "id in (1, 2, null) and x not in (1.5)",
    "b = X'01' and \"id\" <=> 2 and `name` is not null",
    "name ilike '_a%'",
    "-x < 3 or id + 1 = 2",
    "day > date '2026-01-01' and (ok or not ok)",
)


def where(data: bytes) -> None:
    """A SQL condition over columns of many types, applied to rows: never more rows than there are."""
    node = parse_where(data.decode("utf-8", "replace"), _ROWS.schema)
    columns_of(node)
    if node is not None:
        with decoding("the rows cannot be filtered"):
            assert keep(_ROWS.to_batches()[0], node).num_rows <= 3


_WORDS = (
    " and ",
    " or ",
    " not ",
    "(",
    ")",
    "'",
    '"',
    "`",
    "id",
    "name",
    "x",
    "d",
    "day",
    "t",
    "s.y",
    "b",
    "list",
    "ok",
    "=",
    "<=>",
    "<>",
    "<",
    ">=",
    " in (",
    ",",
    " like ",
    " rlike ",
    " is null",
    " between ",
    " case when ",
    " then ",
    " else ",
    " end",
    "cast(",
    " as ",
    "int)",
    "decimal(9,2))",
    "timestamp ",
    "date ",
    "interval 1 day",
    "null",
    "true",
    "-",
    "1",
    "1e999",
    "9" * 400,
    "0.1",
    "X'",
    "\\",
    "--",
    "/*",
    ";",
    "select ",
    " exists (",
    "*",
    "%",
    "||",
    "::",
    "[0]",
    "{",
    "\0",
    "\ud83d",
    "😀",
    "if(",
    "coalesce(",
    "nan",
    "'NaN'",
    "'infinity'",
    "current_date",
    "@",
    ":p",
    "?",
    " x -> x",
)

_AVRO = mutators.any_of(mutators.avro_file, mutators.avro_file, mutators.plain)

TARGETS = (
    Target("kernel-avro", avro, _avro_files, _AVRO),
    Target("kernel-avro-datums", datums, _datums, mutators.plain),
    Target("kernel-compression", compression, _compressed, mutators.behind(1, mutators.plain)),
    Target("kernel-parquet-thrift", thrift, _footers, mutators.plain),
    Target("kernel-parquet-join", parquet_join, _parquet, mutators.plain),
    Target(
        "kernel-location",
        location,
        values(b"s3a://bucket/a/b", b"file:///t/x%20y", b"/t/a/b", b"abfss://c@a.dfs.core.windows.net/x", b"~/x"),
        mutators.text(
            (
                "s3://",
                "file:",
                "//",
                "/",
                "..",
                "/../",
                "%2e%2e",
                "%2f",
                "\0",
                "~",
                "~root",
                ":",
                "@",
                "b/t",
                "hdfs:",
                "\\",
                "?",
                "#",
                "S3A:",
                " ",
                ",",
                "[",
                "]",
                "[::1",
                "localhost",
            )
        ),
    ),
    Target(
        "kernel-options",
        options,
        values(b"size=1 mb\ntime=5 s", b"flag=true\ncount=3\nratio=0.5", b"whole=7\nreal=1e3\nmode=A\ntext= x"),
        mutators.text(
            (
                "size=",
                "time=",
                "flag=",
                "count=",
                "ratio=",
                "whole=",
                "real=",
                "mode=",
                "\n",
                "=",
                "lakebed.storage.x=",
                "9" * 5000,
                "1e999",
                "nan",
                "-0",
                "\u0661",
                "\u00b2",
                "1_0",
                "\u0130",
                " ",
            )
        ),
    ),
    Target("kernel-where", where, values(*(text.encode() for text in _CONDITIONS)), mutators.text(_WORDS)),
)
