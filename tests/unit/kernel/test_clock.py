"""The one clock: steered by tests, asked by every decision, and checked against the store's before anything goes."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path

import pytest

from lakebed.kernel import clock
from lakebed.kernel.files import open_store
from lakebed.kernel.files.age import PROBE, certain_now, older_than, store_now

SOURCES = Path(clock.__file__).parents[1]
OTHER_CLOCKS = re.compile(
    r"\btime\.(time|time_ns|monotonic|monotonic_ns|perf_counter|localtime|gmtime|strftime)\(|"
    r"\bdatetime\.(now|utcnow|today)\(|\bdate\.today\("
)
THE_CLOCK = "kernel/clock.py"


def test_nothing_else_asks_what_time_it_is() -> None:
    found = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in SOURCES.rglob("*.py")
        if str(path.relative_to(SOURCES)) != THE_CLOCK
        for line in path.read_text().splitlines()
        if OTHER_CLOCKS.search(line)
    ]
    assert found == [], "ask lakebed.kernel.clock, which tests can set"


def test_tests_set_it_and_it_goes_back() -> None:
    with clock.set_clock(lambda: 86_400.0, lambda: 5.0):
        assert (clock.now(), clock.now_ms(), clock.steady()) == (86_400.0, 86_400_000, 5.0)
        assert clock.moment(datetime.UTC) == datetime.datetime(1970, 1, 2)
    assert clock.now() > 1.7e9
    assert clock.steady() <= clock.steady()


@pytest.mark.parametrize("ahead", [-(10**6), -30.0, 30.0, 10**6])
def test_a_time_that_something_goes_by_is_never_far_ahead_of_the_stores(tmp_path: Path, ahead: float) -> None:
    store = open_store(tmp_path)
    there = store_now(store, "folder")
    with clock.set_clock(lambda: there + ahead):
        assert certain_now(store, "folder") <= there + 60
    assert not list(tmp_path.rglob(f"{PROBE}*"))


def test_ages_are_those_of_the_store(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for name in ("old", "new"):
        store.write(name, b"x")
    os.utime(tmp_path / "old", (1000, 1000))
    assert older_than(store, ["old", "new", "gone"], 2000) == ["old"]


def test_what_dead_puts_left_goes_by_the_disks_own_clock(tmp_path: Path) -> None:
    staging = tmp_path / ".lakebed-staging"
    staging.mkdir()
    (staging / "of a writer at work").write_bytes(b"x")
    (staging / "dead").write_bytes(b"x")
    os.utime(staging / "dead", (1000, 1000))
    with clock.set_clock(lambda: 4e9):
        open_store(tmp_path).write("file", b"x")
    assert [path.name for path in staging.iterdir()] == ["of a writer at work"]
