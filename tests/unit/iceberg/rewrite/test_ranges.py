"""One large group sorted by several tasks: the same order, files of the same sizes, and nothing left behind."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.data_files import FileTask
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.task import read_task
from lakebed.formats.iceberg.rewrite import groups, ranges
from lakebed.formats.iceberg.rewrite import task as rewrite_tasks
from lakebed.kernel.engine import LocalEngine
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "k", LongType()), NestedField(3, "x", DoubleType()),
    NestedField(4, "note", StringType()),
)  # fmt: skip
ROWS = 60_000


@pytest.fixture(autouse=True)
def small_groups_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "LEAST_BYTES", 1)


def some(start: int, count: int) -> pa.Table:
    random = np.random.default_rng(start)
    keys = pa.array(random.integers(0, 1000, count), mask=random.random(count) < 0.02)
    return pa.table({
        "id": np.arange(start, start + count), "k": keys, "x": random.random(count),
        "note": pa.array(random.integers(0, 2**60, count)).cast(pa.string()),
    })  # fmt: skip


def lake(folder: Path, version: int = 2, files: int = 6) -> Lake:
    made = Lake(folder / "t", SCHEMA, version=version)
    for number in range(files):
        made.append(some(number * ROWS // files, ROWS // files))
    return made


def target(made: Lake, files: int) -> dict[str, Any]:
    return {"rewrite-all": True, "target-file-size-bytes": sum(task.data.size for task in made.tasks) // files}


def rows_of(made: Lake, task: FileTask) -> pa.Table:
    context = ReadContext.of(made.table.table_metadata)
    return pa.Table.from_batches(read_task(made.table.operations.files, context, task))


def staged(made: Lake) -> list[Path]:
    return [path for path in (made.folder / "data").rglob("*") if "staging" in str(path)]


def key(row: dict[str, Any], name: str) -> tuple[bool, float]:
    return row[name] is not None, row[name] or 0


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("memory", [rewrite_tasks.MEMORY, 1 << 20])
def test_files_are_in_order_and_even(
    tmp_path: Path, threads: int, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake(tmp_path)
    before = made.rows()
    monkeypatch.setattr(rewrite_tasks.TaskRunner.__init__, "__defaults__", defaults(memory))
    used = watched(monkeypatch)
    result = made.table.rewrite(engine=LocalEngine(threads), options={**target(made, 5), "sort-order": "k, x desc"})
    assert made.rows() == before and not staged(made) and not made.orphans
    files = sorted((rows_of(made, task).to_pylist() for task in made.tasks), key=lambda rows: key(rows[0], "k"))
    pairs = [(*key(row, "k"), -row["x"]) for rows in files for row in rows]
    assert pairs == sorted(pairs)
    assert result.files_after == len(files) == result.plan[0].files_after
    sizes = [task.data.size for task in made.tasks]
    assert max(sizes) < 1.25 * min(sizes), sizes
    assert len(used) == threads  # all of them wrote


def defaults(memory: int) -> tuple[Any, ...]:
    known = rewrite_tasks.TaskRunner.__init__.__defaults__
    assert known is not None
    return tuple(memory if one == rewrite_tasks.MEMORY else one for one in known)


def watched(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The tasks that sort."""
    found: set[str] = set()
    real = ranges._RangeWriter.__call__

    def written(self: Any, task: Any) -> Any:
        found.add(task.name)
        return real(self, task)

    monkeypatch.setattr(ranges._RangeWriter, "__call__", written)
    return found


@pytest.mark.slow
def test_the_files_are_those_of_a_single_task_but_for_their_edges(tmp_path: Path) -> None:
    one, many = lake(tmp_path / "one"), lake(tmp_path / "many")
    for made, threads in ((one, 1), (many, 4)):
        options = {**target(made, 5), "sort-order": "zorder(k, x)"}
        made.table.rewrite(engine=LocalEngine(threads), options=options)
    assert len(many.tasks) == 5 and one.rows() == many.rows()
    order = {made: [rows_of(made, task)["id"].to_pylist() for task in made.tasks] for made in (one, many)}
    flat = [[id for part in order[made] for id in part] for made in (one, many)]
    assert sum(a == b for a, b in zip(*flat, strict=True)) > ROWS * 0.99  # rows of equal z-values may change places


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_deletes_are_applied_and_rows_keep_their_ids(tmp_path: Path, version: int) -> None:
    made = lake(tmp_path, version)
    files = made.tasks
    made.delete_positions({files[0].data.path: list(range(0, 9000, 3)), files[3].data.path: [0]})
    made.delete_equal([{"id": 15_000}, {"id": 59_999}])
    names = ["id", *(["_row_id", "_last_updated_sequence_number"] if version == 3 else [])]

    def lineage() -> list[Any]:
        return made.table.read(columns=names).read_all().sort_by("id").to_pylist()

    before = lineage()
    assert len(before) == ROWS - 3000 - 3
    options = {**target(made, 4), "sort-order": "k", "remove-dangling-deletes": True}
    made.table.rewrite(engine=LocalEngine(3), options=options)
    assert lineage() == before and not made.deletes and not staged(made)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["_KeySampler", "_RangeStager", "_RangeWriter"])
def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    made = lake(tmp_path)
    before, head = made.rows(), made.table.table_metadata.head()
    calls: list[int] = []
    lock = threading.Lock()
    real = {
        "_KeySampler": ranges.read_task,
        "_RangeStager": rewrite_tasks.read_task,
        "_RangeWriter": ranges.sorted_batches,
    }[where]

    def broken(*given: Any, **more: Any) -> Iterator[Any]:
        with lock:
            calls.append(1)
            last = len(calls) >= 3
        for batch in real(*given, **more):
            yield batch
            if last:
                raise CorruptError("a file cannot be read")

    owner = rewrite_tasks if where == "_RangeStager" else ranges
    monkeypatch.setattr(owner, "sorted_batches" if where == "_RangeWriter" else "read_task", broken)
    with pytest.raises(CorruptError, match="cannot be read"):
        made.table.rewrite(engine=LocalEngine(2), options={**target(made, 6), "sort-order": "k"})
    assert made.rows() == before and made.table.table_metadata.head() == head
    assert not made.orphans and not staged(made)


@pytest.mark.slow
def test_lost_rows_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake(tmp_path)
    real = ranges.sorted_batches
    monkeypatch.setattr(
        ranges, "sorted_batches", lambda *given, **more: (batch.slice(1) for batch in real(*given, **more))
    )
    with pytest.raises(CorruptError, match="would change their rows"):
        made.table.rewrite(engine=LocalEngine(2), options={**target(made, 6), "sort-order": "k"})
    assert not made.orphans and not staged(made)


@pytest.mark.slow
def test_groups_as_large_as_the_others_are_one_task_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Lake(tmp_path / "t", SCHEMA, partition_by=[("k", "identity")])
    for part, count in enumerate((20_000, 3000, 3000, 3000)):
        data = some(part * 20_000, count)
        made.append(data.set_column(1, "k", pa.array([part] * count)), (part,), files=4 if part else 2)
    used = watched(monkeypatch)
    made.table.rewrite(engine=LocalEngine(2), options={**target(made, 8), "sort-order": "x"})
    assert len({name.rsplit("-", 1)[0] for name in used}) == 1 and len(used) == 2  # the large one by both
