"""What a batch of a stream asks of the store: each batch reads the properties, the schema and the newest snapshot once,
however many batches and snapshots came before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

import lakebed
from lakebed.examples import example_path
from lakebed.kernel.engine import LocalEngine
from lakebed.spark.stream import Stream, StreamOptions
from lakebed.verbs.read import ReadPlan, run
from lakebed.verbs.stream import Limits, StreamReader
from lakebed.verbs.table import Table
from lakebed.verbs.write import Mode, finalize_and_commit
from tests.objectstore.server import Counted, StoreServer, counted_of

_COLUMNS = ["order_id", "customer", "amount", "status", "ts", "dt"]


@dataclass
class _Query:
    """The driver's half of a query, without Spark: a stream, and a sink that stays open."""

    reader: StreamReader
    sink: Table
    position: str
    server: StoreServer
    batch_id: int = 0

    def ends(self) -> Counted:
        """The position of the next batch, and its plan."""
        return self._counted(self._plan)

    def writes(self, plan: ReadPlan) -> tuple[Counted, Counted]:
        """The write of a batch, planned and committed."""
        rows = run(plan, 1).read_all()
        rows = rows.cast(pa.schema([rows.schema.field(name) for name in rows.schema.names]))
        planned = self._counted(lambda: self._sink_plan())
        sink, write_plan = planned.result
        writer = write_plan.task_writer()
        for batch in rows.to_batches():
            writer.write(batch)
        messages = writer.finish()
        committed = self._counted(
            lambda: finalize_and_commit(sink, write_plan, messages, LocalEngine(1), self.batch_id)
        )
        assert str(committed.result.outcome) == "committed"
        self.batch_id += 1
        return planned, committed

    def _plan(self) -> ReadPlan:
        end = self.reader.latest(self.position, Limits(commits=1))
        assert end != self.position
        plan = self.reader.plan(self.position, end)
        self.position = end
        return plan

    def _sink_plan(self):
        sink = self.sink.sink(Mode.APPEND, commit_user="stream")
        return sink, sink.plan(2)

    def _counted(self, call) -> Counted:
        self.server.latency(0.02)
        self.server.clear()
        try:
            result = call()
            return counted_of(result, self.server.requests())
        finally:
            self.server.latency(0)


@pytest.fixture
def query(store_server: StoreServer) -> _Query:
    """The example's orders as a stream into a Paimon table, commit by commit."""
    location = store_server.upload(example_path("orders_hudi"))
    options = {**store_server.options, "read.start-commit": lakebed.open(location, store_server.options).history()[0].time}
    source = lakebed.open(location, options)
    schema = pa.schema([source.schema.field(name) for name in _COLUMNS])
    sink = lakebed.create(
        store_server.url(), "paimon", schema, ["dt", "order_id"], ["dt"], {**store_server.options, "bucket": "4"}
    )
    reader = source.stream(_COLUMNS)
    return _Query(reader, sink, reader.initial(), store_server)


def test_x(query: _Query) -> None:
    for _ in range(9):
        ends = query.ends()
        planned, committed = query.writes(ends.result)
        for c in (ends, planned, committed):
            print(c.requests, c.steps, dict(c.kinds))
        if _ == 6:
            for c in (ends, planned, committed):
                print("---", c.steps)
                for e in c.log: print(round((e.began-c.log[0].began)*1000), e.method, e.target[-110:], e.status)
    assert 0
