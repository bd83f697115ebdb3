"""What a batch of a stream asks of the store: its table's settings, schema and newest snapshot once, however many
batches and snapshots came before."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.examples import example_path
from lakebed.kernel.engine import LocalEngine
from lakebed.spark.source import Batch, load
from lakebed.verbs.read import ReadPlan, run
from lakebed.verbs.stream import Limits, StreamReader
from lakebed.verbs.table import Table
from lakebed.verbs.write import Mode, Sink, WritePlan
from tests.objectstore.server import Counted, StoreServer
from tests.pyspark_release import needs

MOST_REQUESTS, MOST_STEPS = 25, 12
OF_A_COMPACTION = 4
"""The requests that a second snapshot takes, where the batch compacts."""
ORDERS = ["order_id", "customer", "amount", "status", "ts", "dt"]


@dataclass
class Query:
    """The driver's half of a query, without Spark: a stream that gives its batches, and a sink that stays open."""

    server: StoreServer
    reader: StreamReader
    sink: Table
    position: str
    batch_id: int = 0

    def batch(self) -> list[Counted]:
        """One batch, commit by commit of the source: what its plan asks for, the plan of its write, and its commit.
        The requests of the data files are not counted."""
        planned = self._counted(self._plan)
        rows = run(planned.result, 1).read_all()
        opened = self._counted(self._plan_write)
        sink, plan = opened.result
        writer = plan.task_writer()
        for batch in rows.to_batches():
            writer.write(batch)
        messages = sink.finalize(plan, writer.finish(), LocalEngine(1)).messages
        committed = self._counted(lambda: sink.commit(self.batch_id, messages))
        assert str(committed.result.outcome) == "committed"
        self.batch_id += 1
        return [planned, opened, committed]

    def _plan(self) -> ReadPlan[Any]:
        end = self.reader.latest(self.position, Limits(commits=1))
        assert end != self.position
        plan = self.reader.plan(self.position, end)
        self.position = end
        return plan

    def _plan_write(self) -> tuple[Sink, WritePlan]:
        sink = self.sink.reopened().sink(Mode.APPEND, commit_user="stream")
        return sink, sink.plan(2)

    def _counted(self, call: Callable[[], Any]) -> Counted:
        return self.server.measure(call, tries=1)


def _asked(parts: list[Counted]) -> tuple[int, int]:
    return sum(part.requests for part in parts), sum(part.steps for part in parts)


def _times(parts: list[Counted], target: str, method: str = "GET") -> int:
    return sum(entry.method == method and target in entry.target for part in parts for entry in part.log)


def test_a_hudi_table_into_a_paimon_table(store_server: StoreServer) -> None:
    location = store_server.upload(example_path("orders_hudi"))
    first = lakebed.open(location, store_server.options).history()[0].time
    source = lakebed.open(location, {**store_server.options, "read.start-commit": first})
    schema = pa.schema([source.schema.field(name) for name in ORDERS])
    options = {**store_server.options, "bucket": "4"}
    sink = lakebed.create(store_server.url(), "paimon", schema, ["dt", "order_id"], ["dt"], options)
    reader = source.stream(ORDERS)
    query = Query(store_server, reader, sink, reader.initial())
    query.batch()  # it reads the metadata of all commits, and the next batches remember that
    batches = [query.batch() for _ in range(6)]
    for parts in batches:
        requests, steps = _asked(parts)
        compacts = _times(parts, "/snapshot-", "PUT") == 2
        most = MOST_REQUESTS + OF_A_COMPACTION if compacts else MOST_REQUESTS
        assert requests <= most and steps <= MOST_STEPS, [entry.target for part in parts for entry in part.log]
        assert _times(parts, "hoodie.properties") == 1
        assert (_times(parts, "schema%2F"), _times(parts, "/schema/")) == (1, 1)
        assert _times(parts, "manifest/") == 0, "its own manifests are known"
    partitions = [_times(parts, "dt%3D") for parts in batches]
    assert _asked(batches[-1])[0] - partitions[-1] <= _asked(batches[1])[0] - partitions[1], "it does not grow"


def test_an_iceberg_table_into_an_iceberg_table(store_server: StoreServer) -> None:
    schema = pa.schema([("id", pa.int64()), ("dt", pa.string())])
    source, sink = (
        lakebed.create(store_server.url(), "iceberg", schema, (), ["dt"], store_server.options) for _ in range(2)
    )
    source.write(pa.table({"id": [0], "dt": ["a"]}, schema))
    reader = lakebed.open(source.location, store_server.options).stream()
    query = Query(store_server, reader, sink, reader.initial())
    query.batch()
    for number in range(1, 5):
        source.write(pa.table({"id": [number], "dt": ["a"]}, schema))
        parts = query.batch()
        requests, steps = _asked(parts)
        assert requests <= MOST_REQUESTS and steps <= MOST_STEPS, [entry.target for part in parts for entry in part.log]
    assert sorted(sink.read().read_all()["id"].to_pylist()) == [0, 1, 2, 3, 4]


def test_a_sink_that_was_dropped_and_made_again_has_its_new_schema(store_server: StoreServer) -> None:
    url, options = store_server.url(), store_server.options
    sink = lakebed.create(url, "paimon", {"id": "int64"}, (), (), options)
    sink.write(pa.table({"id": [1]}))
    sink.store.delete_folder("")
    lakebed.create(url, "paimon", {"id": "int64", "name": "string"}, (), (), options)
    assert sink.reopened().sink().input_schema.names == ["id", "name"]
    sink.reopened().write(pa.table({"id": [2], "name": ["b"]}))
    assert lakebed.open(url, options).read().read_all().to_pylist() == [{"id": 2, "name": "b"}]


def planned_by_spark(store_server: StoreServer) -> Counted:
    """A batch that Spark plans and sends to another process, and what that asks of the store."""
    options = {**store_server.options, "lakebed.storage.ship-secrets": "true"}
    url = store_server.url()
    table = lakebed.create(url, "paimon", {"id": "int64"}, (), (), store_server.options)
    table.write(pa.table({"id": [1]}))

    def planned() -> Batch:
        loaded = load({"path": url, **options}, "lakebed", 2).pinned()
        return pickle.loads(pickle.dumps(loaded.batch(loaded.spark_schema())))

    return store_server.measure(planned, enough=9)


def test_a_batch_of_spark_opens_its_table_once(store_server: StoreServer) -> None:
    counted = planned_by_spark(store_server)
    assert counted.steps <= 9 and counted.requests <= 18, [entry.target for entry in counted.log]
    assert store_server.measure(counted.result.tasks).requests == 0


def test_a_filter_that_spark_pushes_opens_the_table_once_more(store_server: StoreServer) -> None:
    needs("4.1", "filters that Spark pushes to sources")
    from pyspark.sql.datasource import EqualTo

    batch = planned_by_spark(store_server).result
    pushed = store_server.measure(lambda: pickle.loads(pickle.dumps(batch)).push([EqualTo(("id",), 1)]), enough=6)
    assert pushed.steps <= 6 and pushed.requests <= 8, [entry.target for entry in pushed.log]
