"""Committers in processes of their own, on one table: nothing is lost, nothing doubled, whoever is killed."""

import multiprocessing
import os
import signal
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("writer", pa.int32())])
QUICK = {"commit.max-retries": "200", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "20 ms"}
COMMITS, ROWS = 4, 10
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(
    [
        "lakebed",
        "lakebed.formats.paimon.write.sink",
        "lakebed.formats.paimon.rewrite.run",
        "lakebed.formats.paimon.expire.kinds",
        "pyarrow.parquet",
        "pyarrow.compute",
    ]
)


def write(location: str, number: int, dies_at: int | None = None) -> None:
    """What one job does: its commits under its own user, each once; a restarted one does them all again."""
    table = lakebed.open(location, QUICK)
    for identifier in range(1, COMMITS + 1):
        writer = table.writer(f"job-{number}")
        ids = range((number * 100 + identifier) * ROWS, (number * 100 + identifier) * ROWS + ROWS)
        writer.write(pa.table({"id": list(ids), "writer": [number] * ROWS}, schema=SCHEMA))
        messages = writer.prepare_commit()
        if identifier == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        writer.filter_and_commit({identifier: messages})


def run(location: str, jobs: range, dies_at: int | None = None) -> list[int | None]:
    processes = [forks.Process(target=write, args=(location, number, dies_at)) for number in jobs]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_committers_at_once_lose_nothing(tmp_path: Path, count: int) -> None:
    folder = str(tmp_path / "t")
    lakebed.create(folder, "paimon", SCHEMA, ["id"], options={"bucket": "2", "write-only": "true"})
    assert run(folder, range(count)) == [0] * count
    table = lakebed.open(folder)
    assert table.read().read_all().num_rows == count * COMMITS * ROWS
    done = sorted((i.summary["commit_user"], int(i.summary["commit_identifier"])) for i in table.history())
    assert done == [(f"job-{number}", identifier) for number in range(count) for identifier in range(1, COMMITS + 1)]


def test_killed_ones_start_again(tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    lakebed.create(folder, "paimon", SCHEMA, ["id"], options={"bucket": "2"})
    assert run(folder, range(3), dies_at=3) == [-signal.SIGKILL] * 3
    assert run(folder, range(3)) == [0] * 3
    table = lakebed.open(folder)
    assert table.read().read_all().num_rows == 3 * COMMITS * ROWS
    appends = [instant for instant in table.history() if instant.action == "append"]  # a compaction has the same names
    done = [(i.summary["commit_user"], i.summary["commit_identifier"]) for i in appends]
    assert len(done) == len(set(done)) == 3 * COMMITS
