"""A full write buffer is spilled: a bucket gets one file for it until the target size, with the rows, numbers and
statistics that it would have without, and nothing stays on disk."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import StorageError
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.scratch import SpillFile, SpillingTables
from tests.tables.paimon.small import SCHEMA, Make, contents, rows

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "n"},
    "partial-update": {"merge-engine": "partial-update", "fields.n.sequence-group": "v"},
    "aggregation": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "input": {"changelog-producer": "input"},
}
SMALL = {"write-buffer-size": "2 kb"}


def files(table: lakebed.Table) -> list[DataFileMeta]:
    history = History(table.store)
    return [entry.file for entry in live_files(table.store, history.latest())]


def fill(table: lakebed.Table, kinds: bool) -> None:
    data = rows(
        *((f"p{i % 2}", i * 37 % 400, f"v{i}", i * 13 % 50) for i in range(2000)),
        kinds=["-D" if i % 11 == 0 else "+I" for i in range(2000)] if kinds else (),
    )
    reader = pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=90))
    table.write(reader)


def facts(file: DataFileMeta) -> tuple[Any, ...]:
    return (
        file.row_count, file.min_key, file.max_key, file.key_stats, file.value_stats, file.min_sequence_number,
        file.max_sequence_number, file.delete_row_count,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_spilled_rows_become_the_same_files(tmp_path: Path, engine: str) -> None:
    made = []
    for name, more in (("whole", {}), ("spilled", SMALL)):
        options = {"bucket": "2", **ENGINES[engine], **more}
        table = lakebed.create(tmp_path / name, "paimon", SCHEMA, ["dt", "id"], ["dt"], options)
        fill(table, kinds=engine in ("deduplicate", "sequence", "input"))
        made.append(table)
    whole, spilled = made
    assert contents(spilled) == contents(whole)
    assert len(files(spilled)) == 4
    assert sorted(map(facts, files(spilled))) == sorted(map(facts, files(whole)))
    logs = [len(list((tmp_path / name).glob("dt=*/bucket-*/changelog-*"))) for name in ("whole", "spilled")]
    assert logs == ([4, 4] if engine == "input" else [0, 0])


@pytest.mark.slow
def test_without_leave_to_spill_each_full_buffer_becomes_files(make: Make) -> None:
    table = make(write__buffer__size="2 kb", write__buffer__spillable="false", write__only="true")
    fill(table, kinds=False)
    assert len(files(table)) > 8


@pytest.mark.slow
def test_a_full_spill_disk_is_emptied_into_files(make: Make) -> None:
    spelled = {"write-buffer-size": "2 kb", "write-buffer-spill.max-disk-size": "20 kb", "spill-compression": "none"}
    table = make(write__only="true")
    data = rows(*(("a", i * 37 % 4000, "v" * 20, i) for i in range(4000)))
    table.write(pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=90)), options=spelled)
    assert 4 <= len(files(table)) < 40
    assert len(contents(table)) == 4000


@pytest.mark.slow
def test_very_many_runs_are_merged_on_the_way(make: Make) -> None:
    table = make(write__buffer__size="1 b", bucket="1")
    data = rows(*(("a", i * 7 % 200, f"v{i}", i) for i in range(450)))
    table.write(pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=3)))
    assert len(files(table)) == 1
    last = {i * 7 % 200: f"v{i}" for i in range(450)}
    assert {row[1]: row[2] for row in contents(table)} == last


@pytest.mark.parametrize("bucket", ["1", "-1"])
def test_rows_without_a_key_go_on_into_open_files(make: Make, bucket: str) -> None:
    options = {"bucket": bucket, **({"bucket__key": "id"} if bucket == "1" else {})}
    table = make(primary_key=(), partition_by=(), write__buffer__size="1 b", **options)
    for turn in range(2):
        data = rows(*(("a", turn * 1000 + i, "v", i) for i in range(1000)))
        table.write(pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=100)))
    assert [row["id"] for row in table.read().read_all().to_pylist()] == list(range(2000))
    numbers = [(file.min_sequence_number, file.max_sequence_number) for file in files(table)]
    assert numbers == ([(0, 999), (1000, 1999)] if bucket == "1" else [(0, 999), (0, 999)])


def test_an_abandoned_write_leaves_neither_files_nor_scratch(make: Make, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    table = make(write__buffer__size="1 b")
    for key, name in ((("dt", "id"), "keyed"), ((), "plain")):
        table = lakebed.create(
            tmp_path / name, "paimon", SCHEMA, key, options={"bucket": "1" if key else "-1", "write-buffer-size": "1 b"}
        )
        writer = lakebed.open(table.location, {"lakebed.scratch.dir": str(scratch)}).writer()
        writer.write(rows(("a", 1, "v", 1)))
        writer.abort()
        assert not list(Path(table.location).glob("**/data-*"))
    assert os.listdir(scratch) == []


def test_a_scratch_folder_that_is_not_there_is_named(make: Make, tmp_path: Path) -> None:
    table = make(write__buffer__size="1 b")
    missing = {"lakebed.scratch.dir": str(tmp_path / "none")}
    with pytest.raises(StorageError, match=r"lakebed\.scratch\.dir"):
        table.write(rows(("a", 1, "v", 1)), options=missing)
    assert not list(Path(table.location).glob("**/data-*"))
    assert "lakebed.scratch.dir" not in table.table_schema.options  # type: ignore[attr-defined]


def test_stretches_are_read_alone_and_at_once() -> None:
    batch = pa.record_batch({"n": list(range(5))})
    spill = SpillFile(compression=None)
    places = [spill.write([batch.slice(0, n)] * n, batch.schema) for n in (1, 3)]
    first, second = (spill.read(place) for place in places)
    assert next(second).num_rows == 3
    assert [b.num_rows for b in first] == [1]
    assert [b.num_rows for b in second] == [3, 3]
    assert spill.size == sum(place.length for place in places)
    spill.close()


def test_tables_beyond_the_bound_lie_on_disk(tmp_path: Path) -> None:
    tables = [pa.table({"n": list(range(start, start + 100))}) for start in range(0, 500, 100)]
    kept = SpillingTables(str(tmp_path), most=tables[0].nbytes)
    for table in tables:
        kept.add(table)
    for _ in range(2):
        assert [table["n"].to_pylist() for table in kept] == [table["n"].to_pylist() for table in tables]
