"""Rewrites of tables made file by file: strategies, deletes, lineage, partial progress, failures, other writers."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

import lakebed
from lakebed.errors import CommitConflictError, CommitUnknownError, CorruptError, DataCleanedError, OptionError
from lakebed.formats.iceberg.catalog.table import OutcomeUnknownError
from lakebed.formats.iceberg.codec.metadata import metadata_to_json
from lakebed.formats.iceberg.rewrite import task as rewrite_tasks
from lakebed.formats.iceberg.rewrite.run import IcebergRewrite
from lakebed.formats.iceberg.rewrite.scan import LiveFiles
from lakebed.kernel.engine import LocalEngine
from tests.tables.iceberg import commits
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "part", StringType()),
    NestedField(3, "x", IntegerType()),
    NestedField(4, "note", StringType()),
    NestedField(5, "ratio", DoubleType()),
)
BY_PART = {"partition_by": [("part", "identity")]}
SMALL = {"min-input-files": 2}
ENCODE = {"lakebed.rewrite.concat-min-row-group-bytes": 1 << 40}


def some(start: int, count: int, part: str | None = None) -> list[dict[str, Any]]:
    return [
        {"id": n, "part": part, "x": n * 7 % 101, "note": f"note {n}" if n % 5 else None, "ratio": n / 3}
        for n in range(start, start + count)
    ]


def lake(folder: Path, **how: Any) -> Lake:
    return Lake(folder / "table", SCHEMA, **how)


# ---- how many files --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("way", [{}, ENCODE], ids=["joined", "encoded"])
def test_files_a_partition_do_not_depend_on_parallelism(tmp_path: Path, threads: int, way: dict[str, Any]) -> None:
    made = lake(tmp_path, **BY_PART)
    for number in range(10):
        made.append(some(100 * number, 20, f"p{number}"), (f"p{number}",), files=4)
    before = made.rows()
    result = made.table.rewrite(engine=LocalEngine(threads), options={**SMALL, **way})
    assert (result.files_before, result.files_after) == (40, 10)
    assert len({task.data.partition for task in made.tasks}) == 10 == len(made.tasks)
    assert made.rows() == before


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_partition_of_five_targets_becomes_five_files_of_about_that_size(tmp_path: Path, threads: int) -> None:
    """Files have the target size on disk at any parallelism, however well rows compress."""
    made = lake(tmp_path, properties={"write.parquet.compression-codec": "zstd"})
    random = np.random.default_rng(0)
    for start in range(0, 400_000, 20_000):
        rows = pa.table(
            {
                "id": np.arange(start, start + 20_000),
                "part": ["x"] * 20_000,
                "x": pa.array(np.arange(20_000) % 50, pa.int32()),
                "note": pa.array(random.integers(0, 10**12, 20_000)).cast(pa.string()),
                "ratio": np.zeros(20_000),
            }
        )
        made.append(rows, properties={"write.parquet.compression-codec": "snappy"})
    target = sum(made.sizes) // 5
    result = made.table.rewrite(engine=LocalEngine(threads), options={**ENCODE, "target-file-size-bytes": target})
    assert result.groups == 1
    after = sorted(made.sizes)
    assert -(-sum(after) // (target * 7 // 5)) <= len(after) <= -(-result.bytes_before // target)
    assert all(0.75 * target <= size <= 1.4 * target for size in after[1:])
    assert not made.table.rewrite(options={"target-file-size-bytes": target}).groups


@pytest.mark.slow
def test_a_large_file_is_split(tmp_path: Path) -> None:
    made = lake(tmp_path)
    random = np.random.default_rng(0)
    made.append(
        pa.table(
            {
                "id": np.arange(200_000), "part": ["x"] * 200_000, "x": pa.array(np.arange(200_000) % 50, pa.int32()),
                "note": pa.array(random.integers(0, 10**12, 200_000)).cast(pa.string()),
                "ratio": random.random(200_000),
            }
        )
    )  # fmt: skip
    target = made.sizes[0] // 4
    result = made.table.rewrite(options={"target-file-size-bytes": target})
    assert 4 <= result.files_after <= 5 and max(made.sizes) <= 1.4 * target
    assert made.table.read(["id"]).read_all().num_rows == 200_000


@pytest.mark.slow
def test_a_second_run_plans_nothing_and_time_travel_works(tmp_path: Path) -> None:
    made = lake(tmp_path)
    made.append(some(0, 200), files=200)
    start, before = made.table.table_metadata.head(), made.rows()
    assert start is not None
    assert made.table.rewrite().files_before == 200
    head = made.table.table_metadata.head()
    assert head is not None and head.operation == "replace"
    assert made.rows() == before == made.rows(as_of=start.snapshot_id)
    assert made.table.rewrite().instants == ()
    summary = head.summary
    assert (summary["added-data-files"], summary["deleted-data-files"], summary["total-records"]) == ("1", "200", "200")


def test_nothing_happens_to_an_empty_table_and_a_lone_file(tmp_path: Path) -> None:
    made = lake(tmp_path)
    assert made.table.rewrite().groups == 0
    made.append(some(0, 3))
    result = made.table.rewrite()
    assert result.instants == () and "alone" in result.skipped[0].reason


@pytest.mark.slow
def test_where_chooses_files_that_may_match(tmp_path: Path) -> None:
    made = lake(tmp_path, **BY_PART)
    for day in range(7):
        made.append(some(100 * day, 10, f"d{day}"), (f"d{day}",), files=5)
    result = made.table.rewrite(where="part >= 'd5'")
    assert sorted(group.what for group in result.plan) == ["part_0=d5", "part_0=d6"]
    assert len(made.tasks) == 25 + 2


# ---- the fast way ----------------------------------------------------------------------------------------------------


def test_joined_files_have_the_figures_of_their_inputs(tmp_path: Path) -> None:
    made = lake(tmp_path)
    for number in range(5):
        made.append(some(10 * number, 10))
    result = made.table.rewrite(options={"lakebed.rewrite.concat-min-row-group-bytes": 1})
    assert result.notes == ("1 file was joined without decoding its rows",)
    (task,) = made.tasks
    assert pq.read_metadata(task.data.path).num_row_groups == 5 == len(task.data.split_offsets)
    metrics = Lake.metrics_of(made)[task.data.path]
    assert metrics.value_counts == dict.fromkeys(range(1, 6), 50)
    assert metrics.null_value_counts == {1: 0, 2: 50, 3: 0, 4: 10, 5: 0}
    assert metrics.nan_value_counts == {5: 0}
    assert metrics.lower_bounds[1] == (0).to_bytes(8, "little") and metrics.upper_bounds[1] == (49).to_bytes(
        8, "little"
    )
    assert metrics.upper_bounds[4] == b"note 9" and 2 not in metrics.lower_bounds


def test_small_row_groups_are_not_kept(tmp_path: Path) -> None:
    made = lake(tmp_path)
    for number in range(5):
        made.append(some(10 * number, 10))
    assert made.table.rewrite().notes == ()
    assert pq.read_metadata(made.tasks[0].data.path).num_row_groups == 1


def test_files_that_turn_out_to_differ_are_decoded(tmp_path: Path) -> None:
    made = lake(tmp_path)
    for number in range(5):
        codec = "snappy" if number == 3 else "zstd"
        made.append(some(10 * number, 10), properties={"write.parquet.compression-codec": codec})
    before = made.rows()
    result = made.table.rewrite(options={"lakebed.rewrite.concat-min-row-group-bytes": 1})
    assert "snappy" in result.notes[0] and made.rows() == before


@pytest.mark.slow
def test_files_with_deletes_are_decoded(tmp_path: Path) -> None:
    made = lake(tmp_path)
    for number in range(5):
        made.append(some(10 * number, 10))
    made.delete_positions({made.tasks[0].data.path: [0]})
    result = made.table.rewrite(options={"lakebed.rewrite.concat-min-row-group-bytes": 1})
    assert result.notes == () and len(made.rows()) == 49


# ---- order -----------------------------------------------------------------------------------------------------------

BY_X = [SortField(3, IdentityTransform())]


def column(task: Any, name: str) -> list[Any]:
    found: list[Any] = pq.read_table(task.data.path, partitioning=None)[name].to_pylist()
    return found


def test_a_bin_pack_follows_the_order_of_the_table(tmp_path: Path) -> None:
    made = lake(tmp_path, sort_by=BY_X)
    for number in range(4):
        made.append(some(100 * number, 50))
    made.table.rewrite(options=SMALL)
    (task,) = made.tasks
    assert column(task, "x") == sorted(column(task, "x")) and task.data.sort_order_id == 1
    assert len(column(task, "x")) == 200


def test_another_order_has_no_id(tmp_path: Path) -> None:
    made = lake(tmp_path, sort_by=BY_X)
    for number in range(4):
        made.append(some(100 * number, 50))
    made.table.rewrite(options={**SMALL, "sort-order": "note desc nulls last, id"})
    (task,) = made.tasks
    notes = column(task, "note")
    assert notes == sorted((n for n in notes if n), reverse=True) + [None] * notes.count(None)
    assert task.data.sort_order_id in (None, 0)


@pytest.mark.slow
def test_z_order_brings_both_columns_together(tmp_path: Path) -> None:
    made = lake(tmp_path)
    random = np.random.default_rng(3)
    for _ in range(4):
        ids, xs = random.integers(0, 1024, 4096), random.integers(0, 1024, 4096)
        rows = [
            {"id": int(a), "part": None, "x": int(b), "note": None, "ratio": None} for a, b in zip(ids, xs, strict=True)
        ]
        made.append(rows)
    before = made.rows()
    made.table.rewrite(options={**SMALL, "sort-order": "zorder(id, x)"})
    assert made.rows() == before
    (task,) = made.tasks
    ids, xs = np.array(column(task, "id")), np.array(column(task, "x"))
    spans = [
        (np.ptp(ids[n : n + 1024]) + 1) * (np.ptp(xs[n : n + 1024]) + 1) / 1024**2
        for n in range(0, len(ids) - 1023, 1024)
    ]
    assert np.mean(spans) < 0.25  # by one column alone, a sixteenth of the rows spans all of the other


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"sort-order": "nothing"}, "nothing"),
        ({"strategy": "sort"}, "none of its own"),
        ({"strategy": "binpack", "sort-order": "x"}, "binpack"),
        ({"sort-order": "zorder()"}, "zorder"),
        ({"sort-order": "x upwards"}, "expected"),
    ],
)
def test_orders_that_cannot_be(tmp_path: Path, given: dict[str, Any], why: str) -> None:
    made = lake(tmp_path)
    made.append(some(0, 3))
    with pytest.raises(OptionError, match=why):
        made.table.rewrite(options=given)


@pytest.mark.slow
def test_overlap_is_measured_and_chooses_until_a_sort_has_ended_it(tmp_path: Path) -> None:
    made = lake(tmp_path)
    for number in range(6):
        made.append([{**row, "x": n * 17 % 1000} for n, row in enumerate(some(1000 * number, 1000))])
    size = max(made.sizes)
    options = {
        "strategy": "sort", "sort-order": "x", "target-file-size-bytes": size, "min-file-size-bytes": 0,
        "max-file-size-bytes": 3 * size,
    }  # fmt: skip
    assert not made.table.rewrite(options=options).groups
    options["lakebed.rewrite.max-overlap-depth"] = 1
    planned = made.table.rewrite(dry_run=True, options=options)
    assert "6 overlapped more than 1 deep" in planned.plan[0].reason
    before = made.rows()
    made.table.rewrite(options=options)
    assert made.rows() == before and len(made.tasks) >= 2
    ends = sorted((min(column(task, "x")), max(column(task, "x"))) for task in made.tasks)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(ends))
    assert not made.table.rewrite(options=options).groups


@pytest.mark.slow
def test_each_partition_has_its_own_count_in_a_sort(tmp_path: Path) -> None:
    made = lake(tmp_path, **BY_PART)
    for number in range(8):
        made.append(some(10_000 * number, 4000, "large"), ("large",))
    made.append(some(500_000, 4000, "small"), ("small",), files=2)
    target = sum(task.data.size for task in made.tasks if task.data.partition == ("large",)) // 4
    made.table.rewrite(options={**SMALL, "strategy": "sort", "sort-order": "id", "target-file-size-bytes": target})
    counts = [task.data.partition[0] for task in made.tasks]
    assert counts.count("large") in (3, 4) and counts.count("small") == 1  # sorted rows compress a little better


@pytest.mark.slow
def test_a_sort_beyond_memory_is_the_same_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake(tmp_path)
    for number in range(6):
        made.append(some(20_000 * number, 20_000))
    before = made.rows()
    planned = IcebergRewrite.planned(made.table.operations, "main", None, {"sort-order": "x, id"})
    real = rewrite_tasks.sorted_batches
    monkeypatch.setattr(rewrite_tasks, "sorted_batches", lambda batches, keys, memory: real(batches, keys, 1 << 20))
    planned.run()
    assert made.rows() == before
    (task,) = made.tasks
    pairs = list(zip(column(task, "x"), column(task, "id"), strict=True))
    assert pairs == sorted(pairs)


# ---- deletes and lineage ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_and_their_deletes_are_gone(tmp_path: Path, version: int) -> None:
    made = lake(tmp_path, version=version)
    files = [made.append(some(10 * n, 10))[0] for n in range(4)]
    made.delete_positions({files[0].path: [0, 1], files[2].path: [9]})
    made.delete_equal([{"id": 15}, {"id": 38}])
    made.append(some(100, 1))
    before = made.rows()
    assert len(before) == 36
    result = made.table.rewrite(options={**SMALL, "remove-dangling-deletes": True})
    assert made.rows() == before and not made.deletes
    assert result.removed_deletes == 3
    head = made.table.table_metadata.head()
    assert head is not None and head.summary["total-delete-files"] == "0"
    assert head.summary["total-records"] == "36"


@pytest.mark.slow
def test_survivors_keep_their_ids_and_last_changes(tmp_path: Path) -> None:
    made = lake(tmp_path, version=3)
    files = [made.append(some(6 * n, 6))[0] for n in range(3)]
    made.delete_positions({files[1].path: [0, 3]})
    columns = ["id", "_row_id", "_last_updated_sequence_number"]

    def lineage() -> list[tuple[Any, ...]]:
        found = made.table.read(columns).read_all()
        return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))

    before = lineage()
    assert len(before) == 16
    for _ in range(2):  # the second time from files that hold the ids themselves
        made.table.rewrite(options={"rewrite-all": True})
        assert lineage() == before
    made.append(some(100, 2))
    assert len({row[1] for row in lineage()}) == 18


@pytest.mark.slow
def test_files_that_hold_their_lineage_are_joined(tmp_path: Path) -> None:
    made = lake(tmp_path, version=3, **BY_PART)
    for number in range(3):
        made.append(some(10 * number, 10, "a"), ("a",), files=2)
        made.table.rewrite(where=f"id >= {10 * number}", options={"rewrite-all": True, **ENCODE})
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    before = sorted(map(str, made.table.read(columns).read_all().to_pylist()))
    result = made.table.rewrite(options={**SMALL, "lakebed.rewrite.concat-min-row-group-bytes": 1})
    assert result.notes and "joined" in result.notes[0]
    assert sorted(map(str, made.table.read(columns).read_all().to_pylist())) == before


@pytest.mark.slow
def test_dead_equality_deletes_go_without_a_rewrite(tmp_path: Path) -> None:
    """A delete is dangling when no live file of its partition is older."""
    made = lake(tmp_path, **BY_PART)
    made.append(some(0, 2, "q"), ("q",))  # 1
    made.append(some(10, 2, "p"), ("p",))  # 2
    made.delete_equal([{"id": 99}], ("p",), bounds=False)  # 3: after the file of 2
    metadata = made.table.table_metadata
    old = [task.data for task in made.tasks if task.data.partition == ("p",)]
    commits.replace(made.table.operations, metadata.head().snapshot_id, old, made.write(some(10, 2, "p"), ("p",)))  # type: ignore[union-attr]
    made.append(some(20, 2, "p"), ("p",))  # 5
    made.delete_equal([{"id": 99}], ("p",), bounds=False)  # 6: needed by the file of 5
    result = made.table.rewrite(options={"remove-dangling-deletes": True, "rewrite-all": False})
    needed = [delete.sequence_number for delete in made.deletes.values()]
    assert result.groups == 0 and max(n for n in needed if n is not None) == 6
    made.table.rewrite(options={"rewrite-all": True, "remove-dangling-deletes": True})
    assert not made.deletes and len(made.rows()) == 6


def test_deletes_that_are_still_needed_stay(tmp_path: Path) -> None:
    made = lake(tmp_path, **BY_PART)
    for part in "ab":
        made.append(some(ord(part) * 10, 10, part), (part,), files=2)
        made.delete_equal([{"id": ord(part) * 10}], (part,))
    before = made.rows()
    made.table.rewrite(where="part = 'a'", options={**SMALL, "remove-dangling-deletes": True})
    assert made.rows() == before
    assert {delete.partition for delete in made.deletes.values()} == {("b",)}


@pytest.mark.slow
def test_global_equality_deletes_are_held_by_any_older_file(tmp_path: Path) -> None:
    made = lake(tmp_path)
    for number in range(4):
        made.append(some(10 * number, 10))
    made.delete_equal([{"id": 5}, {"id": 35}])
    before = made.rows()
    made.table.rewrite(where="id < 20", options={**SMALL, "remove-dangling-deletes": True})
    assert made.rows() == before and len(made.deletes) == 1
    made.table.rewrite(options={"rewrite-all": True, "remove-dangling-deletes": True})
    assert made.rows() == before and not made.deletes


# ---- other writers ---------------------------------------------------------------------------------------------------


def planned(made: Lake, **options: Any) -> IcebergRewrite:
    return IcebergRewrite.planned(made.table.operations, "main", None, {**SMALL, **options})


def test_an_equality_delete_made_meanwhile_holds(tmp_path: Path) -> None:
    made = lake(tmp_path)
    for number in (1, 2, 3):
        made.append(some(number, 1))
    run = planned(made)
    made.delete_equal([{"id": 2}])
    made.append(some(4, 1))
    run.run()
    assert sorted(made.table.read(["id"]).read_all()["id"].to_pylist()) == [1, 3, 4]


def _append(made: Lake) -> None:
    made.append(some(900, 3))


def _position_delete(made: Lake) -> None:
    made.delete_positions({made.tasks[0].data.path: [0]})


def _partition_position_delete(made: Lake) -> None:
    made.delete_positions({task.data.path: [0] for task in made.tasks[:2]}, granularity="partition")


def _position_delete_that_was_rewritten(made: Lake) -> None:
    for row in (0, 1):
        made.delete_positions({made.tasks[0].data.path: [row]})
    made.table.rewrite(options={"lakebed.rewrite.what": "position-deletes", "rewrite-all": True})


def _equality_delete(made: Lake) -> None:
    made.delete_equal([{"id": 0}])


def _equality_delete_that_became_positions(made: Lake) -> None:
    made.delete_equal([{"id": 0}])
    made.table.rewrite(options={"lakebed.rewrite.what": "equality-deletes"})


def _overwrite(made: Lake) -> None:
    commits.overwrite(made.table.operations, made.write(some(500, 2)))


def _remove(made: Lake) -> None:
    commits.row_delta(made.table.operations, (), (), removed=[made.tasks[0].data])


def _rewrite(made: Lake) -> None:
    made.table.rewrite(options={"rewrite-all": True})


def _rewrite_of_others(made: Lake) -> None:
    made.append(some(800, 2), files=2)
    made.table.rewrite(where="id >= 800", options=SMALL)


MATRIX: list[tuple[Callable[[Lake], None], bool, bool]] = [
    (_append, True, True),
    (_position_delete, False, False),
    (_partition_position_delete, False, False),
    (_position_delete_that_was_rewritten, False, False),
    (_equality_delete, True, False),
    (_equality_delete_that_became_positions, False, False),
    (_overwrite, False, False),
    (_remove, False, False),
    (_rewrite, False, False),
    (_rewrite_of_others, True, True),
]


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("starting", [True, False], ids=["starting-number", "new-number"])
@pytest.mark.parametrize(("other", "passes", "passes_with_new_number"), MATRIX)
def test_what_another_writer_may_do_meanwhile(
    tmp_path: Path,
    other: Callable[[Lake], None],
    passes: bool,
    passes_with_new_number: bool,
    starting: bool,
    version: int,
) -> None:
    """As in the reference engine: appends and rewrites of other files never conflict, deletes of rows of replaced
    files always do, but equality deletes only when the new files are newer than they."""
    made = lake(tmp_path, version=version)
    for number in range(3):
        made.append(some(10 * number, 10))
    run = planned(made, **{"use-starting-sequence-number": starting})
    other(made)
    expected, head = made.rows(), made.table.table_metadata.head()
    if passes if starting else passes_with_new_number:
        run.run()
        assert made.rows() == expected
    else:
        with pytest.raises(CommitConflictError):
            run.run()
        assert made.rows() == expected and made.table.table_metadata.head() == head
    assert not made.orphans


class StepsIn(LocalEngine):
    """Lets somebody else act before it runs the tasks of the first plan."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.acts = [act]

    def map(self, fn: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        if self.acts:
            self.acts.pop()()
        return super().map(fn, tasks)


@pytest.mark.parametrize("what", ["data-files", "position-deletes", "equality-deletes"])
def test_a_plan_whose_snapshot_expires_is_made_anew(what: str, tmp_path: Path) -> None:
    """Its files, deletes and manifests are gone when it runs."""
    made = lake(tmp_path)
    made.append(some(0, 10))
    made.append(some(10, 10))
    for row in (0, 1):
        made.delete_positions({made.tasks[0].data.path: [row]})
    made.delete_equal([{"id": 15}])
    expected = made.rows()

    def act() -> None:
        other = lakebed.open(made.folder)
        other.rewrite(options={"rewrite-all": True})
        made.append(some(20, 10))
        made.delete_equal([{"id": 25}])
        other.rewrite(options={"lakebed.rewrite.what": "manifests"})
        other.expire(options={"older-than": "2100-01-01", "retain-last": 1})

    all_of_it = {"lakebed.rewrite.what": what, **({} if what == "equality-deletes" else {"rewrite-all": True})}
    made.table.rewrite(engine=StepsIn(act), options=all_of_it)
    brought = [row for row in made.rows() if row not in expected]
    assert len(brought) == 9 and sorted([*expected, *brought]) == made.rows()


def test_a_plan_whose_manifests_are_gone_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake(tmp_path)
    for number in range(3):
        made.append(some(10 * number, 10))
    expected, chosen = made.rows(), LiveFiles.chosen

    def later(self: LiveFiles, rows: Any) -> Any:
        monkeypatch.undo()
        other = lakebed.open(made.folder)
        other.rewrite(options={"rewrite-all": True})
        other.expire(options={"older-than": "2100-01-01", "retain-last": 1})
        return chosen(self, rows)

    monkeypatch.setattr(LiveFiles, "chosen", later)
    made.table.rewrite(options={"rewrite-all": True})
    assert made.rows() == expected


def test_a_file_that_is_lost_is_looked_for_once(tmp_path: Path) -> None:
    """Its snapshot has not expired, so no other plan would help."""
    made = lake(tmp_path)
    for number in range(3):
        made.append(some(10 * number, 10))
    runs: list[int] = []
    engine = StepsIn(lambda: (runs.append(1), Path(made.tasks[0].data.path.removeprefix("file://")).unlink()))
    with pytest.raises(DataCleanedError):
        made.table.rewrite(engine=engine, options={"rewrite-all": True})
    assert len(runs) == 1 and not made.orphans


@pytest.mark.parametrize("what", ["position-deletes", "equality-deletes"])
def test_a_rewrite_of_deletes_that_were_seen_is_no_conflict(what: str, tmp_path: Path) -> None:
    """Its new delete files say nothing that the planned files do not know."""
    made = lake(tmp_path)
    for number in range(3):
        made.append(some(10 * number, 10))
    for row in (0, 1):
        made.delete_positions({made.tasks[0].data.path: [row]})
    made.delete_equal([{"id": 15}])
    run, expected = planned(made), made.rows()
    assert made.table.rewrite(options={"lakebed.rewrite.what": what}).files_before or what == "position-deletes"
    run.run()
    assert made.rows() == expected and len(expected) == 27


def test_appends_all_the_while_do_not_make_it_fail(tmp_path: Path) -> None:
    made = lake(tmp_path, **BY_PART, properties={"commit.retry.num-retries": "20", "commit.retry.min-wait-ms": "1"})
    made.append(some(0, 100, "one"), ("one",), files=20)
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        for number in range(1000, 1020):
            try:
                made.append(some(number, 1, "two"), ("two",))
            except CommitConflictError as error:
                failures.append(error)
            if stop.wait(0.05):
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        result = made.table.rewrite(where="part = 'one'")
    finally:
        stop.set()
        writer.join()
    assert result.files_after == 1
    assert len([task for task in made.tasks if task.data.partition == ("one",)]) == 1 and not failures


# ---- partial progress and failures -----------------------------------------------------------------------------------


def of_parts(folder: Path, parts: str, **how: Any) -> Lake:
    made = lake(folder, **BY_PART, **how)
    for number, part in enumerate(parts):
        made.append(some(100 * number, 6, part), (part,), files=2)
    return made


PARTIAL = {"partial-progress.enabled": True}


@pytest.mark.slow
def test_only_the_touched_group_fails(tmp_path: Path) -> None:
    made = of_parts(tmp_path, "abcd")
    run = planned(made, **PARTIAL)
    made.delete_positions({next(t for t in made.tasks if t.data.partition == ("c",)).data.path: [0]})
    expected = made.rows()
    result = run.run()
    assert (result.groups, len(result.instants)) == (3, 3)
    assert [one.what for one in result.failed] == ["part_0=c"] and "deleted meanwhile" in result.failed[0].reason
    assert made.rows() == expected and not made.orphans


@pytest.mark.slow
def test_only_the_touched_group_of_a_commit_fails(tmp_path: Path) -> None:
    made = of_parts(tmp_path, "abcd")
    run = planned(made, **PARTIAL, **{"partial-progress.max-commits": 1})
    made.delete_positions({next(t for t in made.tasks if t.data.partition == ("c",)).data.path: [0]})
    expected = made.rows()
    result = run.run()
    assert result.groups == 3 and [one.what for one in result.failed] == ["part_0=c"]
    assert made.rows() == expected


@pytest.mark.slow
def test_commits_of_a_rewrite_do_not_meet_each_other(tmp_path: Path) -> None:
    made = of_parts(tmp_path, "abcdefgh")
    result = made.table.rewrite(engine=LocalEngine(4), options={**SMALL, **PARTIAL})
    assert (result.groups, len(result.instants), result.failed) == (8, 8, ())


@pytest.mark.slow
def test_groups_are_shared_out_over_the_commits_allowed(tmp_path: Path) -> None:
    made = of_parts(tmp_path, "abcdefg")
    result = made.table.rewrite(options={**SMALL, **PARTIAL, "partial-progress.max-commits": 4})
    assert (result.groups, len(result.instants), result.failed) == (7, 4, ())


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Partitions whose files cannot be read."""
    parts: list[str] = []
    real = rewrite_tasks.read_task

    def read(files: Any, context: Any, task: Any, *more: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in real(files, context, task, *more, **options):
            yield batch
            if task.data.partition[0] in parts:
                raise CorruptError("a file cannot be read", file=task.data.path)

    monkeypatch.setattr(rewrite_tasks, "read_task", read)
    yield parts


@pytest.mark.slow
def test_a_failed_group_is_reported_and_the_others_stand(tmp_path: Path, failing: list[str]) -> None:
    made = of_parts(tmp_path, "abc")
    failing.append("b")
    expected = made.rows()
    result = made.table.rewrite(options={**SMALL, **PARTIAL, **ENCODE})
    assert result.groups == 2 and [one.what for one in result.failed] == ["part_0=b"]
    assert "cannot be read" in result.failed[0].reason
    assert made.rows() == expected and not made.orphans


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_a_failed_group_fails_the_whole_and_nothing_is_left(tmp_path: Path, failing: list[str], threads: int) -> None:
    made = of_parts(tmp_path, "abcdef")
    failing.append("d")
    expected, head = made.rows(), made.table.table_metadata.head()
    with pytest.raises(CorruptError, match="cannot be read"):
        made.table.rewrite(engine=LocalEngine(threads), options={**SMALL, **ENCODE})
    assert made.rows() == expected and made.table.table_metadata.head() == head and not made.orphans


@pytest.mark.slow
def test_too_many_failed_commits_are_an_error_and_those_made_stand(tmp_path: Path) -> None:
    made = of_parts(tmp_path, "abc")
    run = planned(made, **PARTIAL, **{"partial-progress.max-failed-commits": 0})
    made.delete_positions({next(t for t in made.tasks if t.data.partition == ("b",)).data.path: [0]})
    with pytest.raises(CommitConflictError, match="1 commit of a rewrite"):
        run.run()
    assert len([t for t in made.tasks if t.data.partition != ("b",)]) == 2


def test_lost_rows_are_found_before_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = of_parts(tmp_path, "ab")
    real = rewrite_tasks.read_task

    def forgetful(*arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in real(*arguments, **options):
            yield batch.slice(1)

    monkeypatch.setattr(rewrite_tasks, "read_task", forgetful)
    head = made.table.table_metadata.head()
    with pytest.raises(CorruptError, match="would change their rows"):
        made.table.rewrite(options={**SMALL, **ENCODE})
    assert made.table.table_metadata.head() == head and not made.orphans


def test_after_an_unknown_outcome_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = of_parts(tmp_path, "ab", properties={"commit.status-check.num-retries": "0"})
    operations = made.table.operations

    def lost(*arguments: Any) -> Any:
        raise OutcomeUnknownError

    run = planned(made)
    monkeypatch.setattr(type(operations), "commit", lost)
    with pytest.raises(CommitUnknownError):
        run.run()
    monkeypatch.undo()
    assert len(made.orphans) == 2


@pytest.mark.slow
def test_no_more_groups_at_a_time_than_allowed(tmp_path: Path) -> None:
    made = of_parts(tmp_path, "abcdefgh")
    sizes: list[int] = []

    class Wide(LocalEngine):
        def map(self, fn: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
            some = list(tasks)
            sizes.append(len({task.group for task in some}))
            return super().map(fn, some)

    made.table.rewrite(engine=Wide(16), options={**SMALL, "max-concurrent-file-group-rewrites": 3})
    assert sizes == [3, 3, 2]


@pytest.mark.slow
def test_a_repartition_has_one_file_a_partition_and_few_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two hundred partitions in one group: only one writer is open at a time."""
    made = Lake(tmp_path / "table", SCHEMA, partition_by=[("x", "identity")])
    document = dict(made.table.table_metadata.document)
    spec = {"spec-id": 1, "fields": [{"source-id": 2, "field-id": 1001, "transform": "identity", "name": "part"}]}
    document |= {
        "partition-specs": [*document["partition-specs"], spec],
        "default-spec-id": 1,
        "last-partition-id": 1001,
    }
    (made.folder / "metadata" / "v2.metadata.json").write_bytes(metadata_to_json(document))
    rows = [{"id": n, "part": f"p{n % 200:03d}", "x": 1, "note": None, "ratio": None} for n in range(2000)]
    made.append(rows, (1,), files=5, spec_id=0)
    before = made.rows()
    made.table.rewrite()
    assert made.rows() == before
    assert sorted(task.data.partition for task in made.tasks) == [(f"p{n:03d}",) for n in range(200)]


class Elsewhere(LocalEngine):
    """Runs tasks as another process would: tasks and results are pickled."""

    def map(self, fn: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            yield pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(fn))(pickle.loads(pickle.dumps(task)))))


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [ENCODE, {"lakebed.rewrite.concat-min-row-group-bytes": 1}, {"sort-order": "x"}, {"sort-order": "zorder(x, id)"}],
)
def test_tasks_travel_to_other_processes(tmp_path: Path, more: dict[str, Any]) -> None:
    made = of_parts(tmp_path, "ab")
    before = made.rows()
    assert made.table.rewrite(engine=Elsewhere(1), options={**SMALL, **more}).files_after == 2
    assert made.rows() == before
