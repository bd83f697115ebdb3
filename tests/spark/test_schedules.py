"""Batch writes whose tasks are retried, run twice, die and go on too late, and whose drivers die: an order that a seed
decides, without a JVM (`without_jvm.py`). What a job acknowledges is there once, what failed is not, and clean-up
removes all that is left.

    python -m tests.spark.test_schedules [SEEDS] [FIRST] [CASE]
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import lakebed
import lakebed.spark
from lakebed.spark.release import HAS_SOURCES
from lakebed.spark.types import spark_schema
from lakebed.testing.faults import Crash
from lakebed.verbs.table import Table
from tests.spark.without_jvm import Frame, JobFailedError, Mortal, Schedule, mortal, without_jvm
from tests.tables.leftovers import leftovers

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("p", pa.string()), pa.field("v", pa.string())])
CASES: Mapping[str, tuple[str, Sequence[str], Mapping[str, Any]]] = {
    "hudi copy on write": ("hudi", ["id"], {"hoodie.table.type": "COPY_ON_WRITE"}),
    "hudi merge on read": ("hudi", ["id"], {"hoodie.table.type": "MERGE_ON_READ"}),
    "paimon append": ("paimon", [], {}),
    "paimon keyed": ("paimon", ["p", "id"], {"bucket": "2"}),
    "paimon dynamic": ("paimon", ["p", "id"], {}),
    "iceberg append": ("iceberg", [], {}),
    "iceberg keyed": ("iceberg", ["id"], {"format-version": 2}),
}
CLEANUPS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "hudi": ({"lakebed.expire.what": "failed-writes"}, {"lakebed.expire.what": "orphan-files"}),
    "paimon": (
        {
            "snapshot.num-retained.min": 1,
            "snapshot.num-retained.max": 1,
            "snapshot.time-retained": "1 ms",
            "lakebed.owed.time-retained": "1 ms",
        },
        {"lakebed.expire.what": "orphan-files"},
    ),
    "iceberg": ({"expire-snapshots": False, "remove-orphan-files": True},),
}
FATES = ("succeeds", "succeeds", "gives up", "driver dies", "commit dies")
Rows = dict[int, str]


def made(folder: Path, case: str) -> Table:
    table_format, key, options = CASES[case]
    return lakebed.create(folder, table_format, SCHEMA, key, ["p"], options)


def rows_of(folder: Path) -> list[tuple[int, str]]:
    rows = lakebed.open(folder).read(["id", "v"]).read_all()
    return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def batches(rows: Rows, tasks: int) -> list[list[pa.RecordBatch]]:
    """The rows in so many tasks, few rows in a batch."""
    keys = list(rows)
    parts = []
    for task in range(tasks):
        mine = keys[task::tasks]
        chunks = [mine[start : start + 3] for start in range(0, len(mine), 3)]
        data = [[{"id": key, "p": "ab"[key % 2], "v": rows[key]} for key in chunk] for chunk in chunks]
        parts.append([pa.RecordBatch.from_pylist(each, SCHEMA) for each in data])
    return parts


class Job:
    """One write of a DataFrame by one of the faces, with what happens to it."""

    def __init__(self, folder: Path, store: Mortal, chance: random.Random, fate: str) -> None:
        self.folder, self.store, self.chance, self.fate = folder, store, chance, fate
        self.schedule = Schedule(chance, store, gives_up=fate == "gives up")

    def write(self, rows: Rows, mode: str) -> None:
        """lakebed.spark.write"""
        frame = Frame(SCHEMA, batches(rows, 3), self.schedule, after=self._between)
        lakebed.spark.write(frame, str(self.folder), mode, {"sink.parallelism": 2})  # type: ignore[arg-type]

    def save(self, rows: Rows) -> None:
        """df.write.format("lakebed").save, each call in a Python of its own"""
        from lakebed.spark.data_sources import data_sources  # which PySpark 3.5 lacks

        (source,) = data_sources({"lakebed": "lakebed"}, 3, False)
        writer = self._moved(source({"path": str(self.folder)}).writer(spark_schema(SCHEMA), False))
        messages = self.schedule.run(self._moved(writer).write, batches(rows, 3))
        if None in messages:
            self._moved(writer).abort(self._moved(messages))
            raise JobFailedError
        self._between()
        try:
            self._moved(writer).commit(self._moved(messages))
        except Crash:
            if self.fate == "commit dies":  # the Python of the commit died, and Spark tells the writer
                self.store.revive()
                self._moved(writer).abort(self._moved(messages))
            raise

    def _between(self) -> None:
        """The tasks are done, the commit has not begun."""
        if self.fate == "driver dies":
            self.store.crashed = True
            raise Crash("the driver was killed")
        if self.fate == "commit dies":
            self.store.kill_at(self.chance.randrange(1, 16))

    @staticmethod
    def _moved(value: Any) -> Any:
        return cloudpickle.loads(cloudpickle.dumps(value))


def play(folder: Path, case: str, seed: int) -> list[str]:
    """A few jobs on one table. What became of each."""
    chance = random.Random(f"{case} {seed}")
    made(folder, case)
    store = mortal(folder)
    rows: Rows = {}
    told = []
    jobs = chance.randrange(2, 5)
    for number in range(jobs):
        fate = chance.choice(FATES) if number < jobs - 1 else "succeeds"
        face = "write" if case == "paimon dynamic" or chance.random() < 0.6 or not HAS_SOURCES else "save"
        keyed = "keyed" in case or "dynamic" in case
        mode = "upsert" if (keyed or "hudi" in case) and face == "write" else "append"
        old = list(rows)[:3] if mode == "upsert" and case != "hudi copy on write" else []
        new = dict.fromkeys([*old, *range(100 * number, 100 * number + chance.randrange(4, 30))], f"{number}")
        job = Job(folder, store, chance, fate)
        with without_jvm(store):
            error: BaseException | None = None
            try:
                job.write(new, mode) if face == "write" else job.save(new)
            except (Crash, JobFailedError) as ended:
                error = ended
            finally:
                store.revive()
            first = rows_of(folder)
            job.schedule.end()
        at = f"{case}, seed {seed}, job {number}: {face} {mode}, {fate}: {error!r}"
        before, after = sorted(rows.items()), sorted({**rows, **new}.items())
        wanted = {"succeeds": [after], "commit dies": [before, after]}.get(fate, [before])
        assert rows_of(folder) == first, f"{at}\na copy that came too late changed rows"
        assert first in ([after] if error is None else wanted), f"{at}\n{first}\n{wanted}"
        assert error is None or fate != "succeeds", at
        rows = dict(first)
        told.append(f"{at}: {'new' if first == after else 'old'}")
    check_clean(folder, rows)
    return told


def check_clean(folder: Path, rows: Rows) -> None:
    """The format's clean-up finds what is left, and nothing else."""
    for path in folder.rglob("*"):
        os.utime(path, (1, 10**9), follow_symlinks=False)  # long ago
    table = lakebed.open(folder)
    for options in CLEANUPS[table.format]:
        table.expire(options=options)
    table = lakebed.open(folder)
    assert rows_of(folder) == sorted(rows.items())
    if table.format == "paimon":
        assert len(table.history()) == 1
    left = leftovers(table)
    assert not left, left


@pytest.mark.parametrize("case", CASES)
def test_what_is_acknowledged_is_there_once(tmp_path: Path, case: str) -> None:
    told = [line for seed in range(3) for line in play(tmp_path / str(seed), case, seed)]
    assert {line.rpartition(": ")[2] for line in told} == {"old", "new"}


def main(seeds: str = "200", first: str = "0", wish: str = "") -> None:
    for seed in range(int(first), int(first) + int(seeds)):
        for case in CASES:
            if wish in case:
                with tempfile.TemporaryDirectory() as folder:
                    play(Path(folder) / "t", case, seed)
    print(f"{seeds} seeds of {len(CASES)} cases: well")


if __name__ == "__main__":
    main(*sys.argv[1:])
