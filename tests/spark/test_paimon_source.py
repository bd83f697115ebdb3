"""Paimon tables in Spark: every way to read gives what `table.read` gives, streams follow lakebed's rules or Paimon's
own, and writes to dynamic buckets and append tables lose and double no row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import OptionError, TableNotFoundError, UnsupportedError
from lakebed.spark import pipeline, worker
from lakebed.spark.source import STREAMING_OPTION, Loaded, load
from lakebed.spark.types import spark_schema
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.golden import unpack
from tests.spark.tables import ORDERS, ORDERS_SQL, as_bag
from tests.tables.paimon.small import SCHEMA, contents, rows


@pytest.mark.parametrize("name", ["pk_fixed", "types_parquet"])
def test_a_snapshot(spark: SparkSession, name: str) -> None:
    folder = str(unpack("paimon", name))
    wanted = as_bag(lakebed.open(folder).read())
    assert wanted
    for source in ("lakebed", "paimon"):
        assert as_bag(spark.read.format(source).load(folder).toArrow()) == wanted
    assert as_bag(lakebed.spark.read(spark, folder).toArrow()) == wanted


@pytest.mark.parametrize("source", ["lakebed", "paimon"])
def test_projection_filter_and_time_travel(spark: SparkSession, source: str) -> None:
    """A snapshot that an option names is read instead of the newest one."""
    folder = str(unpack("paimon", "pk_fixed"))
    reader = spark.read.format(source).option("scan.snapshot-id", "1")
    found = reader.load(folder).where("id < 20").select("id", "dt")
    wanted = lakebed.open(folder).read(["id", "dt"], "id < 20", as_of=1)
    assert as_bag(found.toArrow()) == as_bag(wanted)


def _stream(source: str, folder: str, **options: str) -> Loaded:
    spelled = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return load({"path": folder, STREAMING_OPTION: "true", **spelled}, source, 2)


def _batches(loaded: Loaded, limits: Limits = Limits()) -> list[list[dict[str, Any]]]:  # noqa: B008
    reader = loaded.stream(loaded.spark_schema()).reader
    return [run(plan, 1).read_all().to_pylist() for _, plan in drain(reader, None, limits)]


def test_a_stream_by_paimons_own_rules() -> None:
    """The whole table, then what comes. `scan.mode` sets a start, `read.stream.*` bounds, `read.changelog` kinds."""
    folder = str(unpack("paimon", "pk_fixed"))
    table = lakebed.open(folder)
    whole = [{k: v for k, v in row.items() if k != "_row_kind"} for row in _batches(_stream("paimon", folder))[0]]
    assert sorted(map(repr, whole)) == sorted(map(repr, table.read().read_all().to_pylist()))
    start = {"scan_mode": "from-snapshot", "scan_snapshot__id": "1"}
    files = [len(batch) for batch in _batches(_stream("paimon", folder, **start, read_stream_maxfilespertrigger="1"))]
    assert len(files) > 2
    logged = _stream("paimon", folder, **start, read_changelog="true")
    assert logged.spark_schema().names == ["rowkind", *table.schema.names]
    changes = table.changes(after=0).read_all().to_pylist()
    assert sorted(row["rowkind"] for row in _batches(logged)[0]) == sorted(row["_row_kind"] for row in changes)


@pytest.mark.parametrize("source", ["lakebed", "paimon"])
def test_a_bound_of_a_batch_does_not_hide_what_is_there(source: str) -> None:
    """Spark applies the bound. A run that takes what is there now must learn of all of it."""
    folder = str(unpack("paimon", "pk_fixed"))
    loaded = _stream(source, folder, read_commits_limit="1", scan_snapshot__id="1")
    reader = loaded.stream(loaded.spark_schema()).reader
    assert '"next": 6' in reader.latest(reader.initial(), Limits())


def test_the_changelog_of_a_batch() -> None:
    """With `read.changelog` each row has its kind, deletes included. Without it only current rows come."""
    folder = str(unpack("paimon", "pk_fixed"))
    table = lakebed.open(folder)

    def batch(**options: str) -> list[dict[str, Any]]:
        loaded = load({"path": folder, **{key.replace("_", "-"): value for key, value in options.items()}}, "paimon", 2)
        plan = loaded.pinned().plan
        assert plan is not None
        return run(plan, 1).read_all().to_pylist()

    def plain(rows: list[dict[str, Any]], kind: str) -> list[str]:
        return sorted(repr([v for k, v in row.items() if k != kind]) for row in rows if row[kind] in ("+I", "+U"))

    changes = table.changes(after=1, until=3).read_all().to_pylist()
    audited = batch(incremental_between="1,3", **{"read.changelog": "true"})
    assert [*audited[0]] == ["rowkind", *table.schema.names]
    assert sorted(row["rowkind"] for row in audited) == sorted(row["_row_kind"] for row in changes)
    assert "-D" in {row["rowkind"] for row in audited}
    current = sorted(repr([*row.values()]) for row in batch(incremental_between="1,3"))
    assert current == plain(changes, "_row_kind") == plain(audited, "rowkind")
    whole = batch(**{"read.changelog": "true"})
    assert plain(whole, "rowkind") == sorted(repr([*row.values()]) for row in table.read().read_all().to_pylist())


def test_keys_of_paimons_spark_source_alone(tmp_path: Path) -> None:
    """Those that change no row are taken, others refused by name, in reads, streams and writes."""
    lakebed.create(tmp_path / "t", "paimon", ORDERS, ["dt", "id"], ["dt"], {"bucket": "1"})
    taken = {"write.use-v2-write": "true", "write.merge-schema": "false", "read.allow.fullScan": "true"}
    for key, value in (("write.merge-schema", "true"), ("read.allow.fullScan", "false")):
        for streaming in ("true", "false"):
            options = {"path": str(tmp_path / "t"), **taken, STREAMING_OPTION: streaming}
            load(options, "paimon", 2).pinned().spark_schema()
            with pytest.raises(UnsupportedError, match=key):
                load({**options, key: value}, "paimon", 2).pinned().spark_schema()
    with pytest.raises(OptionError, match=r"read\.changelog"):
        load({"path": str(tmp_path / "t"), "read.changlog": "true"}, "paimon", 2)


def test_mode_overwrite_replaces_the_whole_table(tmp_path: Path) -> None:
    """As Paimon's source does, unless the caller asks for partitions alone. lakebed's own replaces those with rows."""
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["dt", "id"], ["dt"], {"bucket": "1"})
    for source, options, wanted in (
        ("paimon", {}, [("b", 2)]),
        ("paimon", {"dynamic-partition-overwrite": "true"}, [("a", 1), ("b", 2)]),
        ("lakebed", {}, [("a", 1), ("b", 2)]),
    ):
        table.write(
            rows(("a", 1, "v", 1), ("b", 9, "v", 1)), options={"dynamic-partition-overwrite": "false"}, mode="overwrite"
        )
        job = load({"path": str(tmp_path / "t"), **options}, source, 2).sink(spark_schema(SCHEMA), overwrite=True)
        batch = rows(("b", 2, "w", 1)).combine_chunks().to_batches()[0]
        job.commit([worker.unpack(job.write(iter([batch])))])
        assert [row[:2] for row in contents(table)] == wanted, (source, options)
    with pytest.raises(TableNotFoundError):
        load({"path": str(tmp_path / "none")}, "paimon", 2).sink(spark_schema(SCHEMA), overwrite=False)


def test_a_pipeline_from_paimon_into_paimon(spark: SparkSession, tmp_path: Path) -> None:
    """Deletes included; each run goes on where the last one ended, and the consumer's progress shows it."""
    source = lakebed.create(tmp_path / "source", "paimon", ORDERS, ["dt", "id"], ["dt"], {"bucket": "1"})
    spark.range(0, 20, 1, 2).createOrReplaceTempView("numbers")
    source.write(spark.sql(f"{ORDERS_SQL} from numbers").toArrow())
    file = tmp_path / "p.toml"
    file.write_text(
        f"""
        [source]
        table = "{tmp_path}/source"
        [source.options]
        "scan.mode" = "latest-full"
        "consumer-id" = "p"
        [sink]
        table = "{tmp_path}/sink"
        format = "paimon"
        primary_key = ["dt", "id"]
        partition_by = ["dt"]
        [sink.options]
        bucket = 1
        """
    )
    assert pipeline.run(pipeline.load(file), spark).commits == 1
    source.write(source.read(where="id < 5").read_all(), mode="delete")
    assert pipeline.run(pipeline.load(file), spark).commits == 1
    assert as_bag(lakebed.open(tmp_path / "sink").read()) == as_bag(source.read())
    assert lakebed.paimon.consumers(source) in ({"p": 2}, {"p": 3})


