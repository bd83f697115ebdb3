"""Hudi's own engine, in three releases, on timelines that lakebed archived: it reads the same rows and instants, writes
on, compacts, cleans, and archives again by itself, and files of lakebed's own beside its instants do not matter."""

import datetime
import os
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.formats.hudi.layout import COMPLETES_AS, outcome_file
from tests.golden import unpack
from tests.interop.hudi_actors import release_of
from tests.tables.hudi.replay import Replay, replay_of

BUNDLES = {
    "0.15.0": ("archived_h015", "archived_mor_h015"),
    "1.0.2": ("archived_v6", "archived_mor_v6", "archived_v8", "archived_mor_v8"),
    "1.1.1": ("archived_v6", "archived_v8", "archived_v9", "archived_mor_v9"),
}
"""Release -> golden tables; each is replayed with lakebed's archival before Hudi sees it."""
WRITES = ("commit", "deltacommit", "replacecommit")
pytestmark = pytest.mark.timeout(1800)  # a release starts a JVM and writes dozens of commits


@pytest.fixture(scope="module", params=BUNDLES)
def met(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Each table of a release: what lakebed saw before, what Hudi answered, and the table as Hudi left it."""
    folder = tmp_path_factory.mktemp(request.param)
    visits = []
    for name in BUNDLES[request.param]:
        replay = replay_of(name, folder / name)
        for step in replay.steps:
            for _ in replay.play(step):
                if not step.what.startswith("savepoint"):
                    lakebed.open(replay.table).archive(options=replay.options)
        visits.append(_visit(name, replay))
    _ask(request.param, visits)
    return visits


def _visit(name: str, replay: Replay) -> dict[str, Any]:
    _set_times(replay.timeline)
    table = lakebed.open(replay.table)
    active = [i for i in table.history() if i.action in WRITES]
    config = table.state().config  # type: ignore[attr-defined]
    begin = active[-3]
    for instant in active[-3:]:  # as if each writer's lock had been taken over
        Path(outcome_file(str(replay.timeline), instant.time)).write_bytes(b"stands")
    return {
        "name": name,
        "path": str(replay.table),
        "version": config.version,
        "merge_on_read": config.merge_on_read,
        "begin": (begin.completed or begin.time),
        "history": [(i.time, COMPLETES_AS.get(i.action, i.action), i.archived) for i in table.history(archived=True)],
        "rows": _rows(table),
        "golden": str(unpack("hudi", name)),
    }


def _set_times(timeline: Path) -> None:
    """Hudi takes completion times of table version 6 from file times: each file gets the time that its name says."""
    for path in timeline.iterdir():
        digits = path.name[:17]
        if path.is_file() and digits.isdigit():
            order = 0 if path.name.endswith("requested") else 1 if path.name.endswith("inflight") else 2
            seconds = _seconds(digits) + order * 0.01
            os.utime(path, (seconds, seconds))


def _seconds(digits: str) -> float:
    found = datetime.datetime.strptime(digits + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=datetime.UTC)
    return found.timestamp()


def _rows(table: lakebed.Table) -> list[list[Any]]:
    found = table.read(["_hoodie_record_key", "_hoodie_commit_time", "ts", "s"]).read_all()
    return sorted([*row.values()] for row in found.to_pylist())


def _ask(release: str, visits: list[dict[str, Any]]) -> None:
    keys = ("name", "path", "golden", "version", "merge_on_read", "begin")
    engine = release_of(release)
    for visit in visits:
        visit["answer"] = engine.order(do="archived_table", table={key: visit[key] for key in keys})


def test_hudi_reads_the_same_rows(met: list[dict[str, Any]]) -> None:
    """The snapshot as lakebed, a range of active commits as in the table that Hudi itself archived."""
    for visit in met:
        assert visit["answer"]["snapshot"] == visit["rows"], visit["name"]
        assert visit["answer"]["range"] == visit["answer"]["golden_range"], visit["name"]


def test_hudi_finds_each_archived_instant_and_its_metadata(met: list[dict[str, Any]]) -> None:
    for visit in met:
        wanted = {(time, action) for time, action, archived in visit["history"] if archived}
        found = [
            (time, COMPLETES_AS.get(action, action))
            for time, action, state, _ in visit["answer"]["archived"]
            if state == "COMPLETED"
        ]
        assert sorted(found) == sorted(wanted), visit["name"]
        assert all(whole for *_, state, whole in visit["answer"]["archived"] if state == "COMPLETED"), visit["name"]


def test_hudi_writes_on_and_archives_by_itself(met: list[dict[str, Any]]) -> None:
    for visit in met:
        table = lakebed.open(visit["path"])
        history = table.history(archived=True)
        keys = [(i.time, COMPLETES_AS.get(i.action, i.action)) for i in history]
        assert len(keys) == len(set(keys)), f"{visit['name']}: an instant is there twice"
        assert {key[:2] for key in visit["history"]} <= set(keys), f"{visit['name']}: an instant is lost"
        before = {(time, action) for time, action, archived in visit["history"] if archived}
        after = {key for key, i in zip(keys, history, strict=True) if i.archived}
        assert after > before, f"{visit['name']}: Hudi archived nothing"
        found = {
            (time, COMPLETES_AS.get(action, action))
            for time, action, state, _ in visit["answer"]["archived_after"]
            if state == "COMPLETED"
        }
        assert found == after, visit["name"]
        assert _rows(table) == visit["answer"]["snapshot_after"], visit["name"]


def test_lakebed_archives_again_what_hudi_wrote(met: list[dict[str, Any]]) -> None:
    for visit in met:
        table = lakebed.open(visit["path"])
        history, rows = [(i.time, i.action) for i in table.history(archived=True)], _rows(table)
        result = table.archive(
            options={
                "hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2, "hoodie.cleaner.commits.retained": 1,
                "hoodie.compact.inline.max.delta.commits": 1,
            }
        )  # fmt: skip
        assert result.archived, visit["name"]
        assert [(i.time, i.action) for i in table.history(archived=True)] == history
        assert _rows(table) == rows
