"""ORC files that are far away: which bytes are asked for, and that the rows are those of the file."""

import io
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from lakebed.kernel.files.remote_file import End, RemoteFile, RemoteInput
from lakebed.kernel.files.waiting import Budget
from lakebed.kernel.orc import OrcReader

COLUMNS = [f"c{number}" for number in range(12)]
TAIL = 16 << 10


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
