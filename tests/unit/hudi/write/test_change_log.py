"""Change logs that writes leave beside base files: what they hold in each mode, and what changes are read of them."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.formats.hudi.codec.avro import decode_blocks
from lakebed.formats.hudi.codec.log import parse_log
from lakebed.kernel.scratch import Scratch
from tests.golden import unpack

SCHEMA = pa.schema(
    [pa.field("id", pa.string(), False), ("ts", pa.int32()), ("v", pa.string()), ("d", pa.decimal128(6, 2))]
)
MODES = {
    "OP_KEY_ONLY": ("op", "record_key"),
    "DATA_BEFORE": ("op", "record_key", "before"),
    "DATA_BEFORE_AFTER": ("op", "ts_ms", "before", "after"),
}


def logged(folder: Path, mode: str, version: int = 9, **more: Any) -> Table:
    options = {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        "hoodie.table.ordering.fields": "ts",
        "hoodie.write.table.version": version,
        "hoodie.clean.automatic": "false",
        **more,
    }
    return lakebed.create(folder / "t", "hudi", SCHEMA, ["id"], options=options)


def rows(*given: tuple[str, int, str | None]) -> pa.Table:
    return pa.Table.from_pylist([{"id": k, "ts": t, "v": v, "d": Decimal(t)} for k, t, v in given], SCHEMA)


def logs(table: Table) -> list[Path]:
    return sorted(Path(table.location).glob(".*.cdc"), key=lambda path: path.name.rpartition("log.")[0][-20:])


def changes(table: Table) -> list[tuple[str, str, str | None]]:
    found = lakebed.open(table.location, {"cdc.enabled": "true"}).changes(["id", "v"]).read_all().to_pylist()
    return [(row["_row_kind"], row["id"], row["v"]) for row in found]


@pytest.mark.parametrize(("mode", "version"), [("OP_KEY_ONLY", 6), ("DATA_BEFORE", 8), ("DATA_BEFORE_AFTER", 9)])
def test_a_rewritten_base_file_has_a_log_of_its_changes(tmp_path: Path, mode: str, version: int) -> None:
    table = logged(tmp_path, mode, version)
    table.write(rows(("a", 5, "1"), ("b", 5, "2"), ("c", 5, None)))
    assert not logs(table)
    table.write(rows(("b", 6, "new"), ("c", 1, "late"), ("d", 1, "more")), mode="upsert")
    table.write(rows(("a", 0, None)), mode="delete")
    table.write(rows(("a", 7, "back")))
    table.write(rows(("a", 7, "over")), mode="overwrite")
    held = []
    for path in logs(table):
        (block,) = parse_log(path.read_bytes()).blocks
        assert block.instant_time in path.name
        assert Path(table.location, path.name.split("_")[0][1:]).parent.exists()
        held.append(decode_blocks([block], list(MODES[mode]), Scratch()).to_pylist())
    assert [[row["op"] for row in log] for log in held] == [["u", "i"], ["d"], ["i"]]
    if mode != "DATA_BEFORE_AFTER":
        assert [[row["record_key"] for row in log] for log in held] == [["b", "d"], ["a"], ["a"]]
    else:
        assert held[0][0]["ts_ms"] in logs(table)[0].name
        assert [row["after"] and row["after"]["v"] for row in held[0]] == ["new", "more"]
    if mode != "OP_KEY_ONLY":
        assert [row["before"] and row["before"]["v"] for log in held for row in log] == ["2", None, "1", None]
    assert changes(table) == [
        ("+I", "a", "1"), ("+I", "b", "2"), ("+I", "c", None),
        ("-U", "b", "2"), ("+U", "b", "new"), ("+I", "d", "more"),
        ("-D", "a", "1"), ("+I", "a", "back"),
        ("-D", "c", None), ("-D", "b", "new"), ("-D", "d", "more"), ("-D", "a", "back"), ("+I", "a", "over"),
    ]  # fmt: skip


def test_a_compaction_of_buckets_logs_the_changes_of_their_logs(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    shutil.copytree(unpack("hudi", "mor_bucket_v8"), folder)
    with (folder / ".hoodie/hoodie.properties").open("a") as properties:
        properties.write("hoodie.table.cdc.enabled=true\n")
    table = lakebed.open(folder)
    optimized = lakebed.open(folder, {"hoodie.datasource.query.type": "read_optimized"})
    before = {row["id"]: row for row in optimized.read().read_all().to_pylist()}
    table.rewrite(options={"hoodie.compaction.strategy": "UnBounded"})
    newest = lakebed.open(folder).history()[-1]
    logged = [path for path in folder.rglob("*.cdc") if newest.time in path.name]
    assert logged
    blocks = [block for path in logged for block in parse_log(path.read_bytes()).blocks]
    images = decode_blocks(blocks, ["op", "before", "after"], Scratch()).to_pylist()
    held = {row["id"]: row for row in lakebed.open(folder).read().read_all().to_pylist()}
    assert {row["op"] for row in images} >= {"u", "d"}
    for row in images:
        key = (row["after"] or row["before"])["id"]
        assert (row["after"] is None) == (key not in held) and (row["before"] is None) == (key not in before)
        assert row["after"] is None or row["after"].items() <= held[key].items()


def test_changes_of_buckets_come_with_the_compaction_where_they_are_asked_for_so(tmp_path: Path) -> None:
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    table = lakebed.open(logged(tmp_path, "DATA_BEFORE_AFTER", **kind, **buckets).location, buckets)
    table.write(rows(("a", 1, "1"), ("b", 1, "2")), mode="upsert")
    table.write(rows(("a", 2, "new"), ("c", 1, "3")), mode="upsert")
    table.write(rows(("b", 0, None)), mode="delete")
    table.rewrite()
    waiting = lakebed.open(table.location, {"cdc.enabled": "true", "read.cdc.from.changelog": "true"})
    found = [(r["_row_kind"], r["id"], r["v"]) for r in waiting.changes(["id", "v"]).read_all().to_pylist()]
    assert sorted(found) == sorted(
        [("+I", "a", "1"), ("+I", "b", "2"), ("-D", "b", "2"), ("-U", "a", "1"), ("+U", "a", "new"), ("+I", "c", "3")]
    )
