"""Tables on an object store: requests, the longest chain of requests in a row, bytes and seconds of each kind of work.

    ./run bench object-store [--only iceberg-read,paimon] [--size 256] [--latency 0,20,50] [--repeat 2]
                             [--no-peers] [--log] [--json]

A proxy before a real S3 server (versitygw, built once with Go; moto's server where there is no Go) delays each request
by 0, 20 and 50 ms and counts. lakebed and its peers (pyiceberg, pypaimon, hudi-rs) do the same work on the same tables
in turn, each warm: it did the work once before, but knows nothing of the table, and lakebed's cache of metadata is
empty. Requests, bytes and steps (`chain`: the longest chain of requests of which each began when the one before had
ended) are those at the highest delay; seconds are the least of the runs. `--only` takes beginnings of names, `--log`
prints lakebed's requests, `--json` the figures. The whole goes to bench/results/object_store.json, with the goals at
50 ms and the rows that miss them.

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
from pathlib import Path
from typing import Any

from bench.objectstore.cases import CASES, Case, Goal, Opened
from bench.objectstore.peers import PeerError, Peers
from bench.objectstore.place import ROOT, Tables, started
from lakebed.errors import LakebedError
from lakebed.kernel.files.cache import CACHE
from tests.objectstore.proxy import Entry
from tests.objectstore.server import StoreServer, counted_of, kind_of

RESULTS = ROOT / "bench" / "results" / "object_store.json"
LATENCIES = (0, 20, 50)
_LONG = 3.0
"""Seconds after which a run is not repeated."""
Figures = dict[str, Any]


def main() -> None:
    given = _given()
    chosen = [case for case in CASES if case.name.startswith(tuple(given.only.split(",")))]
    latencies = [int(text) for text in given.latency.split(",")]
    server = started()
    found: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as folder:
        tables, peers = Tables(server, Path(folder)), Peers(server, Path(folder))
        try:
            for case in chosen:
                for size in case.sizes:
                    if not given.size or size in given.size:
                        found.append(measured(server, tables, peers, case, size, latencies, given))
        finally:
            peers.stop()
            server.stop()
    whole = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end",
        "server": server.kind, "delays_ms": latencies, "rows": found,
    }  # fmt: skip
    if given.json:
        print(json.dumps(whole, indent=1))
    if len(chosen) == len(CASES) and not given.size and not given.no_peers and latencies == list(LATENCIES):
        RESULTS.write_text(json.dumps(whole, indent=1) + "\n")


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", default="", help="beginnings of names, with commas: " + " ".join(c.name for c in CASES)
    )
    parser.add_argument("--size", "--files", type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--latency", default=",".join(map(str, LATENCIES)), help="ms, with commas; the last counts")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--log", action="store_true", help="print lakebed's requests")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def measured(
    server: StoreServer, tables: Tables, peers: Peers, case: Case, size: int, latencies: Sequence[int],
    given: argparse.Namespace,
) -> Figures:  # fmt: skip
    """The figures of one row."""
    row: Figures = {"name": case.name, "size": size, "what": case.what}
    table, *arguments = case.table(size)

    def lakebed() -> Callable[[], Any]:
        argument = case.prepare(Opened(tables.fresh(table, *arguments), server.options))
        return lambda: {"value": case.call(argument)}

    try:
        row["lakebed"], log = runs(server, lakebed, latencies, given.repeat)
    except LakebedError as error:
        row["lakebed"] = {"error": f"{type(error).__name__}: {error}"[:300]}
        show(row, latencies)
        return row
    value = row["lakebed"].pop("value", None)
    if case.peer and not given.no_peers and peers.has(case.peer[0]):
        peer, verb = case.peer
        try:
            figures, _ = runs(server, lambda: peers.prepare(peer, verb, tables.fresh(table, *arguments)), latencies, 1)
            other = figures.pop("value", None)
            if verb in ("read", "where", "column", "history") and other != value:
                figures["differs"] = f"{other}, lakebed {value}"
            row[peer] = figures
        except PeerError as error:
            row[peer] = {"error": str(error)}
    goal = case.goals.get(size)
    if goal:
        row["goal"] = {name: wanted for name, wanted in vars(goal).items() if wanted is not None}
        row["misses"] = misses(goal, row["lakebed"], latencies)
    show(row, latencies)
    if given.log:
        print(*lines(log), sep="\n")
    return row


def runs(
    server: StoreServer, prepare: Callable[[], Callable[[], Any]], latencies: Sequence[int], repeat: int
) -> tuple[Figures, list[Entry]]:
    """Figures of the best of some runs at each delay, after one that isn't counted; and the requests of the last."""
    prepare()()
    figures: Figures = {"seconds": {}}
    log: list[Entry] = []
    for latency in latencies:
        best = float("inf")
        for _ in range(repeat):
            work = prepare()
            CACHE.clear()
            server.latency(latency / 1000)
            server.clear()
            clock = time.perf_counter()
            try:
                answer = work()
                seconds = answer.get("seconds", time.perf_counter() - clock)
                requests = server.requests()
            finally:
                server.latency(0)
            if seconds < best:
                best, log = seconds, requests
            if seconds > _LONG:
                break
        figures["seconds"][str(latency)] = round(best, 3)
    counted = counted_of(None, log)
    figures |= {
        "requests": counted.requests, "steps": counted.steps, "kinds": dict(sorted(counted.kinds.items())),
        "at_once": counted.at_once, "bytes_out": counted.bytes_out, "bytes_in": counted.bytes_in,
        "value": answer.get("value"),
    }  # fmt: skip
    return figures, log


def misses(goal: Goal, figures: Figures, latencies: Sequence[int]) -> list[str]:
    """What falls short of the goal."""
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
