"""Operations and options of a write to a Hudi table, and what it refuses."""

from __future__ import annotations

import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, OptionError, SchemaError, UnsupportedError, UsageError
from lakebed.formats.hudi.commit.transaction import Transaction
from lakebed.formats.hudi.table import HudiTable
from lakebed.formats.hudi.write import run
from lakebed.kernel.engine import LocalEngine
from lakebed.verbs.two_phase import TableWriter
from lakebed.verbs.write import Mode
from tests.golden import unpack
from tests.tables.hudi.fresh import KINDS

SCHEMA = {"id": "int64", "dt": "string", "v": "string"}
OPERATION = "hoodie.datasource.write.operation"


def orders(folder: Path, kind: str = "COPY_ON_WRITE", version: int = 9, **options: Any) -> Table:
    described = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    return lakebed.create(folder / "t", "hudi", SCHEMA, ["id"], ["dt"], {**described, **options})


def batch(*ids: int, v: str = "x", dt: str | None = None) -> pa.Table:
    parts = [dt or "ab"[number % 2] for number in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "dt": parts, "v": [v] * len(ids)})


def held(table: Table) -> list[tuple[int, str]]:
    rows = table.read(["id", "v"]).read_all().to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def base_files(table: Table) -> list[Path]:
    return [path for path in Path(table.location).rglob("*.parquet") if ".hoodie" not in path.parts]


@pytest.mark.parametrize("operation", ["delete", "delete_partition"])
def test_a_delete_needs_the_partition_columns_that_say_which_rows_are_meant(tmp_path: Path, operation: str) -> None:
    table = orders(tmp_path)
    table.write(batch(1, 2))
    with pytest.raises(SchemaError, match="partition columns missing that say which rows are meant: dt"):
        table.write(batch(1).select(["id"]), "delete", {OPERATION: operation})
    assert held(table) == [(1, "x"), (2, "x")]
    table.write(batch(1).select(["id", "dt"]), "delete", {OPERATION: operation})
    assert held(table) == [(2, "x")]
    named = {OPERATION: "delete_partition", "hoodie.datasource.write.partitions.to.delete": "a"}
    table.write(batch(1).select(["id"]), "delete", named)
    assert held(table) == []


