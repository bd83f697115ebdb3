"""Writes into tables without buckets: a partition gets files by its bytes at any number of tasks, with every row once,
and nothing that waited is left."""

import dataclasses
import os
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import SchemaError, UnsupportedError, UsageError
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.layout import STAGING_FOLDER
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write import staging
from lakebed.formats.paimon.write.file_maker import PaimonFileMaker, greatest_size
from lakebed.formats.paimon.write.sink import PaimonSink
from lakebed.formats.paimon.write.staging import StagedMessage
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.sizing import finalize
from lakebed.kernel.sizing.file_counts import in_bounds
from lakebed.model.commit import CommitMessage
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.verbs.write import Mode, finalize_and_commit
from tests.tables.paimon.small import Make, contents, rows

T, R = TypeVar("T"), TypeVar("R")
SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("text", pa.string()), ("x", pa.float64())])
TARGET = 100_000
ROWS = 60_000


class OtherEngine:
    """Another engine than this process: what it is given travels. It remembers the tasks."""

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.tasks: list[list[Any]] = []

    def map(self, fn: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        copies = pickle.loads(pickle.dumps(list(tasks)))
        self.tasks.append(copies)
        return (pickle.loads(pickle.dumps(fn))(task) for task in copies)


def skewed(count: int = ROWS) -> pa.Table:
    """Eight in ten rows lie in one partition, the others in thirty; texts repeat in the first half of the rows only."""
    chance = np.random.default_rng(3)
    days = np.where(chance.random(count) < 0.8, "a", np.char.mod("s%d", chance.integers(0, 30, count)))
    texts = np.where(np.arange(count) < count // 2, "the same", np.char.mod("%d", chance.integers(0, 9**9, count)))
    columns = [days.astype(str), np.arange(count), texts.astype(str), chance.random(count)]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)


def table_of(folder: Path, partition_by: tuple[str, ...] = ("dt",), options: Mapping[str, str] = {}) -> lakebed.Table:
    return lakebed.create(folder, "paimon", SCHEMA, (), partition_by, {"target-file-size": str(TARGET), **options})


def staged_by_tasks(sink: PaimonSink, data: pa.Table, tasks: int) -> list[CommitMessage]:
    """What so many tasks give, each with a copy of the sink."""
    messages: list[CommitMessage] = []
    size = -(-len(data) // tasks)
    for start in range(0, len(data), size):
        writer = pickle.loads(pickle.dumps(sink.plan())).task_writer()
        for batch in data.slice(start, size).to_batches(max_chunksize=4000):
            writer.write(batch)
        messages += pickle.loads(pickle.dumps(list(writer.finish())))
    return messages


def sink_of(table: lakebed.Table, mode: Mode = Mode.APPEND) -> PaimonSink:
    sink = table.sink(mode)
    assert isinstance(sink, PaimonSink)
    return sink


def files_of(table: lakebed.Table) -> dict[bytes, list[DataFileMeta]]:
    found: dict[bytes, list[DataFileMeta]] = defaultdict(list)
    for entry in live_files(table.store, History(table.store).latest()):
        assert (entry.bucket, entry.total_buckets) == (0, -1)
        found[entry.partition].append(entry.file)
    return found


def check(table: lakebed.Table, data: pa.Table) -> dict[bytes, list[int]]:
    """Files by the rule, all rows, nothing left; the sizes of the files of each partition."""
    sizes = {partition: [file.file_size for file in files] for partition, files in files_of(table).items()}
    for some in sizes.values():
        assert in_bounds(len(some), sum(some), TARGET, greatest_size(TARGET)), some
    for files in files_of(table).values():
        assert all((f.min_sequence_number, f.max_sequence_number) == (0, f.row_count - 1) for f in files)
    assert table.read().read_all().sort_by("id").equals(data)
    assert waiting(table) == []
    on_disk = [path for path in Path(table.location).rglob("data-*") if path.is_file()]
    assert len(on_disk) == sum(map(len, sizes.values()))
    return sizes


def waiting(table: lakebed.Table) -> list[str]:
    return [info.path for info in table.store.list(STAGING_FOLDER).files]


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [2, 4, 8, 16])
@pytest.mark.parametrize("by", [("dt",), ()], ids=["partitioned", "one"])
def test_files_follow_the_bytes_at_any_number_of_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: tuple[str, ...], tasks: int
) -> None:
    monkeypatch.setattr(finalize, "HERE_BYTES", 0)
    monkeypatch.setattr(staging, "INLINE_BYTES", 20_000)
    table, data = table_of(tmp_path / "t", by), skewed()
    sink, engine = sink_of(table), OtherEngine(tasks)
    messages = staged_by_tasks(sink, data, tasks)
    assert len(waiting(table)) == tasks
    assert list(Path(table.location).rglob("data-*")) == []
    finalize_and_commit(sink, sink.plan(), messages, engine, 1)
    sizes = check(table, data)
    assert max(map(len, sizes.values())) > 4
    assert not by or sorted(map(len, sizes.values()))[:30] == [1] * 30
    large = max(files_of(table), key=lambda partition: len(sizes[partition]))
    shares = [{bucket.partition for bucket, _ in share} for share in engine.tasks[-1]]
    assert sum(large in share for share in shares) >= min(tasks, len(sizes[large]))  # many tasks write the large one
    assert len(shares) < sum(map(len, sizes.values())) or not by  # and small ones share a task


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("buffer", ["256 mb", "300 kb"])
def test_one_process_writes_by_the_same_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str, buffer: str
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    options = {"file.format": file_format, "write-buffer-size": buffer}
    table, data = table_of(tmp_path / "t", options=options), skewed()
    table.write(pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=3000)))
    check(table, data)
    assert os.listdir(tmp_path / "scratch") == []


