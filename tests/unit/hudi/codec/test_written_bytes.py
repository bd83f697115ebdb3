"""What lakebed writes has the bytes that Hudi wrote: golden files, taken apart and put together again."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakebed.formats.hudi.codec.avro import decode_blocks
from lakebed.formats.hudi.codec.avro_rows import framed_rows
from lakebed.formats.hudi.codec.avro_schema import with_meta_fields
from lakebed.formats.hudi.codec.bloom import FilterSettings
from lakebed.formats.hudi.codec.commit_metadata import FileStat, encode_commit
from lakebed.formats.hudi.codec.delete import decode_deletes
from lakebed.formats.hudi.codec.delete_rows import OrderingBranch, natural_order, ordering_column
from lakebed.formats.hudi.codec.delete_write import delete_content
from lakebed.formats.hudi.codec.hfile import open_hfile
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock, parse_log
from lakebed.formats.hudi.codec.log_write import run_content, write_block
from lakebed.formats.hudi.codec.metadata_records import RecordType, encode_records
from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.write.key_summary import KeySummary
from lakebed.kernel.arrays import one_chunk
from lakebed.kernel.scratch import Scratch
from tests.golden import unpack

SCRATCH = Scratch()
METADATA_TABLES = {"mor_mdt_v8": 8, "mor_mdt_v9": 9}
TABLES = (
    *("mor_h015", "mor_v6", "mor_v8", "mor_v9", "merge_event_v8", "merge_event_2fields_v9", "evo_v9", "partial_v8"),
    *("cdc_cow_v6", "cdc_mor_v9", "mor_rollback_v6", "mor_rollback_v9", "mor_parquet_blocks_v8", *METADATA_TABLES),
)


@pytest.mark.parametrize("name", TABLES)
def test_blocks_of_log_files(name: str) -> None:
    """The frame of every kind of block; the content of rows, of changes and of deletes."""
    kinds = set()
    for path in unpack("hudi", name).rglob(".*.log.*"):
        if path.suffix == ".crc":
            continue
        for block in parse_log(data := path.read_bytes()).blocks:
            kinds.add(block.kind)
            content = CONTENTS[block.kind](block) if block.kind in CONTENTS else bytes(block.content)
            written = write_block(block.kind, block.headers, content)
            assert written == data[block.offset : block.offset + block.length], (path, block.kind)
    assert kinds, "no log file"


def rows(block: LogBlock) -> bytes:
    batch = pa.RecordBatch.from_struct_array(one_chunk(decode_blocks([block], None, SCRATCH).to_struct_array()))
    return run_content([(len(batch), framed_rows(batch, block.schema))])


def deletes(block: LogBlock) -> bytes:
    table = decode_deletes(block.content, SCRATCH)
    natural = pa.array(natural_order(table))
    ordering = [pc.if_else(natural, pa.scalar(None, column.type), column) for column in ordering_columns(table)]
    return delete_content(one_chunk(table["record_key"]), one_chunk(table["partition_path"]), ordering)


def ordering_columns(table: pa.Table) -> list[pa.Array]:
    """The values of each ordering field, of the longs of these tables."""
    if ordering_column(OrderingBranch.ARRAY) not in table.column_names:
        return [one_chunk(table[name]) for name in [ordering_column(OrderingBranch.LONG)] if name in table.column_names]
    several = [value or [] for value in table[ordering_column(OrderingBranch.ARRAY)].to_pylist()]
    longs = [[value["long"] for value in values] for values in several]
    return [pa.array([values[n] if values else None for values in longs], pa.int64()) for n in range(2)]


CONTENTS = {BlockKind.AVRO_DATA: rows, BlockKind.CDC_DATA: rows, BlockKind.DELETE: deletes}


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_records_of_the_metadata_table(name: str) -> None:
    folder = unpack("hudi", name) / ".hoodie/metadata"
    images = [path.read_bytes() for path in folder.glob("*/*.hfile")]
    images += [
        bytes(block.content)
        for path in folder.glob("*/.*.log.*")
        for block in parse_log(path.read_bytes()).blocks
        if block.kind is BlockKind.HFILE_DATA
    ]
    types = set()
    for image in images:
        hfile = open_hfile(lambda start, length, image=image: image[start : start + length], len(image))
        datums = one_chunk(hfile.scan()["value"])
        schema = fastavro.parse_schema(json.loads(hfile.info["schema"]))
        records = [
            fastavro.schemaless_reader(io.BytesIO(datum), schema, None, True, True) for datum in datums.to_pylist()
        ]
        types |= {record["type"] for record in records}
        again = encode_records(METADATA_TABLES[name], ((RecordType(record["type"]), record) for record in records))
        assert again.equals(datums)
    assert types >= {RecordType.PARTITIONS, RecordType.FILES}


@pytest.mark.parametrize("name", ["cow_v6", "cow_h015"])
def test_the_footer_of_a_base_file(name: str) -> None:
    table = unpack("hudi", name)
    for path in table.glob("*/*.parquet"):
        file = pq.ParquetFile(path)
        summary = KeySummary(FilterSettings(entries=60))
        summary.add(one_chunk(file.read(columns=[RECORD_KEY])[RECORD_KEY]))
        (commit,) = (table / ".hoodie").glob(f"{path.stem.rpartition('_')[2]}.*commit")
        schema = with_meta_fields(json.loads(commit.read_bytes())["extraMetadata"]["schema"])
        ours = {**summary.footer(), "writer.model.name": "avro", "parquet.avro.schema": schema}
        footer = file.metadata.metadata
        if b"org.apache.spark.version" in footer:  # of a bulk insert, which writes Spark's schema
            continue
        assert {key.encode(): text.encode() for key, text in ours.items()} == footer, path


@pytest.mark.parametrize("name", ["cow_v6", "mor_v6", "mor_bucket_v6"])
def test_commits_of_version_6(name: str) -> None:
    """Fields, values and their order; but for the times that Hudi's tasks took and the empty counts that nothing
    reads."""
    commits = [path for path in (unpack("hudi", name) / ".hoodie").glob("*commit") if path.stat().st_size]
    assert commits
    for path in commits:
        record = json.loads(path.read_bytes())
        stats = [file_stat(stat) for files in record["partitionToWriteStats"].values() for stat in files]
        ours = encode_commit(
            stats,
            version=6,
            operation=record["operationType"],
            extra=record["extraMetadata"],
            replaced=record.get("partitionToReplaceFileIds"),
            partitions=list(record["partitionToWriteStats"]),
        )
        for stat in (stat for files in record["partitionToWriteStats"].values() for stat in files):
            stat["runtimeStats"] = None
            stat.pop("recordsStats", None)
        assert json.dumps(json.loads(ours)) == json.dumps(record), path


def file_stat(stat: dict[str, Any]) -> FileStat:
    """One file of a commit, from Hudi's JSON."""
    log: dict[str, Any] = {}
    if "logFiles" in stat:
        log = {"is_log": True, "base": stat["baseFile"], "logs": tuple(stat["logFiles"])}
        log |= {"log_version": stat["logVersion"], "log_offset": stat["logOffset"]}
    return FileStat(
        stat["partitionPath"],
        stat["fileId"],
        stat["path"],
        stat["fileSizeInBytes"],
        stat["prevCommit"],
        stat["numWrites"],
        stat["numInserts"],
        stat["numUpdateWrites"],
        stat["numDeletes"],
        changes=stat["cdcStats"],
        previous_base=stat["prevBaseFile"],
        log_stats={name: count for name, count in stat.items() if name.startswith("total")},
        **log,
    )