def test_inserts_add_rows_of_known_keys_unless_the_policy_says_otherwise(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(batch(1, 2))
    table.write(batch(2, 3, v="again"))
    assert held(table) == [(1, "x"), (2, "again"), (2, "x"), (3, "again")]
    table.write(batch(3, 4, v="third"), options={"hoodie.datasource.insert.dup.policy": "drop"})
    assert held(table)[-2:] == [(3, "again"), (4, "third")]
    before = [instant.time for instant in table.history() if instant.action == "commit"]
    with pytest.raises(UsageError, match="1 row has keys that the table has, the first '4'"):
        table.write(batch(4, 5), options={"hoodie.datasource.insert.dup.policy": "fail"})
    assert [instant.time for instant in table.history() if instant.action == "commit"] == before


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_small_files_are_filled_up(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path, kind)
    for number in range(3):
        table.write(batch(number, dt="a"))
    groups = {path.name.partition("_")[0] for path in base_files(table)}
    assert len(groups) == 1 and len(base_files(table)) == 3
    table.write(batch(9, dt="a"), options={"hoodie.parquet.small.file.limit": "0"})
    assert len({path.name.partition("_")[0] for path in base_files(table)}) == 2
    assert [number for number, _ in held(table)] == [0, 1, 2, 9]


def test_overwrites_and_deletes_of_partitions(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(batch(1, 2, 3, 4))
    table.write(batch(5, v="new"), mode="overwrite")
    assert held(table) == [(2, "x"), (4, "x"), (5, "new")]
    table.write(batch(7), options={OPERATION: "insert_overwrite_table"})
    assert held(table) == [(7, "x")]
    table.write(batch(8, 9))
    table.write(
        batch(), "delete", {OPERATION: "delete_partition", "hoodie.datasource.write.partitions.to.delete": "a*"}
    )
    assert held(table) == [(7, "x"), (9, "x")]
    assert {instant.action for instant in table.history()} == {"commit", "replacecommit"}


@pytest.mark.parametrize(
    "mode",
    ["NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"],
)
def test_bulk_inserts_size_files_by_bytes_and_sort_them(tmp_path: Path, mode: str) -> None:
    table = orders(tmp_path)
    ids = [(number * 7919) % 20_000 for number in range(20_000)]
    options = {
        OPERATION: "bulk_insert",
        "hoodie.bulkinsert.sort.mode": mode,
        "hoodie.parquet.max.file.size": "60000",
        "hoodie.parquet.bloom.filter.enabled": "false",
    }
    counts = set()
    for threads in (1, 3):
        sink = table.sink(Mode.APPEND, options=options)  # type: ignore[call-arg]
        plan = sink.plan()
        writer = plan.task_writer()
        writer.write(batch(*ids, dt="a").to_batches()[0])
        before = set(base_files(table))
        sink.commit(threads, sink.finalize(plan, writer.finish(), LocalEngine(threads)).messages)
        made = [path for path in base_files(table) if path not in before]
        counts.add(len(made))
        keys = [pq.read_table(path, columns=["_hoodie_record_key"]).column(0).to_pylist() for path in made]
        if mode not in ("NONE", "PARTITION_PATH_REPARTITION"):
            assert all(of_file == sorted(of_file) for of_file in keys)
        if mode == "GLOBAL_SORT":
            ranges = sorted((of_file[0], of_file[-1]) for of_file in keys)
            assert all(low[1] < high[0] for low, high in itertools.pairwise(ranges))
    assert len(counts) == 1 and counts.pop() > 1


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_the_timeline_names_the_operation(tmp_path: Path, version: int, kind: str) -> None:
    table = orders(tmp_path, kind, version)
    for operation in ("bulk_insert", "insert", "upsert", "delete"):
        table.write(batch(1, 2), options={OPERATION: operation})
    assert isinstance(table, HudiTable)
    state = table.state()
    commits = state.commits(state.view())
    assert [commit.operation for commit in commits.values()] == ["BULK_INSERT", "INSERT", "UPSERT", "DELETE"]
    bulk = "commit" if version == 9 or kind == "COPY_ON_WRITE" else "deltacommit"
    other = "commit" if kind == "COPY_ON_WRITE" else "deltacommit"
    assert [instant.action for instant in table.history()] == [bulk, other, other, other]


def test_rows_marked_as_deleted(tmp_path: Path) -> None:
    schema = {**SCHEMA, "_hoodie_is_deleted": "bool"}
    table = lakebed.create(tmp_path / "t", "hudi", schema, ["id"], ["dt"])
    marks = pa.array([False, None], pa.bool_())
    table.write(batch(1, 2).append_column("_hoodie_is_deleted", marks), "upsert")
    table.write(batch(2, 3).append_column("_hoodie_is_deleted", pa.array([True, True])), "upsert")
    assert held(table) == [(1, "x")]


def test_changes_of_a_batch_are_combined(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(pa.concat_tables([batch(1, v="first"), batch(1, v="last")]), "upsert")
    assert held(table) == [(1, "last")]


def test_a_writer_that_was_taken_back_reports_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(tmp_path)
    table.write(batch(1))
    original = run.WriteRun.run

    def beside(self: Any, rows: Any) -> Any:
        monkeypatch.setattr(run.WriteRun, "run", original)
        outcome = original(self, rows)
        shutil.rmtree(Path(table.location) / ".hoodie" / ".heartbeat")  # Hudi's eager writers do not look at it
        lakebed.open(table.location).write(batch(3, v="other"), "upsert")
        return outcome

    monkeypatch.setattr(run.WriteRun, "run", beside)
    with pytest.raises(CommitConflictError):
        table.write(batch(2), "upsert")
    assert held(table) == [(1, "x"), (3, "other")]


def test_a_write_taken_back_before_its_first_file_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(tmp_path)
    original = Transaction.inflight

    def beside(self: Transaction, *stats: Any) -> None:
        monkeypatch.setattr(Transaction, "inflight", original)
        shutil.rmtree(Path(table.location) / ".hoodie" / ".heartbeat")
        lakebed.open(table.location).write(batch(3, v="other"), "upsert")
        original(self, *stats)

    monkeypatch.setattr(Transaction, "inflight", beside)
    with pytest.raises(CommitConflictError, match="took this write back"):
        table.write(batch(2), "upsert")
    assert held(table) == [(3, "other")]
    assert [instant.state for instant in table.history()] == ["completed"] * 2


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    table = orders(tmp_path)
    with pytest.raises(OptionError, match=r"hoodie\.parquet\.max\.file\.size"):
        table.write(batch(1), options={"hoodie.parquet.max.file.siz": "1"})
    with pytest.raises(UsageError, match="mode overwrite cannot run the operation upsert"):
        table.write(batch(1), "overwrite", {OPERATION: "upsert"})
    with pytest.raises(UnsupportedError, match="INMEMORY"):
        table.write(batch(1), options={"hoodie.index.type": "INMEMORY"})
    with pytest.raises(UsageError, match="does not agree"):
        table.write(batch(1), options={"hoodie.datasource.write.recordkey.field": "v"})
    with pytest.raises(SchemaError):
        table.write(batch(1).append_column("more", pa.array([1])))
    assert table.history() == []


def test_tables_that_lakebed_does_not_write() -> None:
    table = lakebed.open(unpack("hudi", "mor_bucket_v8"))
    rows = table.read().read_all()
    with pytest.raises(UnsupportedError, match="another index than the table"):
        table.write(rows.slice(0, 1), "upsert")
    assert len(table.read().read_all()) == len(rows)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 9])
def test_writers_beside_each_other_lose_no_row(tmp_path: Path, version: int, kind: str) -> None:
    table = orders(tmp_path, kind, version)
    table.write(batch(1000))
    retries = {"hoodie.write.num.retries.on.conflict.failures": "200"}

    def work(writer: int) -> None:
        for number in range(2):
            lakebed.open(table.location).write(batch(writer * 100 + number), "upsert", retries)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert [number for number, _ in held(table)] == sorted([1000, *(w * 100 + n for w in range(3) for n in range(2))])


def test_a_stream_goes_on_after_the_batches_that_hudis_own_sink_has_committed(tmp_path: Path) -> None:
    name = {"hoodie.datasource.write.streaming.checkpoint.identifier": "job"}
    table = orders(tmp_path)

    def batch_of(identifier: int, options: dict[str, str], row: int) -> str:
        assert isinstance(table, HudiTable)
        sink = lakebed.open(table.location, options).sink()
        with TableWriter(sink) as writer:
            writer.write(batch(row))
            return str(writer.commit(identifier, writer.prepare_commit()).outcome)

    assert batch_of(4, name, 1) == "committed"
    assert batch_of(4, {}, 2) == "committed"  # another commit user, and no name
    assert [batch_of(number, name, 3) for number in (3, 4, 5)] == ["skipped", "skipped", "committed"]
    assert [id for id, _ in held(table)] == [1, 2, 3]
    (newest,) = {
        commit.extra["_hudi_streaming_sink_checkpoint"]
        for commit in [list(table.state().view().timeline.commits)[-1]]
        for commit in table._metadata.commits([commit]).values()
    }
    assert newest == '{"job":"5"}'


def test_options_of_writes_may_be_given_when_the_table_is_opened(tmp_path: Path) -> None:
    table = lakebed.open(orders(tmp_path).location, {OPERATION: "upsert", "hoodie.parquet.compression.codec": "zstd"})
    table.write(batch(1))
    table.write(batch(1, v="y"))
    assert held(table) == [(1, "y")]
    compressions = {pq.ParquetFile(file).metadata.row_group(0).column(5).compression for file in base_files(table)}
    assert compressions == {"ZSTD"}
    table.write(batch(1, v="z"), options={OPERATION: "insert"})
    assert held(table) == [(1, "y"), (1, "z")]
    with pytest.raises(OptionError, match="unknown option"):
        lakebed.open(table.location, {"hoodie.parquet.compresion.codec": "zstd"})
    place = tmp_path / "new"
    with pytest.raises(OptionError):
        lakebed.create(place, "hudi", SCHEMA, ["id"], ["dt"], {"hoodie.parquet.compression.codec": "zip"})
    assert not (place / ".hoodie").exists()
