"""Random histories of a small Hudi table against a dictionary: every snapshot, every range, every stream,
and every full change.

The model applies the merge rules to one row at a time; the table is real files: base files, log blocks, deletes with
and without ordering values, compactions planned before and run after later commits, writers that fail and are rolled
back, late writers.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.testing.hudi_log import rollback_block
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.tables.hudi.writing import HudiFolder, t

KEYS = "abcdef"


@dataclass
class Step:
    """One commit: upserts (key to ordering value), deletes (key to ordering value or None), or a table service."""

    kind: str
    rows: dict[str, int] = field(default_factory=dict)
    deletes: dict[str, int | None] = field(default_factory=dict)


def _steps() -> st.SearchStrategy[list[Step]]:
    ordering = st.integers(1, 4)
    write = st.builds(
        Step,
        st.sampled_from(["log", "log", "log", "failed"]),
        st.dictionaries(st.sampled_from(KEYS), ordering, max_size=4),
        st.dictionaries(st.sampled_from(KEYS), st.none() | ordering, max_size=2),
    )
    service = st.builds(Step, st.sampled_from(["plan", "compact"]))
    return st.lists(write | service, min_size=1, max_size=9)


Version = tuple[int | None, int, bool]
"""Ordering value, commit, live."""


class Model:
    """The table as two dictionaries, key to version: the rows of the base file, and what the log makes of its own
    versions before it meets them. Deletes stay in the log as tombstones."""

    def __init__(self, event_time: bool) -> None:
        self.event_time = event_time
        self.base: dict[str, Version] = {}
        self.log: dict[str, Version] = {}

    def insert(self, key: str, ordering: int, commit: int) -> None:
        self.base[key] = ordering, commit, True

    def upsert(self, key: str, ordering: int, commit: int) -> None:
        self._put(key, (ordering, commit, True))

    def delete(self, key: str, ordering: int | None, commit: int) -> None:
        self._put(key, (ordering, commit, False))

    def fold(self) -> None:
        """A compaction forgets tombstones."""
        self.base = {key: version for key, version in self.now.items() if version[2]}
        self.log = {}

    @property
    def now(self) -> dict[str, Version]:
        """The newest version of each key."""
        won = {
            key: version
            for key, version in self.log.items()
            if key not in self.base or self._wins(version, self.base[key])
        }
        return self.base | won

    def live(self) -> dict[str, int]:
        return {key: commit for key, (_, commit, alive) in self.now.items() if alive}

    def _put(self, key: str, version: Version) -> None:
        if key not in self.log or self._wins(version, self.log[key]):
            self.log[key] = version

    def _wins(self, new: Version, old: Version) -> bool:
        return not self.event_time or new[0] is None or old[0] is None or new[0] >= old[0]


class History:
    """Plays steps on a table and on the model at once; `states` has the live keys after each commit."""

    def __init__(self, folder: Path, version: int, event_time: bool) -> None:
        mode = {"record__merge__mode": "EVENT_TIME_ORDERING" if event_time else "COMMIT_TIME_ORDERING"}
        payload = "DefaultHoodieRecordPayload" if event_time else "OverwriteWithLatestAvroPayload"
        old = {"compaction__payload__class": f"org.apache.hudi.common.model.{payload}"}
        self.table = HudiFolder(folder, version, **(mode if version >= 8 else old))
        self.version, self.model, self.clock = version, Model(event_time), 1
        self.slice, self.planned, self.logs = 1.0, 0, 0
        self.pending: list[dict[str, Any]] = []
        base = self.table.base("g", 1, [{"id": key, "ts": 2, "x": "1"} for key in "abc"])
        self.table.done(1, [base], operation="BULK_INSERT", inserts=3)
        for key in "abc":
            self.model.insert(key, 2, 1)
        self.states = {1: self.model.live()}

    def play(self, step: Step) -> None:
        self.clock += 1
        if step.kind == "plan" and not self.planned:
            self.table.state(self.clock, "compaction.requested")
            self.planned, self.folded = self.clock, self._rows()
            self.slice = self.clock
        elif step.kind == "compact" and self.planned:
            self.table.done(
                self.planned, [self.table.base("g", self.planned, self.folded)], "commit", self.clock, "COMPACT"
            )
            self.planned = 0
        elif step.kind in ("log", "failed"):
            self._write(step)

    def _write(self, step: Step) -> None:
        rows = [{"id": key, "ts": ts, "x": str(self.clock)} for key, ts in step.rows.items()]
        content = self.table.data(self.clock, rows) if rows else b""
        deletes = {key: ts for key, ts in step.deletes.items() if key not in step.rows}
        if self.planned and self.model.event_time:
            # What comes after such a delete meets the base file of the moment, and a planned compaction changes that.
            deletes = {key: ts for key, ts in deletes.items() if ts is not None}
        content += self.table.deletes(self.clock, deletes) if deletes else b""
        if not content:
            return
        self.logs += 1
        if step.kind == "failed":
            if self.version < 8:
                content += rollback_block(t(self.clock + 0.2), t(self.clock))
            self.table.log("g", self.clock if self.version >= 8 else self.slice, content, self.logs)
            return
        path = self.table.log("g", self.clock if self.version >= 8 else self.slice, content, self.logs)
        self.table.done(self.clock, [path], deletes=len(deletes))
        for key, ts in step.rows.items():
            self.model.upsert(key, ts, self.clock)
        for key, when in deletes.items():
            self.model.delete(key, when, self.clock)
        self.states[self.clock] = self.model.live()

    def _rows(self) -> list[dict[str, Any]]:
        """What a compaction planned now writes. It forgets tombstones, so the model must too."""
        self.model.fold()
        return [
            {"id": key, "ts": ordering, "x": str(commit), "_hoodie_commit_time": t(commit)}
            for key, (ordering, commit, _) in self.model.now.items()
        ]


def _snapshot(history: History, **read: Any) -> dict[str, int]:
    actual = history.table.open().read(["id", "x"], **read).read_all()
    assert actual.num_rows == len(set(actual["id"].to_pylist()))
    return {key: int(x) for key, x in zip(actual["id"].to_pylist(), actual["x"].to_pylist(), strict=True)}


def _after(state: dict[str, int], changes: Any) -> dict[str, int]:
    """A state with changes applied to it, in any order: a key has one."""
    actual = changes.to_pylist()
    assert len(actual) == len({row["id"] for row in actual}), actual
    state = dict(state)
    for row in actual:
        if row["_row_kind"] == "-D":
            state.pop(row["id"], None)
        else:
            state[row["id"]] = int(row["x"])
    return state


def _chained(changes: Any) -> dict[str, int]:
    """The state that full changes lead to, each of which starts from the row that was there."""
    state: dict[str, int] = {}
    for row in changes.read_all().to_pylist():
        if row["_row_kind"] in ("-U", "-D"):
            assert state.pop(row["id"]) == int(row["x"])
        else:
            assert row["id"] not in state
            state[row["id"]] = int(row["x"])
    return state


@pytest.mark.parametrize("event_time", [True, False], ids=["event", "commit"])
@pytest.mark.parametrize("version", [6, 8])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=_steps())
def test_snapshots_ranges_and_streams(version: int, event_time: bool, steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), version, event_time)
        for step in steps:
            if step.kind == "plan" and event_time and any(not alive for *_, alive in history.model.now.values()):
                continue  # what it forgets it may forget only when it runs; that is another test
            history.play(step)
        times = sorted(history.states)
        assert _snapshot(history) == history.states[times[-1]]
        moments = {number: t(number + 0.5) if version >= 8 else t(number) for number in times}
        for number in times:
            assert _snapshot(history, as_of=moments[number]) == history.states[number]
        table = history.table.open()
        for low in times[:: max(1, len(times) // 3)]:
            for high in times[-2:]:
                if low < high:
                    actual = table.changes(["id", "x"], after=moments[low], until=moments[high]).read_all()
                    assert _after(history.states[low], actual) == history.states[high]
        stream = history.table.open(**{"read__start-commit": t(1), "read__commits__limit": 1}).stream(["id", "x"])
        state: dict[str, int] = {}
        for _, plan in drain(stream, limits=Limits(commits=1)):
            state = _after(state, run(plan, 1).read_all())
        assert state == history.states[times[-1]]
        assert _chained(history.table.open(**{"cdc.enabled": True}).changes(["id", "x"])) == history.states[times[-1]]
