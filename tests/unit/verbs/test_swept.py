"""Rows that tasks stage and no message names: those of a copy of a task that lost, or of a job that failed."""

import os
import pickle
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import StorageError
from lakebed.kernel.engine import LocalEngine
from lakebed.verbs.write import Mode, Sink, finalize_and_commit, swept

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
ROWS = 20_000
BUFFER = {"iceberg": {"lakebed.write.buffer-bytes": "64kb"}, "paimon": {"write-buffer-size": "1mb"}}


def rows(start: int) -> pa.RecordBatch:
    numbers = np.random.default_rng(start).integers(0, 1 << 60, (ROWS, 2))
    texts = pa.array([f"{a}{b}" for a, b in numbers.tolist()])
    return pa.RecordBatch.from_arrays([pa.array(range(start, start + ROWS)), texts], schema=SCHEMA)


def sink_of(folder: Path, format: str) -> tuple[lakebed.Table, Sink]:
    place = folder / "db.db" / "t"
    table = lakebed.create(str(place), format, SCHEMA, options={"bucket": "-1"} if format == "paimon" else {})
    return table, lakebed.open(str(place), BUFFER[format]).sink(Mode.APPEND)


def waiting(folder: Path) -> list[str]:
    found = [*folder.rglob("lakebed-staging-*"), *folder.rglob(".lakebed/staging/*")]
    return sorted(str(path.relative_to(folder)) for path in found)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_a_loser_leaves_neither_file_nor_folder(tmp_path: Path, format: str) -> None:
    table, sink = sink_of(tmp_path, format)
    messages = []
    plan = sink.plan()
    with swept(sink):
        for counts in (True, False):  # the second is the copy whose answer nobody takes
            writer = pickle.loads(pickle.dumps(plan)).task_writer()
            writer.write(rows(0))
            if counts:
                messages += writer.finish()
            else:
                writer.finish()
        assert len(waiting(tmp_path)) >= 1
        finalize_and_commit(sink, plan, messages, LocalEngine(), 1)
        assert waiting(tmp_path)
    assert waiting(tmp_path) == []
    assert sorted(table.read(columns=["id"]).read_all().column("id").to_pylist()) == list(range(ROWS))


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_another_write_keeps_what_it_staged(tmp_path: Path, format: str) -> None:
    table, sink = sink_of(tmp_path, format)
    other = lakebed.open(table.location, BUFFER[format]).sink(Mode.APPEND)
    plan = other.plan()
    writer = plan.task_writer()
    writer.write(rows(0))
    messages = writer.finish()
    with swept(sink):
        sink.plan().task_writer().abort()
    finalize_and_commit(other, plan, messages, LocalEngine(), 1)
    assert table.read().read_all().num_rows == ROWS


@pytest.mark.slow
def test_a_task_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    _, sink = sink_of(tmp_path, "iceberg")
    writer = sink.plan().task_writer()
    for start in range(0, 5 * ROWS, ROWS):
        writer.write(rows(start))
    assert waiting(tmp_path)
    writer.abort()
    assert waiting(tmp_path) == []


def test_a_sweep_that_fails_fails_no_write(tmp_path: Path) -> None:
    class Broken:
        def sweep(self) -> None:
            raise StorageError("no")

    with swept(Broken()):  # type: ignore[arg-type]
        pass


def test_removing_orphans_takes_staged_files_and_their_folders(tmp_path: Path) -> None:
    table, _ = sink_of(tmp_path, "iceberg")
    data = Path(table.location, "data")
    full, empty, young = (data / f"lakebed-staging-{name}" for name in ("full", "empty", "young"))
    for folder in (full, empty, young):
        folder.mkdir(parents=True)
    (full / "rows.arrow").write_bytes(b"x")
    then = time.time() - 10 * 86400
    for path in (full / "rows.arrow", full, empty):
        os.utime(path, (then, then))
    options = {"expire-snapshots": "false", "remove-orphan-files": "true"}
    assert table.expire(dry_run=True, options=options).deleted_files == ("data/lakebed-staging-full/rows.arrow",)
    assert full.exists() and empty.exists()
    table.expire(options=options)
    assert (full.exists(), empty.exists(), young.exists()) == (False, False, True)
