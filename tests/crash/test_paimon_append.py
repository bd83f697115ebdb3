"""A write into a Paimon table without buckets that fails at any storage call leaves the old rows or the new ones; done
again it lands once, and what the dead one put aside is seen by nobody and goes later."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.layout import STAGING_FOLDER
from lakebed.formats.paimon.write import staging
from lakebed.formats.paimon.write.sink import PaimonSink
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from lakebed.verbs.write import Mode

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
FIRST = [{"dt": "ab"[n % 2], "id": n, "v": "first"} for n in range(6)]
SECOND = [{"dt": "abc"[n % 3], "id": n, "v": "second"} for n in range(10, 40)]
KINDS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.ERROR_AFTER, Kind.UNKNOWN_AFTER)
QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}


def commit(rows: list[dict[str, Any]], identifier: int) -> Callable[[Store], None]:
    """What a restarted job runs: two tasks that stage below the table, files of what they staged, a commit."""

    def operation(store: Store) -> None:
        sink = lakebed.open(store, QUICK).sink(Mode.APPEND, commit_user="job")
        assert isinstance(sink, PaimonSink)
        plan, data = sink.plan(), pa.Table.from_pylist(rows, SCHEMA)
        messages = []
        for part in (data.slice(0, len(data) // 2), data.slice(len(data) // 2)):
            writer = plan.task_writer()
            writer.write(part)
            messages += writer.finish()
        sink.filter_and_commit({identifier: sink.finalize(plan, messages, LocalEngine(1)).messages})

    return operation


def observe(store: Store) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The rows, and the identifiers of the commits."""
    table = lakebed.open(store)
    rows = sorted(tuple(row.values()) for row in table.read().read_all().to_pylist())
    return rows, [instant.summary["commit_identifier"] for instant in table.history()]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Store]]:
    """Fresh copies of a table with a snapshot; tasks put all rows aside in files."""
    monkeypatch.setattr(staging, "INLINE_BYTES", 0)
    number, original = itertools.count(), tmp_path / "original"
    lakebed.create(original, "paimon", SCHEMA, (), ["dt"])
    commit(FIRST, 1)(open_store(original))
    yield lambda: open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))


def test_an_append_lands_once_or_not_at_all(make: Callable[[], Store]) -> None:
    assert check_crash_safety(make, commit(SECOND, 2), observe, KINDS) > 40
    reached = make()
    commit(SECOND, 2)(reached)
    rows, commits = observe(reached)
    assert len(rows) == len(FIRST) + len(SECOND)
    assert commits == ["1", "2"]
    assert reached.list(STAGING_FOLDER).files == ()


KILLED = """
import os, pickle, signal, sys
import lakebed, pyarrow as pa
from lakebed.formats.paimon.write import file_maker, staging
from lakebed.verbs.write import Mode
staging.INLINE_BYTES = 0
sink = lakebed.open(sys.argv[1]).sink(Mode.APPEND, commit_user="job")
plan = sink.plan()
writer = plan.task_writer()
writer.write(pa.table({"dt": ["a", "z"], "id": [98, 99], "v": ["lost", "lost"]}))
messages = writer.finish()
if sys.argv[2] == "made":
    from lakebed.kernel.engine import LocalEngine
    file_maker.drop_staged = lambda store, messages: os.kill(os.getpid(), signal.SIGKILL)
    sink.finalize(plan, messages, LocalEngine(1))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["staged", "made"])
def test_a_process_killed_before_its_commit_leaves_nothing_to_see(make: Callable[[], Store], when: str) -> None:
    store = make()
    before = observe(store)
    died = subprocess.run([sys.executable, "-c", KILLED, store.location, when], capture_output=True, timeout=120)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    (left,) = store.list(STAGING_FOLDER).files
    assert observe(store) == before
    commit(SECOND, 2)(store)  # a later run passes over it
    rows, commits = observe(store)
    assert (len(rows), commits) == (len(FIRST) + len(SECOND), ["1", "2"])
    assert [info.path for info in store.list(STAGING_FOLDER).files] == [left.path]
    old = time.time() - 25 * 3600
    os.utime(Path(store.location) / left.path, (old, old))
    assert lakebed.open(store).expire().deleted_files == (left.path,)
    assert store.list(STAGING_FOLDER).files == ()
    assert observe(store) == (rows, commits)
