"""A second writer that steps in at a storage call of a write or of a table service: each of the two is acknowledged or
refused, and the table holds what the acknowledged ones did, once.

Where the first one holds the table's lock, the second one waits for its turn in a thread of its own.

    python -m tests.crash.test_hudi_second_writer            every call of every pair, 10 minutes
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Call, Fault, FaultyStore
from tests.tables.hudi.fresh import fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
OCC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.time.generator.max_expected_clock_skew_ms": "0",
}
LOCKS = (".hoodie/.lakebed/writer.lock", ".hoodie/lock")
Rows = dict[int, str]
Act = Callable[[Store], None]


class Stepping(FaultyStore):
    """Lets somebody else act on the real store right before a call."""

    def __init__(self, real: Store, at: int, act: Act) -> None:
        super().__init__(real)
        self.at, self.act, self.stepped_in = at, act, False
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None

    def _fault(self, call: Call) -> Fault | None:
        found = super()._fault(call)
        if len(self.calls) >= self.at and not self.stepped_in:
            self.stepped_in = True
            if self._held():
                self.thread = threading.Thread(target=self._step_in)
                self.thread.start()
            else:
                self._step_in()
        return found

    def _held(self) -> bool:
        local = self.real.local_path("") or ""
        return any((Path(local) / lock).exists() for lock in LOCKS)

    def _step_in(self) -> None:
        try:
            self.act(self.real)
        except BaseException as error:
            self.error = error


@dataclass(frozen=True)
class Job:
    """Something done to a table: `act` does it, `model` says what it makes of the rows, each once by key."""

    act: Act
    model: Callable[[Rows], Rows] = field(default=lambda rows: rows)


def batch(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{"dt": "ab"[key % 2], "id": key, "v": value} for key, value in rows.items()], SCHEMA)


def write(rows: Rows, mode: str, options: dict[str, Any]) -> Act:
    def act(store: Store) -> None:
        lakebed.open(store).write(batch(rows), mode, options={**QUIET, **options})

    return act


def upsert(rows: Rows, options: dict[str, Any] = {}) -> Job:  # noqa: B006
    return Job(write(rows, "upsert", options), lambda before: {**before, **rows})


def moved(rows: Rows, part: str) -> Job:
    """Rows that come to a partition from wherever they are."""

    def act(store: Store) -> None:
        data = pa.Table.from_pylist([{"dt": part, "id": key, "v": value} for key, value in rows.items()], SCHEMA)
        lakebed.open(store).write(data, "upsert", options={**QUIET, "hoodie.index.type": "GLOBAL_SIMPLE"})

    return Job(act, lambda before: {**before, **rows})


def delete(rows: Rows, options: dict[str, Any] = {}) -> Job:  # noqa: B006
    return Job(write(rows, "delete", options), lambda before: {k: v for k, v in before.items() if k not in rows})


def overwrite(rows: Rows, options: dict[str, Any] = {}) -> Job:  # noqa: B006
    parts = {key % 2 for key in rows}
    return Job(
        write(rows, "overwrite", options),
        lambda before: {**{k: v for k, v in before.items() if k % 2 not in parts}, **rows},
    )


def service(options: dict[str, Any], what: str = "rewrite") -> Job:
    return Job(lambda store: getattr(lakebed.open(store), what)(options=options) and None)


def restore(store: Store) -> None:
    """Back to the third commit, the one after which all rows are of FIRST."""
    table = lakebed.open(store)
    commits = [i.time for i in table.history() if i.action in ("commit", "deltacommit")]
    table.rollback(commits[1])


FIRST: Rows = dict.fromkeys(range(6), "first")
MIDDLE: Rows = {**FIRST, 0: "middle", 1: "middle"}
START: Rows = {**MIDDLE, 0: "start", 2: "start", 3: "start"}
OURS, THEIRS = {0: "ours", 1: "ours", 10: "ours"}, {1: "theirs", 2: "theirs", 10: "theirs", 11: "theirs"}
COMPACT = service({"lakebed.rewrite.what": "compaction"})
CLUSTER = service({"lakebed.rewrite.what": "clustering", "hoodie.clustering.plan.strategy.sort.columns": "id"})
CLEAN = service({"hoodie.clean.commits.retained": 1}, "expire")
RESTORE = Job(restore, lambda rows: MIDDLE)


def made(folder: Path, version: int, kind: str, metadata: bool) -> Path:
    table = fresh_table(folder, SCHEMA, version=version, kind=kind, metadata=metadata)
    table.write(batch(FIRST), options=QUIET)
    table.write(batch({0: "middle", 1: "middle"}), "upsert", options=QUIET)
    table.write(batch({0: "start", 2: "start", 3: "start"}), "upsert", options=QUIET)
    return folder


def rows_of(store: Store) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in lakebed.open(store).read(["id", "v"]).read_all().to_pylist())


def meetings(original: Path, folder: Path, first: Job, second: Job, every: int, begin: int = 1) -> Iterator[str]:
    """Let the second one step in at every so many calls. What became of both, by the call."""
    for number in itertools.count():
        copy = shutil.copytree(original, folder / f"copy-{number}")
        store = Stepping(open_store(copy), begin + number * every, second.act)
        refused: BaseException | None = None
        try:
            first.act(store)
        except CommitConflictError as error:
            refused = error
        if not store.stepped_in:
            return
        if store.thread is not None:
            store.thread.join(60)
            assert not store.thread.is_alive(), store.calls[store.at - 1]
        at = store.calls[store.at - 1]
        where = f"at call {store.at}, {at.verb} {at.path}"
        assert store.error is None or isinstance(store.error, CommitConflictError), (where, store.error)
        orders = {(first, second), (second, first)}
        done = [job for job, error in ((first, refused), (second, store.error)) if error is None]
        wanted = []
        for order in orders:
            rows = START
            for job in order:
                rows = job.model(rows) if job in done else rows
            wanted.append(sorted(rows.items()))
        real = store.real
        assert rows_of(real) in wanted, f"{where}\nfirst: {refused}\nsecond: {store.error}\n{rows_of(real)}"
        for job in (upsert({0: "later", 20: "later"}), CLEAN):  # the table goes on
            job.act(real)
        after = [sorted({**dict(rows), 0: "later", 20: "later"}.items()) for rows in wanted]
        assert rows_of(real) in after, f"{where}: after the next write\n{rows_of(real)}"
        shutil.rmtree(copy)
        yield f"{where}: {len(done)}"


PAIRS = {
    "upsert beside upsert": (upsert(OURS), upsert(THEIRS)),
    "upsert beside upsert, OCC": (upsert({0: "ours", 1: "ours"}, OCC), upsert({1: "theirs", 2: "theirs"}, OCC)),
    "overwrite beside upsert": (overwrite({0: "ours", 10: "ours"}), upsert(THEIRS)),
    "upsert beside delete": (upsert(OURS), delete(THEIRS)),
    "clean beside upsert": (CLEAN, upsert(THEIRS)),
    "upsert beside clean": (upsert(OURS), CLEAN),
    "clean beside clean": (CLEAN, CLEAN),
    "restore beside upsert": (RESTORE, upsert(THEIRS)),
    "upsert beside restore": (upsert(OURS), RESTORE),
    "move beside move": (
        moved({1: "ours", 3: "ours", 10: "ours"}, "c"),
        moved({1: "theirs", 2: "theirs", 10: "theirs"}, "a"),
    ),
    "clustering beside upsert": (CLUSTER, upsert(THEIRS)),
    "upsert beside clustering": (upsert(OURS), CLUSTER),
}
LOGS = {
    "compaction beside upsert": (COMPACT, upsert(THEIRS)),
    "upsert beside compaction": (upsert(OURS), COMPACT),
    "compaction beside compaction": (COMPACT, COMPACT),
    "clean beside compaction": (CLEAN, COMPACT),
    "restore beside compaction": (RESTORE, COMPACT),
}


@pytest.mark.parametrize(
    ("version", "kind", "pair", "every"),
    [
        (8, "COPY_ON_WRITE", "overwrite beside upsert", 15),
        (9, "COPY_ON_WRITE", "clustering beside upsert", 17),
        (6, "COPY_ON_WRITE", "clean beside upsert", 9),
        (6, "MERGE_ON_READ", "compaction beside upsert", 21),
        (8, "MERGE_ON_READ", "move beside move", 19),
        (9, "MERGE_ON_READ", "upsert beside compaction", 19),
        (9, "COPY_ON_WRITE", "upsert beside restore", 17),
    ],
)
def test_both_are_there_or_one_is_refused(tmp_path: Path, version: int, kind: str, pair: str, every: int) -> None:
    original = made(tmp_path / "original", version, kind, False)
    ends = [*meetings(original, tmp_path, *{**PAIRS, **LOGS}[pair], every, begin=4)]
    assert len(ends) > 2 and not any(end.endswith(": 0") for end in ends), ends


def main(folder: Path, every: int = 1, wish: str = "") -> None:
    for version, kind, metadata in itertools.product((6, 8, 9), ("COPY_ON_WRITE", "MERGE_ON_READ"), (False, True)):
        name = f"{version}-{kind}-{metadata}"
        original = made(folder / name, version, kind, metadata)
        for pair, (first, second) in {**PAIRS, **(LOGS if kind == "MERGE_ON_READ" else {})}.items():
            if wish not in f"{name} {pair}":
                continue
            try:
                ends = [*meetings(original, folder, first, second, every)]
            except AssertionError as error:
                print(f"{name} {pair}: {error}", flush=True)
                continue
            finally:
                for copy in folder.glob("copy-*"):
                    shutil.rmtree(copy)
            counts = [end.rpartition(": ")[2] for end in ends]
            print(
                f"{name} {pair}: {len(ends)} calls, both at {counts.count('2')}, one at {counts.count('1')}", flush=True
            )
            assert "0" not in counts, ends


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary), *(int(arg) if arg.isdigit() else arg for arg in sys.argv[1:]))
