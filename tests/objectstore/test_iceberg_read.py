"""What opening, planning and reading an Iceberg table asks of an object store, by files, columns and snapshots."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import ReadWarning, TableNotFoundError
from lakebed.formats.iceberg import layout
from lakebed.verbs.read import batches
from lakebed.verbs.stream import Limits
from tests.objectstore.server import StoreServer

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.float64())])
Open = Callable[..., Any]


@pytest.fixture(autouse=True)
def _copies() -> Any:
    """The tables are made on disk and copied, which reads warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        yield


def rows(start: int, count: int, partitions: int = 1) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {"id": numbers, "p": pa.array([n % partitions for n in numbers], pa.int32()), "v": [float(n) for n in numbers]},
        SCHEMA,
    )


def made(folder: Path, commits: int = 1, files: int = 1, options: Mapping[str, str] = {}) -> Any:
    """A table of so many appends, each of so many files."""
    table = lakebed.create(str(folder), "iceberg", SCHEMA, ["id", "p"], ["p"], options)
    for commit in range(commits):
        table.write(rows(1000 * commit, 10 * files, files))
    return table


def opener(server: StoreServer, folder: Path) -> Open:
    url = server.upload(folder)
    return lambda options={}: lakebed.open(url, {**server.options, **options})


def test_open_by_path(store_server: StoreServer, tmp_path: Path) -> None:
    made(tmp_path, commits=3)
    opened = opener(store_server, tmp_path)
    counted = store_server.measure(opened, enough=2)
    assert (counted.steps, counted.requests, counted.kinds["LIST"]) == (2, 6, 1)


@pytest.mark.parametrize(("behind", "steps"), [(1, 3), (7, 7), (40, 9)])
def test_an_old_hint_costs_steps_by_the_logarithm(
    store_server: StoreServer, tmp_path: Path, behind: int, steps: int
) -> None:
    table = made(tmp_path, commits=1)
    for number in range(behind + 1):
        table.tag(f"t{number}")
    newest = layout.hadoop_version(table.operations.load().location.rpartition("/")[2])
    assert newest is not None
    (tmp_path / "metadata" / layout.VERSION_HINT).write_text(str(newest - behind))
    counted = store_server.measure(opener(store_server, tmp_path), enough=steps)
    assert counted.steps <= steps
    assert len(counted.result.table_metadata.refs) == behind + 2


def test_without_a_hint_the_folder_is_listed(store_server: StoreServer, tmp_path: Path) -> None:
    made(tmp_path, commits=3)
    (tmp_path / "metadata" / layout.VERSION_HINT).unlink()
    counted = store_server.measure(opener(store_server, tmp_path), enough=3)
    assert (counted.steps, counted.kinds) == (3, {"LIST": 2, "GET": 2})


def test_a_table_of_a_catalog_by_its_path(store_server: StoreServer, tmp_path: Path) -> None:
    made(tmp_path, commits=1, files=2)
    metadata = tmp_path / "metadata"
    newest = max(metadata.glob("v*.metadata.json"))
    newest.rename(metadata / "00002-4d1bd0a5-5b5c-4b8b-9a0e-2d5c1a2b3c4d.metadata.json")
    for path in [metadata / layout.VERSION_HINT, *metadata.glob("v*.metadata.json")]:
        path.unlink()
    opened = opener(store_server, tmp_path)
    assert store_server.measure(opened, enough=3).steps == 3
    table = opened()
    counted = store_server.measure(table.history, enough=1)  # its name is unique for ever, so it is not read again
    assert (counted.steps, counted.kinds) == (1, {"GET": 1, "LIST": 1})


def test_a_version_that_a_cleanup_left_is_not_taken_for_the_current_one(
    store_server: StoreServer, tmp_path: Path
) -> None:
    table = made(tmp_path, commits=6)
    url = store_server.upload(tmp_path)
    reader = lakebed.open(url, store_server.options)
    store = reader.store
    for number in range(3):
        table.write(rows(9000 + number, 1))
    newest = layout.hadoop_version(table.operations.load().location.rpartition("/")[2])
    assert newest is not None
    (tmp_path / "metadata" / layout.hadoop_metadata(newest - 2)).unlink()
    store_server.upload(tmp_path, url)
    assert store.read(f"metadata/{layout.VERSION_HINT}") == str(newest).encode()
    assert reader.newest() == table.newest()


@pytest.mark.parametrize("spelling", ["v{}.gz.metadata.json", "v{}.metadata.json.gz"])
def test_compressed_metadata(store_server: StoreServer, tmp_path: Path, spelling: str) -> None:
    made(tmp_path, commits=3)
    metadata = tmp_path / "metadata"
    (metadata / spelling.format(4)).write_bytes(gzip.compress((metadata / "v4.metadata.json").read_bytes()))
    (metadata / "v4.metadata.json").unlink()
    if spelling.endswith("gz"):  # the spelling of old engines is found only in a listing
        (metadata / layout.VERSION_HINT).unlink()
    table = opener(store_server, tmp_path)()
    assert len(table.history()) == len(table.history()) == 3


def test_a_table_that_was_dropped_and_made_anew(store_server: StoreServer, tmp_path: Path) -> None:
    url = store_server.url()
    old = lakebed.create(url, "iceberg", SCHEMA, options=store_server.options)
    for number in range(3):
        old.write(rows(number, 1))
    old.store.delete_folder("")
    new = lakebed.create(url, "iceberg", SCHEMA, options=store_server.options)
    assert (old.newest(), len(old.history())) == (None, 0)
    new.write(rows(50, 2))
    assert old.newest() == new.newest()


