"""What lakebed does with the tables, row by row, and what is wanted of it at 50 ms a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lakebed
from bench.objectstore import tables as make
from bench.objectstore.place import Place

SIZES = (4, 64, 256, 1024)
WHERE = "v = 250"
EXPIRE = {"older-than": "2100-01-01", "retain-last": "1"}
PAIMON_EXPIRE = {
    "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms",
}  # fmt: skip


@dataclass(frozen=True)
class Goal:
    """The most that is wanted of a row at 50 ms a request; None: nothing said."""

    seconds: float | None = None
    steps: int | None = None
    requests: int | None = None


@dataclass(frozen=True)
class Case:
    """One row of the bench.

    `table(size)` names the maker of the table and its arguments, `prepare` gives what the measured `call` takes.
    `peer` is the verb of a peer for the same work, with the arguments of `asks`. `writes`: the table is put back
    before every run.
    """

    name: str
    table: Callable[[int], tuple[Any, ...]]
    call: Callable[[Any], Any]
    sizes: Sequence[int] = (1,)
    prepare: Callable[[Opened], Any] = lambda opened: opened
    goals: Mapping[int, Goal] = field(default_factory=dict)
    peer: tuple[str, str] | None = None
    writes: bool = False
    what: str = ""


@dataclass(frozen=True)
class Opened:
    """A table's place and the options that open it through the proxy."""

    place: Place
    options: Mapping[str, str]

    def open(self, **more: str) -> lakebed.Table:
        name = "bench:ns.t" if self.place.catalog else self.place.url
        return lakebed.open(name, {**self.options, **self.place.options, **more})


def _rows(opened: Opened, **how: Any) -> int:
    return int(opened.open().read(**how).read_all().num_rows)


def _open(opened: Opened) -> lakebed.Table:
    return opened.open()


def _plan(opened: Opened) -> int:
    return len(list(opened.open().plan_read().splits))


def _all(**goal: Any) -> dict[int, Goal]:
    return dict.fromkeys((1, *SIZES, 12, 16, 34, 40, 50, 130), Goal(**goal))


def _append(partitions: int) -> Callable[[lakebed.Table], Any]:
    return lambda table: table.write(make.rows(partitions, 1000)).outcome.value


def _upsert(table: lakebed.Table) -> Any:
    return table.write(make.rows(4, 0, 100), mode="upsert").outcome.value


def _reads(format: str, name: str, table: Callable[[int], tuple[Any, ...]], peer: str | None) -> list[Case]:
    """Reading some files: all rows, and those that a predicate on a value keeps."""
    return [
        Case(
            f"{format}-{name}", table, _rows, SIZES, goals={256: Goal(seconds=1.5)},
            peer=(peer, "read") if peer else None, what="open and read all rows, by number of files",
        ),
        Case(
            f"{format}-{name.replace('read', 'where')}", table, lambda opened: _rows(opened, where=WHERE), SIZES,
            goals={256: Goal(seconds=1.5)}, peer=(peer, "where") if peer else None,
            what="the same with `where` on a value that every file has: no more requests than the read",
        ),
    ]  # fmt: skip


