"""Archivers whose clocks disagree, or that were overtaken: no archived instant is ever lost, and one of two stops."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.archive.merge_v1 import PLAN, _plan
from lakebed.formats.hudi.archive.write_lsm import publish
from lakebed.formats.hudi.archive.write_v1 import archive_files
from lakebed.formats.hudi.codec.lsm import LsmFile, manifest_json
from lakebed.formats.hudi.timeline.archive_manifest import load_history
from lakebed.kernel import clock
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.machine import this_machine
from lakebed.testing.faults import FaultyStore
from tests.tables.hudi.timelines import FREE, Lake, at, times

MERGE = {"hoodie__archive__merge__enable": True, "hoodie__archive__merge__files__batch__size": 3}
LEASE = {"lakebed.archive.lock": "lease", "hoodie.write.lock.wait_time_ms": 0}
V1, LSM = ".hoodie/archived", ".hoodie/timeline/history"


def options(**more: Any) -> dict[str, Any]:
    given = {**FREE, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, **more}
    return {key.replace("__", "."): value for key, value in given.items()}


def filled(folder: Path, version: int = 6, runs: int = 4) -> Lake:
    """Several archive files, and commits that are due."""
    lake = Lake(folder, version)
    for run in range(runs):
        lake.commit(*range(run * 3 + 1, run * 3 + 4))
        lake.archive(1, 2)
    lake.commit(*range(runs * 3 + 1, runs * 3 + 7))
    return lake


class Meanwhile(FaultyStore):
    """Does something once, at the first call that a test waits for."""

    def __init__(self, real: Store, when: Callable[[str, str], bool], act: Callable[[], Any]) -> None:
        super().__init__(real)
        self._when, self._act, self.done = when, act, False

    def _fault(self, call: Any) -> Any:
        if not self.done and self._when(call.verb, call.path):
            self.done = True
            self._act()
        return super()._fault(call)


# ---- the lease -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("skew", [-(10.0**9), -700.0, 700.0, 10.0**9])
def test_a_lease_holds_whatever_the_other_machines_clock_says(tmp_path: Path, skew: float) -> None:
    lake = filled(tmp_path)
    refused: list[str] = []

    def other() -> None:
        real = clock.now()
        with clock.set_clock(lambda: real + skew):
            try:
                lake.archive(2, 3, **LEASE)
            except CommitConflictError as error:
                refused.append(error.what)

    store = Meanwhile(open_store(tmp_path), lambda verb, path: verb == "put_if_absent", other)
    result = lakebed.open(store).archive(options=options(**MERGE, **LEASE))
    assert refused == ["another archiver is at work on this table"] and result.archived
    assert lake.history() == [(time, "commit") for time in times(range(1, 19))]


def test_a_dead_machines_lease_ends_by_the_stores_clock(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    lease = tmp_path / ".hoodie/.lakebed/archiver-x.json"
    lease.parent.mkdir(exist_ok=True)
    lease.write_text(json.dumps({"owner": "another machine", "process": 1, "seconds": 60, "ends": 4e9}))
    with pytest.raises(CommitConflictError, match="another archiver"):
        lake.archive(2, 3, **LEASE)
    ago = clock.now() - 63
    os.utime(lease, (ago, ago))
    assert lake.archive(2, 3, **LEASE).archived and not lease.exists()


def test_a_process_of_this_name_on_another_machine_is_not_taken_for_dead(tmp_path: Path) -> None:
    """Two containers can have the same host name, and the same process numbers for other processes."""
    lake = filled(tmp_path)
    lease = tmp_path / ".hoodie/.lakebed/archiver-x.json"
    lease.parent.mkdir(exist_ok=True)
    name, *rest = this_machine().split(" ")
    lease.write_text(json.dumps({"owner": " ".join([name, *["other"] * len(rest)]), "process": 2**22, "seconds": 60}))
    if rest:
        with pytest.raises(CommitConflictError):
            lake.archive(2, 3, **LEASE)
    lease.write_text(json.dumps({"owner": this_machine(), "process": 2**22 + 1, "seconds": 60}))
    assert lake.archive(2, 3, **LEASE).archived


@pytest.mark.parametrize("provider", ["", "a.FileSystemBasedLockProvider"])
def test_a_lock_that_was_taken_away_stops_its_holder(tmp_path: Path, provider: str) -> None:
    lake = filled(tmp_path)
    kind = {"lakebed.archive.lock": "auto", "hoodie.write.lock.provider": provider}

    def steal() -> None:
        for path in [*(tmp_path / ".hoodie/.lakebed").glob("archiver-*"), tmp_path / ".hoodie/lock"]:
            path.unlink(missing_ok=True)

    before = lake.active()
    store = Meanwhile(open_store(tmp_path), lambda verb, path: verb == "put_if_absent" and V1 in path, steal)
    with pytest.raises(CommitConflictError, match=r"lease ran out|taken away"):
        lakebed.open(store).archive(options=options(**kind))
    assert lake.active() == before


def test_a_lease_is_lost_while_the_machine_sleeps(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    slept = 0.0

    def sleep() -> None:
        nonlocal slept
        slept = 601.0

    steady = clock.steady
    began = steady()
    store = Meanwhile(open_store(tmp_path), lambda verb, path: verb == "put_if_absent", sleep)
    before = lake.active()
    with clock.set_clock(steady=lambda: began + slept), pytest.raises(CommitConflictError, match="lease ran out"):
        lakebed.open(store).archive(options=options(**LEASE))
    assert lake.active() == before


# ---- without any lock ------------------------------------------------------------------------------------------------


def archived_beside(folder: Path, version: int, number: int) -> bool:
    """Runs one archiver to its end at change `number` of another; whether the other makes that many changes."""
    more = MERGE if version == 6 else {"hoodie__timeline__compaction__batch__size": 3}
    lake = filled(folder, version, runs=3)
    changes = 0

    def due(verb: str, path: str) -> bool:
        nonlocal changes
        changes += verb in {"put_if_absent", "write", "delete", "close_output"}
        return changes == number

    def other() -> None:
        lake.commit(16, 17, 18)
        with suppress(CommitConflictError):
            lake.archive(2, 3, **more)

    store = Meanwhile(open_store(folder), due, other)
    with suppress(CommitConflictError):
        lakebed.open(store).archive(options=options(**more))
    if store.done:
        assert lake.history() == [(time, "commit") for time in times(range(1, 19))], f"at change {number}"
        lake.archive(2, 3, **more)
        assert lake.history() == [(time, "commit") for time in times(range(1, 19))], f"after change {number}"
    return store.done


@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 8])
def test_two_archivers_without_a_lock_lose_no_history(tmp_path: Path, version: int) -> None:
    """The other archiver runs at every single change of one; whatever they report, every instant is still there."""
    number = 1
    while archived_beside(tmp_path / str(number), version, number):
        number += 1
    assert number > 10


def test_a_merge_is_ended_by_whoever_finds_it(tmp_path: Path) -> None:
    """The merged file holds everything, so the files that were merged go, and not the merged file."""
    lake = filled(tmp_path)
    store = open_store(tmp_path)
    before = len(archive_files(store, V1))

    class Stop(BaseException):
        """Killed."""

    def stop() -> None:
        raise Stop

    dying = Meanwhile(store, lambda verb, path: verb == "delete" and path.startswith(f"{V1}/"), stop)
    with pytest.raises(Stop):
        lakebed.open(dying).archive(options=options(**MERGE))
    assert store.exists(f"{V1}/{PLAN}") and len(archive_files(store, V1)) == before + 2
    lake.archive(2, 3)
    assert len(archive_files(store, V1)) == 1 and not store.exists(f"{V1}/{PLAN}")
    assert lake.history() == [(time, "commit") for time in times(range(1, 19))]


@pytest.mark.slow
@pytest.mark.parametrize("torn", ["lacks records", "unreadable", "missing"])
def test_a_merged_file_that_lacks_something_replaces_nothing(tmp_path: Path, torn: str) -> None:
    """As Hudi's engine can leave it when it dies."""
    lake = filled(tmp_path)
    lake.archive(2, 3, **MERGE)
    whole = archive_files(open_store(tmp_path), V1)[-1]
    lake = filled(tmp_path / "again")
    store = open_store(tmp_path / "again")
    parts = archive_files(store, V1)
    data = (tmp_path / whole.path).read_bytes()
    store.write(f"{V1}/{PLAN}", _plan([store.url(info.path) for info in parts], ".commits_.archive.99_1-0-1"))
    if torn != "missing":
        content = store.read(parts[0].path) if torn == "lacks records" else data[: len(data) // 2]
        store.write(f"{V1}/.commits_.archive.99_1-0-1", content)
    lake.archive(2, 3)
    assert lake.history() == [(time, "commit") for time in times(range(1, 19))]
    assert not store.exists(f"{V1}/{PLAN}")


@pytest.mark.slow
def test_many_small_files_are_merged_in_files_of_bounded_size(tmp_path: Path) -> None:
    lake = filled(tmp_path, runs=10)
    sizes = [info.size for info in archive_files(open_store(tmp_path), V1)]
    bound = max(sizes) * 3
    lake.archive(
        2, 3, **MERGE, **{"lakebed.archive.batch-bytes": bound, "hoodie.archive.merge.small.file.limit.bytes": bound}
    )
    merged = archive_files(open_store(tmp_path), V1)
    assert len(merged) < len(sizes) and all(info.size <= bound * 1.1 for info in merged)
    assert lake.history() == [(time, "commit") for time in times(range(1, 37))]


# ---- manifests -------------------------------------------------------------------------------------------------------


def test_a_manifest_that_nobody_named_counts_and_is_built_upon(tmp_path: Path) -> None:
    lake = filled(tmp_path, 8)
    store = open_store(tmp_path)
    named = load_history(store, LSM)
    dying = Meanwhile(store, lambda verb, path: verb == "write" and path.endswith("_version_"), lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        lakebed.open(dying).archive(options=options())
    after = load_history(store, LSM)
    assert after.version == named.version + 1 and len(after.files) == len(named.files) + 1
    lake.commit(19, 20, 21)
    lake.archive(2, 3)
    assert load_history(store, LSM).version == named.version + 2
    assert lake.history() == [(time, "commit") for time in times(range(1, 22))]


def test_one_that_lacks_files_or_is_torn_does_not_count_and_is_replaced(tmp_path: Path) -> None:
    lake = filled(tmp_path, 8)
    store = open_store(tmp_path)
    named = load_history(store, LSM)
    gone = LsmFile(f"{at(50)}_{at(51)}_0.parquet", 10, at(50), at(51), 0)
    for content in (manifest_json([*named.files, gone]), b'{"files": ['):
        store.write(f"{LSM}/manifest_{named.version + 1}", content)
        assert load_history(store, LSM) == named
    lake.archive(2, 3)
    assert load_history(store, LSM).version == named.version + 1
    assert lake.history() == [(time, "commit") for time in times(range(1, 19))]


@pytest.mark.slow
def test_who_was_away_for_many_manifests_takes_no_history_back(tmp_path: Path) -> None:
    lake = filled(tmp_path, 8, runs=2)
    store = open_store(tmp_path)
    old = load_history(store, LSM)
    for number in range(13, 40):
        lake.commit(number)
        lake.archive(1, 2, hoodie__timeline__compaction__batch__size=2)
    now = load_history(store, LSM)
    assert not store.exists(f"{LSM}/manifest_{old.version + 1}"), "cleaned away, so that its name is free again"
    with pytest.raises(CommitConflictError):
        publish(store, LSM, old, [*old.files], lambda: None)
    assert load_history(store, LSM) == now and lake.history() == [(t, "commit") for t in times(range(1, 40))]


# ---- listings beside a writer ----------------------------------------------------------------------------------------


def test_states_that_a_listing_missed_go_with_their_instant(tmp_path: Path) -> None:
    """If they stayed, an archived commit would look pending, and Hudi's next writer would roll it back."""
    lake = Lake(tmp_path)
    lake.commit(*range(1, 9))
    hidden = {f"{at(3)}.commit.requested", f"{at(4)}.inflight"}

    class Missing(FaultyStore):
        seen = 0

        def list(self, folder: str = "") -> Any:
            listing = super().list(folder)
            if folder == ".hoodie" and not self.seen:
                Missing.seen += 1
                return replace(listing, files=tuple(i for i in listing.files if i.name not in hidden))
            return listing

    lakebed.open(Missing(open_store(tmp_path))).archive(options=options())
    assert lake.active() == times([7, 8]) and not [name for name in hidden if (lake.timeline / name).exists()]
