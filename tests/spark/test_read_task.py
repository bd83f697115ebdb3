"""What one Spark task does with its splits: on a remote store several wait for requests while one is decoded."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.read import splits
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.files.waiting import waiting
from lakebed.model.split import Split
from lakebed.spark import worker
from lakebed.spark.read import read_tasks
from lakebed.verbs.many_splits import ManySplits, StreamedSplits
from lakebed.verbs.read import ReadPlan

SCHEMA = pa.schema([pa.field("split", pa.int64())])


@dataclass(frozen=True, slots=True)
class _Numbered(Split):
    number: int


@dataclass
class _Reader:
    """Reads a split as three batches. The first of them comes after a request that `together` splits must have made."""

    together: int
    decoding: list[int] = field(default_factory=list)
    most_decoding: int = 0

    def __post_init__(self) -> None:
        self._requests = threading.Barrier(self.together, timeout=20)

    def __call__(self, split: _Numbered) -> Iterator[pa.RecordBatch]:
        with waiting():
            if self.together > 1:
                self._requests.wait()
        for _ in range(3):
            self.decoding.append(split.number)
            self.most_decoding = max(self.most_decoding, len(self.decoding))
            self.decoding.remove(split.number)
            yield pa.record_batch([pa.array([split.number])], schema=SCHEMA)


def _plan(reader: _Reader, groups: list[str], at_once: int) -> ReadPlan[_Numbered]:
    splits = tuple(_Numbered(group, 10, number) for number, group in enumerate(groups))
    return ReadPlan(SCHEMA, splits, reader, at_once=at_once)


def _rows(plan: ReadPlan[_Numbered]) -> list[int]:
    (task,) = read_tasks(plan, 1, 1)
    return [number for batch in task.batches() for number in batch.column(0).to_pylist()]


def test_on_a_disk_one_split_follows_the_other() -> None:
    assert _rows(_plan(_Reader(1), ["a", "b", "a"], 1)) == [0, 0, 0, 2, 2, 2, 1, 1, 1]


def test_on_a_remote_store_groups_wait_together_and_one_is_decoded() -> None:
    reader = _Reader(4)
    rows = _rows(_plan(reader, ["a", "b", "c", "d"], 64))
    assert sorted(rows) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert reader.most_decoding == 1


def test_splits_of_one_group_stay_in_order() -> None:
    rows = _rows(_plan(_Reader(2), ["a", "b", "a", "b", "a", "b"], 64))
    assert [number for number in rows if number % 2 == 0] == [0, 0, 0, 2, 2, 2, 4, 4, 4]
    assert [number for number in rows if number % 2] == [1, 1, 1, 3, 3, 3, 5, 5, 5]


def test_an_error_of_a_split_is_raised_in_the_task() -> None:
    def fail(split: Split) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([1])], schema=SCHEMA)
        raise ValueError(f"{split.group} cannot be read")

    (task,) = read_tasks(ReadPlan(SCHEMA, (Split("a", 1), Split("b", 1)), fail, at_once=8), 1, 1)
    with pytest.raises(ValueError, match="cannot be read"):
        list(task.batches())


@dataclass(frozen=True, slots=True, eq=False)
class _Numbers(ManySplits[_Numbered]):
    """Splits that tell which of them were made."""

    numbers: Int64s
    sizes: Int64s
    told: list[int]

    def made(self, places: Int64s) -> Iterator[_Numbered]:
        for number in self.numbers[places].tolist():
            self.told.append(number)
            yield _Numbered(str(number), 1, number)

    def taken(self, places: Int64s) -> _Numbers:
        return _Numbers(self.numbers[places], self.sizes[places], self.told)


@pytest.mark.parametrize("at_once", [1, 8])
@pytest.mark.parametrize("streamed", [False, True])
def test_many_splits_are_packed_by_their_columns_and_made_once_by_their_tasks(at_once: int, streamed: bool) -> None:
    told: list[int] = []
    whole = _Numbers(np.arange(10), np.arange(10), told)
    many: Sequence[_Numbered] = StreamedSplits(lambda: iter((whole,)), lambda: whole) if streamed else whole
    tasks = read_tasks(ReadPlan(SCHEMA, many, _Reader(1), at_once=at_once), 4, 1)
    assert not told and [len(task.plan.splits) for task in tasks] == [3, 3, 2, 2]
    read = [number for task in tasks for batch in task.batches() for number in batch.column(0).to_pylist()]
    assert sorted(read) == sorted([*range(10)] * 3) and sorted(told) == [*range(10)]


def test_the_splits_of_many_paimon_files_reach_their_tasks_as_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"write-only": "true", "source.split.target-size": "1 b"}
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, [], [], options)
    for number in range(9):
        table.write(pa.table({"split": [number] * (number + 1)}))
    made, file_values = 0, splits.file_values

    def counted(files: pa.Table) -> Iterator[Any]:
        nonlocal made
        made += len(files)
        return file_values(files)

    monkeypatch.setattr(splits, "MANY", 0)
    monkeypatch.setattr(splits, "file_values", counted)
    plan = table.plan_read()
    payloads = [worker.pack(task) for task in read_tasks(plan, 4, 1)]
    assert (len(payloads), len(plan.splits), made) == (4, 9, 0)
    tasks = [worker.unpack(payload) for payload in payloads]
    assert sorted(len(task.plan.splits) for task in tasks) == [2, 2, 2, 3]
    rows = [number for task in tasks for batch in task.batches() for number in batch.column(0).to_pylist()]
    assert sorted(rows) == [number for number in range(9) for _ in range(number + 1)]
    assert made == 9


@pytest.mark.parametrize(
    ("gigabytes", "slots", "tasks"), [(1, 200, 200), (64, 8, 953), (10_000, 8, 4096), (10_000, 500, 8000)]
)
def test_much_data_has_more_tasks_than_slots_but_not_ever_more(gigabytes: int, slots: int, tasks: int) -> None:
    sizes = np.full(10_000, gigabytes * 10**9 // 10_000)
    packed = read_tasks(ReadPlan(SCHEMA, _Numbers(np.arange(10_000), sizes, []), _Reader(1)), None, slots)
    assert len(packed) == tasks
    assert max(len(task.plan.splits) for task in packed) - min(len(task.plan.splits) for task in packed) <= 1
    assert not read_tasks(ReadPlan(SCHEMA, _Numbers(np.arange(0), np.arange(0), []), _Reader(1)), None, slots)
