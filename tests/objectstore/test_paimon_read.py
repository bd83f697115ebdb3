"""How often reads of a Paimon table ask an object store, and wait in a row."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.verbs.stream import Limits
from tests.golden import unpack
from tests.objectstore.server import StoreServer

KEPT = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
UNCACHED = {"lakebed.storage.cache": "0"}


def rows(first: int, count: int, partitions: int = 1) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({
        "dt": [f"d{number % partitions}" for number in numbers],
        "id": pa.array(numbers, pa.int64()),
        "v": [f"value {number}" for number in numbers],
    })  # fmt: skip


Make = Callable[..., str]


@pytest.fixture
def remote(store_server: StoreServer, tmp_path: Path) -> Make:
    """Makes a table of some commits and uploads it; gives its URL."""
    made = iter(range(100))

    def make(
        commits: int = 1, partitions: int = 1, keys: bool = False, options: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        schema = pa.schema([pa.field("dt", pa.string(), False), pa.field("id", pa.int64(), False), ("v", pa.string())])
        place = tmp_path / f"t{next(made)}"
        table = lakebed.create(place, "paimon", schema, ["dt", "id"] if keys else [], ["dt"], {**KEPT, **options})
        for commit in range(commits):
            table.write(rows(commit * 1000, 4 * partitions, partitions))
        return store_server.upload(place)

    return make


@pytest.fixture
def opened(store_server: StoreServer) -> Callable[[str], Any]:
    return lambda url: lakebed.open(url, {**store_server.options, **UNCACHED})


def test_opening(store_server: StoreServer, remote: Make, opened: Callable[[str], Any]) -> None:
    counted = store_server.measure(opened, lambda: remote(3), enough=3)
    assert counted.steps <= 3
    assert counted.kinds["LIST"] == 2  # the root, and the folder of schemas
    assert counted.kinds["GET"] <= 2  # the schema, and a hint that only another format has


@pytest.mark.parametrize("commits", [1, 16])
def test_a_plan(store_server: StoreServer, remote: Make, opened: Callable[[str], Any], commits: int) -> None:
    url = remote(commits)
    counted = store_server.measure(lambda table: table.plan_read(), lambda: opened(url), enough=4)
    assert counted.steps <= 5  # the hint, the snapshot, its lists, their manifests; and one for a busy machine
    # LATEST, the snapshot and the place of the next one, two lists, and the manifests
    assert counted.kinds == {"LIST": 1, "GET": 5 + commits}


@pytest.mark.parametrize("commits", [4, 16])
def test_a_batch_of_a_stream(store_server: StoreServer, remote: Make, commits: int) -> None:
    """Each snapshot costs three requests, and nobody waits in a row for more of them."""
    url = remote(commits, keys=True, options={"bucket": "1", "write-only": "true"})
    options = {**store_server.options, **UNCACHED, "scan.snapshot-id": "1"}

    def batch(stream: Any) -> None:
        stream.plan(start, stream.latest(start, Limits()))

    start = lakebed.open(url, options).stream().initial()
    counted = store_server.measure(batch, lambda: lakebed.open(url, options).stream(), enough=5)
    assert counted.steps <= 6  # the hint, the newest snapshot, the others, lists, manifests; and one for a busy machine
    # the schemas; LATEST and the place of the next snapshot
    assert counted.kinds == {"LIST": 1, "GET": 2 + 3 * commits}


def test_a_plan_with_a_stale_hint(store_server: StoreServer, remote: Make, opened: Callable[[str], Any]) -> None:
    url = remote(3)
    table = opened(url)
    table.store.write("snapshot/LATEST", b"2")
    counted = store_server.measure(lambda table: table.plan_read(), lambda: opened(url), enough=5)
    assert counted.steps <= 5
    table.store.delete("snapshot/LATEST")
    counted = store_server.measure(lambda table: table.plan_read(), lambda: opened(url), enough=5)
    assert counted.steps <= 5 and counted.kinds["LIST"] == 2


def test_a_manifest_is_kept(store_server: StoreServer, remote: Make) -> None:
    table = lakebed.open(remote(4), store_server.options)
    first = store_server.measure(table.plan_read, tries=1)
    second = store_server.measure(table.plan_read, tries=1)
    assert first.kinds["GET"] - second.kinds["GET"] == 2 + 4  # both lists and the manifests


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("files", [4, 32])
def test_a_read_asks_once_for_each_small_file(
    store_server: StoreServer, remote: Make, opened: Callable[[str], Any], files: int, keys: bool
) -> None:
    url = remote(1, files, keys, {"bucket": "1"} if keys else {})
    plan = store_server.measure(lambda table: table.plan_read(), lambda: opened(url), enough=99)
    counted = store_server.measure(
        lambda table: table.read().read_all(), lambda: opened(url), enough=5, requests=plan.requests + files
    )
    assert counted.result.num_rows == 4 * files
    assert counted.requests - plan.requests == files
    assert set(counted.kinds) == {"LIST", "GET"}
    assert counted.steps <= 7  # five, and what a busy machine adds


@pytest.mark.parametrize("where", ["v > 'value 1'", "id = 3", "dt = 'd0' and v like '%7'", "id > 100000"])
def test_a_predicate_asks_no_more_than_the_read(
    store_server: StoreServer, remote: Make, opened: Callable[[str], Any], where: str
) -> None:
    url = remote(2, 4)
    whole = store_server.measure(lambda table: table.read().read_all(), lambda: opened(url), enough=99)
    counted = store_server.measure(lambda table: table.read(where=where).read_all(), lambda: opened(url), enough=99)
    assert counted.requests <= whole.requests
    if where == "id > 100000":  # no file can have such a row
        plan = store_server.measure(lambda table: table.plan_read(), lambda: opened(url), enough=99)
        assert counted.requests == plan.requests


def test_files_of_one_partition_are_fetched_together(
    store_server: StoreServer, remote: Make, opened: Callable[[str], Any]
) -> None:
    url = remote(16)
    counted = store_server.measure(lambda table: table.read().read_all(), lambda: opened(url), enough=5)
    assert counted.result.num_rows == 64
    assert counted.steps <= 7


def test_deletion_vectors_come_together(
    store_server: StoreServer, tmp_path: Path, opened: Callable[[str], Any]
) -> None:
    place = unpack("paimon", "append_dv", into=tmp_path)
    url = store_server.upload(place)
    local = lakebed.open(place)
    splits = local.plan_read().splits
    files = sum(len(split.files) for split in splits)
    vectors = {(split.group, vector.path) for split in splits for vector in split.deletions.values()}
    assert vectors
    plan = store_server.measure(lambda table: table.plan_read(), lambda: opened(url), enough=99)
    most = plan.requests + files + len(vectors)
    counted = store_server.measure(lambda table: table.read().read_all(), lambda: opened(url), enough=99, requests=most)
    assert counted.result.sort_by("id").equals(local.read().read_all().sort_by("id"))
    assert counted.requests == most


@pytest.mark.parametrize("snapshots", [1, 40])
def test_history(store_server: StoreServer, remote: Make, opened: Callable[[str], Any], snapshots: int) -> None:
    url = remote(snapshots)
    counted = store_server.measure(lambda table: table.history(), lambda: opened(url), enough=2)
    assert len(counted.result) == snapshots
    assert counted.kinds == {"LIST": 1, "GET": snapshots}
    assert counted.steps <= 3


def test_a_time_is_found_in_few_steps(store_server: StoreServer, remote: Make, opened: Callable[[str], Any]) -> None:
    url = remote(40)
    history = opened(url).history()
    table = opened(url)
    for instant in (history[0], history[17], history[-1]):
        counted = store_server.measure(table._history.at_text, lambda time=instant.completed: time, enough=3)
        assert counted.result.id == int(instant.time)
        assert counted.steps <= 4  # the listing, and two looks at fifteen snapshots each


def test_inspection(store_server: StoreServer, remote: Make, opened: Callable[[str], Any]) -> None:
    counts = {}
    for partitions in (2, 12):
        url = remote(2, partitions)
        counted = store_server.measure(lambda table: table.inspect(), lambda url=url: opened(url), enough=6)
        assert counted.result.figures["files"]["files"] == 2 * partitions
        assert counted.steps <= 8
        counts[partitions] = counted.requests
    assert counts[12] - counts[2] == 10  # the listing of each partition


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_a_large_file_comes_in_few_requests(
    store_server: StoreServer, tmp_path: Path, opened: Callable[[str], Any], kind: str
) -> None:
    random = np.random.default_rng(1)
    columns = {f"c{number}": random.random(200_000) for number in range(8)}
    data = pa.table({"id": pa.array(range(200_000), pa.int64()), **columns})
    place = tmp_path / "t"
    table = lakebed.create(place, "paimon", data.schema, options={"file.format": kind})
    table.write(data)
    assert [len(split.files) for split in table.plan_read().splits] == [1]
    url = store_server.upload(place)
    for chosen in (data.column_names, ["c3"], ["id", "c7"]):
        counted = store_server.measure(
            lambda reader: reader.read_all(), lambda chosen=chosen: opened(url).read(chosen), enough=99
        )
        assert counted.result == table.read(chosen).read_all()
        assert counted.requests <= 10
        if len(chosen) < 3 and kind != "avro":
            assert counted.bytes_out < 7 << 20


def test_an_older_snapshot(store_server: StoreServer, remote: Make, opened: Callable[[str], Any]) -> None:
    url = remote(3)
    counted = store_server.measure(lambda table: table.plan_read(as_of=2), lambda: opened(url), enough=3)
    assert counted.kinds == {"LIST": 1, "GET": 3 + 2}  # the schemas; the snapshot, its lists and manifests
    assert counted.steps <= 4