@pytest.mark.slow
@pytest.mark.parametrize("spillable", ["true", "false"])
def test_rows_beyond_the_buffer_wait_on_disk(tmp_path: Path, spillable: str) -> None:
    (tmp_path / "scratch").mkdir()
    options = {"write-buffer-size": "300 kb", "lakebed.scratch.dir": str(tmp_path / "scratch")}
    table = table_of(tmp_path / "t", options={**options, "write-buffer-spillable": spillable})
    data = skewed()
    writer = table.writer()
    writer.write(data)
    found = list((tmp_path / "scratch").iterdir())
    assert (len(found), len(waiting(table))) == ((1, 0) if spillable == "true" else (0, 1))
    messages = writer.prepare_commit()
    assert all(isinstance(message, PaimonMessage) for message in messages)
    writer.commit(1, messages)
    check(table, data)
    writer.write(data)
    writer.abort()
    assert (list((tmp_path / "scratch").iterdir()), waiting(table)) == ([], [])
    check(table, data)


def test_rows_stay_in_their_order(tmp_path: Path) -> None:
    table, data = table_of(tmp_path / "t", ()), skewed()
    sink = sink_of(table)
    finalize_and_commit(sink, sink.plan(), staged_by_tasks(sink, data, 5), LocalEngine(), 1)
    assert table.read().read_all().equals(data)


@pytest.mark.slow
def test_a_sample_that_misleads_is_put_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = PaimonFileMaker.measure

    def lie(self: PaimonFileMaker, *task: Any) -> finalize.FileSize:
        return dataclasses.replace(measured(self, *task), fixed=0.0, per_row=40.0)

    monkeypatch.setattr(PaimonFileMaker, "measure", lie)
    table, data = table_of(tmp_path / "t"), skewed()
    sink = sink_of(table)
    finalize_and_commit(sink, sink.plan(), staged_by_tasks(sink, data, 3), LocalEngine(), 1)
    check(table, data)


