"""Tables on an object store: requests, the longest chain of requests in a row, bytes and seconds of each kind of work.

    ./run bench object-store [--only iceberg-read,paimon] [--size 256] [--latency 0,20,50] [--repeat 2]
                             [--no-peers] [--log] [--json]

A proxy before a real S3 server (versitygw, built once with Go; moto's server where there is no Go) delays each request
by 0, 20 and 50 ms and counts. lakebed and its peers (pyiceberg, pypaimon, hudi-rs) do the same work on the same tables
in turn, each warm: it did the work once before, but knows nothing of the table, and lakebed's cache of metadata is
empty. Requests, bytes and steps (`chain`: the longest chain of requests of which each began when the one before had
ended) are those at the highest delay; seconds are the least of the runs. `--only` takes beginnings of names, `--log`
prints lakebed's requests, `--json` the figures. They go to bench/results/object_store.json, with the goals at 50 ms and
what misses them; rows that a run leaves out keep their figures there.

The peers need the environments that `./run setup interop` makes; one that is missing is left out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.objectstore.cases import CASES, Case, Goal, Opened
from bench.objectstore.others import commit_cost, stream_batch
from bench.objectstore.peers import PeerError, Peers
from bench.objectstore.place import ROOT, Tables, started
from lakebed.errors import LakebedError
from lakebed.kernel.files.cache import CACHE
from tests.objectstore.proxy import Entry
from tests.objectstore.server import StoreServer, counted_of, kind_of

RESULTS = ROOT / "bench" / "results" / "object_store.json"
LATENCIES = (0, 20, 50)
STREAM, COST = "stream-batch", "commit-cost"
"""Rows that are measured in ways of their own."""
_LONG = 3.0
"""Seconds after which a run is not repeated."""
_TOO_LONG = 8.0
"""Seconds of a peer on a smaller table of a row, after which it is left out of the larger ones."""
_TOO_LONG = 8.0
"""Seconds of a peer, after which it is left out of the larger sizes of the row."""
_NAMES = " ".join([*(case.name for case in CASES), STREAM, f"{COST}-iceberg", f"{COST}-paimon"])
ROWS = ("read", "where", "column", "history")
"""Verbs of peers that must give what lakebed gives."""
Figures = dict[str, Any]


def main() -> None:
    given = _given()
    wanted = tuple(given.only.split(","))
    server = started()
    costs: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as folder:
        tables, peers = Tables(server, Path(folder)), Peers(server, Path(folder))
        bench = Bench(server, tables, None if given.no_peers else peers, given.latency, given.repeat, given.log)
        try:
            for case in CASES:
                for size in case.sizes:
                    if case.name.startswith(wanted) and (not given.size or size in given.size):
                        bench.measure(case, size)
            if STREAM.startswith(wanted):
                bench.measure_stream()
            for format in ("iceberg", "paimon"):
                if f"{COST}-{format}".startswith(wanted):
                    costs[format] = commit_cost(Path(folder), format)
                    print(f"{COST}-{format}   ms of an append by the commits before it: {costs[format]}", flush=True)
        finally:
            peers.stop()
            server.stop()
    if given.json:
        print(json.dumps({"rows": bench.rows, "commit_cpu_ms": costs}, indent=1))
    if not given.no_peers and given.latency == list(LATENCIES):
        keep(server.kind, bench.rows, costs)


def keep(server: str, rows: Sequence[Figures], costs: dict[str, Figures]) -> None:
    """Write the figures down; those of rows that this run left out stay."""
    known: Figures = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": [], "commit_cpu_ms": {}}
    by_name = {(row["name"], row["size"]): row for row in [*known["rows"], *rows]}
    order = [(case.name, size) for case in CASES for size in case.sizes] + [(STREAM, 1)]
    whole = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end",
        "server": server, "delays_ms": LATENCIES, "commit_cpu_ms": known["commit_cpu_ms"] | costs,
        "rows": [by_name[name] for name in order if name in by_name],
    }  # fmt: skip
    RESULTS.write_text(json.dumps(whole, indent=1) + "\n")


def _given() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"beginnings of names, with commas: {_NAMES}")
    parser.add_argument("--size", "--files", type=numbers, help="with commas")
    parser.add_argument("--latency", type=numbers, default=list(LATENCIES), help="ms, with commas; the last counts")
    parser.add_argument("--repeat", type=int, default=2, help="runs at each delay, of which the fastest counts")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--log", action="store_true", help="print lakebed's requests")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON too")
    return parser.parse_args()


@dataclass
class Bench:
    """One run of the bench: what it measures with, and the rows so far."""

    server: StoreServer
    tables: Tables
    peers: Peers | None
    latencies: Sequence[int]
    repeat: int
    log: bool
    rows: list[Figures] = field(default_factory=list)
    _slow: dict[str, str] = field(default_factory=dict)

    def measure(self, case: Case, size: int) -> None:
        """One row: lakebed and the peer that does the same."""
        row: Figures = {"name": case.name, "size": size, "what": case.what}
        table, *arguments = case.table(size)

        def lakebed() -> Callable[[], Any]:
            argument = case.prepare(Opened(self.tables.fresh(table, *arguments), self.server.options))
            return lambda: {"value": case.call(argument)}

        log: list[Entry] = []
        try:
            row["lakebed"], log = self._runs(lakebed)
        except LakebedError as error:
            row["lakebed"] = {"error": f"{type(error).__name__}: {error}"[:300]}
        if case.peer and self.peers is not None and self.peers.has(case.peer[0]):
            peer, verb = case.peer
            row[peer] = self._peer(
                case.name, size, lambda: self.peers.prepare(peer, verb, self.tables.fresh(table, *arguments))
            )
            if verb in ROWS and "error" not in row[peer] and row[peer].get("value") != row["lakebed"].get("value"):
                row[peer]["differs"] = f"{row[peer].get('value')}, lakebed {row['lakebed'].get('value')}"
        self._done(row, case.goals.get(size), log)

    def measure_stream(self) -> None:
        """The row of a stream's batch."""
        figures = stream_batch(self.server, self.tables, self.latencies)
        log = figures.pop("log")
        what = "a batch of a stream from Hudi to Paimon on Spark; the mean of ten"
        row = {"name": STREAM, "size": 1, "what": what, "lakebed": figures}
        self._done(row, Goal(seconds=1.0, requests=25), log)

    def _peer(self, name: str, size: int, prepare: Callable[[], Callable[[], Any]]) -> Figures:
        if name in self._slow:
            return {"error": f"left out: {self._slow[name]}"}
        try:
            figures, _ = self._runs(prepare)
        except PeerError as error:
            return {"error": str(error)}
        longest = max(figures["seconds"].values())
        if longest > _TOO_LONG:
            self._slow[name] = f"{longest:.0f} s for {size}"
        return figures

    def _runs(self, prepare: Callable[[], Callable[[], Any]]) -> tuple[Figures, list[Entry]]:
        """Figures of the best of some runs at each delay, after one that isn't counted; the last requests."""
        prepare()()
        figures: Figures = {"seconds": {}}
        for latency in self.latencies:
            best, log = float("inf"), []
            for _ in range(self.repeat):
                work = prepare()
                CACHE.clear()
                self.server.latency(latency / 1000)
                self.server.clear()
                clock = time.perf_counter()
                try:
                    answer = work()
                    seconds = answer.get("seconds", time.perf_counter() - clock)
                    requests = self.server.requests()
                finally:
                    self.server.latency(0)
                if seconds < best:
                    best, log = seconds, requests
                if seconds > _LONG:
                    break
            figures["seconds"][str(latency)] = round(best, 3)
        counted = counted_of(None, log)
        figures |= {
            "requests": counted.requests, "steps": counted.steps, "kinds": dict(sorted(counted.kinds.items())),
            "at_once": counted.at_once, "bytes_out": counted.bytes_out, "bytes_in": counted.bytes_in,
        }  # fmt: skip
        if isinstance(answer.get("value"), int):
            figures["value"] = answer["value"]
        return figures, log

    def _done(self, row: Figures, goal: Goal | None, log: Sequence[Entry]) -> None:
        if goal:
            row["goal"] = {name: wanted for name, wanted in vars(goal).items() if wanted is not None}
            row["misses"] = misses(goal, row["lakebed"], self.latencies)
        self.rows.append(row)
        show(row, self.latencies)
        if self.log:
            print(*lines(log), sep="\n", flush=True)


