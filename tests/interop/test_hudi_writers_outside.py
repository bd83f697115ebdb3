"""A release of Hudi and lakebed write one table at the same time, under Hudi's lock file: each row whose commit a
writer was told of is there once."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import CommitConflictError
from tests.interop.hudi_actors import EngineError, Release, release_of
from tests.tables.hudi.listing import listed, walked

pytestmark = pytest.mark.timeout(600)  # a release starts a JVM

SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.num_retries": "200",
    "hoodie.write.num.retries.on.conflict.failures": "20",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.clean.commits.retained": "30",
    "hoodie.cleaner.commits.retained": "30",
    "hoodie.keep.min.commits": "40",
    "hoodie.keep.max.commits": "50",
    "hoodie.metadata.enable": "false",
}
SINK = {
    **SHARED,
    "hoodie.table.name": "t",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.index.type": "SIMPLE",
}
NON_BLOCKING = {
    "hoodie.write.concurrency.mode": "non_blocking_concurrency_control",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
}
WITHOUT_STATISTICS = {"hoodie.metadata.index.column.stats.enable": "false"}
"""Release 1.1.1 builds the statistics of partitions with the metadata writer of a streaming write, outside any lock,
where others' writes were pending when it began: any other writer, one of its own too, then takes that building back."""
INDEXED = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
KEYS = range(8)
ROUNDS = 3


@pytest.fixture
def release(request: pytest.FixtureRequest) -> Release:
    """The process of a release that all tests of it share."""
    name: str = request.param
    return release_of(name)


def batch(writer: str, number: int) -> pa.Table:
    """A change of two of the keys that all writers change, and a row of the writer's own in its own partition."""
    shared = [number % len(KEYS), (number + 3) % len(KEYS)]
    return pa.table(
        {
            "id": [*(f"k{key}" for key in shared), f"{writer}{number}"],
            "dt": ["a", "a", writer],
            "ts": pa.array([number] * 3, pa.int64()),
            "v": [f"{writer}{number}"] * 3,
        }
    )


def work(path: str, writer: str, shared: dict[str, str]) -> list[int]:
    """What a process of lakebed does: its batches, one commit each; the numbers of those that were committed."""
    done = []
    for number in range(ROUNDS):
        try:
            lakebed.open(path).write(batch(writer, number), "upsert", shared)
            done.append(number)
        except CommitConflictError:
            time.sleep(0.2)
    return done


@pytest.mark.parametrize(
    ("release", "version", "kind", "more"),
    [
        ("1.1.1", 9, "COPY_ON_WRITE", {}),
        ("1.1.1", 8, "MERGE_ON_READ", {}),
        ("1.1.1", 9, "MERGE_ON_READ", {**NON_BLOCKING, **INDEXED, **WITHOUT_STATISTICS}),
        ("1.0.2", 8, "MERGE_ON_READ", {**NON_BLOCKING, **INDEXED}),
        ("0.15.0", 6, "COPY_ON_WRITE", {}),
    ],
    indirect=["release"],
)
def test_rows_of_both_writers_are_there_once(
    release: Release, version: int, kind: str, more: dict[str, str], tmp_path: Path
) -> None:
    """Non-blocking writers are never refused: all of their rows are there, and their files in the metadata table."""
    shared = {**SHARED, **more}
    first = pa.table(
        {"id": [f"k{key}" for key in KEYS], "dt": ["a"] * 8, "ts": pa.array([-1] * 8, pa.int64()), "v": ["first"] * 8}
    )
    path = tmp_path / "t"
    described = {
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.name": "t",
    }
    table = lakebed.create(path, "hudi", first.schema, primary_key=["id"], partition_by=["dt"], options=described)
    table.write(first, "upsert", options=shared)

    def jvm(number: int) -> bool:
        rows = release.folder / "rows.parquet"
        pq.write_table(batch("jvm", number), rows)
        options = {
            **SINK,
            **more,
            "hoodie.write.table.version": str(version),
            "hoodie.datasource.write.table.type": kind,
        }
        try:
            release.order(do="write", path=str(path), rows=str(rows), options=options, mode="append")
        except EngineError as error:
            assert "Conflict" in str(error) or "ConcurrentModification" in str(error), error
            return False
        return True

    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        ours = {writer: pool.submit(work, str(path), writer, shared) for writer in ("one", "two")}
        theirs = [number for number in range(ROUNDS) if jvm(number)]
        acknowledged = {"jvm": theirs, **{writer: future.result() for writer, future in ours.items()}}
    assert all(acknowledged.values()), acknowledged
    assert not more or all(numbers == [*range(ROUNDS)] for numbers in acknowledged.values()), acknowledged
    if more:
        files = walked(lakebed.open(path))
        assert listed(lakebed.open(path)) == files
        theirs_too = {(part, name, int(size)) for part, name, size in release.order(do="listed", path=str(path))}
        assert theirs_too == {(part, name, size) for part, names in files.items() for name, size in names.items()}
    wanted = sorted(
        [f"k{key}" for key in KEYS] + [f"{writer}{n}" for writer, numbers in acknowledged.items() for n in numbers]
    )
    for rows in (
        sorted(str(row[0]) for row in release.order(do="read", path=str(path), columns=["id"], options={})),
        sorted(row["id"] for row in lakebed.open(path).read(["id"]).read_all().to_pylist()),
    ):
        assert rows == wanted
    values = {row["id"]: row for row in lakebed.open(path).read(["id", "v", "ts"]).read_all().to_pylist()}
    newest = {
        f"k{key}": max(
            (number for numbers in acknowledged.values() for number in numbers if key in _shared(number)), default=-1
        )
        for key in KEYS
    }
    assert {key: values[key]["ts"] for key in newest} == newest
    assert jvm(ROUNDS)
    lakebed.open(path).write(batch("one", ROUNDS), "upsert", shared)
    taken_back = [i for i in lakebed.open(path).history() if i.action == "rollback" and i.state == "completed"]
    print(acknowledged, f"{len(taken_back)} rollbacks")


@pytest.mark.parametrize(
    ("release", "version", "kind"),
    [("1.1.1", 9, "COPY_ON_WRITE"), ("1.0.2", 8, "MERGE_ON_READ"), ("0.15.0", 6, "COPY_ON_WRITE")],
    indirect=["release"],
)
def test_a_release_reads_and_writes_a_table_that_nobody_has_written(
    release: Release, version: int, kind: str, tmp_path: Path
) -> None:
    rows, path = release.folder / "rows.parquet", tmp_path / "t"
    described = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    fields = {"hoodie.table.ordering.fields": "ts", "hoodie.table.timeline.timezone": "UTC"}
    lakebed.create(path, "hudi", batch("jvm", 0).schema, ["id"], ["dt"], {**described, **fields})
    assert release.order(do="read", path=str(path), columns=["id"], options={}) == []
    pq.write_table(batch("jvm", 1), rows)
    options = {**SINK, **{key: str(value) for key, value in described.items()}}
    release.order(do="write", path=str(path), rows=str(rows), options=options, mode="append")
    assert sorted(lakebed.open(path).read(["id"]).read_all()["id"].to_pylist()) == ["jvm1", "k1", "k4"]


def _shared(number: int) -> list[int]:
    return [number % len(KEYS), (number + 3) % len(KEYS)]
