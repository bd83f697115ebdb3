"""An archival that fails at any storage call loses no instant and shows none twice, and the next run completes it."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import LakebedError
from lakebed.formats.hudi.codec.archive_v1 import parse_archive
from lakebed.formats.hudi.codec.avro import record_run
from lakebed.formats.hudi.codec.log import parse_log
from lakebed.formats.hudi.codec.lsm import read_instants
from lakebed.formats.hudi.timeline.archive_manifest import load_history
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.scratch import Scratch
from lakebed.testing.faults import FAILURES, READS, Crash, Fault, FaultyStore, Kind, crash_points
from tests.tables.hudi.replay import Replay, replay_of

CASES = {
    "layout 1": ("archived_nowait_h015", "commit 6", {}),
    "layout 1, with cleans": ("archived_v6", "commit 9", {}),
    "layout 1, merge-on-read": ("archived_mor_h015", "commit 8", {}),
    "layout 1, several files a run": ("archived_h015", "commit 9", {"lakebed.archive.batch-bytes": "4 kb"}),
    "layout 1, small files merged": ("archived_merge_h015", "commit 8", {}),
    "layout 2": ("archived_mor_v8", "commit 8", {}),
    "layout 2, levels merged": ("archived_v9", "commit 12", {}),
}
QUICK = {"lakebed.archive.lock": "none"}


@pytest.fixture(autouse=True)
def files_of_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeline is played back, but the data files are not: later steps cleaned files that these states name."""
    monkeypatch.setattr("lakebed.formats.hudi.read.plan.check_lost", lambda *_: None)


def prepared(case: str, folder: Path) -> tuple[Replay, dict[str, str]]:
    """A table just before a run that archives, and the options of that run."""
    name, stop, more = CASES[case]
    replay = replay_of(name, folder)
    for step in replay.steps:
        for _ in replay.play(step):
            if step.what == stop:
                return replay, {**replay.options, **more}
            lakebed.open(replay.table).archive(options=replay.options)
    raise AssertionError(f"{name} has no step {stop!r}")


def seen(store: Store) -> tuple[list[tuple[str, str]], list[str]]:
    """What a reader sees: every instant, and the rows."""
    table = lakebed.open(store)
    instants = [(instant.time, instant.action) for instant in table.history(archived=True)]
    rows = table.read(["_hoodie_record_key", "_hoodie_commit_time"]).read_all().to_pylist()
    return instants, sorted(str(row) for row in rows)


def archived(store: Store) -> list[tuple[str, ...]]:
    """Every record in the archive, duplicates too."""
    config = lakebed.open(store).state().config  # type: ignore[attr-defined]
    folder = config.archive_folders[0]
    if config.layout >= 2:
        rows: list[tuple[str, ...]] = []
        for file in load_history(store, folder).files:
            table = read_instants(store.read(f"{folder}/{file.name}"))
            rows += list(zip(table["instantTime"].to_pylist(), table["action"].to_pylist(), strict=True))
        return sorted(rows)
    entries: list[tuple[str, ...]] = []
    for info in store.list(folder).files:
        data = store.read(info.path)
        states = [(entry.instant, entry.action, entry.state) for entry in parse_archive([data], Scratch()).entries]
        assert len(states) == sum(record_run(block)[0] for block in parse_log(data).blocks), "doubled in one file"
        entries += states
    return sorted(entries)


def active(store: Store) -> list[str]:
    """The files of the active timeline."""
    config = lakebed.open(store).state().config  # type: ignore[attr-defined]
    return [info.name for info in store.list(config.timeline_folder).files]


def runner(options: dict[str, str], more: dict[str, str] = QUICK) -> Callable[[Store], Any]:
    return lambda store: lakebed.open(store).archive(options={**options, **more}, engine=lakebed.LocalEngine(1))


EVERY_WAY = ("layout 1", "layout 2")
"""Cases that fail in every way; the others are only killed."""
KILLED = (Kind.CRASH_TORN, Kind.CRASH_AFTER)
"""How the others are killed; a torn deletion is one that never began."""


@pytest.mark.parametrize("case", CASES)
def test_killed_at_any_change_the_next_run_completes_it(case: str, tmp_path: Path) -> None:
    replay, options = prepared(case, tmp_path / "table")
    number = itertools.count()

    def make() -> Store:
        return open_store(shutil.copytree(replay.table, tmp_path / str(next(number))))

    run = runner(options)
    reached = make()
    before = seen(reached)
    run(reached)
    assert seen(reached) == before, "archival changed what readers see"
    wanted = active(reached), sorted(set(archived(reached)))
    assert wanted[0] != active(make())
    tried = 0
    for point in crash_points(run, make, FAILURES if case in EVERY_WAY else KILLED):
        tried += 1
        assert seen(point.store) == before, f"{point}: readers lost or doubled an instant"
        run(point.store)
        assert seen(point.store) == before, f"{point}, done again: readers lost or doubled an instant"
        assert active(point.store) == wanted[0], f"{point}: done again it leaves another active timeline"
        assert archived(point.store) == wanted[1], f"{point}: done again the archive holds other records"
        shutil.rmtree(point.store.location)
    assert tried > 20


@pytest.mark.parametrize("case", ["layout 1", "layout 2, levels merged"])
def test_a_failing_read_harms_nothing(case: str, tmp_path: Path) -> None:
    replay, options = prepared(case, tmp_path / "table")
    number = itertools.count()

    def make() -> Store:
        return open_store(shutil.copytree(replay.table, tmp_path / str(next(number))))

    run = runner(options)
    counting = FaultyStore(make())
    run(counting)
    before, wanted = seen(make()), active(counting.real)
    reads = sum(call.verb in READS for call in counting.calls)
    assert reads > 8
    for at, kind in itertools.product(range(1, reads + 1), (Kind.CRASH_BEFORE, Kind.ERROR_BEFORE)):
        store = FaultyStore(make(), Fault(at, kind, READS))
        try:
            result = run(store)
        except (Crash, LakebedError):
            pass
        else:  # the instants were archived already
            assert kind is Kind.ERROR_BEFORE and result.notes, f"{kind} at read {at}"
        assert seen(store.real) == before, f"{kind} at read {at}"
        run(store.real)
        assert (seen(store.real), active(store.real)) == (before, wanted), f"{kind} at read {at}"
        shutil.rmtree(store.location)


def test_the_lease_of_a_killed_archiver_does_not_hold_up_the_next_one(tmp_path: Path) -> None:
    replay, options = prepared("layout 1", tmp_path / "table")
    number = itertools.count()

    def make() -> Store:
        return open_store(shutil.copytree(replay.table, tmp_path / str(next(number))))

    run = runner(options, {"hoodie.write.lock.wait_time_ms": "0"})
    reached = make()
    run(reached)
    for point in crash_points(run, make, (Kind.CRASH_BEFORE, Kind.CRASH_AFTER)):
        run(point.store)
        assert active(point.store) == active(reached), str(point)
        leases = [info.name for info in point.store.list(".hoodie/.lakebed").files]
        assert leases == [], str(point)
        shutil.rmtree(point.store.location)
