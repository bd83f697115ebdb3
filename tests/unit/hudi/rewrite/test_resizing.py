"""Clusterings of consistent hashing: buckets are split, merged and sorted, and rows stay where their keys belong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, UsageError
from lakebed.formats.hudi.codec.hashing import HashingMetadata, HashingNode, children_extra, parse_children
from lakebed.formats.hudi.codec.service_plans import (
    ClusteringGroup,
    ClusteringPlan,
    PlannedSlice,
    parse_clustering_plan,
)
from lakebed.formats.hudi.rewrite.resize import without_doubled
from tests.tables.hudi.rings import META, RING, batch, held, orders, rings

CLUSTER = {"lakebed.rewrite.what": "clustering"}
SPLIT = {
    **CLUSTER,
    "hoodie.bucket.index.max.num.buckets": "6",
    "hoodie.parquet.max.file.size": "1",
    "hoodie.bucket.index.merge.threshold": "1e-12",
}
MERGE = {**CLUSTER, "hoodie.bucket.index.min.num.buckets": "1"}
BOTH = pytest.mark.parametrize("version", [6, 9])


def _values(table: Table, partition: str) -> list[int]:
    return [node.value for node in rings(table, partition)[-1].nodes]


@BOTH
def test_buckets_are_split_and_merged(tmp_path: Path, version: int) -> None:
    table = orders(tmp_path, version)
    table.write(batch(*range(40)))
    table.write(batch(0, 2, 3, v="up"), "upsert")
    model = {number: "up" if number in (0, 2, 3) else "x" for number in range(40)}
    assert not table.rewrite(options=CLUSTER).instants  # the partitions began with four buckets, and keep them
    result = table.rewrite(options=SPLIT)
    assert len(_values(table, "a")) == len(_values(table, "b")) == 6
    assert result.instants
    assert held(table) == model
    table.write(batch(*range(36, 44), v="more"), "upsert")
    table.write(batch(1), "delete")
    model |= dict.fromkeys(range(36, 44), "more")
    del model[1]
    assert held(table) == model
    table.rewrite()
    table.rewrite(options={**MERGE, "hoodie.clustering.plan.strategy.sort.columns": "v"})
    assert len(_values(table, "a")) == len(_values(table, "b")) == 1
    assert held(table) == model
    assert [each.sequence for each in rings(table, "a")] == [0, 1, 2]
    table.write(batch(0, 50, v="end"), "upsert")
    assert held(table) == model | {0: "end", 50: "end"}


def test_what_a_plan_says(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(batch(*range(0, 40, 2)))
    before = rings(table, "a")[0]
    plan = table.rewrite(dry_run=True, options=SPLIT)
    assert [group.files_after for group in plan.plan] == [2, 2]
    assert len(plan.skipped) == 2
    (instant,) = table.rewrite(options={**SPLIT, "lakebed.rewrite.step": "schedule"}).instants
    (file,) = (Path(table.location) / ".hoodie" / "timeline").glob(f"{instant}.clustering.requested")
    written = parse_clustering_plan(file.read_bytes())
    assert written is not None
    values = [before.nodes[3].value // 4 + 1, 0]
    assert values[0] == before.nodes[0].value
    for group in written.groups:
        middle, end = parse_children(group.extra)
        number = [node.value for node in before.nodes].index(end.value)
        start = before.nodes[number - 1].value if number else -1
        assert abs((start + end.value) // 2 - middle.value) <= 1
        assert group.extra["clustering.group.sequence.no"] == "0"


def test_writers_beside_a_pending_resizing(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(batch(*range(40)))
    (instant,) = table.rewrite(options={**MERGE, "lakebed.rewrite.step": "schedule"}).instants
    with pytest.raises((UsageError, CommitConflictError), match="cannot be changed"):
        table.write(batch(0, v="up"), "upsert")
    assert table.rewrite(options=MERGE | {"lakebed.rewrite.step": "schedule"}).instants == ()
    table.rewrite(options={**CLUSTER, "lakebed.rewrite.step": "run"})
    assert rings(table, "a")[-1].instant == instant
    assert held(table) == dict.fromkeys(range(40), "x")


@BOTH
def test_a_withdrawn_resizing_leaves_the_buckets(tmp_path: Path, version: int) -> None:
    table = orders(tmp_path, version)
    table.write(batch(*range(40)))
    table.rewrite(options={**MERGE, "lakebed.rewrite.step": "schedule"})
    table.rewrite(options={**CLUSTER, "lakebed.rewrite.step": "withdraw"})
    table.write(batch(0, v="up"), "upsert")
    assert held(table) == dict.fromkeys(range(1, 40), "x") | {0: "up"}


def test_a_run_that_died_is_run_anew(tmp_path: Path, monkeypatch: Any) -> None:
    table = orders(tmp_path)
    table.write(batch(*range(40)))
    path = "lakebed.formats.hudi.commit.transaction.complete"
    with monkeypatch.context() as patched:
        patched.setattr(path, lambda *a: (_ for _ in ()).throw(OSError("the disk is gone")))
        with pytest.raises(OSError, match="gone"):
            table.rewrite(options=MERGE)
    assert len(rings(table, "a")) == 2  # the second one belongs to no completed instant
    table = lakebed.open(table.location)
    assert {row["v"] for row in table.read(["v"]).read_all().to_pylist()} == {"x"}
    (pending,) = [each.time for each in table.history() if each.action == "clustering"]
    table.rewrite(options={**CLUSTER, "lakebed.rewrite.step": "run", "lakebed.rewrite.instant": pending})
    assert held(table) == dict.fromkeys(range(40), "x")
    assert len(_values(table, "a")) == 1


def test_a_plan_for_other_buckets_does_not_run(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(batch(0, 2, 4, 6, 8))
    table.rewrite(options={**MERGE, "lakebed.rewrite.step": "schedule"})
    first = Path(table.location) / META / "a" / "00000000000000.hashing_meta"
    first.write_text(first.read_text().replace('"seqNo" : 0', '"seqNo" : 5'))
    with pytest.raises(CommitConflictError, match="buckets of partition 'a' changed"):
        table.rewrite(options={**CLUSTER, "lakebed.rewrite.step": "run"})


def test_a_restore_takes_the_buckets_back(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(batch(*range(40)))
    table.tag("before")
    table.rewrite(options=MERGE)
    assert len(_values(table, "a")) == 1
    table.rollback("tag:before")
    assert rings(table, "a") == [HashingMetadata.initial("a", 4)]
    table.write(batch(0, v="up"), "upsert")
    assert held(table) == dict.fromkeys(range(1, 40), "x") | {0: "up"}


def test_rows_that_came_meanwhile_stay_where_they_were_written_twice() -> None:
    """As Hudi's writers do beside a resizing with SparkConsistentBucketDuplicateUpdateStrategy."""
    slices = tuple(PlannedSlice("a", f"{name}-0", "", ()) for name in ("old", "other"))
    children = [HashingNode(5, "", "DELETE"), HashingNode(9, "new", "REPLACE")]
    plan = ClusteringPlan((ClusteringGroup(slices, 1, {}, children_extra("a", children, 0)),))
    old, new, elsewhere = ("a", "old-0"), ("a", "new-0"), ("b", "old-0")
    assert without_doubled(plan, {}).groups == ()
    assert without_doubled(plan, {"1": {old, new}, "2": {elsewhere}}).groups == ()
    assert without_doubled(plan, {"1": {old, new}, "2": {old}}).groups == plan.groups
    plain = ClusteringPlan((ClusteringGroup(slices),))
    assert without_doubled(plain, {}).groups == plain.groups


def test_a_compaction_notes_the_changes_that_logs_brought(tmp_path: Path) -> None:
    """Whoever made the table, and whether or not its properties name the index: new rows came in logs."""
    table = orders(tmp_path, 9, **{"hoodie.table.cdc.enabled": True})
    table.write(batch(*range(0, 8, 2)))
    properties = Path(table.location) / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines()
    properties.write_text("\n".join(line for line in lines if "index" not in line) + "\n")
    table = lakebed.open(table.location)
    table.write(batch(0, 20, 22, 24, v="up"), "upsert", RING)
    table.rewrite()
    assert len([*(Path(table.location) / "a").glob("*.cdc")]) > 0
    changes = lakebed.open(table.location, {"cdc.enabled": True}).changes(["id", "v"]).read_all().to_pylist()
    assert len([row for row in changes if row["id"] in (20, 22, 24)]) == 3
