"""A stream beside writers, compaction and expiry: whatever the schedule, each change comes once and in order, and leads
to the rows of the table."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.tables.paimon.small import SCHEMA, contents, rows

ids = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)
steps = st.one_of(
    st.tuples(st.just("upsert"), ids),
    st.tuples(st.just("delete"), ids),
    st.tuples(st.just("expire"), st.just([])),
    st.tuples(st.just("read"), st.integers(1, 3).map(lambda limit: [limit])),
    st.tuples(st.just("restart"), st.just([])),
)
AT_ONCE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}


class Reader:
    """Reads as the consumer `c`, and applies each change to `state`."""

    def __init__(self, location: str) -> None:
        self._location, self.state = location, dict[int, tuple[Any, ...]]()
        self.restart()

    def restart(self) -> None:
        """Forget all but what the table keeps."""
        options = {"consumer-id": "c", "read.start-commit": "earliest"}
        self._stream = lakebed.open(self._location, options).stream()
        self._position = self._stream.initial()

    def read(self, limits: Limits) -> None:
        """Read all there is, in batches so large."""
        for position, plan in drain(self._stream, self._position, limits):
            for row in run(plan, 2).read_all().to_pylist():
                kind = row.pop("_row_kind")
                if kind in ("+I", "+U"):
                    self.state[row["id"]] = tuple(row.values())
                else:
                    assert self.state.pop(row["id"], None) is not None, "a delete came twice, or too early"
            self._position = position


@given(st.lists(steps, min_size=3, max_size=12), st.sampled_from(["none", "input", "lookup", "full-compaction"]))
@settings(max_examples=16, deadline=None)
def test_any_schedule(schedule: list[tuple[str, list[int]]], producer: str) -> None:
    """Each commit compacts its buckets too, once they have two sorted runs."""
    with TemporaryDirectory() as folder:
        options = {"bucket": "2", "changelog-producer": producer, "num-sorted-run.compaction-trigger": "2", **AT_ONCE}
        if producer == "full-compaction":
            options["full-compaction.delta-commits"] = "1"
        table = lakebed.create(Path(folder) / "t", "paimon", SCHEMA, ["id"], options=options)
        lakebed.paimon.reset_consumer(table, "c", 1)
        reader, live = Reader(table.location), set[int]()
        for number, (what, numbers) in enumerate(schedule):
            match what:
                case "upsert":
                    live |= set(numbers)
                    table.write(rows(*(("a", one, f"v{number}", number) for one in numbers)), mode="upsert")
                case "delete" if live & set(numbers):
                    gone = sorted(live & set(numbers))
                    live -= set(gone)
                    table.write(rows(*(("a", one, "", 0) for one in gone)), mode="delete")
                case "expire":
                    table.expire()
                case "read":
                    reader.read(Limits(commits=numbers[0]))
                case "restart":
                    reader.restart()
        reader.read(Limits())
        assert sorted(reader.state.values()) == contents(table)
        table.expire()
        assert len(table.history()) <= 1
