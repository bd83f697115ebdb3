"""The steps of a process that write rows, at once or in two phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakebed.errors import CommitUnknownError, LakebedError
from lakebed.model.commit import CommitMessage
from lakebed.testing.faults import Crash
from lakebed.testing.simulation.changes import Apply, Change, Row, adding, putting, removing, replacing
from lakebed.testing.simulation.life import Life
from lakebed.verbs.table import Table
from lakebed.verbs.two_phase import TableWriter

_AGAIN = 4
"""How often a job that died or does not know starts again before it gives its commit up."""


class Writes(Life):
    """A process that writes."""

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
        parts = self.subject.parts if self.subject.partitioned else None
        self._write(rows, "overwrite", replacing(rows, parts), replaces=True)

    def overwrite_table(self) -> None:
        """Rows take the place of all, also of those in other partitions."""
        rows = self._rows()
        options = self.subject.table_overwrites
        self._write(rows, "overwrite", replacing(rows, None), replaces=True, options=options)

    def drop_partitions(self) -> None:
        """The partitions of rows go, with all that is in them."""
        if not self.subject.partitioned:
            self.overwrite()
            return
        rows, count = self._rows(), len(self.subject.parts)
        gone = {key % count for key, _ in rows}
        change = removing(key for key in range(self.subject.ids) if key % count in gone)
        self._write(rows, "delete", change, certain=False, replaces=True, options=self.subject.partition_drops)

    def two_phase(self) -> None:
        """A commit under an identifier, done again after a death or an answer that did not come, as a stream does."""
        change, user, identifier, writer, messages = self._prepared("two-phase write")
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

    def _prepared(self, what: str) -> tuple[Change, str, int, TableWriter, Sequence[CommitMessage]]:
        """A write that has begun: its change, its user and identifier, its writer and the messages to commit."""
        rows = self._rows()
        change = self._begin(f"{what} of {rows}", self._adding(rows), rows)
        user, identifier = f"user of {self.name}", self._next_identifier()
        target = self._target()
        writer = target.writer(user)
        writer.write(self.subject.changes(rows, self._beside(target)))
        return change, user, identifier, writer, writer.prepare_commit()

    def prepare_and_abort(self) -> None:
        """A write that is given up, before its commit or after it: a commit that stands stays whole."""
        change, user, identifier, writer, messages = self._prepared("aborted write")
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
            self._is_elsewhere = any(one.given_up or one.change.landed for one in chosen)
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
