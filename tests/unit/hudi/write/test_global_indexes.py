"""Global indexes and the record index: rows that move between partitions, and rows that stay."""

from __future__ import annotations

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, CorruptError, UnsupportedError, UsageError
from lakebed.formats.hudi.index.lookups import lookup_of
from lakebed.formats.hudi.index.options import INDEXES, IndexSettings
from lakebed.formats.hudi.layout import PARTITION_PATH, RECORD_KEY
from lakebed.formats.hudi.table import HudiTable
from lakebed.formats.hudi.write.operation import Operation
from lakebed.formats.hudi.write.staged_rows import DELETE_ALWAYS, KIND, ROW
from lakebed.formats.hudi.write.table_files import TableFiles
from tests.golden import unpack

OPERATION = "hoodie.datasource.write.operation"
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
BLOOM = {"hoodie.index.type": "GLOBAL_BLOOM"}
STAYS = {**BLOOM, "hoodie.bloom.index.update.partition.path": "false"}
RECORDS = {"hoodie.index.type": "RECORD_INDEX"}
BUILT = {**RECORDS, "hoodie.metadata.record.index.enable": "true"}
MOVES = {"hoodie.record.index.update.partition.path": "true"}


def batch(*rows: tuple[str, str, int], **more: list[Any]) -> pa.Table:
    keys, parts, times = zip(*rows, strict=True)
    return pa.table({"id": keys, "part": parts, "ts": pa.array(times, pa.int64()), **more})


def orders(path: Path, kind: str, ordering: str = "ts", **more: str) -> Table:
    described = {"hoodie.datasource.write.table.type": kind, "hoodie.table.ordering.fields": ordering, **more}
    return lakebed.create(path / "t", "hudi", batch(("", "", 0)).schema, ["id"], ["part"], described)