@pytest.mark.parametrize("parallelism", [4, 3])
def test_dynamic_buckets(spark: SparkSession, tmp_path: Path, parallelism: int) -> None:
    """Overlapping writes of many tasks: there is one row per key, and each key is in one bucket.

    With the same number of tasks as before there is one file per bucket and commit. With another number, several tasks
    may share a bucket, but never a key.
    """
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "40"}
    table = lakebed.create(tmp_path / "t", "paimon", ORDERS, ["dt", "id"], ["dt"], options)
    for start, end, tasks in ((0, 300, 4), (150, 400, parallelism)):
        spark.range(start, end, 1, 5).createOrReplaceTempView("numbers")
        frame = spark.sql(f"{ORDERS_SQL} from numbers")
        lakebed.spark.write(frame, str(tmp_path / "t"), mode="upsert", options={"sink.parallelism": tasks})
    spark.range(0, 400, 1, 3).createOrReplaceTempView("numbers")
    assert as_bag(table.read()) == as_bag(spark.sql(f"{ORDERS_SQL} from numbers").toArrow())
    splits = table.plan_read().splits
    assert len({(split.partition, split.bucket) for split in splits}) >= 10
    if parallelism == 4:
        assert all(len(split.files) <= 2 for split in splits)


def test_append_tables_have_no_buckets_to_route_to(spark: SparkSession, tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ORDERS, [], ["dt"], {"bucket": "-1"})
    spark.range(0, 100, 1, 4).createOrReplaceTempView("numbers")
    frame = spark.sql(f"{ORDERS_SQL} from numbers")
    for _ in range(2):
        lakebed.spark.write(frame, str(tmp_path / "t"))
    assert as_bag(table.read()) == sorted(2 * as_bag(frame.toArrow()))
    assert [split.bucket for split in table.plan_read().splits] == [0, 0]


def test_a_static_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ORDERS, ["dt", "id"], ["dt"], {"bucket": "2"})
    spark.range(0, 20, 1, 2).createOrReplaceTempView("numbers")
    frame = spark.sql(f"{ORDERS_SQL} from numbers")
    lakebed.spark.write(frame, str(tmp_path / "t"))
    options = {"overwrite.partition": "dt=d0"}
    lakebed.spark.write(frame.where("dt = 'd0' and id < 4"), str(tmp_path / "t"), mode="overwrite", options=options)
    assert sorted(table.read(["id"], "dt = 'd0'").read_all()["id"].to_pylist()) == [0, 2]
    assert table.read(["id"], "dt = 'd1'").read_all().num_rows == 10