def _format_cases(format: str) -> list[Case]:
    """What is the same in every format."""
    table = {
        "iceberg": lambda size: (make.iceberg, *make.shape(size)),
        "paimon": lambda size: (make.paimon, *make.shape(size), True),
        "hudi": lambda size: (make.hudi, 6, size, 4, size // 4),
    }[format]
    peer = {"iceberg": "pyiceberg", "paimon": "pypaimon", "hudi": "hudi-rs"}[format]
    column = (peer, "column")
    return [
        Case(
            f"{format}-column", lambda size: (make.wide, format), lambda opened: _rows(opened, columns=["c50"]),
            goals=_all(seconds=0.4), peer=column, what="open and read one column of a file of 32 MB and 100 columns",
        ),
        Case(
            f"{format}-inspect", table, lambda opened: bool(opened.open().inspect()), (64, 256),
            goals=_all(seconds=0.5), what="open and inspect, by number of files",
        ),
        Case(
            f"{format}-history", table, lambda opened: len(opened.open().history()), (256,),
            goals=_all(seconds=0.3), peer=(peer, "history") if format != "hudi" else None,
            what="open and history (64 snapshots; Hudi: the timeline)",
        ),
    ]  # fmt: skip


def _iceberg() -> list[Case]:
    path = (make.iceberg, 1, 4)
    named = (make.iceberg_catalog, 1, 4)
    return [
        Case("iceberg-open", lambda size: (make.iceberg, size, 4), _open, (1, 64), goals=_all(steps=3),
             peer=("pyiceberg", "open"), what="open by path, by number of snapshots"),
        Case("iceberg-plan", lambda size: (make.iceberg, size, 4), _plan, (1, 64), goals=_all(steps=5),
             peer=("pyiceberg", "plan"),
             what="open and plan by path: 3 steps, and one for the manifest list and one for the manifests"),
        Case("iceberg-catalog-plan", lambda size: named, _plan, goals=_all(steps=3),
             what="open and plan by catalog: the metadata, the list, the manifests"),
        *_reads("iceberg", "read", lambda size: (make.iceberg, *make.shape(size)), "pyiceberg"),
        Case("iceberg-append", lambda size: path, _append(4), prepare=_open, writes=True,
             goals=_all(seconds=0.4, steps=6), what="append to 4 partitions, by path; the table is open"),
        Case("iceberg-open-append", lambda size: path, lambda opened: _append(4)(_open(opened)), writes=True,
             what="open by path and append to 4 partitions"),
        Case("iceberg-catalog-append", lambda size: named, _append(4), prepare=_open, writes=True,
             goals=_all(seconds=0.4, steps=6), what="append to 4 partitions, by catalog; the table is open"),
        Case("iceberg-catalog-open-append", lambda size: named, lambda opened: _append(4)(_open(opened)), writes=True,
             peer=("pyiceberg", "append"), what="open by catalog and append to 4 partitions"),
        Case("iceberg-upsert", lambda size: (make.iceberg, 4, 4, "id"), lambda opened: _upsert(_open(opened)),
             writes=True, what="open and upsert 400 rows in 4 partitions of 4 files each"),
        Case("iceberg-rewrite", lambda size: (make.iceberg, size, 0),
             lambda opened: opened.open().rewrite().files_after, (12, 50),
             goals={50: Goal(seconds=1.5)}, writes=True, what="open and rewrite so many files, of a commit each"),
        Case("iceberg-expire", lambda size: (make.iceberg, size, 0),
             lambda opened: len(opened.open().expire(options=EXPIRE).expired), (16, 50),
             goals={50: Goal(seconds=1.0)}, writes=True, what="open and expire all snapshots but the newest"),
        Case("iceberg-catalog-expire", lambda size: (make.iceberg_catalog, size, 1),
             lambda opened: len(opened.open().expire(options=EXPIRE).expired), (16, 50), writes=True,
             goals={50: Goal(seconds=1.0)}, peer=("pyiceberg", "expire"),
             what="the same by catalog (pyiceberg changes the metadata alone, and deletes no file)"),
    ]  # fmt: skip


def _paimon() -> list[Case]:
    def upserted(size: int) -> tuple[Any, ...]:
        return make.paimon, 4, 4, True, 4

    return [
        Case("paimon-open", lambda size: (make.paimon, size, 4, True), _open, (1, 64), goals=_all(steps=3),
             peer=("pypaimon", "open"), what="open, by number of snapshots"),
        Case("paimon-plan", lambda size: (make.paimon, size, 4, True), _plan, (1, 64), goals=_all(steps=5),
             peer=("pypaimon", "plan"),
             what="open and plan: 3 steps, and one for the manifest lists and one for the manifests"),
        *_reads("paimon", "read", lambda size: (make.paimon, *make.shape(size), True), "pypaimon"),
        *_reads("paimon", "append-read", lambda size: (make.paimon, *make.shape(size), False), "pypaimon"),
        Case("paimon-append", lambda size: (make.paimon, size, 4, False), _append(4), (1, 16), prepare=_open,
             goals=_all(seconds=0.4, steps=7), writes=True,
             what="append to 4 partitions, by number of commits before; the table is open"),
        Case("paimon-open-append", lambda size: (make.paimon, size, 4, False),
             lambda opened: _append(4)(_open(opened)), (1, 16), writes=True, peer=("pypaimon", "append"),
             what="open and append to 4 partitions, by number of commits before"),
        Case("paimon-upsert", upserted, lambda opened: _upsert(_open(opened)), writes=True, peer=("pypaimon", "upsert"),
             what="open and upsert 400 rows in 4 partitions of 4 buckets"),
        Case("paimon-expire", lambda size: (make.paimon, size, 4, True),
             lambda opened: len(opened.open().expire(options=PAIMON_EXPIRE).expired), (12, 40, 50),
             goals={50: Goal(seconds=1.0)}, writes=True, what="open and expire all snapshots but the newest"),
    ]  # fmt: skip


def _hudi() -> list[Case]:
    def archive(opened: Opened) -> int:
        options = {
            "hoodie.keep.min.commits": "20", "hoodie.keep.max.commits": "30",
            "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "lakebed.archive.lock": "none",
        }  # fmt: skip
        return len(opened.open().archive(options=options).archived)

    return [
        Case("hudi-open", lambda size: (make.hudi, 6, 64, 4), _open, goals=_all(steps=4), peer=("hudi-rs", "open"),
             what="open"),
        Case("hudi-plan", lambda size: (make.hudi, 6, max(size, 4), size), _plan, (4, 64), goals=_all(steps=4),
             peer=("hudi-rs", "plan"), what="open and plan, by number of partitions"),
        Case("hudi-v8-plan", lambda size: (make.hudi, 8, max(size, 4), size), _plan, (4, 64), goals=_all(steps=4),
             what="the same of table version 8"),
        *_reads("hudi", "read", lambda size: (make.hudi, 6, size, 4), "hudi-rs"),
        Case("hudi-log-read", lambda size: (make.hudi, 6, size, 4, size), _rows, (4, 64, 256),
             goals={256: Goal(seconds=1.5)}, peer=("hudi-rs", "read"),
             what="open and read file slices of a base and a log file each"),
        Case("hudi-v8-log-read", lambda size: (make.hudi, 8, size, 4, size), _rows, (64, 256),
             goals={256: Goal(seconds=1.5)}, what="the same of table version 8"),
        Case("hudi-v8-archive", lambda size: (make.hudi_timeline, 8, size), archive, (34, 130),
             goals={130: Goal(seconds=1.0)}, writes=True, what="the same of table version 8"),
        Case("hudi-archive", lambda size: (make.hudi_timeline, 6, size), archive, (34, 130),
             goals={130: Goal(seconds=1.0)}, writes=True, what="open and archive all commits but 20"),
    ]  # fmt: skip


CASES = (
    *_iceberg(), *_format_cases("iceberg"), *_paimon(), *_format_cases("paimon"), *_hudi(), *_format_cases("hudi"),
)  # fmt: skip
