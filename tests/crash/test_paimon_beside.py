"""A streaming reader beside a writer, a compactor and an expiry, each in a thread of its own: every change comes once,
whoever writes the changelog."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, StreamReader, drain
from tests.tables.paimon.small import SCHEMA, contents, rows

QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "5 ms", "commit.max-retries": "200"}
FEW = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "snapshot.time-retained": "1 ms"}
COMMITS, KEYS = 6, 12


class Follower:
    """Reads as a consumer, which holds what it has not read yet, and applies each change."""

    def __init__(self, location: str) -> None:
        self.state: dict[int, tuple[Any, ...]] = {}
        self.batches = 0
        options = {"consumer-id": "c", "read.start-commit": "earliest"}
        self._stream: StreamReader = lakebed.open(location, options).stream()
        self._position = self._stream.initial()

    def read(self) -> None:
        """Read all there is, one commit after the other."""
        for position, plan in drain(self._stream, self._position, Limits(commits=1)):
            for row in run(plan, 1).read_all().to_pylist():
                kind = row.pop("_row_kind")
                if kind in ("-U", "-D"):
                    assert self.state.pop(row["id"], None) is not None, f"{kind} of {row} came twice, or too early"
                else:
                    self.state[row["id"]] = tuple(row.values())
            self._position = position
            self.batches += 1


def write(location: str) -> None:
    table = lakebed.open(location, QUICK)
    for turn in range(COMMITS):
        written = [("a", (turn * 5 + n) % KEYS, f"v{turn}", turn) for n in range(6)]
        gone = [("a", (turn * 5 - 4) % KEYS, "", turn)] if turn else []  # the commit before wrote it
        table.write(rows(*written, *gone, kinds=["+U"] * 6 + ["-D"] * len(gone)))


def compact(location: str) -> None:
    with suppress(CommitConflictError):  # the writer was faster
        lakebed.open(location, QUICK).rewrite(options={"write-only": "false"})


def expire(location: str) -> None:
    lakebed.open(location).expire(options=FEW)


@pytest.mark.parametrize(
    ("producer", "write_only"),
    [("none", "true"), ("input", "false"), ("lookup", "true"), ("lookup", "false"), ("full-compaction", "false")],
)
def test_each_change_comes_once(tmp_path: Path, producer: str, write_only: str) -> None:
    options = {
        "bucket": "2", "changelog-producer": producer, "write-only": write_only,
        "num-sorted-run.compaction-trigger": "2", "snapshot.num-retained.min": "100",
    }  # fmt: skip
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["id"], options=options)
    lakebed.paimon.reset_consumer(table, "c", 1)
    follower, failures, done = Follower(table.location), list[BaseException](), threading.Event()

    def until_done(act: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                act()
        except BaseException as failure:  # it is raised below
            failures.append(failure)

    acts = (follower.read, lambda: compact(table.location), lambda: expire(table.location))
    threads = [threading.Thread(target=until_done, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    try:
        write(table.location)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures, failures
    table.rewrite(options={"write-only": "false"})
    follower.read()
    assert sorted(follower.state.values(), key=repr) == contents(table)
    assert follower.batches >= COMMITS
