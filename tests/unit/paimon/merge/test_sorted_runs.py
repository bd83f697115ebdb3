"""Sorted runs come together by key, whatever their batches: nothing lost, no key in two pieces, little in memory."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.formats.paimon.merge.sorted_runs import merge_sorted

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string()), ("run", pa.int64()), ("place", pa.int64())])
Key = tuple[int, str]


def batches(keys: list[Key], run: int, rows: int) -> Iterator[pa.RecordBatch]:
    columns = [
        [a for a, _ in keys], [b for _, b in keys], [run] * len(keys), list(range(len(keys))),
    ]  # fmt: skip
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    yield from table.to_batches(max_chunksize=rows)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["", "x", "ü", "long" * 5])), max_size=30), max_size=5
    ),
    st.integers(1, 7),
)
def test_every_row_comes_once_and_keys_together(runs: list[list[Key]], rows: int) -> None:
    ordered = [sorted(keys, key=lambda key: (key[0], key[1].encode())) for keys in runs]
    pieces = list(merge_sorted([batches(keys, run, rows) for run, keys in enumerate(ordered)], ["a", "b"]))
    found = [row for piece in pieces for row in piece.to_pylist()]
    wanted = [(key, run, place) for run, keys in enumerate(ordered) for place, key in enumerate(keys)]
    assert sorted(((row["a"], row["b"]), row["run"], row["place"]) for row in found) == sorted(wanted)
    ranges = []
    for piece in pieces:
        keys = [(row["a"], row["b"].encode()) for row in piece.to_pylist()]
        ranges.append((min(keys), max(keys)))
        for run in range(len(runs)):  # a run's rows stay in order, and runs in the order given
            places = [row["place"] for row in piece.to_pylist() if row["run"] == run]
            assert places == sorted(places)
        assert piece["run"].to_pylist() == sorted(piece["run"].to_pylist())
        assert all(column.num_chunks == 1 for column in piece.columns)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))


def test_one_batch_of_each_run_is_held() -> None:
    taken = [0, 0]

    def run(number: int) -> Iterator[pa.RecordBatch]:
        for batch in batches([(key, "") for key in range(number, 1000, 2)], number, 10):
            taken[number] += 1
            yield batch

    seen = 0
    for piece in merge_sorted([run(0), run(1)], ["a", "b"]):
        seen += len(piece)
        assert sum(taken) * 10 <= seen + 40
    assert seen == 1000


@pytest.mark.parametrize("runs", [[], [[]], [[], [(1, "a")]]])
def test_empty_runs(runs: list[list[Key]]) -> None:
    made = list(merge_sorted([batches(keys, 0, 2) for keys in runs], ["a"]))
    assert sum(map(len, made)) == sum(map(len, runs))


@pytest.mark.parametrize("name", [".", "..", ".id", "[0]", "a.b"])
def test_keys_whose_names_look_like_paths(tmp_path: Path, name: str) -> None:
    schema = pa.schema([pa.field(name, pa.int64(), False), ("id", pa.int64())])
    table = lakebed.create(tmp_path / "t", "paimon", schema, primary_key=[name], options={"bucket": "1"})
    for first in range(4):
        table.write(pa.table([range(first, first + 3), [9, 8, first]], schema=schema), "upsert")
    assert sorted(table.to_arrow().column(name).to_pylist()) == [0, 1, 2, 3, 4, 5]
