"""Random Iceberg tables with random deletes, rewritten with random options: the rows stay, sizes obey the rules."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField
from pyiceberg.transforms import IdentityTransform, parse_transform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

from lakebed.kernel.engine import LocalEngine
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "part", StringType()),
    NestedField(3, "x", IntegerType()),
    NestedField(4, "text", StringType()),
    NestedField(5, "real", DoubleType()),
)
ORDERS = (
    (),
    (SortField(3, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST), SortField(4, IdentityTransform())),
    (SortField(4, parse_transform("truncate[1]")),),
)
PARTS = (None, "a", "b é")

row = st.fixed_dictionaries(
    {
        "x": st.none() | st.integers(-5, 5),
        "text": st.none() | st.sampled_from(["", "a", "b" * 40, "\U0010ffff" * 20, "ß"]),
        "real": st.none() | st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1.5]),
    }
)
appended = st.tuples(st.just("append"), st.integers(0, 2), st.lists(row, min_size=1, max_size=8), st.integers(1, 3))
positions = st.tuples(st.just("positions"), st.integers(0, 99), st.sets(st.integers(0, 3), min_size=1), st.booleans())
equal = st.tuples(st.just("equal"), st.integers(0, 2), st.lists(st.integers(0, 30), min_size=1, max_size=3))
steps = st.lists(st.one_of(appended, appended, positions, equal), min_size=1, max_size=8)
options = st.fixed_dictionaries(
    {},
    optional={
        "rewrite-all": st.booleans(),
        "min-input-files": st.integers(1, 4),
        "target-file-size-bytes": st.sampled_from([2_000, 10_000, 1 << 29]),
        "max-file-group-input-files": st.integers(1, 4),
        "delete-file-threshold": st.integers(0, 2),
        "delete-ratio-threshold": st.sampled_from([0.1, 1.0]),
        "remove-dangling-deletes": st.booleans(),
        "partial-progress.enabled": st.booleans(),
        "use-starting-sequence-number": st.booleans(),
        "rewrite-job-order": st.sampled_from(["bytes-desc", "files-asc"]),
        "sort-order": st.sampled_from(["x", "text desc nulls first, id", "zorder(x, text, real)"]),
        "lakebed.rewrite.concat-min-row-group-bytes": st.sampled_from([1, 1 << 40]),
        "lakebed.rewrite.keep-table-order": st.booleans(),
        "max-files-to-rewrite": st.integers(1, 5),
    },
)


def fill(lake: Lake, partitioned: bool, history: list[tuple[Any, ...]]) -> None:
    number = 0
    for kind, place, *what in history:
        part = PARTS[place % 3]
        partition = (part,) if partitioned else ()
        if kind == "append":
            rows = [{"id": number + n, "part": part, **one} for n, one in enumerate(what[0])]
            number += len(rows)
            lake.append(rows, partition, files=min(what[1], len(rows)))
        elif lake.table.table_metadata.format_version == 1:
            continue
        elif kind == "equal":
            lake.delete_equal([{"id": id} for id in what[0]], partition)
        elif lake.tasks:
            task = lake.tasks[place % len(lake.tasks)]
            wanted = {n for n in what[0] if n < task.data.record_count}
            if wanted and not task.deletes:
                lake.delete_positions({task.data.path: sorted(wanted)}, "file" if what[1] else "partition")


def lineage(lake: Lake) -> list[str]:
    columns = [*(field.name for field in SCHEMA.fields)]
    if lake.table.table_metadata.format_version >= 3:
        columns += ["_row_id", "_last_updated_sequence_number"]
    return sorted(map(str, lake.table.read(columns).read_all().to_pylist()))


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.sampled_from([1, 2, 3]), st.booleans(), st.sampled_from(ORDERS), steps, options, st.integers(1, 3))
def test_rows_stay_and_sizes_obey_the_rules(
    version: int,
    partitioned: bool,
    order: Any,
    history: list[tuple[Any, ...]],
    given_options: dict[str, Any],
    threads: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spec = [("part", "identity")] if partitioned else []
        lake = Lake(Path(folder) / "table", SCHEMA, partition_by=spec, version=version, sort_by=order)
        fill(lake, partitioned, history)
        before = lineage(lake)
        planned = lake.table.rewrite(dry_run=True, options=given_options)
        result = lake.table.rewrite(engine=LocalEngine(threads), options=given_options)
        assert lineage(lake) == before
        assert result.plan == planned.plan and not result.failed
        assert result.files_before == sum(group.files for group in planned.plan)
        assert not lake.orphans
        assert len(lake.tasks) <= len(before) + 1
        for task in lake.tasks:
            assert task.data.record_count > 0
        if given_options.get("rewrite-all") and "max-files-to-rewrite" not in given_options:
            assert not any(task.deletes for task in lake.tasks)
        lake.append([{"id": 10_000, "part": None, "x": 1, "text": "", "real": 0.0}], (None,) if partitioned else ())
        assert len(lake.rows()) == len(before) + 1


@settings(max_examples=2, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(200, 3000), min_size=2, max_size=6), st.integers(30_000, 90_000), st.booleans())
def test_files_lie_near_the_target(counts: list[int], target: int, joined: bool) -> None:
    """Incompressible rows, so that what is planned by bytes comes out by bytes."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder) / "table", SCHEMA)
        random = np.random.default_rng(len(counts))
        for count in counts:
            lake.append(
                pa.table(
                    {
                        "id": random.integers(0, 2**62, count), "part": ["p"] * count,
                        "x": pa.array(random.integers(0, 2**31, count), pa.int32()),
                        "text": pa.array(random.integers(0, 2**62, count)).cast(pa.string()),
                        "real": random.random(count),
                    }
                )
            )  # fmt: skip
        more = {"lakebed.rewrite.concat-min-row-group-bytes": 1 if joined else 1 << 40}
        result = lake.table.rewrite(options={"target-file-size-bytes": target, "min-input-files": 2, **more})
        left = [task.data.size for task in lake.tasks]
        assert all(size <= 1.8 * target + 4096 for size in left)
        most = sum(-(-group.size // target) for group in result.plan)
        assert result.files_after <= most + result.groups, "one more, where a footer is a tenth of a file"
        assert lake.table.read(["id"]).read_all().num_rows == sum(counts)
