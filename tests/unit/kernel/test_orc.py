"""ORC files that are far away: which bytes are asked for, and that the rows are those of the file."""

import io
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.kernel.files.remote_file import End, RemoteFile, RemoteInput
from lakebed.kernel.files.waiting import Budget
from lakebed.kernel.orc import OrcReader, misread_times

COLUMNS = [f"c{number}" for number in range(12)]
TAIL = 16 << 10
LAST = (2**63 - 1) // 1000
"""The last microsecond that nanoseconds can hold."""


@pytest.fixture(scope="module")
def data() -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table({name: random.random(60_000) for name in COLUMNS})


@pytest.fixture(scope="module", params=["uncompressed", "zlib"])
def content(request: pytest.FixtureRequest, data: pa.Table) -> bytes:
    sink = io.BytesIO()
    orc.write_table(data, sink, stripe_size=1 << 20, compression=request.param)
    assert orc.ORCFile(pa.BufferReader(sink.getvalue())).nstripes > 3
    return sink.getvalue()


def at_once(act: Callable[..., Any], *arguments: Any) -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(act(*arguments))
    return done


def far(content: bytes) -> tuple[RemoteInput, list[tuple[int, int]], Budget]:
    """A file of which the end is at hand, the ranges that are asked for, and the budget of bytes that are held."""
    asked: list[tuple[int, int]] = []
    budget = Budget(1 << 30)

    def fetch(start: int, stop: int) -> memoryview:
        asked.append((start, stop))
        return memoryview(content)[start:stop]

    end = End(memoryview(content)[-TAIL:], len(content) - TAIL, len(content))
    return RemoteInput(RemoteFile(end, fetch, at_once, budget)), asked, budget


@pytest.mark.parametrize("names", [COLUMNS, COLUMNS[:3], ["c7"], ["c9", "c2"]])
def test_few_requests_bring_the_rows(data: pa.Table, content: bytes, names: list[str]) -> None:
    source, asked, budget = far(content)
    reader = OrcReader(source)
    stripes = list(reader.stripes(names))
    assert pa.Table.from_batches(stripes) == data.select(names)
    assert reader.rows == len(data) and reader.schema.names == COLUMNS
    bytes_asked = sum(stop - start for start, stop in asked)
    assert bytes_asked <= 1.1 * len(content)
    if len(names) == len(COLUMNS):
        assert len(asked) <= 2 * len(stripes)  # the footer of a stripe, and all of it
    del reader
    source.file.close()
    assert budget._free == 1 << 30


def test_a_file_at_hand_is_read_as_it_is(data: pa.Table, content: bytes) -> None:
    reader = OrcReader(pa.BufferReader(content))
    assert pa.Table.from_batches(list(reader.stripes(["c1"]))) == data.select(["c1"])


def times(*values: int) -> pa.Array:
    return pa.array(values, pa.timestamp("us"))


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (times(0, LAST), None),
        (times(0, -1), "before 1970"),
        (times(0, LAST + 1), "after 2262-04-11"),
        (pa.array([None, LAST // 1000 + 1], pa.timestamp("ms", "UTC")), "after 2262-04-11"),
        (pa.StructArray.from_arrays([times(5, -1)], ["a"]), "before 1970"),
        (pa.ListArray.from_arrays([0, 1, 2], times(5, LAST + 1)), "after 2262-04-11"),
        (pa.ListArray.from_arrays([0, 1, 2], times(5, LAST + 1)).slice(0, 1), None),
        (pa.MapArray.from_arrays([0, 1], ["k"], times(-1)), "before 1970"),
        (pa.MapArray.from_arrays([0, 1, 2], ["k", "k"], times(-1, 5)).slice(1), None),
        (pa.array([None, None], pa.timestamp("us")), None),
    ],
)
def test_times_that_are_not_read_back(column: pa.Array, told: str | None) -> None:
    found = misread_times(pa.table({"n": range(len(column)), "at": column}))
    assert found is None if told is None else found is not None and found[0] == "at" and told in found[1]


def test_times_that_nanoseconds_cannot_hold_are_no_damage() -> None:
    sink = io.BytesIO()
    orc.write_table(pa.table({"n": [1], "at": times(LAST + 1)}), sink)
    reader = OrcReader(pa.BufferReader(sink.getvalue()))
    assert [batch.to_pylist() for batch in reader.stripes(["n"])] == [[{"n": 1}]]
    with pytest.raises(UnsupportedError, match=r"times before 1677 or after 2262.*Read the other columns"):
        next(reader.stripes(["n", "at"]))


def test_tables_refuse_times_that_they_would_not_read_back(tmp_path: Path) -> None:
    late = pa.table({"at": times(LAST + 1)})
    for format, options in (("paimon", {"file.format": "orc"}), ("iceberg", {"write.format.default": "orc"})):
        table = lakebed.create(tmp_path / format, format, late.schema, options=options)
        with pytest.raises(UnsupportedError, match="column 'at' has times after 2262-04-11"):
            table.write(late)
        assert table.count() == 0
