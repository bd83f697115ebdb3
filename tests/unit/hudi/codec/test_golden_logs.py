"""Every log and archive file of the golden tables: whole, and decoded as fastavro decodes it, record by record."""

import io
import json
import struct
from pathlib import Path

import fastavro
import pytest

from lakebed.formats.hudi.codec.archive_v1 import parse_archive
from lakebed.formats.hudi.codec.avro import decode_blocks, record_run
from lakebed.formats.hudi.codec.cdc import CdcMode, cdc_mode
from lakebed.formats.hudi.codec.delete import decode_deletes
from lakebed.formats.hudi.codec.delete_avro import _decode_singly
from lakebed.formats.hudi.codec.delete_rows import natural_order
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock, parse_log
from lakebed.formats.hudi.codec.lsm import parse_manifest, parse_version, read_instants, read_payloads
from lakebed.formats.hudi.codec.schema import arrow_schema
from lakebed.formats.hudi.read.log_reader import parquet_rows
from lakebed.kernel.scratch import Scratch
from tests.golden import names, unpack

SCRATCH = Scratch()


def log_files(name: str) -> list[Path]:
    return sorted(
        path
        for path in unpack("hudi", name).rglob(".*")
        if (".log." in path.name or ".archive." in path.name) and path.suffix != ".crc"
    )


def golden_blocks(name: str) -> list[LogBlock]:
    actual = []
    for path in log_files(name):
        data = path.read_bytes()
        scan = parse_log(data)
        assert not scan.corrupt, path
        assert sum(block.length for block in scan.blocks) == len(data), path
        actual += scan.blocks
    return actual


def one_by_one(block: LogBlock) -> list[dict]:
    schema = fastavro.parse_schema(json.loads(block.schema))
    count, body = record_run(block)
    rows, place = [], 0
    for _ in range(count):
        (length,) = struct.unpack_from(">i", body, place)
        rows.append(fastavro.schemaless_reader(io.BytesIO(body[place + 4 : place + 4 + length]), schema))
        place += 4 + length
    assert place == len(body)
    return rows


@pytest.mark.parametrize("name", names("hudi"))
def test_blocks_of_a_golden_table(name):
    for block in golden_blocks(name):
        if block.kind in (BlockKind.AVRO_DATA, BlockKind.CDC_DATA) and block.instant_time:
            table = decode_blocks([block], None, SCRATCH)
            assert table.schema == arrow_schema(block.schema)
            assert table.to_pylist(maps_as_pydicts="strict") == one_by_one(block)
        elif block.kind is BlockKind.DELETE:
            actual = decode_deletes(block.content, SCRATCH)
            assert actual.equals(_decode_singly(block.content[8:]))
        elif block.kind is BlockKind.PARQUET_DATA:
            table = parquet_rows(block, None)
            assert table.schema == arrow_schema(block.schema)
            assert table.num_rows > 0


def test_kinds_that_the_golden_tables_hold():
    kinds = {block.kind for name in ("mor_rollback_v6", "mor_parquet_blocks_v8") for block in golden_blocks(name)}
    assert kinds == {BlockKind.COMMAND, BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA, BlockKind.DELETE}


@pytest.mark.parametrize("name", ["cdc_cow_v6", "cdc_cow_v8", "cdc_cow_v9", "cdc_mor_v9"])
def test_change_blocks(name):
    changes = [block for block in golden_blocks(name) if block.kind is BlockKind.CDC_DATA]
    assert changes
    for block in changes:
        assert cdc_mode(block) is CdcMode.DATA_BEFORE_AFTER
        for row in decode_blocks([block], None, SCRATCH).to_pylist():
            assert (row["before"] is None) == (row["op"] == "i")
            assert (row["after"] is None) == (row["op"] == "d")


def test_deletes_with_two_ordering_fields():
    actual = [
        row
        for block in golden_blocks("merge_event_2fields_v9")
        if block.kind is BlockKind.DELETE
        for row in decode_deletes(block.content, SCRATCH).to_pylist()
    ]
    expected = {
        "record_key": "k0000",
        "partition_path": "a",
        "ordering_branch": 12,
        "ordering_array": [{"branch": 3, "long": 300}, {"branch": 3, "long": 2}],
    }
    assert expected in actual


def test_the_delete_operation_has_natural_order():
    (block, *_) = (block for block in golden_blocks("mor_v6") if block.kind is BlockKind.DELETE)
    assert set(natural_order(decode_deletes(block.content, SCRATCH)).to_pylist()) == {True}


ARCHIVES = [name for name in names("hudi") if name.startswith("archived") and name.endswith(("v6", "h015"))]


@pytest.mark.parametrize("name", ARCHIVES)
def test_archive_files(name):
    files = [path.read_bytes() for path in log_files(name) if ".archive." in path.name]
    scan = parse_archive(files, SCRATCH)
    assert scan.entries
    assert not scan.corrupt
    assert [entry.instant for entry in scan.entries] == sorted(entry.instant for entry in scan.entries)
    for entry in scan.entries:
        assert len(entry.instant) == 17
        assert entry.state in ("REQUESTED", "INFLIGHT", "COMPLETED")
        if entry.state == "COMPLETED" and entry.action in ("commit", "deltacommit"):
            assert "partitionToWriteStats" in entry.metadata()["hoodieCommitMetadata"]
    # A run that died after it wrote is run again: each state counts once.
    assert parse_archive([*files, *files], SCRATCH).entries == scan.entries


@pytest.mark.parametrize(
    "name", [name for name in names("hudi") if name.startswith("archived") and name[-2:] in ("v8", "v9")]
)
def test_lsm_history(name):
    history = unpack("hudi", name) / ".hoodie/timeline/history"
    version = parse_version((history / "_version_").read_bytes())
    files = parse_manifest((history / f"manifest_{version}").read_bytes())
    assert files
    for file in files:
        data = (history / file.name).read_bytes()
        assert len(data) == file.length
        instants = read_instants(data)
        assert {file.first, file.last} <= set(instants["instantTime"].to_pylist())
        assert instants.column_names == ["instantTime", "completionTime", "action"]
        (one,) = read_payloads(data, [file.first]).to_pylist()
        assert one["instantTime"] == file.first
        assert one["metadata"] is None or one["metadata"][:4] == b"Obj\x01" or one["metadata"][:1] == b"{"
