"""Hudi's codecs: timeline, log files, HFiles, archive, schemas, indexes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from lakebed.errors import LakebedError
from lakebed.formats.hudi.codec import internal_schema, lsm, metadata, plans, service_plans, timestamps
from lakebed.formats.hudi.codec.archive_entry import archived_entry, check_readable
from lakebed.formats.hudi.codec.archive_v1 import parse_archive
from lakebed.formats.hudi.codec.avro import decode_blocks, record_run
from lakebed.formats.hudi.codec.avro_schema import with_meta_fields, without_fields
from lakebed.formats.hudi.codec.bloom import FilterBuilder, FilterSettings, FilterType, parse_filter
from lakebed.formats.hudi.codec.bucket_rules import BucketRules, encode_rules, parse_rules
from lakebed.formats.hudi.codec.cdc import cdc_mode
from lakebed.formats.hudi.codec.delete import decode_deletes
from lakebed.formats.hudi.codec.delete_rows import OrderingBranch
from lakebed.formats.hudi.codec.hashing import CHILDREN, parse_children, parse_hashing
from lakebed.formats.hudi.codec.hfile import open_hfile
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey, LogBlock, parse_log
from lakebed.formats.hudi.codec.log_write import write_block
from lakebed.formats.hudi.codec.metadata_records import decode_records
from lakebed.formats.hudi.codec.null_first import null_first
from lakebed.formats.hudi.codec.parquet_block import decode_parquet_block
from lakebed.formats.hudi.codec.properties import parse_properties
from lakebed.formats.hudi.codec.schema import arrow_schema, writer_schema
from lakebed.formats.hudi.codec.wrapped_values import bounds, value_types
from lakebed.formats.hudi.config import config_from
from lakebed.kernel.avro.columns import decode_datums
from lakebed.kernel.decoding import decoding
from lakebed.kernel.scratch import Scratch
from lakebed.testing.hudi_log import Delete, delete_block, parquet_data_block
from tests.fuzz import mutators
from tests.fuzz.target import Target, files, numbered, values
from tests.golden import unpack

SCRATCH = Scratch()
_ROW = '{"type": "record", "name": "r", "fields": [{"name": "k", "type": "string"}, {"name": "n", "type": "long"}]}'
_KEYS = pa.array(["", "a", "key:1", "é" * 9])


# ---- log files ----


def log(data: bytes) -> None:
    """A log file: all its blocks, each decoded as what it is. A block has as many rows as it states."""
    for block in parse_log(data).blocks:
        _block(block)


def _block(block: LogBlock) -> None:
    match block.kind:
        case BlockKind.DELETE:
            decode_deletes(block.content, SCRATCH)
        case BlockKind.PARQUET_DATA:
            decode_parquet_block(block, None)
        case BlockKind.HFILE_DATA:
            hfile(bytes(block.content))
        case BlockKind.AVRO_DATA | BlockKind.CDC_DATA:
            if block.kind is BlockKind.CDC_DATA:
                cdc_mode(block)
            assert decode_blocks([block], None, SCRATCH).num_rows == record_run(block)[0]


def _more_blocks() -> Iterator[bytes]:
    branches = (OrderingBranch.LONG, 7), (OrderingBranch.STRING, "x"), (OrderingBranch.ARRAY, [(OrderingBranch.INT, 1)])
    for branch, value in branches:
        yield delete_block([Delete("a", "p"), Delete("c", "p", branch, value)], "002")
    yield delete_block([Delete("a", "p", OrderingBranch.DOUBLE, 1.5)], "2") + parquet_data_block(
        _ROW, pa.table({"k": ["e", "ff"], "n": [5, 6]}), "005"
    )


def kryo(data: bytes) -> None:
    """A delete block of content version 2, or of version 1: Java objects that Kryo wrote."""
    decode_deletes(
        bytes([0, 0, 0, 1 + data[0] % 2]) + len(data[1:]).to_bytes(4, "big") + data[1:] if data else b"", SCRATCH
    )


def _kryo_seeds() -> Iterator[bytes]:
    array = b"\x01\x00[Lorg.apache.hudi.common.model.DeleteRecord\xbb"
    record = b"\x01\x01org.apache.hudi.common.model.DeleteRecor\xe4"
    key = b"\x01\x02org.apache.hudi.common.model.HoodieKe\xf9"
    yield b"\1" + array + b"\x01\x02" + record + b"\x01" + key + b"\x01\x01p\xf1\x01k\xb1" + b"\x02\x0e"
    decimal = b"\x01\x03java.math.BigDecima\xec\x01\x02\x10\x04"
    yield b"\1" + array + b"\x01\x02" + record + b"\x01" + key + b"\x01\x01p\xf1\x01k\xb1" + decimal


# ---- HFiles and what is in the metadata table ----


def hfile(data: bytes) -> None:
    """An HFile: its entries, and their values as records of the metadata table."""
    image = open_hfile(lambda start, length: data[start : start + length], len(data))
    table = image.scan()
    image.around([b"a", b"key"])
    image.starting([b"", b"a", b"\xff"])
    if "schema" in image.info:
        records = decode_records(image.info["schema"], table["value"])
        assert len(records) == table.num_rows
        with decoding("a schema cannot be read"):
            schema = json.loads(image.info["schema"])
        _columns(decode_datums(table["value"].combine_chunks(), schema))


def _columns(fields: Any) -> None:
    with decoding("statistics cannot be read"):
        choice = fields.get("ColumnStatsMetadata")
        stats = choice.values[1] if choice is not None else None
    if stats and "minValue" in stats:
        with decoding("statistics cannot be read"):
            types, info = value_types(stats, len(choice.rows[1]))
            for kind in (pa.int32(), pa.string(), pa.decimal128(9, 2), pa.date32(), pa.timestamp("us")):
                bounds(stats["minValue"], types, info, kind)


def _hfiles() -> Iterator[bytes]:
    yield from files("hudi/mor_mdt_v9/*.hfile", "hudi/mor_mdt_v8/*.hfile")()
    for pattern in ("hudi/mor_mdt_v9/record_index/.record*.log.*", "hudi/mor_mdt_v9/column_stats/.col*.log.*"):
        for seed in files(pattern)():
            for block in parse_log(seed).blocks:
                if block.kind is BlockKind.HFILE_DATA:
                    yield bytes(block.content)


# ---- the timeline ----

_PLANS = (
    plans.RollbackPlan,
    plans.RollbackMetadata,
    plans.RestorePlan,
    plans.RestoreMetadata,
    plans.SavepointMetadata,
    plans.CleanerPlan,
    plans.CleanMetadata,
    plans.CompactionPlan,
    plans.RequestedReplaceMetadata,
    plans.IndexPlan,
    plans.IndexCommitMetadata,
)


def commit(data: bytes) -> None:
    """A state file of a commit, JSON or Avro, as each of its readers takes it."""
    for read in (metadata.planned_partitions, metadata.planned_updates, check_readable):
        with suppress(LakebedError):
            read(data)
    with suppress(LakebedError):
        archived_entry("001", "deltacommit", "completed", data)
    metadata.parse_commit(data)


def plan(data: bytes) -> None:
    """A state file of a service, as the record that the first byte chooses."""
    number, body = (data[0] if data else 0), data[1:]
    readers = [
        *((lambda body, kind=kind: plans.decode(kind, body)) for kind in _PLANS),
        metadata.parse_clean,
        metadata.parse_clean_plan,
        metadata.parse_savepoint,
        service_plans.parse_compaction_plan,
        service_plans.parse_clustering_plan,
        lambda body: archived_entry("001", "clean", "requested", body),
        lambda body: archived_entry("001", "clean", "completed", body),
        lambda body: archived_entry("001", "replacecommit", "requested", body),
        lambda body: archived_entry("001", "rollback", "completed", body),
        lambda body: archived_entry("001", "compaction", "requested", body),
    ]
    readers[number % len(readers)](body)


def _plan_seeds() -> Iterator[bytes]:
    kinds = {
        "rollback.requested": (0,),
        "rollback": (1, 19),
        "savepoint": (4, 13),
        "clean.requested": (5, 12, 16),
        "clean": (6, 11, 17),
        "compaction.requested": (7, 14, 20),
        "replacecommit.requested": (8, 15, 18),
    }
    for table in ("mor_rollback_v6", "mor_rollback_v9", "mor_v6", "archived_savepoint_v9", "consistent_hash_done_h015"):
        for ending, numbers in kinds.items():
            try:
                seed = next(files(f"hudi/{table}/*.{ending}")())
            except AssertionError:
                continue
            for number in numbers:
                yield bytes([number]) + seed


def archive(data: bytes) -> None:
    """An archive file of table version 6, with each entry's metadata."""
    for entry in parse_archive([data], SCRATCH).entries:
        entry.metadata()


