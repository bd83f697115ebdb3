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
    assert found["k"] == sorted(found["k"])
