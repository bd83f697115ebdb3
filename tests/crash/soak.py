"""Many writers for real: processes that append to one table, with a reader, a rewrite and an expiry beside them, any of
them killed at random; in the end `lakebed.testing.history` holds what they noted against the table.

    ./run soak [--minutes 5] [--format paimon,iceberg,hudi] [--place disk,memory,moto,versitygw,sql,rest]
               [--writers 2,4,8] [--commits 1000] [--seed 0]

`disk` is a folder; `memory`, `moto` and `versitygw` are S3 servers that the run starts, each a process of its own, the
first the one of the tests; `sql` and `rest` are Iceberg catalogs. Each format runs at each place with each number of
writers, until each writer has made its commits or the minutes are over.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import lakebed
from lakebed.errors import CommitConflictError, CommitUnknownError, RetryableError
from lakebed.kernel import clock
from lakebed.testing.history import Append, Outcome, Read, line_problems, problems
from tests.objectstore.server import StoreServer
from tests.tables.iceberg.rest_server import RestCatalog, serve

ROWS = 3
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
SERVERS = ("memory", "moto", "versitygw")
PLACES = {"paimon": ("disk", *SERVERS), "hudi": ("disk", *SERVERS), "iceberg": ("disk", *SERVERS, "sql", "rest")}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "paimon": {"commit.max-retries": "1000", "commit.timeout": "10 min", "commit.max-retry-wait": "1 s"},
    "iceberg": {"commit.retry.num-retries": "1000", "commit.retry.max-wait-ms": "1000"},
    "hudi": {
        "hoodie.write.num.retries.on.conflict.failures": "1000", "hoodie.datasource.write.operation": "insert",
        "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.metadata.enable": "false",
    },
}  # fmt: skip
EXPIRE: Mapping[str, Mapping[str, Any]] = {
    "paimon": {"snapshot.num-retained.min": "20", "snapshot.num-retained.max": "20", "snapshot.time-retained": "1 s"},
    "iceberg": {"retain-last": 20, "older-than": "2100-01-01"},
    "hudi": {"hoodie.clean.commits.retained": 20},
}
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(
    [
        "tests.crash.soak",
        *(
            f"lakebed.formats.{name}.{part}"
            for name in PLACES
            for part in ("table", "write.sink", "rewrite.run", "expire.run")
        ),
        "lakebed.formats.iceberg.write.committer",
        "lakebed.formats.iceberg.catalog.hadoop",
        "lakebed.verbs.two_phase",
        "pandas",
        "pyarrow.parquet",
        "pyarrow.compute",
    ]
)


@dataclass(frozen=True)
class Case:
    """One table and who works on it. `options` open it; `notes` is the folder in which each process notes what it
    does. A file `stop` there ends the writers after their commit."""

    format: str
    location: str
    notes: str
    writers: int
    commits: int
    options: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> lakebed.Table:
        """The table."""
        return lakebed.open(self.location, self.options)

    def note(self, who: str, **what: Any) -> None:
        """Add a line to the notes of a process. A killed process leaves a part of one at most, and its next line does
        not go on there."""
        with open(Path(self.notes) / who, "ab", buffering=0) as file:
            file.write(b"\n" + json.dumps({"at": clock.steady(), **what}).encode())

    def noted(self, who: str) -> list[dict[str, Any]]:
        """The whole lines of a process."""
        found = []
        with suppress(FileNotFoundError):
            for line in (Path(self.notes) / who).read_text().splitlines():
                with suppress(ValueError):
                    found.append(json.loads(line))
        return found

    @property
    def stopped(self) -> bool:
        """Whether the writers should end."""
        return (Path(self.notes) / "stop").exists()


def write(case: Case, number: int) -> None:
    """A writer: goes on after the last commit whose outcome it knew. One that it had begun is made again under the same
    identifier, which commits it once."""
    who = f"writer-{number}"
    done = [line["identifier"] for line in case.noted(who) if line["event"] == "acknowledged"]
    with case.open().writer(f"job-{number}") as job:
        for identifier in range(max(done, default=0) + 1, case.commits + 1):
            if case.stopped:
                return
            name = f"{number}-{identifier}"
            case.note(who, event="begun", identifier=identifier)
            first = (number * 1_000_000 + identifier) * ROWS
            rows = pa.table({"id": range(first, first + ROWS), "name": [name] * ROWS}, SCHEMA)
            while True:
                try:
                    job.write(rows)
                    job.commit(identifier, job.prepare_commit())
                    break
                except (CommitConflictError, CommitUnknownError, RetryableError) as error:
                    case.note(who, event="again", identifier=identifier, why=str(error)[:300])
            case.note(who, event="acknowledged", identifier=identifier)


def read(case: Case) -> None:
    """A reader, which reads until somebody ends it."""
    while not case.stopped:
        began = clock.steady()
        with suppress(lakebed.errors.DataCleanedError, RetryableError):  # the expiry was faster
            case.note("reader", event="read", began=began, rows=counts(case.open()))


def maintain(case: Case, verb: str) -> None:
    """A rewrite or an expiry after the other, until somebody ends it."""
    options = EXPIRE[case.format] if verb == "expire" else {}
    while not case.stopped:
        with suppress(CommitConflictError, CommitUnknownError, RetryableError, lakebed.errors.DataCleanedError):
            getattr(case.open(), verb)(options=dict(options))
            case.note(verb, event="done")


def counts(table: lakebed.Table) -> dict[str, int]:
    """How many rows the table has of each append."""
    return dict(Counter(table.read(["name"]).read_all()["name"].to_pylist()))


def run(case: Case, minutes: float, kills: float, seed: int, most_kills: int | None = None) -> dict[str, int]:
    """Let all of them work. A process is killed every `kills` seconds or so, `most_kills` times at most. AssertionError
    for a broken promise; returns the numbers of what happened."""
    chance = random.Random(seed)
    create(case)
    jobs: dict[str, tuple[Any, tuple[Any, ...]]] = {
        f"writer-{number}": (write, (case, number)) for number in range(case.writers)
    }
    beside = {
        "reader": (read, (case,)),
        "rewrite": (maintain, (case, "rewrite")),
        "expire": (maintain, (case, "expire")),
    }
    running: dict[str, BaseProcess] = {}
    killed, until, next_kill = 0, 0.0, 0.0

    def start(name: str) -> None:
        act, arguments = {**jobs, **beside}[name]
        running[name] = forks.Process(target=act, args=arguments, name=name)
        running[name].start()

    for name in (*jobs, *beside):
        start(name)
    while any(name in running for name in jobs):
        if not until and all(case.noted(name) for name in jobs):
            until = clock.steady() + minutes * 60
            next_kill = clock.steady() + chance.expovariate(1 / kills)
        if until and clock.steady() > until and not case.stopped:
            (Path(case.notes) / "stop").touch()
        due = next_kill - clock.steady() if until and killed != most_kills else 1.0
        wait([process.sentinel for process in running.values()], min(1.0, max(0.0, due)))
        if (
            until
            and clock.steady() > next_kill
            and not case.stopped
            and (most_kills is None or killed < most_kills)
            and all(process.is_alive() for process in running.values())
        ):
            victim = running[chance.choice(sorted(running))]
            os.kill(victim.pid or 0, signal.SIGKILL)
            victim.join()
            killed, next_kill = killed + 1, clock.steady() + chance.expovariate(1 / kills)
        for name, process in [*running.items()]:
            if process.is_alive():
                continue
            process.join()
            del running[name]
            assert process.exitcode in (0, -signal.SIGKILL), f"{name} ended with {process.exitcode}"
            if process.exitcode and (name in jobs or not case.stopped):
                start(name)
    (Path(case.notes) / "stop").touch()
    for process in running.values():
        process.join(120)
        assert process.exitcode == 0, f"{process.name} ended with {process.exitcode}"
    return {**check(case), "kills": killed}


def check(case: Case) -> dict[str, int]:
    """Hold the notes against the table."""
    appends: dict[str, Append] = {}
    again = 0
    for number in range(case.writers):
        for line in case.noted(f"writer-{number}"):
            name = f"{number}-{line['identifier']}"
            again += line["event"] == "again"
            if line["event"] == "begun":
                appends.setdefault(name, Append(name, line["at"]))
            elif line["event"] == "acknowledged":
                appends[name] = replace(appends[name], ended=line["at"], outcome=Outcome.ACKNOWLEDGED)
    reads = [Read(line["began"], line["at"], line["rows"]) for line in case.noted("reader")]
    table = case.open()
    found = [*problems(appends.values(), reads, counts(table), ROWS), *_history(case, table)]
    assert not found, "\n".join(found[:20])
    done = sum(append.outcome is Outcome.ACKNOWLEDGED for append in appends.values())
    services = {verb: len(case.noted(verb)) for verb in ("rewrite", "expire")}
    return {"commits": done, "again": again, "reads": len(reads), **services}


def _history(case: Case, table: lakebed.Table) -> Iterator[str]:
    """What is wrong with the history that the table still has."""
    history = table.history()
    if case.format == "hudi":
        yield from line_problems([(instant.time, None) for instant in history])
        return
    snapshots = [(str(instant.time), instant.summary.get("parent_id")) for instant in history]
    user, identifier = ("commit_user", "commit_identifier") if case.format == "paimon" else ("lakebed.commit-user",) * 2
    names = [
        f"{instant.summary[user]} {instant.summary[identifier]}"
        for instant in history
        if instant.action == "append" and user in instant.summary and case.format == "paimon"
    ]
    yield from line_problems(snapshots, names)
    if case.format == "paimon":
        ids = [int(instant.time) for instant in history]
        if ids and ids != [*range(ids[0], ids[0] + len(ids))]:
            yield f"the snapshots have gaps: {ids}"


def create(case: Case) -> None:
    """The empty table."""
    keys = ["id"] if case.format == "hudi" else []
    lakebed.create(case.location, case.format, SCHEMA, keys, options=dict(case.options))


@contextmanager
def place(kind: str, format: str, writers: int, commits: int) -> Iterator[Case]:
    """A case on an empty place of a kind."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        case = Case(format, f"{folder}/t", f"{folder}/notes", writers, commits, OPTIONS[format])
        os.mkdir(case.notes)
        if kind in SERVERS:
            program = os.environ.get("LAKEBED_VERSITYGW", "")
            if kind == "versitygw" and not shutil.which(program):
                sys.exit("LAKEBED_VERSITYGW names no versitygw: ./run soak builds it where Go is installed")
            name = {"memory": "", "moto": "moto", "versitygw": program}[kind]
            with patch.dict(os.environ, {"LAKEBED_S3_SERVER": name}):
                server = StoreServer()
            stack.callback(server.stop)
            assert server.kind == kind
            yield replace(case, location=server.url(), options={**case.options, **server.direct})
            return
        if kind == "disk":
            yield case
            return
        if kind == "sql":
            settings = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"{folder}/w"}
        else:
            web = serve(RestCatalog(Path(folder) / "w"))
            stack.callback(web.shutdown)
            settings = {"type": "rest", "uri": f"http://127.0.0.1:{web.server_port}"}
        options = {f"lakebed.catalog.{key}": value for key, value in settings.items()}
        yield replace(case, location="soak:n.t", options={**case.options, **options})


def main() -> None:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--format", default="paimon,iceberg,hudi")
    parser.add_argument("--place", default="disk,moto,versitygw,sql,rest")
    parser.add_argument("--writers", default="2,4,8")
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--kills", type=float, default=5, help="a process is killed every so many seconds")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for format in args.format.split(","):
        for kind in args.place.split(","):
            for writers in map(int, args.writers.split(",")):
                if kind not in PLACES[format]:
                    continue
                with place(kind, format, writers, args.commits) as case:
                    began = time.monotonic()
                    numbers = run(case, args.minutes, args.kills, args.seed)
                    took = time.monotonic() - began
                print(f"{format:8} {kind:10} {writers} writers, {took:.0f} s: {numbers}", flush=True)


if __name__ == "__main__":
    main()
