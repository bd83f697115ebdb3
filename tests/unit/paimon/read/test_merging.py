"""Merged reads take a batch of each sorted run at a time, however the runs lie."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.read import merging, task
from lakebed.verbs.read import batches

COUNT = 200_000


def _table(folder: Path, kind: pa.DataType, options: dict[str, str] | None = None) -> Any:
    schema = pa.schema([pa.field("k", kind, False), ("v", pa.int64())])
    return lakebed.create(
        folder, "paimon", schema, ["k"], options={"bucket": "1", "write-only": "true", **(options or {})}
    )


def _rows(kind: pa.DataType, keys: range, value: int) -> pa.Table:
    names = [f"key {key:07d}" if pa.types.is_string(kind) else key for key in keys]
    schema = pa.schema([pa.field("k", kind, False), ("v", pa.int64())])
    return pa.table([names, [value] * len(names)], schema=schema)


def test_the_first_rows_come_before_most_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t", pa.int64())
    table.write(_rows(pa.int64(), range(COUNT), 0), "upsert")
    table.write(_rows(pa.int64(), range(0, COUNT, 40), 1), "upsert")
    decoded, read_batches = 0, task.read_batches

    def counted(*given: Any) -> Iterator[pa.RecordBatch]:
        nonlocal decoded
        for batch in read_batches(*given):
            decoded += len(batch)
            yield batch

    monkeypatch.setattr(task, "read_batches", counted)
    rows = batches(lakebed.open(tmp_path / "t").plan_read(), 1)
    assert next(rows).num_rows > 50_000
    assert decoded < COUNT // 2
    assert sum(batch.num_rows for batch in rows) < COUNT
    assert decoded == COUNT + COUNT // 40


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
@pytest.mark.parametrize("options", [{}, {"force-lookup": "true"}])
@pytest.mark.parametrize("bounds", [(0, 64, 16), (64 << 10, 64, 2), (0, 2, 2)])
def test_runs_in_memory_and_from_files_give_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, options: dict[str, str],
    bounds: tuple[int, int, int],
) -> None:  # fmt: skip
    table = _table(tmp_path / "t", kind, {**options, "target-file-size": "2 kb"})
    expected = {}
    for number, keys in enumerate([range(900), range(100, 500, 3), range(0, 1200, 7), range(450, 460)]):
        table.write(_rows(kind, keys, number), "upsert")
        expected |= dict.fromkeys(_rows(kind, keys, number)["k"].to_pylist(), number)
        if number == 1:
            table.rewrite(options={"write-only": "false"})
    for name, value in zip(("_WHOLE_ROWS", "_MOST_OPEN", "_MOST_RUNS"), bounds, strict=True):
        monkeypatch.setattr(merging, name, value)
    plan = lakebed.open(tmp_path / "t").plan_read()
    found = pa.Table.from_batches([batch for split in plan.splits for batch in plan.read(split)]).to_pydict()
    assert dict(zip(found["k"], found["v"], strict=True)) == expected
    assert found["k"] == sorted(found["k"])  # of short runs


@pytest.mark.parametrize("overlap", [False, True])
def test_the_newest_row_wins_with_and_without_sequence_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlap: bool
) -> None:
    """A short old file, which is read whole, a long newer one, and two of one time, whose numbers overlap."""
    monkeypatch.setattr(merging, "_WHOLE_ROWS", 100)
    table = _table(tmp_path / "t", pa.int64())
    table.write(_rows(pa.int64(), range(0, 200, 4), 0), "upsert")
    table.write(_rows(pa.int64(), range(2, 1000, 2), 1), "upsert")
    expected = dict.fromkeys(range(0, 200, 4), 0) | dict.fromkeys(range(2, 1000, 2), 1)
    if overlap:
        writers = [lakebed.open(tmp_path / "t").writer() for _ in range(2)]
        writers[0].write(_rows(pa.int64(), range(500, 503), 2))
        writers[1].write(_rows(pa.int64(), range(502, 499, -2), 3))  # 502 before 500
        for writer in writers:
            writer.commit(1, writer.prepare_commit())
        expected |= {501: 2, 502: 2, 500: 3}  # 502: the third row of one writer, the first of the other
    systems, read_batches = set[tuple[str, ...]](), task.read_batches

    def noted(*given: Any) -> Iterator[pa.RecordBatch]:
        systems.add(tuple(field.name for field in given[4]))
        return read_batches(*given)

    monkeypatch.setattr(task, "read_batches", noted)
    found = lakebed.open(tmp_path / "t").read().read_all().to_pydict()
    assert dict(zip(found["k"], found["v"], strict=True)) == expected
    assert len(found["k"]) == len(expected)
    assert systems == ({("_SEQUENCE_NUMBER", "_VALUE_KIND")} if overlap else {("_VALUE_KIND",)})


def test_rows_that_win_are_not_moved(tmp_path: Path) -> None:
    """A run of which every row wins is returned as it was decoded."""
    table = _table(tmp_path / "t", pa.int64())
    table.write(_rows(pa.int64(), range(0, 60_000, 2), 0), "upsert")
    table.write(_rows(pa.int64(), range(1, 60_001, 2), 1), "upsert")
    lengths = [batch.num_rows for batch in batches(lakebed.open(tmp_path / "t").plan_read(), 1)]
    assert lengths == [29_999, 29_999, 2]  # the last range of keys is short
