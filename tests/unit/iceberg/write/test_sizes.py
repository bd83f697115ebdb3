"""Files follow the bytes of each partition at any number of tasks, one file is open at a time, and the sort order is
kept."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

import lakebed
from lakebed.formats.iceberg.data_files import DataFile
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.formats.iceberg.write.files import RollingWriter
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.sizing.file_counts import in_bounds
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.verbs.write import Mode, finalize_and_commit
from tests.tables.iceberg.create import make_table

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "part", StringType()),
    NestedField(3, "value", DoubleType()),
    NestedField(4, "text", StringType()),
)
TARGET = 120_000
ROWS = 60_000
BY_VALUE = SortField(3, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST)


def skewed(rows: int = ROWS, seed: int = 1) -> pa.Table:
    """Rows of which nine in ten lie in one partition. Texts repeat only in the first half of the rows."""
    chance = np.random.default_rng(seed)
    parts = np.where(chance.random(rows) < 0.9, "a", chance.choice(["b", "c", "d"], rows))
    texts = np.where(
        np.arange(rows) < rows // 2, "the same text again", np.char.mod("%d", chance.integers(0, 9**9, rows))
    )
    return pa.table(
        {"id": np.arange(rows), "part": parts.astype(str), "value": chance.random(rows), "text": texts.astype(str)}
    )  # fmt: skip


def files_of(table: IcebergTable) -> dict[tuple[Any, ...], list[DataFile]]:
    metadata = table.table_metadata
    found: dict[tuple[Any, ...], list[DataFile]] = defaultdict(list)
    for task in scan_tasks(table.operations.files, metadata, metadata.head()):
        assert task.data.size == table.operations.files.size(task.data.path)
        found[task.data.partition].append(task.data)
    return found


def write_by_tasks(table: IcebergTable, data: pa.Table, tasks: int, **options: object) -> None:
    """A write as an engine runs it, with this number of tasks in both halves."""
    sink = table.sink(Mode.APPEND, options={"target-file-size-bytes": TARGET, **options})
    plan = sink.plan(tasks)
    messages: list[Any] = []
    size = -(-len(data) // tasks)
    for start in range(0, len(data), size):
        writer = plan.task_writer()
        for batch in data.slice(start, size).to_batches(max_chunksize=4000):
            writer.write(batch)
        messages += writer.finish()
    finalize_and_commit(sink, plan, messages, LocalEngine(tasks), BATCH_IDENTIFIER)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [2, 4, 8, 16])
@pytest.mark.parametrize("by", [[("part", "identity")], []], ids=["partitioned", "one bucket"])
def test_files_a_bucket_follow_its_bytes(tmp_path: Path, by: list[tuple[str, str]], tasks: int) -> None:
    table, data = make_table(tmp_path / "t", SCHEMA, by), skewed()
    write_by_tasks(table, data, tasks)
    counts = {}
    for partition, files in files_of(table).items():
        size = sum(file.size for file in files)
        assert in_bounds(len(files), size, TARGET, int(1.4 * TARGET)), (partition, [file.size for file in files])
        counts[partition] = len(files)
    assert sum(counts.values()) > 5 and (not by or counts["b",] == 1)
    assert table.read().read_all().sort_by("id").equals(data.cast(table.schema))
    assert [path.name for path in (tmp_path / "t" / "data").iterdir() if "staging" in path.name] == []


def test_one_process_writes_by_the_same_rule(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", SCHEMA, [("part", "identity")], 2, {"write.target-file-size-bytes": str(TARGET)})
    table.write(skewed(), options={"lakebed.write.buffer-bytes": "256 kb"})
    for files in files_of(table).values():
        assert in_bounds(len(files), sum(file.size for file in files), TARGET, int(1.4 * TARGET))


@pytest.mark.slow
def test_many_partitions_have_one_file_each_and_one_is_open_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data = make_table(tmp_path / "t", SCHEMA, [("id", "bucket[200]")]), skewed(20_000)
    opened: dict[int, int] = defaultdict(int)
    most = 0

    class Counting(RollingWriter):
        def _flush(self, limit: int) -> None:
            nonlocal most
            if self._open is None:
                opened[threading.get_ident()] += 1
                most = max(most, opened[threading.get_ident()])
            super()._flush(limit)

        def close_file(self, flush: bool = True) -> None:
            super().close_file(flush)
            if self.closed:
                opened[threading.get_ident()] = 0

    monkeypatch.setattr("lakebed.formats.iceberg.write.file_maker.RollingWriter", Counting)
    write_by_tasks(table, data, 4)
    assert [len(files) for files in files_of(table).values()] == [1] * 200
    assert most == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["range", "none"])
def test_a_sort_order_is_followed(tmp_path: Path, mode: str) -> None:
    table = make_table(tmp_path / "t", SCHEMA, [("part", "identity")], sort_by=[BY_VALUE])
    write_by_tasks(table, skewed(), 4, **({} if mode == "range" else {"distribution-mode": mode}))
    for files in files_of(table).values():
        spans = []
        for file in files:
            assert file.sort_order_id == 1
            values = pq.read_table(file.path, partitioning=None)["value"].to_numpy()
            assert (np.diff(values) <= 0).all()
            spans.append((values.min(), values.max()))
        spans.sort()
        apart = all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
        assert apart or mode == "none"
        assert in_bounds(len(files), sum(file.size for file in files), TARGET, int(1.4 * TARGET))
    assert pc.sum(table.read().read_all()["id"]).as_py() == sum(range(ROWS))


def test_the_target_is_that_of_the_call_then_of_the_table(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", SCHEMA, [], 2, {"write.target-file-size-bytes": str(10**9)})
    table.write(skewed(20_000))
    assert len(files_of(table)[()]) == 1
    table.write(skewed(20_000), "overwrite", {"write.target-file-size-bytes": 60_000})
    assert len(files_of(table)[()]) > 2
    with pytest.raises(lakebed.errors.OptionError, match="target-file-size-bytes"):
        table.write(skewed(10), options={"target-file-size-byte": 1})
