"""Writers in processes of their own on one Hudi table, with and without table services beside them, some killed at any
moment: what was acknowledged is there once, and nothing of a dead writer is visible.

    python -m tests.crash.test_hudi_processes [ROUNDS] [SEED]     random versions, numbers of writers and kills
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError
from tests.tables.hudi.fresh import KINDS, fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
SHARED_KEY = 0
"""A row that every commit of every writer changes."""
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": 200}
LOCKED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.write.lock.client.wait_time_ms_between_retry": 100,
    "hoodie.time.generator.max_expected_clock_skew_ms": 5,
}
NON_BLOCKING = {**LOCKED, "hoodie.write.concurrency.mode": "non_blocking_concurrency_control"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
MODES = {"single": RETRIES, "occ": {**RETRIES, **LOCKED}, "non-blocking": NON_BLOCKING}
UPSERT = {"hoodie.datasource.write.operation": "upsert"}
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
TIGHT = {"hoodie.clean.commits.retained": 1, "hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4}
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(
    [
        "lakebed",
        "lakebed.formats.hudi.write.sink",
        "lakebed.formats.hudi.rewrite.run",
        "lakebed.formats.hudi.expire.run",
        "lakebed.formats.hudi.archive.run",
        "pyarrow.parquet",
        "pyarrow.compute",
    ]
)


@dataclass(frozen=True)
class Plan:
    """Who does what: `writers` of `commits` each. A service runs beside them where `services` says which."""

    writers: int
    commits: int
    mode: str
    services: tuple[str, ...] = ()

    def own(self, writer: int, identifier: int) -> list[int]:
        """The keys that one commit adds."""
        first = 100 * (writer + 1) + 2 * identifier
        return [first, first + 1]


def work(location: str, plan: Plan, writer: int) -> None:
    """What a job does: its commits, each exactly once. One that was killed does them all again. What was acknowledged
    is noted beside the table."""
    table = lakebed.open(location, {**QUIET, **UPSERT, **MODES[plan.mode]})
    with table.writer(f"job-{writer}") as job:
        for identifier in range(1, plan.commits + 1):
            keys = [SHARED_KEY, *plan.own(writer, identifier)]
            rows = [{"dt": "ab"[key % 2], "id": key, "v": f"{writer}-{identifier}"} for key in keys]
            job.write(pa.Table.from_pylist(rows, SCHEMA))
            job.commit(identifier, job.prepare_commit())
            with open(f"{location}-acknowledged", "a", encoding="utf-8") as file:
                file.write(f"{writer} {identifier}\n")


def serve(location: str, plan: Plan) -> None:
    """Table services, one after the other, until somebody ends the process."""
    while True:
        for service in plan.services:
            table = lakebed.open(location, {} if plan.mode == "single" else LOCKED)
            with suppress(CommitConflictError):
                if service == "clean":
                    table.expire(options={"hoodie.clean.commits.retained": 1})
                elif service == "archive":
                    table.archive(options=TIGHT)
                else:
                    table.rewrite(options={"lakebed.rewrite.what": service})
        time.sleep(0.05)


def life(folder: Path, plan: Plan, version: int, kind: str, kills: int, chance: random.Random, **more: Any) -> Path:
    """Let the writers work, kill `kills` of them at some moment and start them again, until all are done."""
    location = folder / "t"
    kept = {key.replace(".", "__"): text for key, text in BUCKETS.items()} if plan.mode == "non-blocking" else {}
    table = fresh_table(location, SCHEMA, version=version, kind=kind, **kept, **more)
    table.write(pa.Table.from_pylist([{"dt": "a", "id": SHARED_KEY, "v": "first"}], SCHEMA), options=QUIET)
    waiting, running = list(range(plan.writers)), dict[int, BaseProcess]()
    service: BaseProcess | None = None
    until = time.monotonic() + 240
    while waiting or running:
        assert time.monotonic() < until, "the writers do not come to an end"
        if plan.services and (service is None or service.exitcode is not None):
            assert service is None or service.exitcode == -signal.SIGKILL, "a service failed"
            service = forks.Process(target=serve, args=(str(location), plan))
            service.start()
        for writer in waiting:
            running[writer] = forks.Process(target=work, args=(str(location), plan, writer))
            running[writer].start()
        waiting = []
        if kills:
            time.sleep(chance.uniform(0.02, 0.4))
            alive = [process for process in (*running.values(), service) if process is not None and process.is_alive()]
            victim = chance.choice(alive) if alive else None
            if victim is not None and victim.pid:
                os.kill(victim.pid, signal.SIGKILL)
                victim.join()
                kills -= 1
        else:
            time.sleep(0.02)
        for writer, process in [*running.items()]:
            if not process.is_alive():
                process.join()
                assert process.exitcode in (0, -signal.SIGKILL), f"writer {writer} ended with {process.exitcode}"
                del running[writer]
                if process.exitcode:
                    waiting.append(writer)
    if service is not None and service.pid:
        os.kill(service.pid, signal.SIGKILL)
        service.join()
    check(location, plan)
    return location


def check(location: Path, plan: Plan) -> None:
    """Each row is there once, the shared one as the last commit left it, and the next write finds nothing pending."""
    done = {tuple(map(int, line.split())) for line in Path(f"{location}-acknowledged").read_text().splitlines()}
    all_of_them = {(w, n) for w in range(plan.writers) for n in range(1, plan.commits + 1)}
    assert done == all_of_them
    table = lakebed.open(location)
    rows = table.read(["id", "v", "_hoodie_commit_time"]).read_all().to_pylist()
    wanted = {key: f"{writer}-{number}" for writer, number in all_of_them for key in plan.own(writer, number)}
    assert sorted(row["id"] for row in rows) == sorted([SHARED_KEY, *wanted])
    assert {row["id"]: row["v"] for row in rows if row["id"] != SHARED_KEY} == wanted
    shared = next(row for row in rows if row["id"] == SHARED_KEY)
    assert shared["v"] != "first"
    writes = [i for i in table.history(archived=True) if i.action in ("commit", "deltacommit")]
    newest = max(row["_hoodie_commit_time"] for row in rows)
    if plan.mode == "non-blocking":  # a write may complete after another one that began later
        own = {row["_hoodie_commit_time"] for row in rows}
        newest = max((i.completed, i.time) for i in writes if i.time in own)[1]
    assert shared["_hoodie_commit_time"] == newest, "a later change of a row was lost"
    table.write(pa.Table.from_pylist([{"dt": "a", "id": 1, "v": "end"}], SCHEMA), "upsert", options={**QUIET, **LOCKED})
    table.expire(options={**LOCKED, "lakebed.expire.what": "failed-writes"})
    for action in ("compaction", "clustering"):
        for instant in lakebed.open(location).history():
            if instant.state != "completed" and instant.action in (action, "replacecommit"):
                table.rewrite(options={"lakebed.rewrite.what": action, "lakebed.rewrite.step": "run"})
                break
    table.expire(options={"hoodie.clean.commits.retained": 1})
    table = lakebed.open(location)
    assert [i for i in table.history() if i.state != "completed"] == []
    assert len(table.read(["id"]).read_all()) == len(rows) + 1


@pytest.mark.parametrize(
    ("plan", "version", "kind", "kills"),
    [
        (Plan(2, 2, "single"), 9, "COPY_ON_WRITE", 0),
        (Plan(4, 1, "occ", ("compaction", "clean")), 8, "MERGE_ON_READ", 2),
        (Plan(8, 1, "single"), 6, "MERGE_ON_READ", 2),
        (Plan(4, 2, "non-blocking", ("compaction", "clean")), 9, "MERGE_ON_READ", 1),
    ],
)
def test_acknowledged_rows_are_there_once(tmp_path: Path, plan: Plan, version: int, kind: str, kills: int) -> None:
    life(tmp_path, plan, version, kind, kills, random.Random(7))


def main(rounds: int = 20, seed: int = 0) -> None:
    for number in range(seed, seed + rounds):
        chance = random.Random(number)
        version, kind = chance.choice(KINDS)
        modes = ["single", "occ", "non-blocking"][: 3 if version > 6 and kind == "MERGE_ON_READ" else 2]
        mode, writers = chance.choice(modes), chance.choice([2, 4, 8])
        compacts = "compaction" if kind == "MERGE_ON_READ" else "clustering"
        services = chance.choice([(), ("clean",), (compacts, "clean"), (compacts, "clean", "archive")])
        plan = Plan(writers, chance.randint(2, 4), mode, services)
        kills, metadata = chance.choice([0, 2, 6]), chance.random() < 0.5
        print(number, version, kind, plan, f"{kills} kills", f"metadata table {metadata}", end=": ", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            location = life(Path(folder), plan, version, kind, kills, chance, metadata=metadata)
            actions = [instant.action for instant in lakebed.open(location).history(archived=True)]
            print(
                f"{time.monotonic() - began:.0f} s,",
                {action: actions.count(action) for action in set(actions)},
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
