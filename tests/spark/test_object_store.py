"""Tables on an object store from Spark: executors find their own keys, and a stream's batch asks for little."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import UsageError
from lakebed.examples import example_path
from lakebed.kernel.files import Store, open_store
from lakebed.spark import pipeline
from tests.objectstore.server import StoreServer
from tests.spark import keys_that_end
from tests.spark.tables import as_bag

PROVIDER = f"{keys_that_end.__name__}:{keys_that_end.renewing.__name__}"
REQUESTS_OF_A_BATCH = 25
"""The most that a batch asks of the metadata of its source and its sink together."""
_DATA = re.compile(r"\.parquet$|\.log\.")


@pytest.fixture
def options(store_server: StoreServer) -> dict[str, str]:
    """The options of a table whose keys end after a second."""
    plain = {key: value for key, value in store_server.options.items() if "key" not in key}
    return {**plain, "lakebed.storage.provider": PROVIDER}


def _read_slowly(store: Store) -> int:
    """How many keys this task needed for reads that take longer than a key is good for."""
    before = len(keys_that_end.GIVEN)
    for _ in range(4):
        assert store.read("f") == b"abc"
        time.sleep(keys_that_end.SECONDS * 0.6)
    return len(keys_that_end.GIVEN) - before


def test_a_long_task_gets_new_keys(spark: SparkSession, store_server: StoreServer, options: dict[str, str]) -> None:
    store = open_store(store_server.url(), options)
    store.write("f", b"abc")
    needed = list(lakebed.spark.SparkEngine(spark).map(_read_slowly, [store, store]))
    assert all(number > 1 for number in needed), needed


def test_explicit_keys_stay_on_the_driver(spark: SparkSession, store_server: StoreServer) -> None:
    location = store_server.upload(example_path("orders_hudi"))
    with pytest.raises(UsageError, match=r"lakebed\.storage\.provider"):
        lakebed.spark.read(spark, location, options=store_server.options)
    shipped = {**store_server.options, "lakebed.storage.ship-secrets": "true"}
    assert lakebed.spark.read(spark, location, ["order_id"], options=shipped).count() > 0


@pytest.mark.parametrize("late", [False, True])
def test_without_keys_the_error_says_where_spark_looks(
    spark: SparkSession, store_server: StoreServer, late: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    location = store_server.upload(example_path("orders_hudi"))
    plain = {key: value for key, value in store_server.options.items() if "key" not in key}
    monkeypatch.setenv("HOME", str(tmp_path))  # no profile
    if late:  # the driver has keys that executors, which were started before, do not get
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(key, store_server.environment[key])
    with pytest.raises(UsageError, match=r"no credentials.*executorEnv.*os\.environ.*spark\.hadoop\.fs\.s3a"):
        lakebed.spark.read(spark, location, ["order_id"], options=plain).count()


def test_a_batch_asks_for_little(
    spark: SparkSession, store_server: StoreServer, options: dict[str, str], tmp_path: Path
) -> None:
    source, sink = store_server.upload(example_path("orders_hudi")), store_server.url("orders")
    first = lakebed.open(source, options).history()[0].time
    storage = "".join(f'"{key}" = "{value}"\n' for key, value in options.items())
    file = tmp_path / "p.toml"
    file.write_text(
        f"""
        [source]
        table = "{source}"
        [source.options]
        "read.start-commit" = "{first}"
        "read.commits.limit" = 1
        {storage}
        [transform]
        sql = "select order_id, customer, amount, status, ts, dt, _row_kind from source"
        [sink]
        table = "{sink}"
        format = "paimon"
        primary_key = ["dt", "order_id"]
        partition_by = ["dt"]
        [sink.options]
        bucket = 4
        "num-sorted-run.compaction-trigger" = 100
        {storage}
        [run]
        checkpoint = "{tmp_path}/checkpoint"
        """
    )
    store_server.clear()
    result = pipeline.run(pipeline.load(file), spark)
    log = store_server.requests()
    columns = ["order_id", "customer", "amount", "status", "ts", "dt"]
    rows = {name: as_bag(lakebed.open(name, options).read(columns)) for name in (source, sink)}
    assert rows[source] == rows[sink]
    commits = [place for place, entry in enumerate(log) if entry.method == "PUT" and "/snapshot-" in entry.target]
    assert len(commits) == result.commits > 5
    for begin, end in itertools.pairwise(commits[1:]):  # the first batch opens both tables
        asked = [entry for entry in log[begin:end] if not _DATA.search(entry.target)]
        assert len(asked) <= REQUESTS_OF_A_BATCH, [entry.target for entry in asked]
