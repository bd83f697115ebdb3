"""Large files in several splits, changes compared in parts, and streams whose branch moves."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import lakebed
from lakebed.errors import DataCleanedError, NotInHistoryError, UnsupportedError, UsageError
from lakebed.formats.iceberg.data_files import FileTask
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.stream import IcebergStream
from lakebed.formats.iceberg.read.task import Selection, read_task
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.tables.iceberg import commits
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))


ONE = Limits(commits=1)


def rows(*numbers: int, name: str = "n") -> list[dict[str, Any]]:
    return [{"id": number, "name": f"{name}{number}"} for number in numbers]


def large(tmp_path: Path, version: int = 2) -> tuple[Lake, FileTask]:
    lake = Lake(tmp_path / "t", SCHEMA, version=version, properties={"write.parquet.row-group-size-bytes": "65536"})
    lake.append(rows(*range(40_000)))
    (task,) = lake.tasks
    lake.delete_positions({task.data.path: range(0, 40_000, 3)})
    lake.delete_equal([{"id": 7}, {"id": 39_999}, {"id": 20_000}])
    (task,) = lake.tasks
    assert len(task.data.split_offsets) > 4
    return lake, task


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_splits_are_the_whole_file_and_positions_stay_right(tmp_path: Path, version: int) -> None:
    lake, task = large(tmp_path, version)
    wanted = [n for n in range(40_000) if n % 3 and n not in (7, 39_999, 20_000)]
    for size in (1, task.data.size // 3, task.data.size):
        splits = lakebed.open(lake.folder, {"split-size": str(size)}).plan_read(["id"]).splits
        assert sum(split.size for split in splits) in (task.data.size, task.data.size - 4)
        assert len({split.group for split in splits}) == len(splits) and (len(splits) > 1) == (size < task.data.size)
        found = [
            number
            for split in splits
            for batch in read_task(
                lake.table.operations.files,
                ReadContext.of(lake.table.table_metadata),
                task,
                Selection(["id", "_pos"], part=split.part),
            )
            for number, position in zip(*(c.to_pylist() for c in batch.columns), strict=True)
            if number == position or pytest.fail(f"row {number} at {position}")
        ]
        assert found == wanted
    table = lakebed.open(lake.folder, {"split-size": "20000"})
    plan = table.plan_read(["id"], "id > 39000")
    assert len(plan.splits) > 2
    assert sorted(run(plan, 2).read_all()["id"].to_pylist()) == [n for n in wanted if n > 39_000]


def test_lineage_columns_of_files_count_first(tmp_path: Path) -> None:
    """Row lineage that a rewrite wrote into a file is not inherited again; where it wrote null, it is."""
    lake = Lake(tmp_path / "t", SCHEMA, version=3)
    lake.append(rows(1, 2))
    lake.append(rows(3))
    found = lake.table.read(["id", "_row_id", "_last_updated_sequence_number"]).read_all().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(1, 0, 1), (2, 1, 1), (3, 2, 2)]
    with_where = lake.table.read(["_row_id"], "id = 3").read_all().to_pylist()
    assert with_where == [{"_row_id": 2}]


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["1 kb", "64 mb"])
@pytest.mark.parametrize("version", [2, 3])
def test_copy_on_write_carries_rows_over(tmp_path: Path, version: int, memory: str) -> None:
    """Repeated rows count as often as they occur. Removed rows come first even when rows are compared in parts."""
    lake = Lake(tmp_path / "t", SCHEMA, version=version)
    (old,) = lake.append([*rows(*range(500)), *rows(1, 1, 1)])
    kept = [*rows(*range(2, 500)), *rows(1, 1), *rows(0, name="new")]
    made = lake.write(kept)
    commits.row_delta(lake.table.operations, made, (), removed=[old])
    table = lakebed.open(lake.folder, {"lakebed.read.equality-delete-memory": memory})
    first = table.history()[0]
    changes = table.changes(after=first).read_all().to_pylist()
    if version == 2:
        found = Counter((row["_row_kind"], row["id"], row["name"]) for row in changes)
        assert found == {("-D", 0, "n0"): 1, ("-D", 1, "n1"): 2, ("+I", 0, "new0"): 1}
        kinds = [row["_row_kind"] for row in changes]
        assert kinds == sorted(kinds, key=["-D", "+I"].index)
    else:
        assert {row["_row_kind"] for row in changes} == {"-D", "+I"}  # the new file holds no ids: all rows are new


def opened(lake: Lake, **options: str) -> IcebergStream:
    table = lakebed.open(lake.folder, {key.replace("_", "."): value for key, value in options.items()})
    stream = table.stream()
    assert isinstance(stream, IcebergStream)
    return stream


def drained(stream: IcebergStream, start: str | None = None, limits: Limits = ONE) -> list[list[str]]:
    batches = []
    for _, plan in drain(stream, start, limits):
        found = run(plan, 1).read_all().to_pylist()
        batches.append(sorted(f"{row['_row_kind']}{row['id']}" for row in found))
    return batches


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """append 1 2; append 3; delete 1; append 4."""
    made = Lake(tmp_path / "t", SCHEMA)
    (first,) = made.append(rows(1, 2))
    made.append(rows(3))
    made.delete_positions({first.path: [0]})
    made.append(rows(4))
    return made


@pytest.mark.slow
def test_where_streams_start(lake: Lake) -> None:
    history = lake.table.history()
    assert drained(opened(lake)) == [["+I4"]]
    assert drained(opened(lake, **{"read.start-commit": "earliest"})) == [["+I2", "+I3", "+I4"]]
    assert drained(opened(lake, **{"read.start-commit": history[1].time})) == [["+I3"], ["-D1"], ["+I4"]]
    for moment in (history[1].completed, "2000-01-01"):
        found = drained(opened(lake, **{"read.start-commit": moment}))
        assert found[-3:] == [["+I3"], ["-D1"], ["+I4"]]
    assert drained(opened(lake, **{"stream-from-timestamp": "99999999999999"})) == []
    assert drained(opened(lake, **{"read.start-commit": history[0].time}), limits=Limits()) == [["+I2", "+I3", "+I4"]]


@pytest.mark.slow
def test_bounds_end_a_batch_before_the_snapshot_that_is_too_much(lake: Lake) -> None:
    first = lake.table.history()[0].time
    for bound in ({"streaming-max-rows-per-micro-batch": "3"}, {"streaming-max-files-per-micro-batch": "2"}):
        found = drained(opened(lake, **{"read.start-commit": first}, **bound), limits=Limits())
        assert found == [["+I2", "+I3"], ["+I4"]]
    found = drained(opened(lake, **{"read.start-commit": first, "read.commits.limit": "2"}), limits=Limits())
    assert found == [["+I1", "+I2", "+I3"], ["+I4", "-D1"]]


def test_appends_only_refuses_deletes_unless_told(lake: Lake) -> None:
    table = lake.table
    with pytest.raises(UnsupportedError, match="streaming-skip-delete-snapshots"):
        drained(table.stream(appends_only=True), limits=Limits())
    skipping = lakebed.open(lake.folder, {"streaming-skip-delete-snapshots": "true"})
    assert drained(skipping.stream(appends_only=True)) == [["+I1", "+I2"], ["+I3"], [], ["+I4"]]  # type: ignore[call-arg]


@pytest.mark.slow
def test_a_branch_that_was_rolled_back(lake: Lake) -> None:
    stream = opened(lake)
    (position, _), *_ = drain(stream, None, Limits())
    operations = lake.table.operations
    second = int(lake.table.history()[1].time)
    base = operations.load()
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": second}
    operations.commit(base, [], [ref])
    assert drained(stream, position) == [["+I1", "-D4"]]
    lake.append(rows(9))
    assert [sorted(b) for b in drained(stream, position)] == [["+I1", "+I9", "-D4"]]
    newest = lake.table.history()[-2]
    with pytest.raises(NotInHistoryError, match="not an ancestor"):
        lake.table.changes(after=newest)


def test_an_expired_position_says_so(lake: Lake) -> None:
    stream = opened(lake)
    start = stream.initial()
    operations = lake.table.operations
    third = int(lake.table.history()[2].time)
    operations.commit(operations.load(), [], [{"action": "remove-snapshots", "snapshot-ids": [third]}])
    with pytest.raises(DataCleanedError, match="expired"):
        drained(stream, start)
    with pytest.raises(UsageError, match="not a position"):
        stream.latest("nonsense", Limits())
    with pytest.raises(NotInHistoryError):
        lake.table.changes(after=third)


def test_an_empty_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t", SCHEMA)
    assert lake.table.read().read_all().num_rows == 0 == lake.table.changes().read_all().num_rows
    stream = opened(lake)
    start = stream.initial()
    assert stream.latest(start, Limits()) == start
    lake.append(rows(1))
    assert drained(stream, start) == [["+I1"]]
    assert isinstance(stream.schema, pa.Schema) and stream.schema.names[-1] == "_row_kind"
