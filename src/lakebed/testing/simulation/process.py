"""An actor's process: it opens the table, runs its steps one after the other, dies where the schedule says, and starts
again with what a restarted job knows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

import lakebed
from lakebed.errors import (
    CommitConflictError,
    CommitUnknownError,
    LakebedError,
    NotInHistoryError,
    SchemaError,
    UnsupportedError,
    UsageError,
)
from lakebed.model.commit import CommitMessage
from lakebed.testing.faults import Crash
from lakebed.testing.simulation.columns import Alteration
from lakebed.testing.simulation.follower import Follower
from lakebed.testing.simulation.jobs import Jobs
from lakebed.testing.simulation.model import (
    Apply,
    Change,
    Model,
    Row,
    State,
    Violation,
    adding,
    difference,
    putting,
    removing,
    replacing,
)
from lakebed.testing.simulation.schedule import Step
from lakebed.testing.simulation.store import SimulatedStore
from lakebed.testing.simulation.subject import PARTS, Subject, rows_of
from lakebed.testing.simulation.world import Running, World
from lakebed.verbs.table import Table

_AGAIN = 4
"""How often a job that died or does not know starts again before it gives its commit up."""


class Process:
    """What one actor does. `change` is the change of rows that it is making, for the model."""

    def __init__(
        self, who: Running, world: World, number: int, subject: Subject, model: Model, jobs: Jobs,
        handle: Callable[[], SimulatedStore],
    ) -> None:  # fmt: skip
        self.who, self._world, self.number, self._handle = who, world, number, handle
        self.subject, self.model, self._jobs = subject, model, jobs
        self.name = who.actor.name
        self.change: Change | None = None
        self.committing: Sequence[Change] = ()
        """The changes of others that it commits for them, one after the other."""
        self.began = 0
        """When its step began, in the model's ticks."""
        self.follower: Follower | None = None
        self.outcomes: list[str] = []
        self.chance = random.Random()
        self._step, self._identifier = 0, 0
        self._unsure = False
        """Whether an earlier attempt of the step may have landed."""
        self._branch = ""
        """The branch that the step writes to."""

    def live(self) -> None:
        """Run all steps."""
        self._start()
        for place, step in enumerate(self.who.actor.steps):
            self._step, self.chance = place, random.Random(step.number)
            self.who.hit.clear()
            self.who.overtaken = 0
            self._unsure, self._branch = False, ""
            self.who.busy = True
            self.began = self.model.tick()
            outcome = self._ended(step)
            self.outcomes.append(f"{self.name} {step.verb}:{step.number} {outcome}")
            if self.change is not None:
                self.model.end(self.change)
            self.change, self.committing, self.who.busy, self.who.alone = None, (), False, False

    def _start(self) -> None:
        while True:
            self.store = self._handle()
            try:
                self.table = self.subject.open(self.store)
                return
            except (Crash, LakebedError):
                if not self.who.hit or self._world.broken is not None:
                    raise

    def _alone(self) -> bool:
        """Whether no other actor is in a step. From then on this one is not interrupted until its step has ended."""
        self.who.alone = not any(one.busy for one in self._world.running if one is not self.who)
        return self.who.alone

    def _ended(self, step: Step) -> str:
        """Run a step; how it ended."""
        try:
            getattr(self, step.verb)()
        except Crash:
            if self._world.broken is not None:
                raise
            self._start()
            return "killed"
        except LakebedError as error:
            self._judge(error)
            return f"{type(error).__name__}: {error.what if hasattr(error, 'what') else error}"
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"{self.name}: {step.verb} raised {type(error).__name__}: {error}") from error
        return "done"

    def _judge(self, error: LakebedError) -> None:
        """An error is one that may be, and tells the truth."""
        sure = not isinstance(error, CommitUnknownError) and not self._unsure
        if self.change is not None and sure:
            self.model.refuse(self.change, self.name, error)
        late = self.who.overtaken >= self.subject.forgets_after and isinstance(error, CommitUnknownError)
        altered = isinstance(error, SchemaError) and self.model.altered_since(self.began)
        may_be = isinstance(error, CommitConflictError | NotInHistoryError | UsageError)
        if not (self.who.hit or late or altered or may_be):
            raise Violation(f"{self.name} got {type(error).__name__} without a fault: {error}") from error

    # ---- writes ----

    def append(self) -> None:
        """Rows that come to those that there are; by key where the table has one."""
        if self.subject.keyed and not self.subject.appends_by_key:
            self.upsert()
            return
        rows = self._rows()
        self._write(rows, "append", self._adding(rows))

    def upsert(self) -> None:
        """Rows that take the place of others."""
        if not self.subject.keyed:
            self.append()
            return
        rows = self._rows()
        self._write(rows, "upsert", putting(rows))

    def delete(self) -> None:
        """Rows go by their keys."""
        if not self.subject.keyed:
            self.append()
            return
        rows = self._rows()
        self._write(rows, "delete", removing(key for key, _ in rows), certain=False)

    def overwrite(self) -> None:
        """Rows take the place of all, or of all in their partitions."""
        rows = self._rows()
        self._write(rows, "overwrite", replacing(rows, PARTS if self.subject.partitioned else None), replaces=True)

    def overwrite_table(self) -> None:
        """Rows take the place of all, also of those in other partitions."""
        rows = self._rows()
        whole = {"hoodie.datasource.write.operation": "insert_overwrite_table"}
        self._write(rows, "overwrite", replacing(rows, None), replaces=True, options=whole)

    def drop_partitions(self) -> None:
        """The partitions of rows go, with all that is in them."""
        if not self.subject.partitioned:
            self.overwrite()
            return
        rows = self._rows()
        gone = {key % len(PARTS) for key, _ in rows}
        change = removing(key for key in range(self.subject.ids) if key % len(PARTS) in gone)
        drop = {"hoodie.datasource.write.operation": "delete_partition"}
        self._write(rows, "delete", change, certain=False, replaces=True, options=drop)

    def two_phase(self) -> None:
        """A commit under an identifier, done again after a death or an answer that did not come, as a stream does."""
        rows = self._rows()
        change = self._begin(f"two-phase write of {rows}", self._adding(rows), rows)
        user, identifier = f"user of {self.name}", self._next_identifier()
        target = self._target()
        writer = target.writer(user)
        writer.write(self.subject.changes(rows, self._beside(target)))
        messages = writer.prepare_commit()
        commits: Mapping[int, Sequence[CommitMessage]] = {identifier: messages}
        for turn in range(_AGAIN):
            try:
                if turn:
                    self._target().writer(user).filter_and_commit(commits)
                else:
                    writer.commit(identifier, messages)
            except Crash:
                if self._world.broken is not None:
                    raise
                self._start()
                self._unsure = True
            except CommitUnknownError:
                self._unsure = True
            else:
                self.model.acknowledge(change, self.name)
                return
        if self.chance.random() < 0.5:
            self._target().writer(user).abort(messages)

    def prepare_and_abort(self) -> None:
        """A write that is given up, before its commit or after it: a commit that stands stays whole."""
        rows = self._rows()
        change = self._begin(f"aborted write of {rows}", self._adding(rows), rows)
        user, identifier = f"user of {self.name}", self._next_identifier()
        target = self._target()
        writer = target.writer(user)
        writer.write(self.subject.changes(rows, self._beside(target)))
        messages = writer.prepare_commit()
        if self.chance.random() < 0.5:
            writer.commit(identifier, messages)
            self.model.acknowledge(change, self.name)
            self.model.end(change)
            self.change = None
        self._target().writer(user).abort(messages)

    # ---- commits that one process prepares and any other one ends ----

    def prepare(self) -> None:
        """Rows become files, whose messages a job keeps: no process commits them yet."""
        rows = self._rows()
        change = self._begin(f"prepared write of {rows}", self._adding(rows), rows)
        writer = self.table.writer(self._jobs.user(self.number))
        writer.write(self.subject.changes(rows, self._beside(self.table)))
        self._jobs.keep(self.number, writer.prepare_commit(), change)
        self.change = None  # it goes on

    def commit_prepared(self) -> None:
        """Messages that wait are committed in their order, by whoever comes; another process of the same job may try
        the same at once, and messages that were given up may be tried too."""
        chosen = self._jobs.choose(self.chance)
        if not chosen:
            return
        self.committing = [one.change for one in chosen]
        try:
            with self._jobs.at_work(chosen):
                self.table.writer(chosen[0].user).filter_and_commit({one.identifier: one.messages for one in chosen})
        except (CommitUnknownError, Crash):
            self._jobs.unsure(chosen)
            raise
        except LakebedError as error:
            self._jobs.failed(chosen, self.model, self.name, error)
            raise
        self._jobs.done(chosen, self.model, self.name)

    def abort_prepared(self) -> None:
        """A job gives messages up, whether they were committed or not: a commit that stands stays whole, and one that
        was given up never lands."""
        chosen = self._jobs.give_up(self.chance)
        if chosen is not None:
            with self._jobs.at_work([chosen]):
                self.table.writer(chosen.user).abort(chosen.messages)
            may_land = bool(self.who.hit) or not self.subject.aborts_bind
            self._jobs.aborted(chosen, self.model, may_land)

    def _write(
        self, rows: Sequence[Row], mode: str, apply: Apply, certain: bool = True, replaces: bool = False,
        options: Mapping[str, object] = {},
    ) -> None:  # fmt: skip
        change = self._begin(f"{mode} of {rows}", apply, rows, certain)
        change.replaces, target = replaces, self._target()
        target.write(self.subject.data(rows, self._beside(target)), mode, {**self.subject.write_options, **options})
        self.model.acknowledge(change, self.name)

    def _begin(self, text: str, apply: Apply, rows: Sequence[Row] = (), certain: bool = True) -> Change:
        where = f" on {self._branch}" if self._branch else ""
        change = Change(text + where, apply, frozenset(rows), not certain, certain=certain, branch=self._branch)
        self.change = self.model.begin(change)
        return change

    def _beside(self, table: Table) -> Mapping[str, pa.DataType]:
        """The columns beside those that the table was created with, for the rows of the step's change."""
        if not self.subject.altered or self.change is None:
            return {}
        beside = self.subject.columns_beside(table)
        known = self.model.columns.numbers
        self.change.columns = {name: known[name] for name in beside if name in known}
        return {name: beside[name] for name in self.change.columns}

    def _target(self) -> Table:
        """The table, or the branch that the step writes to."""
        return self.subject.open(self.store, self._branch) if self._branch else self.table

    def _adding(self, rows: Sequence[Row]) -> Apply:
        return putting(rows) if self.subject.keyed else adding(rows)

    def _rows(self) -> list[Row]:
        first = self.number * 100_000 + self._step * 1000
        ids = self.subject.ids
        keys = self.chance.sample(range(ids), self.chance.randrange(1, min(ids, 3) + 1))
        if not self.subject.keyed:
            return [(first + n, first + n) for n in range(len(keys))]
        return [(key, first + n) for n, key in enumerate(keys)]

    def _next_identifier(self) -> int:
        self._identifier += 1
        return self._identifier

    # ---- the definition ----

    def alter(self) -> None:
        """Another definition: no row changes, and no row loses what it has in a column."""
        self.subject.altered = True
        wanted, alteration = self.subject.alteration(self.chance, [*self.model.columns.numbers])
        text = f"alteration {wanted}"
        change = self._move(Change(text, _same, certain=False, alteration=alteration or Alteration()))
        self.table.alter(wanted)
        same = (one for one in self.model.changes if one.alteration == change.alteration and one.landed)
        if alteration is not None and not any(one.ended is None or one.ended > self.began for one in same):
            raise Violation(f"{self.name}: {text} was acknowledged and is not there")

    # ---- branches ----

    def branch(self) -> None:
        """A new branch, at the newest snapshot or at an older one."""
        name, self.subject.branched = f"b{self.number}-{self._step}", True
        at, states = self.subject.branch_point(self.model, self.chance)
        change = self._move(Change(f"creation of {name}", _same, branch=name, leads_to=states))
        self.table.branch(name, at)
        self.model.acknowledge(change, self.name)

    def write_branch(self) -> None:
        """A write to a branch. The others do not change."""
        if self._choose_branch():
            verbs = ("append", "upsert", "upsert", "delete", "overwrite", "two_phase", "two_phase", "prepare_and_abort")
            getattr(self, self.chance.choice(verbs))()

    def read_branch(self) -> None:
        """The newest rows of a branch."""
        if self._choose_branch():
            states = self.model.branches[self._branch]
            since = len(states) - 1
            self.model.check_read(rows_of(self._target().read(["id", "v"])), since, self.name, states)

    def fast_forward(self) -> None:
        """The table goes on where a branch is."""
        if self._choose_branch():
            name, self._branch = self._branch, ""
            states = self.model.branches[name]
            since, back = len(states) - 1, self.subject.forwards_go_back
            if self.subject.stops_for_branches and not self._alone():
                return
            change = Change(f"fast-forward to {name}", _same, leads_to=lambda: states[since:], goes_back=back)
            change.certain = False
            if back:
                change.leads_to = lambda: [*self.model.states, *states]
                self.model.tags.clear()  # those of what goes are gone, and those of the branch come
            if not back:
                before = self.model.before[name]
                change.follows = lambda: [*before, *states]
            self._move(change)
            self.table.fast_forward(name)
            if back and self.model.now != states[-1]:
                raise Violation(f"{self.name}: {change.text} ended well\n{difference(states[-1], self.model.now)}")

    def delete_branch(self) -> None:
        """A branch goes."""
        if self._choose_branch() and (not self.subject.stops_for_branches or self._alone()):
            change = self._move(Change(f"removal of {self._branch}", _same, branch=self._branch, drops=True))
            try:
                self.table.delete_branch(self._branch)
            except LakebedError:
                change.goes_back |= self.subject.stops_for_branches  # it may be gone, and some of its files not
                raise
            if self._branch in self.model.branches:  # another one may have removed it at the same time
                raise Violation(f"{self.name}: the removal of {self._branch} was acknowledged, and it is there")

    def _choose_branch(self) -> bool:
        """Whether there is a branch: the step is about one of them."""
        if self.model.branches:
            self._branch = self.chance.choice([*self.model.branches])
        return bool(self._branch)

    def _move(self, change: Change) -> Change:
        self.change = self.model.begin(change)
        return change

    # ---- reads ----

    def read(self) -> None:
        """The newest rows."""
        since = len(self.model.states) - 1
        self.model.check_read(rows_of(self.table.read(["id", "v"])), since, self.name)

    def stream(self) -> None:
        """A job that follows the table reads a few batches more."""
        if self.follower is None:
            self.follower = Follower(self.subject, self.model, self.number)
        self.follower.go_on(self.store, self.chance, self.chance.randrange(1, 4))

    def read_old(self) -> None:
        """The rows of a snapshot that the table has."""
        known = dict(self.model.snapshots)
        if known:
            name = self.chance.choice([*known])
            wanted = known[name]
            rows = rows_of(self.table.read(["id", "v"], as_of=self.subject.position(name)))
            if self.model.snapshots.get(name, wanted) == wanted:
                self.model.check_snapshot(name, wanted, rows, self.name)

    def read_tag(self) -> None:
        """The rows of a tag."""
        known = dict(self.model.tags)
        if known:
            name = self.chance.choice([*known])
            rows = rows_of(self.table.read(["id", "v"], as_of=f"tag:{name}"))
            self.model.check_snapshot(f"tag {name}", known[name], rows, self.name)

    # ---- upkeep ----

    def rewrite(self) -> None:
        """A compaction or another rewrite: no row changes."""
        self.table.rewrite(options=self.subject.rewrites(self.chance))

    def schedule(self) -> None:
        """The plan of a rewrite, which any process may run later."""
        self.table.rewrite(options={**self.subject.rewrites(self.chance), "lakebed.rewrite.step": "schedule"})

    def withdraw(self) -> None:
        """Plans that nobody has begun are taken back."""
        self.table.rewrite(options={**self.subject.rewrites(self.chance), "lakebed.rewrite.step": "withdraw"})

    def expire(self) -> None:
        """Old snapshots go."""
        self.table.expire(options=self.subject.expiries(self.chance))

    def orphans(self) -> None:
        """What failed writes left goes, where it is old enough."""
        for options in self.subject.orphans():
            self.table.expire(options=options)

    def failed_writes(self) -> None:
        """Writes that died are taken back."""
        self.table.expire(options={"lakebed.expire.what": "failed-writes"})

    def post_commit(self) -> None:
        """What a Hudi writer runs after a commit: it cleans and archives where that is due."""
        newest = self.table.newest_commit()
        if newest is not None:
            lakebed.hudi.post_commit(self.table, newest.time)

    def archive(self) -> None:
        """Old instants move to the archive."""
        self.table.archive(options=self.subject.archives(self.chance))

    def tag(self) -> None:
        """A snapshot gets a name."""
        known = dict(self.model.snapshots)
        if not known:
            return
        name, snapshot = f"t{self.number}-{self._step}", self.chance.choice([*known])
        self.table.tag(name, self.subject.position(snapshot))
        if self.model.snapshots.get(snapshot) == known[snapshot]:
            self.model.tags[name], self.model.tagged[name] = known[snapshot], snapshot

    def untag(self) -> None:
        """A tag goes."""
        if self.model.tags:
            name = self.chance.choice([*self.model.tags])
            del self.model.tags[name]
            self.table.delete_tag(name)

    def rollback(self) -> None:
        """The table goes back to a snapshot that it has, while nobody else is at work: the writers were stopped."""
        known = dict(self.model.snapshots)
        if known and self._alone():
            name = self.chance.choice([*known])
            self.change = Change(f"rollback to {name}", lambda state: state, certain=False, goes_back=True)
            if self.subject.tags_go_back:
                older = [*known][: [*known].index(name) + 1]
                self.model.tags = {tag: at for tag, at in self.model.tags.items() if self.model.tagged[tag] in older}
            self.table.rollback(self.subject.position(name))

    def restore(self) -> None:
        """The table goes back to a tag step by step, while nobody else is at work. Whoever dies begins again: until all
        steps are done, nobody else does anything either. Commits after it that are archived cannot be taken back."""
        known = dict(self.model.tags)
        if not known or not self._alone():
            return
        name = self.chance.choice([*known])
        self.change = Change(f"restore to tag {name}", lambda state: state, certain=False, goes_back=True)
        while True:
            try:
                self.table.rollback(f"tag:{name}")
            except Crash:
                if self._world.broken is not None:
                    raise
                self._start()
            except UnsupportedError as error:
                if "archived" not in error.what:
                    raise
                return
            except LakebedError as error:
                if isinstance(error, UsageError) or not self.who.hit:
                    raise
            else:
                break
        if self.model.now != known[name]:
            self.model.check_snapshot(f"tag {name}", known[name], self.model.now, self.name)


def _same(state: State) -> State:
    return state
