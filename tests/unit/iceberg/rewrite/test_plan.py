"""Which files a rewrite takes, how many files they become, and why others are left alone."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import OptionError
from lakebed.formats.iceberg.rewrite.options import PlanRules, parse, plan_rules
from lakebed.formats.iceberg.rewrite.plan import PLAN_SCHEMA, Plan, plan_groups
from lakebed.formats.iceberg.write.file_sizes import FileSizes

MB = 1 << 20


def files(
    sizes: list[int], partitions: list[str] | None = None, specs: list[int] | None = None, **more: list[int]
) -> pa.Table:
    count = len(sizes)
    columns = {
        "file_path": [f"f{number}" for number in range(count)],
        "file_size_in_bytes": sizes,
        "record_count": [100] * count,
        "spec_id": specs or [0] * count,
        "partition_key": partitions or [""] * count,
        "delete_files": [0] * count,
        "deleted_rows": [0] * count,
    }
    depth, weights = more.pop("overlap_depth", None), more.pop("delete_bytes", None)
    table = pa.table({**columns, **more}, PLAN_SCHEMA)
    if weights is not None:
        table = table.append_column("delete_bytes", pa.array(weights, pa.int64()))
    return table if depth is None else table.append_column("overlap_depth", pa.array(depth, pa.int32()))


def rules(target: int = 100, **more: object) -> PlanRules:
    return PlanRules(FileSizes.around(target), **more)  # type: ignore[arg-type]  # keywords are checked by the call


def groups(plan: Plan) -> list[list[int]]:
    return [group.rows.tolist() for group in plan.groups]


def test_bounds_follow_the_target() -> None:
    assert FileSizes.around(512 * MB) == FileSizes(512 * MB, 384 * MB, 966367641)
    assert FileSizes.around(512 * MB).write_max == 751619276


@pytest.mark.parametrize(
    ("size", "count", "split"),
    [
        (0, 1, 100 * MB),
        (99 * MB, 1, 100 * MB),
        (100 * MB, 1, 100 * MB + 5120),
        (109 * MB, 1, 109 * MB + 5120),  # the rest is shared out: no file grows by a tenth
        (111 * MB, 2, 100 * MB),
        (176 * MB, 2, 100 * MB),
        (205 * MB, 2, int(102.5 * MB) + 5120),
        (1000 * MB, 10, 100 * MB + 5120),
        (1050 * MB, 10, 105 * MB + 5120),
        (1075 * MB, 10, int(107.5 * MB) + 5120),
        (1076 * MB, 11, 100 * MB),
    ],
)
def test_how_many_files_so_many_bytes_become(size: int, count: int, split: int) -> None:
    sizes = FileSizes.around(100 * MB)
    assert sizes.expected(size) == count
    assert sizes.split(size) == split


def test_a_rest_above_the_least_size_gets_a_file_of_its_own() -> None:
    sizes = FileSizes.around(100)
    assert [sizes.expected(size) for size in (275, 276, 376)] == [3, 3, 4]
    assert sizes.expected(475) == 5  # 75 is not above the least size, but four files would grow by more than a tenth


def test_few_small_files_under_the_target_stay() -> None:
    plan = plan_groups(files([10] * 4), rules())
    assert not plan.groups
    assert "min-input-files=5" in plan.skipped[0].reason


def test_enough_small_files_become_one() -> None:
    plan = plan_groups(files([10] * 5), rules())
    (group,) = plan.groups
    assert (group.about.files, group.about.files_after, group.about.reason) == (5, 1, "5 under 75 bytes")


def test_two_small_files_above_the_target_are_enough_where_fewer_come_out() -> None:
    assert groups(plan_groups(files([10, 70, 28]), rules())) == [[0, 1, 2]]


def test_a_small_file_alone_stays() -> None:
    plan = plan_groups(files([1], ["p=1"]), rules())
    assert not plan.groups
    assert plan.skipped[0].what == "p=1" and "alone" in plan.skipped[0].reason


def test_a_large_file_is_split() -> None:
    (group,) = plan_groups(files([400, 100]), rules()).groups
    assert group.rows.tolist() == [0] and group.about.files_after == 4


def test_files_of_right_size_are_named_with_their_partition() -> None:
    plan = plan_groups(files([100, 80, 170], ["a", "a", "b"]), rules())
    assert not plan.groups
    assert [skipped.what for skipped in plan.skipped] == ["a", "b"]


def test_deletes_choose_a_file_of_right_size() -> None:
    table = files([100] * 4, delete_files=[0, 3, 1, 0], deleted_rows=[0, 0, 30, 29])
    plan = plan_groups(table, rules(delete_threshold=3))
    assert groups(plan) == [[1, 2]]
    assert "1 with at least 3 delete files" in plan.groups[0].about.reason
    assert "1 with at least 30% of their rows deleted" in plan.groups[0].about.reason


def test_partition_wide_deletes_count_for_the_threshold_alone() -> None:
    table = files([100], delete_files=[9], deleted_rows=[0])
    assert not plan_groups(table, rules()).groups
    assert plan_groups(table, rules(delete_threshold=9)).groups


def test_files_of_other_specs_are_one_group() -> None:
    table = files([10] * 6, ["a", "b", "c", "a", "a", "b"], [0, 0, 0, 1, 0, 0])
    plan = plan_groups(table, rules(output_spec=1))
    assert groups(plan) == [[0, 1, 2, 4, 5]]
    assert plan.groups[0].repartitioned


def test_the_older_spec_can_be_kept() -> None:
    table = files([10] * 2, ["day=1"] * 2, [0, 0])
    kept = plan_groups(table, rules(output_spec=0, min_input_files=2))
    assert not kept.groups[0].repartitioned and kept.groups[0].about.files_after == 1


def test_files_of_an_older_spec_alone_and_again_where_it_was_left() -> None:
    specs = [0, 1, 0, 1, 1, 0, 1, 1]
    table = files([100] * 8, specs=specs)
    some = rules(output_spec=1, other_specs=True)
    assert groups(plan_groups(table, some)) == [[0, 2, 5]]
    assert groups(plan_groups(table, rules(output_spec=1, other_specs=True, max_files=1))) == [[0]]
    assert groups(plan_groups(files([100] * 8, specs=[1, *specs[1:]]), some)) == [[2, 5]]


def test_overlapping_ranges_choose_files_of_right_size() -> None:
    plan = plan_groups(files([100] * 6, overlap_depth=[6] * 6), rules(overlap_depth=1))
    assert groups(plan) == [[0, 1, 2, 3, 4, 5]] and "deep" in plan.groups[0].about.reason
    assert not plan_groups(files([100] * 6, overlap_depth=[1] * 6), rules(overlap_depth=1)).groups


def test_no_group_whose_output_would_equal_its_input() -> None:
    tight = PlanRules(FileSizes.around(100, 95, 180))
    plan = plan_groups(files([94] * 3), tight)
    assert not plan.groups
    assert "again" in plan.skipped[0].reason


@pytest.mark.parametrize("count", [2, 5, 7, 60, 613])
@pytest.mark.parametrize("size", [3, 40, 74, 94, 181, 1000])
def test_a_second_run_plans_nothing(count: int, size: int) -> None:
    """A second run plans nothing, whatever the sizes of the files that the first run wrote."""
    for sizes in (FileSizes.around(100), FileSizes.around(100, 95), FileSizes.around(100, 0, 101)):
        first = plan_groups(files([size] * count), PlanRules(sizes))
        for group in first.groups:
            each = group.about.size // group.about.files_after
            assert not plan_groups(files([each] * group.about.files_after), PlanRules(sizes)).groups


def test_groups_are_cut_by_bytes_and_files() -> None:
    assert groups(plan_groups(files([30] * 6), rules(max_group_bytes=60, min_input_files=2))) == [
        [0, 1],
        [2, 3],
        [4, 5],
    ]
    assert groups(plan_groups(files([30] * 6), rules(max_group_files=4, min_input_files=2))) == [[0, 1, 2, 3], [4, 5]]


def test_every_file_when_asked_for() -> None:
    assert groups(plan_groups(files([100, 90]), rules(rewrite_all=True))) == [[0, 1]]


def test_the_plan_stops_at_so_many_files() -> None:
    plan = plan_groups(files([10] * 12, ["a"] * 6 + ["b"] * 6), rules(max_files=8))
    assert groups(plan) == [[0, 1, 2, 3, 4, 5], [6, 7]]
    assert "max-files-to-rewrite=8" in plan.skipped[-1].reason


@pytest.mark.parametrize(
    ("order", "found"),
    [("none", "abc"), ("bytes-asc", "bca"), ("bytes-desc", "acb"), ("files-asc", "cab"), ("files-desc", "bac")],
)
def test_the_order_of_jobs(order: str, found: str) -> None:
    names = ["a"] * 6 + ["b"] * 7 + ["c"] * 5
    table = files([20] * 6 + [5] * 7 + [15] * 5, names)
    plan = plan_groups(table, rules(job_order=order))
    assert "".join(group.about.what for group in plan.groups) == found


def test_ten_partitions_of_four_small_files_become_ten_files() -> None:
    plan = plan_groups(files([10] * 40, [f"p{n // 4}" for n in range(40)]), rules(min_input_files=2))
    assert [group.about.files_after for group in plan.groups] == [1] * 10


def test_a_prediction_counts_deleted_rows_out() -> None:
    (group,) = plan_groups(files([50] * 2, deleted_rows=[50, 50]), rules()).groups
    assert group.about.size_after == 50


def test_an_empty_table_has_no_plan() -> None:
    assert plan_groups(PLAN_SCHEMA.empty_table(), rules()) == Plan((), ())


@pytest.mark.slow
def test_a_million_files_are_planned_in_seconds() -> None:
    count = 1_000_000
    random = np.random.default_rng(7)
    numbers = random.integers(0, 1000, count)
    table = files([1] * 1).slice(0, 0)
    table = pa.table(
        {
            "file_path": pa.array(np.arange(count)).cast(pa.string()),
            "file_size_in_bytes": random.integers(1 << 18, 1 << 22, count),
            "record_count": np.full(count, 1000),
            "spec_id": np.zeros(count, np.int32),
            "partition_key": pa.array(numbers).cast(pa.string()),
            "delete_files": np.zeros(count, np.int32),
            "deleted_rows": np.zeros(count, np.int64),
        },
        PLAN_SCHEMA,
    )
    began = time.process_time()
    plan = plan_groups(table, PlanRules(FileSizes.around(128 * MB)))
    assert sum(group.about.files for group in plan.groups) == count
    assert time.process_time() - began < 5


# ---- options ---------------------------------------------------------------------------------------------------------


def resolved(given: dict[str, object], properties: dict[str, str] | None = None) -> PlanRules:
    return plan_rules(parse(given), properties or {}, 1, {0, 1})


def test_defaults_are_the_reference_ones() -> None:
    found = resolved({})
    assert found == PlanRules(FileSizes(536870912, 402653184, 966367641), output_spec=1)


def test_the_table_says_the_target() -> None:
    assert resolved({}, {"write.target-file-size-bytes": "1000"}).sizes == FileSizes(1000, 750, 1800)
    assert resolved({"target-file-size-bytes": "2 kb"}, {"write.target-file-size-bytes": "1000"}).sizes.target == 2048


@pytest.mark.parametrize(
    "key",
    ["target-file-size-bytes", "target_file_size_bytes", "targetFileSizeBytes", "iceberg_write_target_file_size_bytes"],
)
def test_spellings_of_the_target(key: str) -> None:
    assert resolved({key: "1073741824"}).sizes.target == 1 << 30


@pytest.mark.parametrize(
    ("key", "value", "field", "found"),
    [
        ("minInputFiles", 3, "min_input_files", 3),
        ("maxFileGroupSizeBytes", 99, "max_group_bytes", 99),
        ("max_file_group_input_files", 9, "max_group_files", 9),
        ("deleteFileThreshold", 0, "delete_threshold", 0),
        ("delete_ratio_threshold", "1", "delete_ratio", 1.0),
        ("rewriteAll", True, "rewrite_all", True),
        ("maxFilesToRewrite", 7, "max_files", 7),
        ("rewrite-job-order", "BYTES-ASC", "job_order", "bytes-asc"),
        ("output-spec-id", 0, "output_spec", 0),
        ("compression-factor", "0.5", "expansion", 0.5),
    ],
)
def test_other_keys(key: str, value: object, field: str, found: object) -> None:
    assert getattr(resolved({key: value}), field) == found


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"target-file-size-bytes": "0"}, "target-file-size-bytes"),
        ({"target-file-size-bytes": "100", "min-file-size-bytes": "100"}, "min-file-size-bytes"),
        ({"min-file-size-bytes": "-1"}, "min-file-size-bytes"),
        ({"target-file-size-bytes": "100", "max-file-size-bytes": "100"}, "max-file-size-bytes"),
        ({"min-input-files": "0"}, "min-input-files"),
        ({"max-file-group-size-bytes": "0"}, "max-file-group-size-bytes"),
        ({"max-file-group-input-files": "0"}, "max-file-group-input-files"),
        ({"delete-file-threshold": "-1"}, "delete-file-threshold"),
        ({"delete-ratio-threshold": "0"}, "delete-ratio-threshold"),
        ({"delete-ratio-threshold": "1.1"}, "delete-ratio-threshold"),
        ({"delete-ratio-threshold": "nan"}, "delete-ratio-threshold"),
        ({"rewrite-all": "yes"}, "rewrite-all"),
        ({"max-files-to-rewrite": "0"}, "max-files-to-rewrite"),
        ({"rewrite-job-order": "big"}, "rewrite-job-order"),
        ({"output-spec-id": "7"}, "output-spec-id"),
        ({"max-concurrent-file-group-rewrites": "0"}, "max-concurrent-file-group-rewrites"),
        ({"partial-progress.max-commits": "0"}, "partial-progress.max-commits"),
        ({"compression-factor": "0"}, "compression-factor"),
        ({"shuffle-partitions-per-file": "0"}, "shuffle-partitions-per-file"),
        ({"strategy": "hilbert"}, "strategy"),
    ],
)
def test_values_out_of_range_are_refused_by_name(given: dict[str, object], key: str) -> None:
    with pytest.raises(OptionError) as refused:
        resolved(given)
    assert refused.value.key == key


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(OptionError, match="min-input-files"):
        resolved({"min-input-file": 3})


def test_one_option_in_two_spellings_must_agree() -> None:
    with pytest.raises(OptionError, match="twice"):
        resolved({"minInputFiles": 3, "min-input-files": 4})


def test_only_deletes_that_cost_more_than_they_save_choose_files() -> None:
    """A file of 1000 bytes with 20 of 100 rows deleted by 40 bytes wastes 240 bytes in a read. A rewrite reads 1040
    bytes and writes 800: it is paid back in 7.67 reads."""
    table = files([1000, 10, 1000, 5000], deleted_rows=[20, 0, 0, 0], delete_bytes=[40, 0, 100, 0])
    assert groups(plan_groups(table, rules(1000, payback_reads=7))) == []
    plan = plan_groups(table, rules(1000, payback_reads=8))
    assert groups(plan) == [[0]] and plan.saved == 240
    assert plan.groups[0].about.reason == "1 whose deletes cost more in 8 reads than a rewrite"
    assert plan.predicted(["before"]).notes == ("before", "each read spares 240 bytes after it")
    assert plan_groups(table, rules(1000, payback_reads=21)).saved == 340  # 100 bytes a read, for 2100
    few = plan_groups(files([1000], deleted_rows=[0], delete_bytes=[0]), rules(1000, payback_reads=10**9))
    assert few.skipped[0].reason == "deletes of its 1 file cost less in 1000000000 reads than a rewrite"


def test_other_reasons_for_a_rewrite_are_refused_beside_the_cost_of_deletes() -> None:
    for key, value in (
        ("delete-ratio-threshold", "0.5"),
        ("rewrite-all", "true"),
        ("lakebed.rewrite.other-specs", "true"),
    ):
        options = parse({"lakebed.rewrite.payback-reads": "3", key: value})
        with pytest.raises(OptionError, match=f"{key} and lakebed.rewrite.payback-reads are given"):
            plan_rules(options, {}, 0, [0])
