"""The steps of a process that stage writes of an Iceberg table and publish them, compute statistics and repair."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.errors import CommitUnknownError, LakebedError
from lakebed.testing.faults import Crash
from lakebed.testing.simulation.branching import Branching, no_change
from lakebed.testing.simulation.changes import Change, Violation, putting
from lakebed.testing.simulation.memory import MemoryStore


@dataclass(eq=False)
class StagedWrite:
    """A write that is in the table and that nobody sees, under a name and as a snapshot."""

    name: str
    snapshot: str
    change: Change
    at_work: int = 0
    """How many processes publish it at this moment."""
    unsure: bool = False
    """Whether an attempt may have landed that nobody was told of, or others tried at the same time."""


REPAIR = {"lakebed.repair.most-lost-percent": 100}
"""Few files may be many of all."""
_MOST_LOST = 3


class Staging(Branching):
    """A process that also stages writes and publishes those of all processes."""

    def stage(self) -> None:
        """A write that nobody sees."""
        rows, name = self._rows(), f"w{self.number}-{self._step}"
        apply = putting(rows) if self.subject.keyed else self._adding(rows)
        change = self._begin(f"staged write of {rows}", apply, rows)
        self.change = None  # no row changes until somebody publishes it
        try:
            mode = "upsert" if self.subject.keyed else "append"
            done = self.table.write(self.subject.data(rows), mode, {**self.subject.write_options, "wap.id": name})
        except CommitUnknownError:
            raise
        except LakebedError:
            change.over = True
            raise
        self.model.staged.append(StagedWrite(name, done.instant, change))

    def publish(self) -> None:
        """A staged write is made visible, by its name or as a snapshot that is picked. It lands once, whoever tries."""
        if not self.model.staged:
            return
        staged = self.chance.choice(self.model.staged)
        change, before = staged.change, staged.change.landed
        staged.unsure |= staged.at_work > 0
        staged.at_work += 1
        self.committing = [change]
        try:
            if self.chance.random() < 0.5:
                self.table.publish(staged.name)
            else:
                self.table.cherry_pick(int(staged.snapshot))
        except (CommitUnknownError, Crash):
            staged.unsure = True
            raise
        except LakebedError as error:
            if change.landed != before and not staged.unsure:
                text = f"{change.text} is there, though its publication ended with {type(error).__name__}: {error}"
                raise Violation(f"{self.name}: {text}") from error
            raise
        finally:
            staged.at_work -= 1
        self.model.acknowledge(change, self.name)

    def statistics(self) -> None:
        """How many different values the columns of the newest snapshot have, and which partitions it has."""
        done = self.table.compute_table_stats(["id", "v"])
        if done.snapshot in self.model.every:
            rows = self.model.every[done.snapshot]
            wanted = {"id": len({key for key, _ in rows}), "v": len(rows)}
            distinct = {column.column: column.distinct for column in done.columns}
            if distinct != wanted:
                raise Violation(f"{self.name}: the statistics of {done.snapshot} are {distinct}, not {wanted}")
        if self.subject.partitioned:
            parts = self.table.compute_partition_stats()
            count = len(self.subject.parts)
            least = len({key % count for key, _ in self.model.every.get(parts.snapshot, ())})
            if parts.partitions < least:
                raise Violation(f"{self.name}: {parts.snapshot} has {least} partitions, not {parts.partitions}")

    def lose(self) -> None:
        """A file of the table is gone, and nobody removed it. What needs it fails until a repair."""
        real = self.store.real
        assert isinstance(real, MemoryStore)
        with real.whole():
            losable = self.subject.losable(real)
        present = sorted(path for path in losable if path not in real.lost)
        if present and len(real.lost) < _MOST_LOST:
            path = self.chance.choice(present)
            real.lose(path)
            self.model.lost[path] = losable[path]

    def mend(self) -> None:
        """A repair takes what is lost out of the table: all rows of such a file go, and no others, and none of a file
        that was lost before it began stays."""
        model = self.model
        before, change = {**model.lost}, self._move(Change("repair", no_change, certain=False, replaces=True))
        change.leads_to = model.without_lost
        done = self.table.repair(
            options={**REPAIR, "lakebed.repair.check": self.chance.choice(["existence", "footer"])}
        )
        if wrong := [file.path for file in done.lost if file.path.rpartition("/")[2] not in model.lost_names]:
            raise Violation(f"{self.name}: a repair found {wrong}, which nobody lost")
        real = self.store.real
        assert isinstance(real, MemoryStore)
        with real.whole():
            if stayed := [path for path in before if path in self.subject.losable(real)]:
                raise Violation(f"{self.name}: {stayed} are lost, and the table names them after its repair")

    def repair(self) -> None:
        """A repair of a table that has lost nothing finds nothing and changes nothing, whoever is at work beside it."""
        depth = self.chance.choice(["existence", "length", "footer", "data"])
        done = self.table.repair(options={"lakebed.repair.check": depth})
        if done.lost or done.removed or done.instants:
            raise Violation(f"{self.name}: a repair found {[file.path for file in done.lost]}, which nobody lost")
