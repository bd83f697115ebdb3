"""Tables of many seeds keep their promises while processes die, calls fail and clocks jump. A seed always runs the same
way, a failure shrinks, and tables that break a promise are found."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading

import pytest

from lakebed.testing.simulation import Actor, Report, Schedule, StoreKind, drawn, simulate, world
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.run import SUBJECTS
from lakebed.testing.simulation.world import START

SEEDS = {
    "paimon": 300, "paimon-catalog": 30, "paimon-altered": 30, "paimon-postponed": 60, "paimon-dated": 40,
    "paimon-tracked": 40,
    "iceberg": 140, "iceberg-catalog": 80, "iceberg-lossy": 20, "hudi": 220, "hudi-consistent": 50,
    "hudi-bootstrapped": 20,
}  # fmt: skip
"""How many seeds of each format run here. `./run simulate` runs any number."""
BLOCK = 10


def failures(reports: list[Report]) -> str:
    return "\n\n".join(f"{one.schedule}\n{one.failure}" for one in reports if one.failure)


@pytest.mark.parametrize(
    ("format", "first"), [(name, first) for name, count in SEEDS.items() for first in range(0, count, BLOCK)]
)
def test_every_promise_holds(format: str, first: int) -> None:
    reports = [simulate(drawn(format, seed)) for seed in range(first, first + BLOCK)]
    assert not failures(reports)
    assert any("done" in line for one in reports for line in one.outcomes)


@pytest.mark.parametrize("format", ["paimon", "iceberg"])
def test_a_snapshot_is_read_again_where_a_file_of_it_is_another_one_or_gone(format: str) -> None:
    subject, store = SUBJECTS[format](random.Random(1)), MemoryStore("s3://simulated/seen/db.db/t", lambda: START)
    subject.create(store)
    subject.open(store).write(subject.data([(1, 1)]), "append")
    first = subject.see(store)
    subject.open(store).write(subject.data([(2, 2)]), "append")
    second = subject.see(store)
    assert [*map(sorted, (first.rows, second.rows))] == [[(1, 1)], [(1, 1), (2, 2)]]
    assert subject.rows_before(store, first.newest) == first.rows
    mine = sorted(subject.named(store))
    data = {path for path in mine if path.startswith(("bucket-", "data/"))}
    noticed = set()
    for path in mine:
        store.write(path, store.files[path].data)
        if subject.rows_before(store, second.newest) is None:
            noticed.add(path)
        assert sorted(subject.see(store).rows) == [(1, 1), (2, 2)]
    assert len(data) == 2 and data < noticed and len(noticed - data) > 1
    store.delete(data.pop())
    assert subject.rows_before(store, second.newest) is None


def test_a_seed_runs_the_same_way_in_every_process() -> None:
    seeds = [(format, seed) for format in SUBJECTS for seed in (200, 201)]
    code = (
        "import json; from lakebed.testing.simulation import drawn, simulate; "
        f"print(json.dumps([simulate(drawn(*seed)).digest for seed in {seeds}]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "17"}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert json.loads(other.stdout) == [simulate(drawn(*seed)).digest for seed in seeds]


def test_an_actor_that_waits_outside_the_simulation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By looks that find nobody at work: how long they take says nothing on a loaded machine."""
    monkeypatch.setattr(world, "_LOOK_SECONDS", 0.01)
    lock = threading.Lock()
    lock.acquire()

    def wait() -> None:
        lock.acquire()

    schedule = Schedule("paimon", 0, StoreKind.OBJECTS, False, (Actor("waiting", ()), Actor("other", ())))
    with pytest.raises(world.Stuck, match="waiting does not go on"):
        world.World(schedule).run({"waiting": wait, "other": lambda: None})
    lock.release()


def test_a_schedule_is_a_line_of_json() -> None:
    schedule = drawn("paimon", 5)
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert simulate(schedule).digest == simulate(Schedule.from_json(schedule.to_json())).digest