def _archive_seeds() -> Iterator[bytes]:
    """Two records of each archive: whole archives are large."""
    for name in ("archived_v6", "archived_h015", "archived_mor_v6"):
        for path in sorted(unpack("hudi", name).rglob(".commits_.archive.*"))[:1]:
            block = parse_log(path.read_bytes()).blocks[0]
            content, at = bytes(block.content), 8
            for _ in range(2):
                at += 4 + int.from_bytes(content[at : at + 4], "big")
            fewer = content[:4] + (2).to_bytes(4, "big") + content[8:at]
            yield write_block(block.kind, dict(block.headers), fewer)


def lsm_timeline(data: bytes) -> None:
    """A file of the LSM timeline: a version, a manifest, or Parquet by the first byte."""
    number, body = (data[0] if data else 0), data[1:]
    match number % 3:
        case 0:
            lsm.parse_version(body)
        case 1:
            lsm.parse_manifest(body)
        case _:
            rows = lsm.read_payloads(body).num_rows
            assert rows == lsm.read_instants(body).num_rows == sum(b.num_rows for b in lsm.read_rows(io.BytesIO(body)))


def _lsm_parquet() -> Iterator[bytes]:
    sink = io.BytesIO()
    with lsm.lsm_writer(sink) as writer:
        writer.write(
            lsm.lsm_batch([("001", "002", "commit", b"{}", None), ("003", "004", "clean", b"x" * 50, b"plan")])
        )
    yield sink.getvalue()
    yield from (seed for seed in files("hudi/archived_v9/history/*.parquet")() if len(seed) < 12_000)


