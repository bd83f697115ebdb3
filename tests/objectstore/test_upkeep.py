"""The requests of a run of upkeep are counted, and bounded."""

import pyarrow as pa

import lakebed
from lakebed.model.upkeep import UpkeepResult
from tests.objectstore.server import StoreServer

SCHEMA = pa.schema([("id", pa.int64())])


def test_requests_are_counted_and_bounded(store_server: StoreServer) -> None:
    url = store_server.url()
    table = lakebed.create(url, "paimon", SCHEMA, options=store_server.options)
    for number in range(6):
        table.write(pa.table({"id": [number]}, SCHEMA))

    def run(budget: dict[str, int], dry_run: bool = True) -> UpkeepResult:
        return lakebed.upkeep(url, {"budget": budget}, dry_run, options=store_server.options)

    counted = store_server.measure(lambda: run({}), enough=99)
    assert counted.result.requests == counted.requests > 5
    assert [step.state for step in counted.result.tables[0].steps] == ["due", "not due"]
    few = run({"requests": 1})
    assert {step.why for step in few.tables[0].steps} == {"the budget of 1 request is spent"} and few.requests < 20
    done = run({"requests": 30}, dry_run=False)
    assert [step.state for step in done.tables[0].steps] == ["done", "left"] and not done.failed
