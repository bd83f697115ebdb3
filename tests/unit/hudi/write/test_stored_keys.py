"""Tables without meta columns: their rows' keys are made from the key columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.hudi.codec.delete import decode_deletes
from lakebed.formats.hudi.codec.log import BlockKind, parse_log
from lakebed.formats.hudi.layout import META_COLUMNS
from lakebed.kernel.scratch import Scratch

SCHEMA = pa.schema(
    [("id", pa.string()), ("k2", pa.int32()), ("part", pa.string()), ("ts", pa.int64()), ("x", pa.string())]
)
VIRTUAL = {"hoodie.populate.meta.fields": "false", "hoodie.table.ordering.fields": "ts"}
ALL_PARTS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}


def rows(ts: int, *numbers: int, part: str = "") -> pa.Table:
    """Rows of some keys; the second key column is null for one in three."""
    data = [
        {"id": f"k{n}", "k2": n % 3 or None, "part": part or "ab"[n % 2], "ts": ts, "x": f"{ts}:{n}"} for n in numbers
    ]
    return pa.Table.from_pylist(data, SCHEMA)


def read(folder: Path) -> set[str]:
    """What each row says of its version and key."""
    found = lakebed.open(folder).read(["x"]).read_all()["x"].to_pylist()
    assert len(found) == len(set(found))
    return set(found)


def made(folder: Path, version: int, kind: str, keys: list[str], parts: list[str], **more: str) -> lakebed.Table:
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind, **VIRTUAL, **more}
    return lakebed.create(folder, "hudi", SCHEMA, keys, parts, options)


def base_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.parquet") if ".hoodie" not in path.parts]


@pytest.mark.parametrize(
    ("version", "kind", "keys", "parts", "options"),
    [
        (6, "COPY_ON_WRITE", ["id"], ["part"], {}),
        (6, "MERGE_ON_READ", ["id"], ["part"], {"hoodie.index.type": "SIMPLE"}),
        (9, "MERGE_ON_READ", ["id", "k2"], ["part"], ALL_PARTS),
        (9, "MERGE_ON_READ", ["id"], ["part", "k2"], {"hoodie.write.record.positions": "true"}),
        (8, "MERGE_ON_READ", ["id"], [], {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}),
    ],
)
def test_a_table_lives_by_its_key_columns(
    tmp_path: Path, version: int, kind: str, keys: list[str], parts: list[str], options: dict[str, str]
) -> None:
    table = made(tmp_path, version, kind, keys, parts)
    table.write(rows(1, *range(6)), options=options)
    table.write(rows(2, *range(3, 8)), mode="upsert", options=options)
    table.write(rows(0, 0, 1), mode="upsert", options=options)  # late rows lose
    table.write(rows(3, 4), mode="delete", options=options)
    held = {"1:0", "1:1", "1:2", "2:3", "2:5", "2:6", "2:7"}
    assert read(tmp_path) == held
    if kind == "MERGE_ON_READ":
        few = {"lakebed.rewrite.what": "log-compaction", "hoodie.log.compaction.blocks.threshold": "2"}
        assert table.rewrite(options=few).groups and read(tmp_path) == held
        assert table.rewrite(options={"hoodie.compact.inline.max.delta.commits": "1"}).groups
        assert read(tmp_path) == held
    table.write(rows(5, 5, 8), mode="upsert", options=options)
    held = held - {"2:5"} | {"5:5", "5:8"}
    if "BUCKET" not in options.values():
        table.rewrite(options={"lakebed.rewrite.what": "clustering"})
    table.write(rows(6, 8), mode="delete", options=options)
    table.expire(options={"hoodie.clean.commits.retained": 1})
    assert read(tmp_path) == held - {"5:8"}
    for path in base_files(tmp_path):
        assert set(pq.read_metadata(path).metadata) == {b"writer.model.name", b"parquet.avro.schema"}
        stored = pq.read_table(path, columns=list(META_COLUMNS))
        assert all(column.null_count == len(stored) for column in stored.columns)
    with pytest.raises(UnsupportedError, match="changes of a table without meta columns"):
        lakebed.open(tmp_path).changes()


def test_counts_are_those_of_a_table_with_meta_columns(tmp_path: Path) -> None:
    counts = []
    for name, more in (("with", {"hoodie.populate.meta.fields": "true"}), ("without", {})):
        table = made(tmp_path / name, 9, "COPY_ON_WRITE", ["id"], [], **more)
        table.write(rows(3, *range(6)))
        table.write(pa.concat_tables([rows(2, 0, 1), rows(4, 2, 8)]), mode="upsert")  # two late, one newer, one new
        table.write(rows(5, 3), mode="delete")
        counts.append([instant.summary for instant in lakebed.open(tmp_path / name).history()])
    told = [{k: v for k, v in each.items() if "bytes" not in k.lower()} for each in counts[0]]
    assert told == [{k: v for k, v in each.items() if "bytes" not in k.lower()} for each in counts[1]]


def test_deletes_have_the_key_generators_text(tmp_path: Path) -> None:
    table = made(tmp_path, 9, "MERGE_ON_READ", ["id"], ["part", "k2"])  # complex: with the column's name
    table.write(rows(1, 1, 4))
    table.write(rows(2, 1), mode="delete")
    table.write(rows(3, 4), mode="upsert")
    few = {"lakebed.rewrite.what": "log-compaction", "hoodie.log.compaction.blocks.threshold": "1"}
    table.rewrite(options=few)
    blocks = [block for path in tmp_path.glob("[!.]*/*/.*.log.*") for block in parse_log(path.read_bytes()).blocks]
    deletes = [decode_deletes(block.content, Scratch()) for block in blocks if block.kind is BlockKind.DELETE]
    assert [each["record_key"].to_pylist() for each in deletes] == [["id:k1"], ["id:k1"]]
    assert read(tmp_path) == {"3:4"}


def test_rows_move_by_a_global_index(tmp_path: Path) -> None:
    everywhere = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = made(tmp_path / kind, 9, kind, ["id"], ["part"])
        table.write(rows(1, *range(4)), options=everywhere)
        table.write(rows(2, 0, 1, part="c"), mode="upsert", options=everywhere)
        table.write(rows(0, 2, part="c"), mode="upsert", options=everywhere)
        assert read(tmp_path / kind) == {"2:0", "2:1", "1:2", "1:3"}
        with pytest.raises(UnsupportedError, match=r"update\.partition\.path is false"):
            stay = {**everywhere, "hoodie.simple.index.update.partition.path": "false"}
            table.write(rows(3, 0), mode="upsert", options=stay)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"keys": []}, "no record key"),
        ({"keys": ["day"], "hoodie.datasource.write.table.type": "MERGE_ON_READ"}, r"keys of day \(date32"),
        ({"hoodie.table.cdc.enabled": "true"}, "it has change logs"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, "leave out the partition columns"),
        ({"hoodie.datasource.write.keygenerator.type": "CUSTOM", "parts": []}, "its key generator is CUSTOM"),
        (
            {
                "hoodie.datasource.write.keygenerator.type": "COMPLEX",
                "parts": ["part", "k2"],
                "hoodie.datasource.write.table.type": "MERGE_ON_READ",
                "hoodie.write.table.version": "8",
            },
            "whose name some releases put before keys",
        ),
    ],
)
def test_tables_whose_keys_are_not_certain_are_not_made(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    options = {**VIRTUAL, **more}
    keys, parts = options.pop("keys", ["id"]), options.pop("parts", ["part"])
    schema = SCHEMA.append(pa.field("day", pa.date32()))
    with pytest.raises(UnsupportedError, match=why):
        lakebed.create(tmp_path / "t", "hudi", schema, keys, parts, options)
    assert not (tmp_path / "t").exists()


def test_writes_that_cannot_tell_keys_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    table = made(tmp_path, 9, "MERGE_ON_READ", ["id"], ["part"])
    bucket = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    table.write(rows(1, *range(8)), options=bucket)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused: list[tuple[dict[str, str], str]] = [
        ({"hoodie.index.type": "BLOOM"}, "no bloom filters"),
        ({"hoodie.index.type": "RECORD_INDEX"}, "no record index"),
        ({**bucket, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "tell the bucket of its rows"),
        ({"hoodie.populate.meta.fields": "true"}, "does not agree with the table"),
        ({**bucket, "hoodie.bucket.index.num.buckets": "5"}, "keys of another bucket"),
    ]
    for options, why in refused:
        with pytest.raises((UnsupportedError, UsageError), match=why):
            table.write(rows(2, 1), mode="upsert", options=options)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
