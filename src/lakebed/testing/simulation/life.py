"""What every process does: it opens the table, runs its steps one after the other, dies where the schedule says, and
starts again with what a restarted job knows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from lakebed.errors import (
    CommitConflictError,
    CommitUnknownError,
    LakebedError,
    NotInHistoryError,
    SchemaError,
    UsageError,
)
from lakebed.testing.faults import Crash
from lakebed.testing.simulation.changes import Apply, Change, Row, Violation
from lakebed.testing.simulation.follower import Follower
from lakebed.testing.simulation.jobs import Jobs
from lakebed.testing.simulation.model import Model
from lakebed.testing.simulation.schedule import Step
from lakebed.testing.simulation.store import SimulatedStore
from lakebed.testing.simulation.subject import Subject
from lakebed.testing.simulation.world import Running, World


class Life:
    """The life of one process, whose steps are methods. `change` is the change of rows that it makes, for the model."""

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
        self._is_elsewhere = False
        """Whether what the step commits was committed or given up by others."""
        self._branch = ""
        """The branch that the step writes to."""

    def live(self) -> None:
        """Run all steps."""
        self._start()
        for place, step in enumerate(self.who.actor.steps):
            self._step, self.chance = place, random.Random(step.number)
            self.who.hit.clear()
            self.who.overtaken = 0
            self._unsure, self._is_elsewhere, self._branch = False, False, ""
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
        subject = self.subject
        forgets = subject.forgets_times_after if self._world.clocks_differ else subject.forgets_after
        late = self.who.overtaken >= forgets and isinstance(error, CommitUnknownError)
        altered = isinstance(error, SchemaError) and self.model.altered_since(self.began)
        may_be = isinstance(error, CommitConflictError | NotInHistoryError | UsageError)
        may_be |= isinstance(error, CommitUnknownError) and self._is_elsewhere and subject.forgets_commits
        lacks = bool(self.model.lost)
        if not (self.who.hit or late or altered or may_be or lacks):
            raise Violation(f"{self.name} got {type(error).__name__} without a fault: {error}") from error

    # ---- what the model is told ----

    def _begin(self, text: str, apply: Apply, rows: Sequence[Row] = (), certain: bool = True) -> Change:
        where = f" on {self._branch}" if self._branch else ""
        return self._move(
            Change(text + where, apply, frozenset(rows), not certain, certain=certain, branch=self._branch)
        )

    def _move(self, change: Change) -> Change:
        change.time = self._world.time
        self.change = self.model.begin(change)
        return change