# ---- texts: properties, schemas, indexes ----


def properties(data: bytes) -> None:
    """`hoodie.properties`, and what is made of it. Any bytes are properties."""
    config_from(parse_properties(data), table="t")


def schema(data: bytes) -> None:
    """An Avro schema or an internal schema as text, with what is computed of it."""
    number = data[0] if data else 0
    with decoding("a schema is not text"):
        text = data[1:].decode()
    readers = [
        arrow_schema,
        writer_schema,
        internal_schema.parse_internal_schema,
        internal_schema.parse_schema_history,
        timestamps.mislabelled_units,
        null_first,
        with_meta_fields,
        lambda text: without_fields(text, ["k"]),
    ]
    readers[number % len(readers)](text)


def _schema_seeds() -> Iterator[bytes]:
    avro: set[bytes] = {_ROW.encode()}
    for table in ("mor_v6", "evo_v9", "partial_v9"):
        for seed in files(f"hudi/{table}/.*.log.*")():
            avro |= {
                block.headers[HeaderKey.SCHEMA].encode()
                for block in parse_log(seed).blocks
                if HeaderKey.SCHEMA in block.headers
            }
    for text in sorted(avro)[:12]:
        yield from (bytes([number]) + text for number in (0, 1, 4, 5, 6, 7))
    for seed in files("hudi/evo_rename_h015/*.commit")():
        latest = json.loads(seed)["extraMetadata"].get("latest_schema")
        if latest:
            yield b"\2" + latest.encode()
    yield from (b"\3" + seed for seed in files("hudi/evo_rename_h015/*.schemacommit")())


