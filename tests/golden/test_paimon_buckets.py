"""Dynamic buckets against the reference's own classes, and writes to tables that they created."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.manifests import index_files, key_hashes, live_files
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.hash_dynamic import DynamicSettings, PartitionIndex
from lakebed.formats.paimon.write.routing import assigner_tasks
from tests.golden import HERE, expected, unpack
from tests.golden.compare import load

VECTORS = [json.loads(line) for line in (HERE / "paimon/bucket_assign_vectors.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
@pytest.mark.parametrize("at_once", [1, 25], ids=["one by one", "all at once"])
def test_partition_index(vector: dict[str, Any], at_once: int) -> None:
    initial = np.array(vector["initial_hash_bucket"], np.int32).reshape(-1, 2)
    counts: dict[int, int] = defaultdict(int)
    for _, bucket in vector["initial_hash_bucket"]:
        counts[bucket] += 1
    index = PartitionIndex(initial[:, 0], initial[:, 1], dict(counts))
    settings = DynamicSettings(vector["target"], -1, vector["numAssigners"], vector["numAssigners"])
    sequence = vector["hash_partitionIndex_simple"]
    hashes = np.array([item[0] for item in sequence], np.int32)
    assigned = [
        index.assign(hashes[start : start + at_once], vector["assignId"], settings)[0]
        for start in range(0, len(hashes), at_once)
    ]
    assert np.concatenate(assigned).tolist() == [item[1] for item in sequence]


def test_tasks_that_assign() -> None:
    for vector in load(expected(unpack("paimon", "pk_dynamic")) / "assigner_vectors.jsonl"):
        partition, key = (np.array([vector[name]], np.int32) for name in ("partitionHash", "keyHash"))
        assert assigner_tasks(partition, key, vector["numChannels"], vector["numAssigners"])[0] == vector["assigner"]


def test_the_same_keys_come_to_the_same_buckets(tmp_path: Path) -> None:
    """Writes the rounds of the golden table: each key gets the bucket that the reference gave it."""
    golden = unpack("paimon", "pk_dynamic")
    assigned = load(expected(golden) / "assign.jsonl")
    schema = lakebed.open(golden).schema
    table = lakebed.create(
        tmp_path / "t", "paimon", schema, ["dt", "id"], ["dt"], {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}
    )
    for turn in range(max(row["round"] for row in assigned) + 1):
        rows = [row for row in assigned if row["round"] == turn]
        data = pa.table({"dt": [row["dt"] for row in rows], "id": pa.array([row["id"] for row in rows], pa.int64())})
        table.write(data)
    wanted = {(row["dt"], row["id"]): row["bucket"] for row in assigned}
    bucket_of_key: dict[tuple[str, int], int] = {}
    plan = table.plan_read(columns=["dt", "id"])
    for split in plan.splits:
        for batch in plan.read(split):
            bucket_of_key |= {(row["dt"], row["id"]): split.bucket for row in batch.to_pylist()}
    assert bucket_of_key == wanted
    indexes = index_hashes(table)
    theirs = index_hashes(lakebed.open(golden))
    assert {bucket: sorted(hashes) for bucket, hashes in indexes.items()} == {
        bucket: sorted(hashes) for bucket, hashes in theirs.items()
    }


def test_their_keys_stay_where_they_are(tmp_path: Path) -> None:
    table = lakebed.open(unpack("paimon", "pk_dynamic", into=tmp_path))
    before = places(table)
    table.write(table.read().read_all())
    assert places(table) == before
    history = History(table.store)
    assert all(entry.total_buckets == -1 for entry in live_files(table.store, history.latest()))


def places(table: lakebed.Table) -> dict[tuple[str, int], int]:
    plan = table.plan_read(columns=["dt", "id"])
    return {
        (row["dt"], row["id"]): split.bucket
        for split in plan.splits
        for batch in plan.read(split)
        for row in batch.to_pylist()
    }


def index_hashes(table: lakebed.Table) -> dict[tuple[str, int], list[int]]:
    history = History(table.store)
    kind = history.latest_schema().field("dt").type
    return {
        (decode_row(without_arity(entry.partition), [kind])[0], entry.bucket): key_hashes(table.store, entry).tolist()
        for entry in index_files(table.store, history.latest())
    }
