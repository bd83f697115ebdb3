"""Run one schedule: create the table, let all actors live, then recover, clean up and look at everything once more."""

from __future__ import annotations

import hashlib
import itertools
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NoReturn

from lakebed.errors import LakebedError
from lakebed.kernel.files import Store
from lakebed.kernel.files.unpublished import STAGING
from lakebed.testing.faults import Crash
from lakebed.testing.simulation.changes import Violation
from lakebed.testing.simulation.environment import simulated
from lakebed.testing.simulation.hudi import HudiSubject
from lakebed.testing.simulation.hudi_bootstrapped import BootstrappedSubject
from lakebed.testing.simulation.hudi_consistent import ConsistentSubject
from lakebed.testing.simulation.iceberg import IcebergSubject
from lakebed.testing.simulation.iceberg_catalog import IcebergCatalogSubject
from lakebed.testing.simulation.iceberg_lossy import LossySubject
from lakebed.testing.simulation.jobs import Jobs
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.model import Model
from lakebed.testing.simulation.paimon import PaimonSubject
from lakebed.testing.simulation.paimon_catalog import PaimonAlteredSubject, PaimonCatalogSubject
from lakebed.testing.simulation.paimon_dated import DatedSubject
from lakebed.testing.simulation.paimon_postponed import PostponedSubject
from lakebed.testing.simulation.paimon_tracked import TrackedSubject
from lakebed.testing.simulation.process import Process
from lakebed.testing.simulation.schedule import Actor, Schedule, Step, StoreKind, draw
from lakebed.testing.simulation.store import SimulatedStore
from lakebed.testing.simulation.subject import Subject, rows_of
from lakebed.testing.simulation.world import Running, Stuck, World
from lakebed.verbs.table import Table

SUBJECTS: dict[str, type[Subject]] = {
    "hudi": HudiSubject,
    "hudi-consistent": ConsistentSubject,
    "hudi-bootstrapped": BootstrappedSubject,
    "paimon": PaimonSubject,
    "paimon-catalog": PaimonCatalogSubject,
    "paimon-altered": PaimonAlteredSubject,
    "paimon-postponed": PostponedSubject,
    "paimon-dated": DatedSubject,
    "paimon-tracked": TrackedSubject,
    "iceberg": IcebergSubject,
    "iceberg-catalog": IcebergCatalogSubject,
    "iceberg-lossy": LossySubject,
}
_LATER = 10 * 86_400.0
_LATE_SECONDS = 30.0
_runs = itertools.count()


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended. `failure` is "" where all promises held; `trace` has a line for each storage call."""

    schedule: Schedule
    failure: str
    trace: tuple[str, ...]
    outcomes: tuple[str, ...]
    faults: int
    """How many faults struck."""
    details: str = ""
    """The traceback of the failure."""

    @property
    def digest(self) -> str:
        """A hash of the trace: two runs of a schedule have the same."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


