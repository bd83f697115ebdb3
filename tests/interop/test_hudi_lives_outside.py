"""One table, several engines: releases of Hudi and lakebed take turns at every operation and service, and after each
step all of them read what a dictionary says. `tests/interop/hudi_life.py` runs many more such lives by hand."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.hudi_actors import Bundle, Lakebed, Release
from tests.interop.hudi_life import Life
from tests.interop.hudi_shape import Shape

SERVICES = """
release insert, lakebed delete, lakebed plan_compaction, release compact, release upsert, release delete,
lakebed plan_compaction, lakebed compact, lakebed clean, release upsert, lakebed delete, lakebed cluster,
lakebed archive, release delete, release clean, lakebed upsert, release archive, release upsert
"""
"""Whose turn, and what: each engine goes on after the services of the other."""

HISTORY = """
release insert, lakebed delete, lakebed plan_compaction, release compact, release upsert, release delete,
lakebed plan_compaction, lakebed compact, lakebed clean, release upsert, lakebed delete, lakebed compact_logs,
lakebed savepoint, lakebed cluster, release upsert, lakebed restore, lakebed archive, release delete, release clean,
lakebed upsert, release archive, lakebed upkeep, release upkeep
"""
"""The same with a savepoint, a restore, and writers that clean, compact and archive."""

DEATHS = """
release insert, lakebed upsert requested, release upsert, lakebed delete inflight, release delete,
lakebed upsert files, release insert, lakebed delete metadata, release upsert, lakebed upsert completed, release upsert,
lakebed cluster metadata, release cluster, lakebed clean files, release clean, lakebed savepoint,
lakebed cluster files, release cluster, release upsert, lakebed restore, release upsert, release died, lakebed upsert
"""
"""A process of lakebed dies at the moment that is named, and the release goes on with what it left; at the end the
other way round."""

COMPACTION = """
release insert, lakebed upsert, lakebed plan_compaction, lakebed compact files, release compact, release upsert,
release plan_compaction, lakebed compact completed, release compact
"""
"""A compaction dies, and the release runs what was planned."""

TURNS = "release insert, lakebed upsert, release upsert, lakebed delete, lakebed insert, release delete"

pytestmark = pytest.mark.timeout(900)  # a release starts a JVM and writes dozens of commits

MOR, COW = {"merge_on_read": True}, {"merge_on_read": False}
LIVES: dict[str, list[tuple[int, str | int, dict[str, Any]]]] = {
    "0.15.0": [
        (3, SERVICES, {**MOR, "index": "BLOOM", "partitioning": "hive", "metadata": "statistics"}),
        (4, 8, {**COW, "index": "SIMPLE", "partitioning": "none", "metadata": "off"}),
    ],
    "1.0.2": [
        (5, SERVICES, {**MOR, "version": 8, "index": "SIMPLE", "partitioning": "encoded", "metadata": "off"}),
        (5, COMPACTION, {**MOR, "version": 8, "index": "BUCKET", "partitioning": "simple", "positions": True}),
        (6, 8, {**COW, "version": 6, "index": "BLOOM", "partitioning": "complex", "metadata": "files"}),
    ],
    "1.1.1": [
        (7, HISTORY, {**MOR, "version": 9, "index": "BLOOM", "partitioning": "simple", "metadata": "all"}),
        (7, DEATHS, {**COW, "version": 9, "index": "SIMPLE", "partitioning": "hive", "metadata": "all"}),
        (8, TURNS, {**COW, "version": 9, "index": "BLOOM", "partitioning": "none", "change_log": "data_before_after"}),
        (8, 8, {**COW, "version": 8, "index": "SIMPLE", "partitioning": "hive", "metadata": "off"}),
        (9, 6, {"index": "RECORD_INDEX", "partitioning": "timestamp"}),
    ],
}
"""Release -> seed, whose turns (or how many steps of chance), what is not left to chance. What lakebed refuses, the
release does."""
FIXED = {"change_log": "", "locks": False, "positions": False, "layout": "z-order"}
CASES = [(release, *life) for release, lives in LIVES.items() for life in lives]


class Releases:
    """One process of a release at a time. Its folder outlives the test that began it."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._running: dict[str, Release] = {}

    def __getitem__(self, name: str) -> Release:
        if name not in self._running:
            self.close()
            self._running[name] = Release(name, self._folders.mktemp("release"))
        return self._running[name]

    def close(self) -> None:
        """End the process that runs."""
        for release in self._running.values():
            release.close()
        self._running.clear()


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releases]:
    """The release that the running test needs."""
    running = Releases(tmp_path_factory)
    yield running
    running.close()


@pytest.mark.parametrize(("release", "seed", "turns", "wanted"), CASES)
def test_every_engine_reads_what_any_of_them_wrote(
    release: str, seed: int, turns: str | int, wanted: dict[str, Any], releases: Releases, tmp_path: Path
) -> None:
    shape = Shape.drawn(release, random.Random(seed), {**FIXED, **wanted})
    life = Life(releases[release], shape, tmp_path / "life", seed)
    did = life.lakebed.changed
    if isinstance(turns, int):
        life.live(turns)
        assert did["write"] >= (2 if shape.index in ("SIMPLE", "BLOOM") else 0), (life.told, life.refused)
    else:
        life.play(turns)
        assert not life.refused
        deaths = sum(" dies after " in line for line in life.told)
        assert deaths == sum(len(turn.split()) == 3 for turn in turns.split(",")), life.told
    if turns is SERVICES:
        assert did.pop("clean") in (1, 2), life.told  # the second one is that of the end
        assert did == {"write": 3, "run": 1, "cluster": 1, "archive": 1}, life.told
    assert release in {line.split()[1] for line in life.told if line[0].isdigit()}


@pytest.mark.parametrize(("release", "version"), [("0.15.0", 6), ("1.1.1", 9)])
def test_releases_go_on_with_the_columns_that_a_write_of_lakebed_added(
    release: str, version: int, releases: Releases, tmp_path: Path
) -> None:
    engine = releases[release]
    fixed = {**FIXED, "version": version, "index": "SIMPLE", "partitioning": "simple", "metadata": "off"}
    shape = Shape.drawn(
        release, random.Random(1), {**fixed, "merge_on_read": True, "keys": ("id",), "event_time": True}
    )
    bundle, ours = Bundle(engine, shape, tmp_path / "t"), Lakebed(shape, tmp_path / "t")
    chance = random.Random(5)
    rows = pa.Table.from_pylist([shape.row(chance, key, 1) for key in range(6)], schema=shape.schema)
    bundle.write("insert", rows, first=True)
    place = rows.schema.get_field_index("n")
    wider = rows.slice(0, 3).set_column(place, "n", pa.array([1 << 40, None, 3]))
    wider = wider.append_column("extra", pa.array(["é", None, "x"]))
    ours.write("upsert", wider, {"lakebed.write.schema": "evolve"})
    columns = ["id", "n", "extra"]
    assert sorted(ours.read(columns), key=str) == sorted(bundle.read(columns), key=str)
    bundle.write("upsert", wider.slice(1, 2))
    ours.write("upsert", wider.slice(0, 1))
    bundle.schedule_compaction()
    bundle.run_compaction()
    found = sorted(ours.read(columns), key=str)
    assert found == sorted(bundle.read(columns), key=str)
    assert [row for row in found if row[0] == "k00"] == [["k00", str(1 << 40), "é"]]
