"""The sink on Spark: rows are routed, each bucket gets one file per commit at any parallelism, and rows that do not fit
are refused."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import lakebed
import lakebed.spark
from lakebed.errors import OptionError, RuntimeMissingError, SchemaError, UsageError
from lakebed.model.commit import Outcome
from lakebed.model.split import Split
from lakebed.spark.engine import SparkEngine, local_threads
from lakebed.spark.read import pack_splits
from lakebed.spark.routing import numbers_by_task
from lakebed.spark.sink import SinkInput, write_task
from lakebed.spark.source import load
from lakebed.spark.worker import pack, unpack
from lakebed.verbs.write import Prepared
from tests.spark.tables import ORDERS, ORDERS_SQL, as_bag, orders


def some_orders(spark: SparkSession, count: int, partitions: int = 3) -> DataFrame:
    spark.range(0, count, 1, partitions).createOrReplaceTempView("numbers")
    return spark.sql(f"{ORDERS_SQL} from numbers")


def data_files(folder: Path) -> list[str]:
    return sorted(str(path.parent.relative_to(folder)) for path in folder.glob("dt=*/bucket-*/data-*"))


@pytest.fixture
def small_files_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files stay as the tasks wrote them, so that they show where rows went."""
    monkeypatch.setattr(
        "lakebed.formats.paimon.write.sink.merge_small_files",
        lambda files, messages, engine: Prepared(tuple(messages)),
    )


@pytest.mark.parametrize("tasks", [1, 2, 7, 200])
def test_sparks_own_hash_puts_each_number_into_its_task(spark: SparkSession, tasks: int) -> None:
    rows = [(int(number), task) for task, number in enumerate(numbers_by_task(tasks))]
    placed = spark.createDataFrame(rows, "number int, task int").repartition(tasks, "number")
    assert placed.where(f.spark_partition_id() != f.col("task")).count() == 0