class Run:
    """One schedule at work."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.world = schedule, World(schedule)
        self.subject = SUBJECTS[schedule.format](random.Random(f"subject {schedule.format} {schedule.seed}"))
        subject = self.subject
        self.model = Model(
            subject.by_sequence, subject.keeps_all, subject.keeps_order, subject.keeps_newest, subject.misses_new
        )
        self.model.states[0] = subject.begins_with
        self.model.time, self.model.clocks_differ = lambda: self.world.time, lambda: not self.world.clocks_agree
        self.model.branches.go_with_snapshots = subject.tags_go_with_snapshots
        self.model.dues, self.model.parts = subject.dues, subject.parts if subject.expires_by_itself else None
        location = f"s3://simulated/{next(_runs):09d}/db.db/t"
        self.real = MemoryStore(location, lambda: self.world.time)
        self.processes: dict[str, Process] = {}
        self.jobs = Jobs()
        self.makers: dict[str, str] = {}
        """Who made each file, to tell of one that is left."""

    def report(self) -> Report:
        """Run it."""
        failure = details = ""
        with simulated(self.world, self._store_of):
            try:
                self._all()
            except (Violation, Stuck) as error:
                failure, details = str(error), traceback.format_exc()
            except Exception as error:  # noqa: BLE001 - a fault of the code under test, or of the simulation
                failure, details = f"{type(error).__name__}: {error}", traceback.format_exc()
        outcomes = tuple(line for one in self.processes.values() for line in one.outcomes)
        return Report(self.schedule, failure, tuple(self.world.trace), outcomes, self.world.faults, details)

    def _all(self) -> None:
        self.subject.create(self.real)
        if self.schedule.store is StoreKind.LATE:  # those who look from outside see all names at once
            self.world.time += 2 * _LATE_SECONDS
            self.real.late = _LATE_SECONDS
        self.world.run({actor.name: self._life(number) for number, actor in enumerate(self.schedule.actors, 1)})
        self.world.time += _LATER
        self.real.late = 0.0
        self._recover()

    def _life(self, number: int) -> Callable[[], None]:
        def live() -> None:
            who = self.world.running[number - 1]
            process = Process(who, self.world, number, self.subject, self.model, self.jobs, lambda: self._handle(who))
            self.processes[who.actor.name] = process
            process.live()

        return live

    def _handle(self, who: Running) -> SimulatedStore:
        return SimulatedStore(self.world, who, self.real, self._changed, self.subject)

    def _store_of(self, location: str) -> Store:
        """The store of a location below the table's, for whoever runs."""
        inner = location.removeprefix(self.real.location).strip("/")
        who = self.world.current
        if who is None or who.actor.name not in self.processes:
            return self.real
        return self.processes[who.actor.name].store.at(inner)

    def _changed(self, who: Running, verb: str, path: str) -> None:
        process = self.processes[who.actor.name]
        change = process.change
        if verb != "delete":
            self.makers[path] = who.actor.name
        if self.subject.publishes(verb, path):
            self.world.published(who)
            running, self.world.current = self.world.current, None
            late, self.real.late = self.real.late, 0.0
            try:
                with self.real.whole():
                    seen, began, others = self.subject.see(self.real), process.began, process.committing
                self.model.publish(seen, change, who.actor.name, began, others)
            except Violation as broken:
                self._broken(broken)
            except LakebedError as error:
                text = f"the newest rows can't be read after {who.actor.name}'s {verb} of {path}: {error}"
                self._broken(Violation(text))
            finally:
                self.world.current, self.real.late = running, late

    def _broken(self, violation: Violation) -> NoReturn:
        """End the run. Code under test may go on after an Exception, so this is none."""
        self.world.broken = self.world.broken or violation
        raise Crash("a promise is broken")

    # ---- the end ----

    def _recover(self) -> None:
        """A run without faults cleans up. Then the rows are those of the model, in every snapshot and tag that is
        left; no clean-up finds more; and the table takes another write."""
        subject, model = self.subject, self.model
        table = subject.open(self.real)
        followers = [one.follower for one in self.processes.values() if one.follower is not None]
        self.real.bring_back()
        subject.complete(table)
        subject.tell_all(table)
        for rows in subject.other_reads(self.real):
            model.check_snapshot("the newest state", model.now, rows, "another way to read at the end")
        for follower in followers:
            follower.catch_up(self.real)
        model.check_snapshot("the newest state", model.now, rows_of(table.read(["id", "v"])), "the end")
        self._cleaned(table)
        for options in subject.orphans():
            left = table.expire(options=options).deleted_files
            if left:
                raise Violation(f"a second clean-up removed {left} more")
        mode = "append" if subject.appends_by_key or not subject.keyed else "upsert"
        table.write(subject.data([(0, 1)]), mode, subject.last_write_options)
        self._all_kept()

    def _cleaned(self, table: Table) -> None:
        """Clean up. What nothing names goes, and nothing else does. The second step finds what the first one has left
        to age."""
        subject = self.subject
        before = {path for path in subject.needed(self.real) if not path.startswith((STAGING, *subject.upkeep))}
        for options in subject.orphans():
            table.expire(options=options)
            self.world.time += _LATER
        there = {path for path in self.real.files if not path.startswith(STAGING)}
        if lost := sorted(before - there):
            raise Violation(f"the clean-up removed files that the table names: {lost}")
        if left := sorted(there - subject.named(self.real) - subject.wanted(self.real)):
            makers = sorted({self.makers.get(path, "the simulation") for path in left})
            raise Violation(f"the clean-up left files that nothing names: {left}, made by {makers}")

    def _all_kept(self) -> None:
        """The oldest snapshot and the tags are read in any case, others where their files are not those of before."""
        subject, model = self.subject, self.model
        table = subject.open(self.real)
        kept = [one.time for one in table.history() if one.state == "completed" and one.time in model.snapshots]
        for place, name in enumerate(kept):
            rows = subject.rows_before(self.real, name) if place else None
            if rows is None:
                try:
                    rows = rows_of(table.read(["id", "v"], as_of=subject.position(name)))
                except LakebedError as error:
                    raise Violation(f"snapshot {name} is in the history and can't be read: {error}") from error
            model.check_snapshot(name, model.snapshots[name], rows, "the end")
        model.branches.check_absent(model.cut_expiries)
        for name, branch in model.branches.items():
            rows = rows_of(subject.open(self.real, name).read(["id", "v"]))
            model.check_snapshot(f"branch {name}", branch.states[-1], rows, "the end")
        refs = {ref.name for ref in table.refs()} if subject.tags_go_with_snapshots else model.tags
        for name, wanted in model.tags.items():
            if name not in refs and model.was_made_in_a_cut_expiry(name):
                continue
            rows = rows_of(table.read(["id", "v"], as_of=f"tag:{name}"))
            model.check_snapshot(f"tag {name}", wanted, rows, "the end")


def simulate(schedule: Schedule) -> Report:
    """Run a schedule. The same one always gives the same report."""
    _load(schedule.format)
    return Run(schedule).report()


@cache
def _load(format: str) -> None:
    """Run every verb once, so that no later run imports a module: some draw random bytes when they are imported."""
    subject = SUBJECTS[format]
    roles = [
        role
        for verbs in (subject.verbs, *subject.themes, *subject.later_themes, *subject.newest_themes)
        for role in verbs.values()
    ]
    verbs = {name: None for role in roles for name, _ in role}
    for seed in range(2):
        actor = Actor("first", tuple(Step(verb, number) for number, verb in enumerate([*verbs, *verbs])))
        Run(Schedule(format, seed, StoreKind.OBJECTS, False, (actor,))).report()


def drawn(format: str, seed: int, late: bool = False) -> Schedule:
    """The schedule of a seed."""
    subject = SUBJECTS[format]
    return draw(format, subject.verbs, seed, late, subject.themes, subject.later_themes, subject.newest_themes)
