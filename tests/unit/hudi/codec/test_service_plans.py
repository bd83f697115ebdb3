"""Plans of compactions and clusterings: decoded from what each release wrote, and encoded to the same records."""

from __future__ import annotations

import pytest

from lakebed.formats.hudi.codec.service_plans import (
    encode_clustering_plan,
    encode_compaction_plan,
    parse_clustering_plan,
    parse_compaction_plan,
)
from lakebed.kernel.avro.records import read_records
from tests.golden import unpack

COMPACTIONS = [
    ("mor_v6", ".hoodie/20261127204525986.compaction.requested"),
    ("mor_h015", ".hoodie/20261127213939493.compaction.requested"),
    ("mor_v8", ".hoodie/timeline/20261127204546748.compaction.requested"),
    ("mor_v9", ".hoodie/timeline/20261127213940568.compaction.requested"),
]
CLUSTERINGS = [
    ("cow_v6", ".hoodie/20261127204854829.replacecommit.requested"),
    ("cow_h015", ".hoodie/20261127214037488.replacecommit.requested"),
    ("cow_v8", ".hoodie/timeline/20261127204916216.clustering.requested"),
    ("cow_v9", ".hoodie/timeline/20261127214045293.clustering.requested"),
]


@pytest.mark.parametrize(("table", "file"), COMPACTIONS)
def test_a_compaction_plan_is_written_as_the_reference_does(table: str, file: str) -> None:
    data = (unpack("hudi", table) / file).read_bytes()
    plan = parse_compaction_plan(data)
    assert {part.partition.rpartition("=")[2] for part in plan.operations} == {"a", "b", "c"}
    assert all(part.base.endswith(".parquet") and part.logs for part in plan.operations)
    written, theirs = (next(read_records(content)) for content in (encode_compaction_plan(plan), data))
    # Release 0.15.0 has no list of missing partitions, and null where later ones have an empty map.
    assert {**written, "extraMetadata": {}} == {"missingSchedulePartitions": [], **theirs, "extraMetadata": {}}


@pytest.mark.parametrize(("table", "file"), CLUSTERINGS)
def test_a_clustering_plan_is_written_as_the_reference_does(table: str, file: str) -> None:
    data = (unpack("hudi", table) / file).read_bytes()
    plan = parse_clustering_plan(data)
    assert plan is not None
    assert [len(group.slices) for group in plan.groups] == [2, 2, 2]
    assert plan.parameters == {"hoodie.clustering.plan.strategy.sort.columns": "id"}
    encoded = encode_clustering_plan(plan, f"file:/tmp/golden/hudi/{table}")
    written, theirs = (next(read_records(content)) for content in (encoded, data))
    theirs["clusteringPlan"].setdefault("missingSchedulePartitions", [])
    assert written == theirs


def test_an_insert_overwrite_has_no_clustering_plan() -> None:
    data = (unpack("hudi", "cow_v9") / ".hoodie/timeline/20261127214046949.replacecommit.requested").read_bytes()
    assert parse_clustering_plan(data) is None
    assert parse_clustering_plan(b"") is None