def test_a_failed_or_aborted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "INLINE_BYTES", 0)
    table, data = table_of(tmp_path / "t"), skewed()
    sink = sink_of(table)
    messages = staged_by_tasks(sink, data, 3)
    sink.abort(messages)
    assert waiting(table) == []
    writer = pickle.loads(pickle.dumps(sink.plan())).task_writer()
    writer.write(data)
    writer.abort()
    assert waiting(table) == []

    made = PaimonFileMaker.make

    def fail(self: PaimonFileMaker, bucket: Any, run: Any) -> Any:
        if bucket.path.startswith("dt=s9/"):
            raise RuntimeError("no")
        return made(self, bucket, run)

    monkeypatch.setattr(PaimonFileMaker, "make", fail)
    with pytest.raises(RuntimeError, match="no"):
        sink.finalize(sink.plan(), staged_by_tasks(sink, data, 3), LocalEngine())
    assert waiting(table) == []
    assert [path for path in Path(table.location).rglob("data-*") if path.is_file()] == []
    assert table.history() == []


def test_messages_of_rows_that_wait_are_committed_too(make: Make) -> None:
    table = make(primary_key=(), bucket="-1")
    sink = sink_of(table)
    messages = staged_by_tasks(sink, rows(("a", 1, "v", 1), ("b", 2, "v", 1)), 2)
    assert all(isinstance(message, StagedMessage) for message in messages)
    assert sink.filter_and_commit({4: messages}) == 1
    assert [row[1] for row in contents(table)] == [1, 2]


def test_an_overwrite_replaces_the_partitions_of_its_rows(make: Make) -> None:
    table = make(primary_key=(), bucket="-1")
    table.write(rows(*((day, i, "old", i) for i, day in enumerate("aabbc"))))
    sink = sink_of(table, Mode.OVERWRITE)
    data = rows(("b", 8, "new", 1), ("d", 9, "new", 1))
    finalize_and_commit(sink, sink.plan(), staged_by_tasks(sink, data, 2), LocalEngine(), 1)
    assert [row[:3] for row in contents(table)] == [
        ("a", 0, "old"), ("a", 1, "old"), ("b", 8, "new"), ("c", 4, "old"), ("d", 9, "new"),
    ]  # fmt: skip


def test_what_cannot_be_written_is_refused_by_the_task(make: Make, tmp_path: Path) -> None:
    table = make(primary_key=(), bucket="-1")
    with pytest.raises(UsageError, match="only \\+I rows"):
        table.write(rows(("a", 1, "v", 1), kinds=["-D"]))
    table.write(rows(("a", 1, "v", 1), kinds=["+I"]))
    ignoring = make(primary_key=(), bucket="-1", ignore__delete="true")
    with pytest.raises(UsageError, match="only \\+I rows"):
        ignoring.write(rows(("a", 1, "v", 1), kinds=["-D"]))
    with pytest.raises(SchemaError, match="w"):
        sink_of(table).plan().task_writer().write(pa.table({"w": [1]}))
    times = pa.schema([("at", pa.timestamp("ms"))])
    early = lakebed.create(tmp_path / "early", "paimon", times, options={"file.format": "orc"})
    with pytest.raises(UnsupportedError, match="before 1970"):
        sink_of(early).plan().task_writer().write(pa.table({"at": pa.array([-5], pa.timestamp("ms"))}))
    assert ROW_KIND_COLUMN not in table.schema.names


def test_rows_of_a_dead_write_go_with_an_expiry_a_day_later(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "INLINE_BYTES", 0)
    table = make(primary_key=(), bucket="-1")
    table.write(rows(("a", 1, "v", 1)))
    dead = staged_by_tasks(sink_of(table), rows(("a", 2, "v", 1)), 1)
    (path,) = waiting(table)
    assert isinstance(dead[0], StagedMessage) and dead[0].rows.path == path
    assert table.expire().deleted_files == ()
    old = time.time() - 25 * 3600
    os.utime(Path(table.location) / path, (old, old))
    assert table.expire(dry_run=True).deleted_files == (path,)
    assert waiting(table) == [path]
    assert table.expire().deleted_files == (path,)
    assert waiting(table) == []
    assert contents(table) == [("a", 1, "v", 1)]
