"""Strategies and triggers of compactions, and the partitions that a clustering looks at."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import OptionError, UsageError
from lakebed.formats.hudi.codec.service_plans import parse_clustering_plan
from lakebed.formats.hudi.rewrite.options import REWRITE
from lakebed.formats.hudi.rewrite.partition_choice import for_clustering
from lakebed.formats.hudi.rewrite.plan import plan_compaction
from lakebed.formats.hudi.slices import FileSlice, LogFile
from lakebed.formats.hudi.timeline.pending_services import PendingServices
from lakebed.kernel import clock

NOW = datetime.datetime(2024, 5, 10, 12, tzinfo=datetime.UTC).timestamp()
STRATEGY = "hoodie.compaction.strategy"


def logged(partition: str, *sizes: int) -> FileSlice:
    logs = tuple(
        LogFile("20240101000000000", n, "0-0-0", False, f".f_20240101000000000.log.{n}", size)
        for n, size in enumerate(sizes, 1)
    )
    return FileSlice(partition, "f", None, logs)


SLICES = [logged("2024/05/10", 5), logged("day=2024-05-08", 1, 1, 1), logged("2024-04-20", 30), logged("2024/06/01", 7)]


@pytest.mark.parametrize(
    ("strategy", "more", "taken"),
    [
        ("UnBounded", {}, [5, 3, 30, 7]),
        ("org.apache.hudi.table.action.compact.strategy.LogFileSizeBasedCompactionStrategy", {}, [30, 7, 5, 3]),
        ("LogFileNumBased", {"hoodie.compaction.logfile.num.threshold": "2"}, [3]),
        ("BoundedIO", {"hoodie.compaction.target.io": "120"}, [5]),
        ("DayBased", {"hoodie.compaction.daybased.target.partitions": "3"}, [7, 5, 3]),
        ("BoundedPartitionAware", {"hoodie.compaction.daybased.target.partitions": "2"}, [7, 5, 3]),
        ("UnBoundedPartitionAware", {"hoodie.compaction.daybased.target.partitions": "2"}, [30]),
        ("PartitionRegexBased", {"hoodie.compaction.partition.path.regex": "-0[48]"}, [30, 3]),
        ("DayBased, LogFileSizeBased", {"hoodie.compaction.logfile.size.threshold": "6"}, [30, 7]),
    ],
)
def test_what_each_strategy_takes(
    strategy: str, more: dict[str, str], taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    planned = plan_compaction(SLICES, PendingServices(), REWRITE.parse({STRATEGY: strategy, **more}))
    assert [group.size for group in planned.groups] == taken
    assert len(planned.groups) + len(planned.skipped) == len(SLICES)


def test_what_a_strategy_cannot_be_asked_for() -> None:
    with pytest.raises(UsageError, match="'a' is not a day"):
        plan_compaction([logged("a", 1)], PendingServices(), REWRITE.parse({STRATEGY: "DayBased"}))
    with pytest.raises(UsageError, match="needs a pattern"):
        plan_compaction(SLICES, PendingServices(), REWRITE.parse({STRATEGY: "PartitionRegexBased"}))
    with pytest.raises(OptionError, match="regular expression"):
        REWRITE.parse({"hoodie.compaction.partition.path.regex": "("})
    with pytest.raises(OptionError):
        REWRITE.parse({STRATEGY: "DayBased,Mine"})


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "abcd"),
        ({"partition.filter.mode": "RECENT_DAYS", "strategy.daybased.skipfromlatest.partitions": "1"}, "cb"),
        ({"strategy.class": "org.apache.hudi.x.SparkRecentDaysClusteringPlanStrategy"}, "dc"),
        ({"partition.filter.mode": "DAY_ROLLING"}, ""),
        ({"strategy.partition.selected": "b, d,e"}, "bd"),
        ({"strategy.partition.regex.pattern": "[a-c]", "strategy.partition.selected": "b,d"}, "b"),
        (
            {"strategy.class": "SparkSelectedPartitionsClusteringPlanStrategy"}
            | {"strategy.cluster.begin.partition": "b", "strategy.cluster.end.partition": "c"},
            "bc",
        ),
    ],
)
def test_the_partitions_of_a_clustering(options: dict[str, str], wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    parsed = REWRITE.parse({f"hoodie.clustering.plan.{key}": text for key, text in options.items()})
    assert for_clustering("dbac", parsed) == [*wanted]


SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def test_triggers_count_delta_commits_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lakebed.create(
        tmp_path / "t", "hudi", SCHEMA, ["id"], options={"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    )
    now = time.time()
    for value in range(3):
        table.write(pa.table({"id": [1], "v": [value]}, SCHEMA), mode="upsert")

    def due(trigger: str, commits: int, seconds: int) -> bool:
        options = {
            "hoodie.compact.inline.trigger.strategy": trigger,
            "hoodie.compact.inline.max.delta.commits": commits,
            "hoodie.compact.inline.max.delta.seconds": seconds,
        }
        return bool(table.rewrite(dry_run=True, options=options).groups)

    assert due("NUM_COMMITS", 3, 0) and not due("NUM_COMMITS", 4, 0)
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: now + 100)
        assert due("TIME_ELAPSED", 9, 50) and not due("TIME_ELAPSED", 1, 500)
        assert due("NUM_OR_TIME", 9, 50) and due("NUM_OR_TIME", 1, 500) and not due("NUM_OR_TIME", 9, 500)
        assert due("NUM_AND_TIME", 1, 50) and not due("NUM_AND_TIME", 9, 50) and not due("NUM_AND_TIME", 1, 500)
    scheduled = table.rewrite(options={"lakebed.rewrite.step": "schedule"})
    assert scheduled.notes == ("the plan is pending: nothing ran",)
    again = table.rewrite(options={"lakebed.rewrite.step": "schedule"})
    assert not again.instants and not again.notes
    table.write(pa.table({"id": [2], "v": [1]}, SCHEMA), mode="upsert", options={"hoodie.parquet.small.file.limit": 0})
    since = table.rewrite(
        dry_run=True,
        options={
            "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS_AFTER_LAST_REQUEST",
            "hoodie.compact.inline.max.delta.commits": 2,
        },
    )
    assert "1 delta commit since" in since.skipped[0].reason


def test_a_plan_keeps_its_layout_and_the_size_of_its_files(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "hudi", SCHEMA, ["id"])
    for value in (3, 1, 2):
        table.write(pa.table({"id": [value], "v": [value]}, SCHEMA), options={"hoodie.parquet.small.file.limit": 0})
    alone = {
        "hoodie.clustering.plan.strategy.class": "SparkSingleFileSortPlanStrategy",
        "hoodie.clustering.plan.strategy.sort.columns": "v,id",
    }
    assert table.rewrite(dry_run=True, options=alone).groups == 3
    layout = {
        "hoodie.clustering.plan.strategy.sort.columns": "v,id",
        "hoodie.layout.optimize.strategy": "z-order",
        "hoodie.clustering.plan.strategy.target.file.max.bytes": "1",
        "lakebed.rewrite.step": "schedule",
    }
    (instant,) = table.rewrite(options=layout).instants
    plan = parse_clustering_plan((tmp_path / f"t/.hoodie/timeline/{instant}.clustering.requested").read_bytes())
    assert plan is not None and plan.parameters["hoodie.layout.optimize.strategy"] == "ZORDER"
    assert plan.parameters["hoodie.clustering.plan.strategy.target.file.max.bytes"] == "1"
    table.rewrite(options={"lakebed.rewrite.step": "run"})
    assert table.read(["v"]).read_all()["v"].to_pylist() == [1, 2, 3]