def held(table: Table) -> list[tuple[str, str, str, int]]:
    """The rows with the partition that they are in, by key."""
    rows = table.read(["id", "_hoodie_partition_path", "part", "ts"]).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_moves_unless_the_old_one_is_newer(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path, kind)
    table.write(batch(("k1", "a", 5), ("k2", "a", 5), ("k3", "b", 5)), "upsert", BLOOM)
    table.write(batch(("k1", "b", 6), ("k1", "c", 4), ("k2", "b", 4), ("k4", "b", 1)), "upsert", BLOOM)
    there = [("k1", "b", "b", 6), ("k2", "a", "a", 5), ("k3", "b", "b", 5), ("k4", "b", "b", 1)]
    assert held(table) == there
    table.write(batch(("k1", "a", 7)), "upsert", BLOOM)  # back to where its key is deleted in a log
    table.write(batch(("k1", "a", 8), ("k4", "z", 0)), "delete", BLOOM)
    assert held(table) == there[1:3]
    table.write(batch(("k1", "b", 1)), "upsert", BLOOM)
    assert held(table) == [("k1", "b", "b", 1), *there[1:3]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_stays_in_its_partition_where_the_option_says_so(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path, kind)
    table.write(batch(("k1", "a", 5), ("k2", "a", 5)), "upsert", STAYS)
    table.write(batch(("k1", "b", 6), ("k3", "b", 1)), "upsert", BLOOM)  # k1 moves to b: a log of a deletes it
    table.write(batch(("k1", "c", 7), ("k2", "b", 6)), "upsert", STAYS)
    assert held(table) == [("k1", "b", "c", 7), ("k2", "a", "b", 6), ("k3", "b", "b", 1)]
    table.write(batch(("k1", "a", 9), ("k9", "a", 9)), options={**STAYS, "hoodie.datasource.insert.dup.policy": "drop"})
    assert [row[0] for row in held(table)] == ["k1", "k2", "k3", "k9"]
    with pytest.raises(UsageError, match="1 row has keys that the table has, the first 'k2'"):
        table.write(batch(("k2", "z", 9)), options={**BLOOM, "hoodie.datasource.insert.dup.policy": "fail"})


@pytest.mark.parametrize(("version", "kind"), [("6", KINDS[1]), ("8", KINDS[0]), ("9", KINDS[1])])
def test_the_record_index_tells_where_keys_are(tmp_path: Path, version: str, kind: str) -> None:
    table = orders(tmp_path, kind, **{"hoodie.write.table.version": version})
    assert table.write(batch(("k1", "a", 5), ("k2", "a", 5)), "upsert", BUILT).notes == ()
    for path in Path(table.location).rglob("*.parquet"):
        assert path.parent.name in ("a", "b")
    assert table.write(batch(("k1", "b", 6), ("k3", "b", 1)), "upsert", BUILT).notes == ()
    assert held(table) == [("k1", "a", "b", 6), ("k2", "a", "a", 5), ("k3", "b", "b", 1)]
    assert table.write(batch(("k1", "b", 7), ("k2", "b", 1)), "upsert", {**BUILT, **MOVES}).notes == ()
    assert held(table) == [("k1", "b", "b", 7), ("k2", "a", "a", 5), ("k3", "b", "b", 1)]
    assert table.write(batch(("k1", "a", 0), ("k9", "a", 0)), "delete", BUILT).notes == ()
    assert table.write(batch(("k1", "c", 0), ("k2", "a", 9)), "upsert", BUILT).notes == ()
    assert held(table) == [("k1", "c", "c", 0), ("k2", "a", "a", 9), ("k3", "b", "b", 1)]


def test_the_record_index_of_hudi_s_own_writers_tells_it_too(tmp_path: Path) -> None:
    table = lakebed.open(shutil.copytree(unpack("hudi", "mor_mdt_v9"), tmp_path / "t"))
    rows = table.read().read_all()
    columns = [name for name in rows.column_names if not name.startswith("_hoodie")]
    paths = dict(zip(rows["id"].to_pylist(), rows["_hoodie_partition_path"].to_pylist(), strict=True))
    moved = rows.select(columns).set_column(columns.index("part"), "part", pa.array(["d"] * len(rows)))
    moved = moved.set_column(columns.index("ts"), "ts", pc.add(moved["ts"], 10**6).cast(moved["ts"].type))
    result = table.write(moved.slice(0, 5), "upsert", RECORDS | MOVES)
    assert not any("no record index" in note for note in result.notes)
    found = table.read(["id", "_hoodie_partition_path"]).read_all().to_pylist()
    assert {row["id"]: row["_hoodie_partition_path"] for row in found} == {
        **paths, **dict.fromkeys(moved["id"].to_pylist()[:5], "d"),
    }  # fmt: skip
    assert len(found) == len(paths)


def test_without_a_record_index_keys_are_looked_up_in_base_files(tmp_path: Path) -> None:
    table = orders(tmp_path, KINDS[0])
    assert table.write(batch(("k1", "a", 5), ("k2", "a", 5)), "upsert", RECORDS).notes == ()
    (note,) = table.write(batch(("k1", "b", 6)), "upsert", RECORDS).notes
    assert "no record index" in note and "GLOBAL_SIMPLE" in note
    assert held(table) == [("k1", "b", "b", 6), ("k2", "a", "a", 5)]  # moved, by the option of GLOBAL_SIMPLE
    table.write(batch(("k1", "c", 7)), "upsert", {**RECORDS, "hoodie.simple.index.update.partition.path": "false"})
    assert held(table) == [("k1", "b", "c", 7), ("k2", "a", "a", 5)]


def test_a_table_without_partitions_has_global_indexes_too(tmp_path: Path) -> None:
    described = {"hoodie.datasource.write.table.type": KINDS[1], "hoodie.table.ordering.fields": "ts"}
    table = lakebed.create(tmp_path / "t", "hudi", batch(("", "", 0)).schema, ["id"], options=described)
    for index, at in ((BLOOM, 5), (BLOOM, 6), (BUILT, 7), (BUILT, 8), (BLOOM, 4)):
        table.write(batch(("k1", "a", at), ("k2", "b", at)), "upsert", index)
    table.write(batch(("k2", "a", 0)), "delete", BUILT)
    assert held(table) == [("k1", "", "a", 8)]


def test_a_record_index_by_partition_is_not_asked(tmp_path: Path) -> None:
    table = orders(tmp_path, KINDS[0])
    named = {"hoodie.index.type": "RECORD_LEVEL_INDEX"}
    assert table.write(batch(("k1", "a", 5)), "upsert", named).notes == ()
    (note,) = table.write(batch(("k1", "a", 6), ("k1", "b", 6)), "upsert", named).notes
    assert "as SIMPLE does" in note
    assert held(table) == [("k1", "a", "a", 6), ("k1", "b", "b", 6)]


def test_a_damaged_record_index_stops_a_write_and_the_remedy_that_it_names_helps(tmp_path: Path) -> None:
    table = orders(tmp_path, KINDS[0])
    table.write(batch(("k1", "a", 5)), "upsert", BUILT)
    for path in (Path(table.location) / ".hoodie/metadata/record_index").iterdir():
        path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(CorruptError, match=r"Write with hoodie\.index\.type GLOBAL_SIMPLE"):
        table.write(batch(("k1", "b", 6)), "upsert", {**BUILT, **MOVES})
    assert held(table) == [("k1", "a", "a", 5)]
    table.write(
        batch(("k1", "b", 6)), "upsert", {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.metadata.enable": "false"}
    )
    table.write(batch(("k1", "b", 7)), "upsert", BUILT)
    assert table.write(batch(("k1", "a", 8)), "upsert", {**BUILT, **MOVES}).notes == ()
    assert held(table) == [("k1", "a", "a", 8)]


def test_a_delete_needs_no_more_than_the_key(tmp_path: Path) -> None:
    table = orders(tmp_path, KINDS[1])
    table.write(batch(("k1", "a", 5), ("k2", "b", 5)), "upsert", BLOOM)
    table.write(pa.table({"id": ["k1", "k9"]}), "delete", BLOOM)
    assert held(table) == [("k2", "b", "b", 5)]


def test_a_lookup_goes_to_workers(tmp_path: Path) -> None:
    table = orders(tmp_path, KINDS[1])
    assert isinstance(table, HudiTable)
    table.write(batch(("k1", "a", 5), ("k2", "b", 5)), "upsert", BUILT)
    schema = table.state().schema()
    for options in ({**BLOOM, "hoodie.bloom.index.use.metadata": "true"}, {**RECORDS, **MOVES}):
        index = IndexSettings.of(INDEXES.parse(options), table.state().config, table.location)
        lookup = pickle.loads(
            pickle.dumps(lookup_of(index, TableFiles(table.state()), [], Operation.UPSERT, "", schema))
        )
        kinds = pa.array([ROW, ROW], pa.int8())
        rows = pa.table({RECORD_KEY: ["k1", "k3"], PARTITION_PATH: ["b", "b"], "ts": pa.array([6, 6]), KIND: kinds})
        tagged = lookup.find(rows)
        kinds = dict(zip(tagged.rows[KIND].to_pylist(), tagged.codes.tolist(), strict=True))
        assert kinds == {ROW: -1, DELETE_ALWAYS: 0} and tagged.groups[0].partition == "a"


@pytest.mark.parametrize("kind", KINDS)
def test_moved_rows_are_a_delete_and_an_insert_in_change_logs(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path, kind, **{"hoodie.table.cdc.enabled": "true"})
    table.write(batch(("k1", "a", 5), ("k2", "a", 5), ("k3", "b", 5)), "upsert", BLOOM)
    before = table.history()[-1]
    table.write(batch(("k1", "b", 6), ("k2", "a", 6)), "upsert", BLOOM)
    changes = lakebed.open(table.location, {"cdc.enabled": "true"}).changes(["id", "part", "ts"], after=before.time)
    found = sorted((row["id"], row["_row_kind"], row["part"], row["ts"]) for row in changes.read_all().to_pylist())
    assert found == [
        ("k1", "+I", "b", 6), ("k1", "-D", "a", 5), ("k2", "+U", "a", 6), ("k2", "-U", "a", 5),
    ]  # fmt: skip


def test_overwrites_look_no_keys_up_and_deletes_of_partitions_take_their_rows_along(tmp_path: Path) -> None:
    table = orders(tmp_path, KINDS[0])
    table.write(batch(("k1", "a", 5), ("k2", "b", 5)), "upsert", BLOOM)
    table.write(batch(("k1", "b", 6)), "overwrite", BLOOM)
    assert held(table) == [("k1", "a", "a", 5), ("k1", "b", "b", 6)]  # as with Hudi's own engine
    table.write(
        batch(("x", "x", 0)).slice(0, 0), "delete",
        {**BLOOM, OPERATION: "delete_partition", "hoodie.datasource.write.partitions.to.delete": "a"},
    )  # fmt: skip
    table.write(batch(("k1", "a", 7)), "upsert", BLOOM)
    assert held(table) == [("k1", "a", "a", 7)]


def test_a_key_that_two_writers_add_in_two_partitions_is_added_once(tmp_path: Path) -> None:
    table = orders(tmp_path, KINDS[0])
    table.write(batch(("k0", "z", 0)), "upsert", BLOOM)

    def write(part: str) -> bool:
        try:
            lakebed.open(table.location).write(batch(("k1", part, 1)), "upsert", BLOOM)
        except CommitConflictError:
            return False
        return True

    with ThreadPoolExecutor(3) as pool:
        assert any(pool.map(write, "abc"))
    assert [row[0] for row in held(table)] == ["k0", "k1"]


def test_rows_with_gaps_do_not_move(tmp_path: Path) -> None:
    payload = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
    described = {"hoodie.datasource.write.payload.class": payload, "hoodie.write.table.version": "6"}
    table = orders(tmp_path, KINDS[1], **described)
    table.write(batch(("k1", "a", 5)), "upsert", STAYS)
    before = len(table.history())
    with pytest.raises(UnsupportedError, match="does not move rows between the partitions"):
        table.write(batch(("k1", "b", 6)), "upsert", BLOOM)
    assert len(table.history()) == before
    table.write(batch(("k1", "b", 6)), "upsert", STAYS)
    assert held(table) == [("k1", "a", "b", 6)]
