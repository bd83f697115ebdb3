"""What reads, upserts and compactions hold and decode depends on the file groups at hand, not on the table's size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.hudi.read import files
from lakebed.kernel.engine import LocalEngine

ROWS = 10_000
QUIET = {"hoodie.metadata.enable": "false", "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def rows_of(parts: range, generation: int, step: int = 1) -> pa.Table:
    numbers = np.concatenate([np.arange(part * ROWS, (part + 1) * ROWS, step) for part in parts])
    return pa.table(
        {
            "id": pa.array(numbers).cast(pa.string()),
            "part": pa.array(numbers // ROWS).cast(pa.string()),
            "ts": np.full(len(numbers), generation),
            "text": pa.array(numbers * 7919).cast(pa.string()),
        }
    )


def table_of(location: Path, kind: str, parts: int) -> lakebed.Table:
    """A table with one file group per partition, half of whose rows are in the log where it has logs."""
    rows = rows_of(range(parts), 1)
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.precombine.field": "ts",
    }
    keys = {"primary_key": ["id"], "partition_by": ["part"]}
    table = lakebed.create(location, "hudi", rows.schema, **keys, options=options)  # type: ignore[arg-type]
    table.write(rows, options={**QUIET, "hoodie.datasource.write.operation": "bulk_insert"})
    table.write(rows_of(range(parts), 2, step=2), mode="upsert", options=QUIET)
    return table


@contextmanager
def counted_memory() -> Iterator[pa.MemoryPool]:
    """Arrow's memory within a block, apart from what it holds already."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


def test_reads_and_compactions_hold_as_much_of_a_larger_table(tmp_path: Path) -> None:
    peaks: dict[str, list[int]] = {"read": [], "compact": []}
    for parts in (4, 12):
        table = table_of(tmp_path / str(parts), "MERGE_ON_READ", parts)
        with counted_memory() as pool:
            assert sum(batch.num_rows for batch in table.read()) == parts * ROWS
        peaks["read"].append(pool.max_memory())
        with counted_memory() as pool:
            table.rewrite(options={"hoodie.compact.inline.max.delta.commits": 1}, engine=LocalEngine(2))
        peaks["compact"].append(pool.max_memory())
    for small, large in peaks.values():
        assert large < 2 * small  # of four times as many file groups


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_upsert_decodes_as_many_rows_of_a_larger_table(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    whole = files.OpenBaseFile._decoded

    def counted(self: files.OpenBaseFile, *given: object) -> Iterator[pa.RecordBatch]:
        for batch in whole(self, *given):  # type: ignore[arg-type]
            decoded.append(batch.num_rows)
            yield batch

    totals = []
    for parts in (2, 8):
        table = table_of(tmp_path / str(parts), kind, parts)
        monkeypatch.setattr(files.OpenBaseFile, "_decoded", counted)
        decoded.clear()
        table.write(rows_of(range(1), 3, step=100), mode="upsert", options=QUIET)
        totals.append(sum(decoded))
        monkeypatch.undo()
    assert totals[0] == totals[1]
    assert kind == "MERGE_ON_READ" or totals[0] >= ROWS
