"""What reads of a Hudi table ask of an object store, as the table grows: requests, and how often somebody waits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.verbs.stream import Limits
from tests.objectstore.server import StoreServer
from tests.tables.hudi.archiving import archive
from tests.tables.hudi.writing import COLUMNS, HudiFolder, t

VERSIONS = (6, 8)
BUSY = 2
"""Steps that a busy machine adds where many threads make requests at once: the first ends before the last begins."""
KEYS = "org.apache.hudi.keygen.SimpleKeyGenerator"


def table_of(folder: Path, version: int, partitions: int, logs: bool = False, commits: int = 1) -> HudiFolder:
    """One file group per partition and commit, with a log each where that is asked for."""
    known = {"table__partition__fields": "part", "table__keygenerator__class": KEYS}
    table = HudiFolder(folder, version, {**COLUMNS, "part": "string"}, **known)
    (folder / ".hoodie_partition_metadata").unlink()
    for commit in range(1, commits + 1):
        bases, files = [], []
        for number in range(partitions):
            part = f"p{number:03d}"
            rows = [{"id": f"{commit}-{number}-{n}", "ts": n, "x": "old", "n": number, "part": part} for n in range(9)]
            group = f"g{commit:03d}{number:03d}"
            bases.append(table.base(group, commit, rows, part))
            (folder / part / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
            if logs:
                late = [{"id": f"{commit}-{number}-3", "ts": 99, "x": "new", "n": number, "part": part}]
                slice_of = 100 + commit if version >= 8 else commit
                files.append(table.log(group, slice_of, table.data(100 + commit, late, part), partition=part))
        table.done(commit, bases, action="deltacommit")
        if logs:
            table.done(100 + commit, files)
    return table


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def make(store_server: StoreServer, tmp_path: Path, version: int) -> Callable[..., str]:
    """Makes a table and uploads it."""

    def made(partitions: int, **more: Any) -> str:
        table = table_of(tmp_path / f"{partitions}{sorted(more.items())}", version, partitions, **more)
        return store_server.upload(table.folder)

    return made


def test_a_plan_takes_four_steps_however_many_partitions_and_commits(store_server, make) -> None:
    for partitions, commits in ((4, 1), (40, 1), (4, 16)):
        url = make(partitions, commits=commits)
        requests = 10 + partitions + commits
        counted = store_server.measure(
            lambda url=url: lakebed.open(url, store_server.options).plan_read(), enough=4, requests=requests
        )
        assert len(counted.result.splits) == partitions * commits
        assert counted.steps <= 4 + BUSY * (partitions > 16)
        assert counted.requests <= requests


def test_a_predicate_lists_only_the_partitions_it_keeps(store_server, make) -> None:
    url = make(40)

    def plan() -> Any:
        return lakebed.open(url, store_server.options).plan_read(where="part in ('p003', 'p004')")

    counted = store_server.measure(plan, enough=5)
    assert len(counted.result.splits) == 2
    assert counted.steps <= 5
    assert counted.requests <= 13


@pytest.mark.parametrize("where", [None, "n = 3"])
def test_each_base_file_is_one_request(store_server, make, where) -> None:
    url = make(24)
    plan = store_server.measure(lambda: lakebed.open(url, store_server.options).plan_read(where=where), enough=5)

    def read() -> Any:
        return lakebed.open(url, store_server.options).read(where=where).read_all()

    counted = store_server.measure(read, enough=plan.steps + 1, requests=plan.requests + 24)
    assert counted.result.num_rows == (24 * 9 if where is None else 9)
    assert counted.requests == plan.requests + 24
    assert counted.steps <= plan.steps + 1 + BUSY
    assert not counted.kinds["HEAD"]


def test_the_log_and_the_base_file_of_a_slice_come_together(store_server, make) -> None:
    url = make(12, logs=True)
    plan = store_server.measure(lambda: lakebed.open(url, store_server.options).plan_read(), enough=4)
    counted = store_server.measure(
        lambda: lakebed.open(url, store_server.options).read().read_all(), enough=5, requests=plan.requests + 24
    )
    assert counted.result["x"].to_pylist().count("new") == 12
    assert counted.requests == plan.requests + 24
    assert counted.steps <= plan.steps + 1 + BUSY


def test_changes_read_each_file_once(store_server, make) -> None:
    url = make(8, logs=True)

    def changes() -> Any:
        return lakebed.open(url, store_server.options).changes(after=t(50)).read_all()

    counted = store_server.measure(changes, enough=6)
    assert counted.result.num_rows == 8
    assert counted.steps <= 7
    assert counted.kinds["GET"] + counted.kinds["GETr"] <= 8 * 2 + 8


def test_a_batch_of_a_stream_looks_at_the_table_once(store_server, make, tmp_path) -> None:
    url = make(2, logs=True, commits=3)
    options = {**store_server.options, "read.start-commit": "earliest"}

    def begun() -> Any:
        stream = lakebed.open(url, options).stream()
        return stream, stream.initial()

    def batch(begun: Any) -> Any:
        stream, start = begun
        return stream.plan(start, stream.latest(start, Limits()))

    counted = store_server.measure(batch, begun, enough=6)
    assert len(counted.result.splits) == 6
    properties = [entry for entry in counted.log if entry.target.endswith("hoodie.properties")]
    assert len(properties) == 1
    assert counted.steps <= 6


def test_an_archive_of_many_files_is_read_together(store_server, make, tmp_path, version) -> None:
    steps = []
    for files in (1, 8):
        table = table_of(tmp_path / f"archived{files}", version, 1, commits=files + 2)
        for number in range(1, files + 1):
            archive(table, [(number, "deltacommit")], number)
        url = store_server.upload(table.folder)
        counted = store_server.measure(
            lambda url=url: lakebed.open(url, store_server.options).history(archived=True), enough=6
        )
        assert [instant.archived for instant in counted.result] == [True] * files + [False] * 2
        steps.append(counted.steps)
    assert steps[1] <= steps[0] + 1 and steps[0] <= 7


def test_a_report_takes_few_steps(store_server, make) -> None:
    steps = []
    for partitions, commits in ((2, 1), (16, 8)):
        url = make(partitions, commits=commits)
        counted = store_server.measure(lambda url=url: lakebed.open(url, store_server.options).inspect(), enough=4)
        assert counted.result.figures["files"]["file groups"] == partitions * commits
        steps.append(counted.steps)
    assert max(steps) <= 6


def test_one_column_of_a_large_file_is_its_end_and_that_column(store_server, version, tmp_path) -> None:
    table = HudiFolder(tmp_path / "wide", version, {"id": "string", **{f"c{n}": "long" for n in range(20)}})
    path = table.folder / table.base("g", 1, [{"id": "a", **{f"c{n}": n for n in range(20)}}])
    rows = pq.read_table(path)
    noise = np.random.default_rng(1).integers(0, 1 << 60, (20, 100_000))
    columns = [
        pa.array(noise[int(name[1:])]) if name[1:].isdigit() else rows[name].take([0] * 100_000)
        for name in rows.schema.names
    ]
    pq.write_table(pa.table(columns, schema=rows.schema), path, row_group_size=20_000, use_dictionary=False)
    table.done(1, [path.name])
    url = store_server.upload(table.folder)
    plan = store_server.measure(lambda: lakebed.open(url, store_server.options).plan_read(), enough=4)
    counted = store_server.measure(lambda: lakebed.open(url, store_server.options).read(["c7"]).read_all(), enough=6)
    assert counted.result["c7"].to_numpy().tolist() == noise[7].tolist()
    assert counted.steps <= plan.steps + 2 + BUSY
    assert counted.kinds["GETr"] <= 1 + 5
    assert counted.bytes_out < path.stat().st_size / 4