def index(data: bytes) -> None:
    """A Bloom filter, the nodes of a consistent hashing, or the rules of bucket counts, by the first byte."""
    number, body = (data[0] if data else 0), data[1:]
    match number % 5:
        case 0 | 1:
            kind = FilterType.SIMPLE if number % 5 else FilterType.DYNAMIC
            parse_filter(body, kind).may_have(_KEYS)
            FilterBuilder.resumed(_SETTINGS, body, kind)
        case 2:
            parse_hashing(body)
        case 3:
            with decoding("it holds no rules"):
                rules = parse_rules(body, "t")
            rules.count("a=1/" + "b" * 40)
        case _:
            with decoding("it is not text"):
                extra = {CHILDREN: body.decode()}
            parse_children(extra)


_SETTINGS = FilterSettings(entries=20, most_entries=60)


def _filters(kind: FilterType) -> Iterator[bytes]:
    builder = FilterBuilder(FilterSettings(kind, 20, 1e-3, 60))
    builder.add(pa.array([f"k{n}" for n in range(45)]))
    yield builder.finish()


def _index_seeds() -> Iterator[bytes]:
    yield from (b"\0" + seed for seed in _filters(FilterType.DYNAMIC))
    yield from (b"\1" + seed for seed in _filters(FilterType.SIMPLE))
    yield from (b"\2" + seed for seed in files("hudi/consistent_hash_done_h015/*.hashing_meta")())
    yield b"\3" + encode_rules(BucketRules.of("a.*,2;(b|c)[0-9]+,3", "regex", 4, "t"), "001")
    yield b'\4[{"value": 5, "fileIdPrefix": "x", "tag": "REPLACE"}]'


_AVRO_OR_JSON = mutators.any_of(mutators.avro_file, mutators.avro_file, mutators.json_text, mutators.plain)

TARGETS = (
    Target(
        "hudi-log",
        log,
        lambda: (
            s
            for part in (
                files(
                    "hudi/mor_v6/.*.log.*",
                    "hudi/mor_parquet_blocks_v8/.*.log.*",
                    "hudi/cdc_mor_v9/.*.log.*",
                    "hudi/mor_mdt_v9/.*.log.*",
                ),
                _more_blocks,
            )
            for s in part()
        ),
        mutators.any_of(mutators.log_file, mutators.log_file, mutators.plain),
    ),
    Target("hudi-log-kryo", kryo, _kryo_seeds, mutators.behind(1, mutators.plain)),
    Target("hudi-hfile", hfile, _hfiles, mutators.hfile),
    Target(
        "hudi-timeline-commit",
        commit,
        files(
            "hudi/mor_v6/*.deltacommit", "hudi/mor_v9/*.deltacommit", "hudi/mor_v9/*.inflight", "hudi/cow_v9/*.commit"
        ),
        _AVRO_OR_JSON,
    ),
    Target("hudi-timeline-plan", plan, _plan_seeds, mutators.behind(1, _AVRO_OR_JSON)),
    Target(
        "hudi-archive-log",
        archive,
        _archive_seeds,
        mutators.any_of(mutators.log_file, mutators.log_file, mutators.plain),
    ),
    Target(
        "hudi-archive-lsm",
        lsm_timeline,
        numbered(values(b"7", b"12\n"), files("hudi/archived_v9/history/manifest_*"), _lsm_parquet),
        mutators.behind(1, mutators.any_of(mutators.json_text, mutators.plain)),
    ),
    Target(
        "hudi-properties",
        properties,
        files("hudi/mor_v6/hoodie.properties", "hudi/mor_v9/hoodie.properties"),
        mutators.text(
            (
                "hoodie.table.version=",
                "hoodie.table.type",
                "=",
                ":",
                "\\",
                "\\u00",
                "\\ud83d\\ude00",
                "\n",
                "\r",
                "#",
                "!",
                "\x85",
                "\u2028",
                "hoodie.table.name=",
                "hoodie.timeline.path=../x",
                "hoodie.table.partition.fields=a:SIMPLE,b:",
                "9" * 5000,
                "-1",
            )
        ),
    ),
    Target("hudi-schema", schema, _schema_seeds, mutators.behind(1, mutators.json_text)),
    Target(
        "hudi-index",
        index,
        _index_seeds,
        mutators.behind(1, mutators.any_of(mutators.json_text, mutators.base64_body, mutators.plain)),
    ),
)