def misses(goal: Goal, figures: Figures, latencies: Sequence[int]) -> list[str]:
    """What falls short of the goal."""
    if "error" in figures:
        return [figures["error"]]
    found = []
    if goal.seconds is not None and 50 in latencies and figures["seconds"]["50"] > goal.seconds:
        found.append(f"{figures['seconds']['50']} s for {goal.seconds} s")
    for name, wanted in (("steps", goal.steps), ("requests", goal.requests)):
        if wanted is not None and figures[name] > wanted:
            found.append(f"{figures[name]} {name} for {wanted}")
    return found


def show(row: Figures, latencies: Sequence[int]) -> None:
    print(f"{row['name']} {row['size']}   {row['what']}")
    for who, figures in row.items():
        if isinstance(figures, dict) and who != "goal":
            if "error" in figures:
                print(f"   {who:10} {figures['error']}")
                continue
            seconds = "  ".join(f"{figures['seconds'][str(ms)]:.3f} s at {ms}" for ms in latencies)
            kinds = " ".join(f"{kind}:{count}" for kind, count in figures["kinds"].items())
            moved = f"{figures['bytes_out'] / 1e6:.2f} MB out, {figures['bytes_in'] / 1e6:.2f} in"
            counts = f"{figures['requests']:5} requests {figures['steps']:4} steps"
            print(f"   {who:10} {counts}   {seconds}   {kinds}   {moved}   {figures.get('differs', '')}")
    if row.get("misses"):
        print(f"   MISSES     {'; '.join(row['misses'])}")
    print(end="", flush=True)


def lines(log: Sequence[Entry]) -> list[str]:
    """One line per request: when it began and ended in ms, and what it asked."""
    start = log[0].began if log else 0.0
    found = []
    for entry in log:
        path, _, query = entry.target.partition("?")
        asked = path.split("/", 3)[-1] + (f"?{query}" if query else "")
        times = f"{(entry.began - start) * 1000:7.0f} {(entry.ended - start) * 1000:7.0f}"
        found.append(f"   {times} {kind_of(entry):7} {entry.status} {entry.bytes_out or entry.bytes_in:8}"
                     f" {asked} {entry.range.removeprefix('bytes=')}")  # fmt: skip
    return found


if __name__ == "__main__":
    main()