@pytest.mark.usefixtures("small_files_stay")
@pytest.mark.parametrize(("parallelism", "by_id"), [(2, True), (8, True), (3, False), (8, False)])
def test_each_bucket_gets_one_file_a_commit(
    spark: SparkSession, tmp_path: Path, parallelism: int, by_id: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_id:  # as on PySpark before 4.1
        monkeypatch.setattr("lakebed.spark.routing._BY_ID", (99, 0))
    table = orders(tmp_path / "t")
    frame = some_orders(spark, 1000)
    result = lakebed.spark.write(frame, str(tmp_path / "t"), options={"sink.parallelism": parallelism})
    assert result.outcome is Outcome.COMMITTED
    assert data_files(tmp_path / "t") == sorted(f"dt=d{d}/bucket-{b}" for d in (0, 1) for b in range(4))
    assert as_bag(table.read()) == as_bag(frame.toArrow())


@pytest.mark.usefixtures("small_files_stay")
def test_keys_of_every_kind_are_routed(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever Spark turns a key's type into on its way to Python, all rows of a bucket are in one task."""
    spark.range(0, 400, 1, 3).createOrReplaceTempView("numbers")
    frame = spark.sql("""
        select timestamp_seconds(id) as `a.b`, cast(timestamp_seconds(id) as timestamp_ntz) as n,
               cast(id as decimal(20, 3)) as d, date_from_unix_date(cast(id as int)) as day, cast(id as string) as s,
               cast(cast(id as string) as binary) as y, id % 2 = 0 as even, id as v
        from numbers""")
    keys = ["a.b", "n", "d", "day", "s", "y", "even"]
    schema = pa.schema([field.with_nullable(field.name not in keys) for field in frame.toArrow().schema])
    table = lakebed.create(tmp_path / "t", "paimon", schema, keys, options={"bucket": "4"})
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        lakebed.spark.write(
            frame, str(tmp_path / "t"), options={"sink.parallelism": 3, "lakebed.gather.max-bytes": "0"}
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert sorted(path.parent.name for path in (tmp_path / "t").glob("bucket-*/data-*")) == [
        f"bucket-{b}" for b in range(4)
    ]
    assert sorted(table.read(["v"]).read_all()["v"].to_pylist()) == list(range(400))


def test_kinds_names_and_missing_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    lakebed.spark.write(some_orders(spark, 10), str(tmp_path / "t"))
    changes = spark.sql("select '-D' as _ROW_KIND, 3L as ID, 'd1' as dt union all select '+U', 4L, 'd0'")
    result = lakebed.spark.write(changes, str(tmp_path / "t"))
    assert result.snapshot_id == 2
    rows = table.read().read_all()
    assert rows.schema.names == ORDERS.names  # the kind is not data
    assert sorted(rows.column("id").to_pylist()) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert rows.filter(pa.compute.equal(rows["id"], 4)).column("amount").to_pylist() == [None]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select 1L as id", "dt"),
        ("select 1L as id, 'a' as dt, 1 as extra", "extra"),
        ("select 1L as id, 'a' as dt, 1.234 as amount", "column 'amount' is decimal"),
        ("select 'x' as id, 'a' as dt", "column 'id' is string"),
        ("select 1L as id, 2L as ID, 'a' as dt", "given twice: id"),
        ("select 1L as id, 'a' as dt, 7 as _row_kind", "column '_row_kind' is int32"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_before_any_task(
    spark: SparkSession, tmp_path: Path, sql: str, words: str
) -> None:
    table = orders(tmp_path / "t")
    with pytest.raises(SchemaError, match=words):
        lakebed.spark.write(spark.sql(sql), str(tmp_path / "t"))
    assert table.history() == []
    assert not list((tmp_path / "t").glob("dt=*"))


def test_a_value_that_does_not_fit_leaves_nothing_visible(spark: SparkSession, tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    with pytest.raises(SchemaError, match="column 'dt' holds a null"):
        lakebed.spark.write(spark.sql("select id, if(id = 7, null, 'a') as dt from range(9)"), str(tmp_path / "t"))
    assert table.history() == []
    for options, kind in (({"sink.parallelism": 0}, OptionError), ({"bukcet": 1}, OptionError)):
        with pytest.raises(kind):
            lakebed.spark.write(some_orders(spark, 1), str(tmp_path / "t"), options=options)
    with pytest.raises(UsageError, match="upsert"):
        lakebed.spark.write(some_orders(spark, 1), str(tmp_path / "t"), mode="upsrt")


@pytest.mark.usefixtures("small_files_stay")
@pytest.mark.parametrize("parallelism", [2, 8])
def test_a_bucket_gets_as_many_files_as_its_bytes_fill(spark: SparkSession, tmp_path: Path, parallelism: int) -> None:
    target = 40_000
    table = orders(tmp_path / "t", bucket=2)
    options = {"sink.parallelism": parallelism, "target-file-size": str(target), "write-buffer-size": "300 kb"}
    lakebed.spark.write(some_orders(spark, 60_000), str(tmp_path / "t"), options=options)
    for folder in sorted((tmp_path / "t").glob("dt=*/bucket-*")):
        sizes = [path.stat().st_size for path in folder.glob("data-*")]
        assert sum(sizes) > 2 * target
        assert abs(len(sizes) - -(-sum(sizes) // target)) <= 1
    assert table.read(["id"]).read_all().num_rows == 60_000


def test_the_dataframe_writer_commits_without_routing(spark: SparkSession, tmp_path: Path) -> None:
    """Each task writes a file for every bucket. Before the commit, the files of a bucket become one."""
    table = orders(tmp_path / "t")
    some_orders(spark, 50).write.format("lakebed").mode("append").save(str(tmp_path / "t"))
    assert len(table.history()) == 1
    assert data_files(tmp_path / "t") == sorted(f"dt=d{d}/bucket-{b}" for d in (0, 1) for b in range(4))
    some_orders(spark, 20).write.format("paimon").mode("overwrite").save(str(tmp_path / "t"))
    assert sorted(table.read().read_all().column("id").to_pylist()) == list(range(20))
    with pytest.raises(AnalysisException, match="ErrorIfExists"):
        some_orders(spark, 1).write.format("lakebed").save(str(tmp_path / "t"))


def test_what_the_dataframe_writer_leaves_is_said_in_the_log(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = orders(tmp_path / "t")
    frame = some_orders(spark, 50)
    options = {"lakebed.gather.max-bytes": "1 b"}
    frame.write.format("lakebed").mode("append").options(**options).save(str(tmp_path / "t"))
    assert len(data_files(tmp_path / "t")) > 16  # Spark's commit runs in a worker: its log is not seen here
    job = load({"path": str(tmp_path / "t"), **options}, "lakebed", 2).sink(frame.schema, overwrite=False)
    batch = frame.toArrow().combine_chunks().to_batches()[0]
    job.commit([unpack(job.write(iter([batch]))), unpack(job.write(iter([batch])))])
    assert "lakebed.spark.write" in caplog.text
    assert str(tmp_path / "t") in caplog.text
    assert table.read(["id"]).read_all().num_rows == 50


@pytest.mark.parametrize("face", ["write", "format"])
def test_appends_without_buckets_become_few_files(spark: SparkSession, tmp_path: Path, face: str) -> None:
    """As many tasks write as the DataFrame has partitions. Small files are merged."""
    table = orders(tmp_path / "t", keyed=False)
    frame = some_orders(spark, 1000, 12)
    if face == "write":
        lakebed.spark.write(frame, str(tmp_path / "t"))
    else:
        frame.write.format("lakebed").mode("append").save(str(tmp_path / "t"))
    assert data_files(tmp_path / "t") == ["dt=d0/bucket-0", "dt=d1/bucket-0"]
    assert as_bag(table.read()) == as_bag(frame.toArrow())


def test_what_travels_to_workers_pickles(tmp_path: Path, hudi: Path) -> None:
    table = orders(tmp_path / "t")
    sink = table.sink()
    rows = pa.record_batch({"id": [1, 2], "dt": ["a", "b"]})
    taken = SinkInput.of(rows.schema, sink, table.location)
    assert unpack(pack(taken)) == taken
    messages, count = write_task(unpack(pack(sink.plan())), iter([unpack(pack(taken)).take(rows)]))
    assert count == 2
    assert pickle.loads(pickle.dumps(list(messages))) == list(messages)
    assert sink.commit(1, pickle.loads(pickle.dumps(list(messages)))).outcome is Outcome.COMMITTED
    for location in (hudi, tmp_path / "t"):
        plan = lakebed.open(location).plan_read()
        copy = unpack(pack(plan))
        assert copy.splits == plan.splits
        read = pa.Table.from_batches([b for split in copy.splits for b in copy.read(split)], copy.schema)
        assert as_bag(read) == as_bag(lakebed.open(location).read())
        assert all(len(pickle.dumps(split)) < 20_000 for split in plan.splits)


def test_a_task_that_fails_removes_its_own_files(tmp_path: Path) -> None:
    table = orders(tmp_path / "t")
    sink = table.sink()
    rows = SinkInput.of(ORDERS, sink, "t").take(_one())

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows
        raise RuntimeError("a lost worker")

    with pytest.raises(RuntimeError, match="a lost worker"):
        write_task(sink.plan(), batches())
    assert not list((tmp_path / "t").glob("**/data-*"))


def _one() -> pa.RecordBatch:
    columns = [
        pa.array([1]),
        pa.array(["a"]),
        pa.array([None], pa.decimal128(10, 2)),
        pa.array([None], pa.timestamp("ms")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ORDERS)


def test_splits_of_a_group_stay_together_and_in_order() -> None:
    splits = [Split(f"g{n % 5}", n + 1) for n in range(40)]
    bins = pack_splits(splits, 3)
    assert len(bins) == 3
    assert sorted((s.group, s.size) for b in bins for s in b) == sorted((s.group, s.size) for s in splits)
    for one in bins:
        for group in {split.group for split in one}:
            sizes = [split.size for split in one if split.group == group]
            assert sizes == sorted(sizes)
            assert sum(split.group == group for split in splits) == len(sizes)
    assert len(pack_splits(splits, 100)) == 5
    assert pack_splits([], 4) == []


@pytest.mark.parametrize(
    ("master", "threads"),
    [
        ("local", 1), ("local[3]", 3), ("local[*]", os.cpu_count()), ("local[2,4]", 2), ("local-cluster[2,1,1024]", 0),
        ("spark://host:7077", 0), ("yarn", 0), ("k8s://https://host", 0), ("", 0),
    ],
)  # fmt: skip
def test_only_a_local_session_runs_its_tasks_on_this_machine(master: str, threads: int) -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    assert local_threads(session) == threads
    near = SparkEngine(session, 2).in_this_process()
    assert (near.parallelism if near else 0) == min(2, threads)


def test_a_session_without_a_context_runs_its_tasks_elsewhere() -> None:
    session: Any = object()  # as over Connect
    assert SparkEngine(session, 2).in_this_process() is None


def test_the_engine_keeps_order_and_errors(spark: SparkSession) -> None:
    engine = SparkEngine(spark)
    assert engine.parallelism == 2
    assert list(engine.map(lambda n: {"square": n * n}, range(7))) == [{"square": n * n} for n in range(7)]
    assert list(engine.map(str, [])) == []

    def refuse(_: int) -> None:
        raise lakebed.errors.CommitConflictError("two writers", table="orders", todo="Plan again")

    with pytest.raises(lakebed.errors.CommitConflictError, match=r"two writers \[table orders\]\. Plan again"):
        list(engine.map(refuse, [1]))


def test_a_worker_that_lacks_a_module_says_so_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(RuntimeMissingError) as caught:
        list(SparkEngine(spark).map(_Absent(), [1]))
    assert "no module 'lakebed_is_not_here'" in str(caught.value)
    assert "lakebed.spark.ship(spark)" in str(caught.value)
    assert "\n" not in str(caught.value)


class _Absent:
    """Can be unpickled only where its module exists."""

    def __call__(self, task: int) -> int:
        return task

    def __reduce__(self) -> tuple[object, ...]:
        return __import__, ("lakebed_is_not_here",)