def test_a_folder_that_only_looks_like_a_table(store_server: StoreServer, tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "notes.txt").write_text("none")
    with pytest.raises(TableNotFoundError, match="not a Hudi, Paimon or Iceberg table"):
        opener(store_server, tmp_path)()


def test_an_open_table_sees_each_commit(store_server: StoreServer, tmp_path: Path) -> None:
    made(tmp_path)
    url = store_server.upload(tmp_path)
    reader, writer = (lakebed.open(url, store_server.options) for _ in range(2))
    writer.relocate()
    for number in range(4):
        writer.write(rows(5000 + number, 1))
        assert reader.read().read_all().num_rows == 11 + number
        assert reader.newest() == writer.newest()


@pytest.mark.parametrize("commits", [1, 16])
def test_a_plan_takes_the_same_steps_for_any_number_of_snapshots(
    store_server: StoreServer, tmp_path: Path, commits: int
) -> None:
    made(tmp_path, commits)
    opened = opener(store_server, tmp_path)
    counted = store_server.measure(lambda: opened().plan_read(), enough=4)
    assert len(counted.result.splits) == commits
    assert counted.steps <= 4
    table = opened()
    again = store_server.measure(table.plan_read, enough=1)
    assert (again.steps, again.requests) == (1, 5)  # what is current, and the list: the manifests are kept


@pytest.mark.parametrize("files", [4, 48])
@pytest.mark.parametrize("where", [None, "v >= 3"])
def test_each_small_file_is_one_request(
    store_server: StoreServer, tmp_path: Path, files: int, where: str | None
) -> None:
    made(tmp_path, files=files)
    table = opener(store_server, tmp_path)()
    plan = table.plan_read(where=where)
    counted = store_server.measure(lambda: sum(map(len, batches(plan, 2))), enough=2)
    assert counted.result == 10 * files - (3 if where else 0)
    assert counted.kinds == {"GET": files}
    assert counted.steps <= 2  # one; a slow thread may begin its request when another has ended


def test_one_column_of_a_wide_file(store_server: StoreServer, tmp_path: Path) -> None:
    wide = pa.table({f"c{number}": np.random.default_rng(number).random(100_000) for number in range(30)})
    lakebed.create(str(tmp_path), "iceberg", wide.schema).write(wide)
    table = opener(store_server, tmp_path)()
    plan = table.plan_read(["c17"])
    counted = store_server.measure(lambda: sum(map(len, batches(plan, 2))), enough=2)
    assert counted.result == 100_000
    assert (counted.steps, counted.kinds) == (2, {"GETr": 2})
    assert counted.bytes_out < 3_000_000


@pytest.mark.parametrize("version", ["2", "3"])
def test_deletes_are_read_once_and_together_with_their_data(
    store_server: StoreServer, tmp_path: Path, version: str
) -> None:
    table = made(tmp_path, files=6, options={"format-version": version, "write.delete.mode": "merge-on-read"})
    keys = pa.table({"id": range(6), "p": pa.array(range(6), pa.int32())})
    table.write(keys, mode="delete")
    deletes = [path for path in tmp_path.rglob("*") if "deletes" in path.name]
    assert deletes
    opened = opener(store_server, tmp_path)
    plan = opened().plan_read()
    counted = store_server.measure(lambda: sum(map(len, batches(plan, 2))), tries=1)
    assert counted.result == 54
    assert counted.requests == 6 + len(deletes)
    assert counted.steps <= 3
    again = store_server.measure(lambda: sum(map(len, batches(plan, 2))), enough=1)
    assert (again.result, again.requests) == (54, 6)


@pytest.mark.parametrize("commits", [2, 20])
def test_history_and_newest_read_the_metadata_once(store_server: StoreServer, tmp_path: Path, commits: int) -> None:
    made(tmp_path, commits)
    table = opener(store_server, tmp_path)()
    counted = store_server.measure(table.history, enough=1)
    assert (len(counted.result), counted.steps, counted.requests) == (commits, 1, 4)
    assert store_server.measure(table.newest, enough=1).requests == 4


@pytest.mark.parametrize("commits", [2, 20])
def test_inspect(store_server: StoreServer, tmp_path: Path, commits: int) -> None:
    made(tmp_path, commits)
    opened = opener(store_server, tmp_path)
    counted = store_server.measure(lambda: opened().inspect(), enough=4)
    assert counted.steps <= 4 and counted.kinds.get("HEAD", 0) == 0
    assert counted.result.figures["files"]["data files"] == commits


@pytest.mark.parametrize("commits", [3, 12])
def test_changes(store_server: StoreServer, tmp_path: Path, commits: int) -> None:
    made(tmp_path, commits)
    table = opener(store_server, tmp_path)()
    after = table.history()[0]
    counted = store_server.measure(lambda: table.changes(after=after).read_all(), enough=4)
    assert len(counted.result) == 10 * (commits - 1)
    assert counted.steps <= 4  # what is current, both lists, manifests, data


def test_a_batch_of_a_stream_reads_the_metadata_once(store_server: StoreServer, tmp_path: Path) -> None:
    made(tmp_path, commits=8)
    stream = opener(store_server, tmp_path)({"read.start-commit": "earliest"}).stream()
    start = stream.initial()

    def batch() -> int:
        plan = stream.plan(start, stream.latest(start, Limits()))
        return sum(map(len, batches(plan, 2)))

    counted = store_server.measure(batch, enough=4)
    assert counted.result == 80
    assert counted.steps <= 4
    assert sum("metadata.json" in entry.target for entry in counted.log) == 3
