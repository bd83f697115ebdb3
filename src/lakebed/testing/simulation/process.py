"""What one actor does: the steps that read, and those of upkeep, beside those that write and branch."""

from __future__ import annotations

import math

import lakebed
from lakebed.errors import LakebedError, UnsupportedError, UsageError
from lakebed.testing.faults import Crash
from lakebed.testing.simulation.branching import no_change
from lakebed.testing.simulation.changes import Change, Violation
from lakebed.testing.simulation.follower import Follower
from lakebed.testing.simulation.staging import Staging
from lakebed.testing.simulation.subject import OLD_SECONDS, rows_of


class Process(Staging):
    """The process of an actor, with all steps."""

    def read(self) -> None:
        """The newest rows."""
        since = len(self.model.shown) - 1
        self.model.check_read(rows_of(self.table.read(["id", "v"])), since, self.name)

    def stream(self) -> None:
        """A job that follows the table reads a few batches more."""
        if not self.subject.streams:
            self.read()
            return
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
        try:
            self.table.expire(options=self.subject.expiries(self.chance))
        finally:
            if self.who.hit:
                self.model.cut_expiries.append((self.began, self.model.tick()))

    def rescale(self) -> None:
        """Rows move into another number of buckets, which the table's definition names first. Where that is all that
        comes of it, the table takes no write until somebody moves them."""
        if not self.subject.has_buckets:
            self.rewrite()
            return
        number = self.chance.randrange(1, 4)
        if not self.subject.postpones:
            self.table.alter(lakebed.set_option("bucket", number))
        self.table.rewrite(options={"bucket": number})

    def expire_partitions(self) -> None:
        """Partitions go that nobody has written to for a while, or whose value is too old: whole, and where all clocks
        agree no younger ones. By values all go that are too old when it begins, but for rows that come meanwhile."""
        subject, model = self.subject, self.model
        if not subject.partitioned:
            self.expire()
            return
        self._world.pause(self.chance.uniform(0, 2 * OLD_SECONDS))
        change = self._move(Change("expiry of partitions", no_change, certain=False, replaces=True))
        world, agree = self._world, self._world.clocks_agree
        if subject.dues:
            change.leads_to = lambda: model.without_due(model.now, subject.parts)
        else:
            change.leads_to = lambda: model.without_old(subject.parts, world.time - OLD_SECONDS if agree else math.inf)
        due = model.due() if agree else set()
        self.table.expire(options=subject.partition_expiries)
        left = [row for row in model.now if subject.parts[row[0] % len(subject.parts)] in due]
        if stayed := [row for row in left if not model.is_written_since(row, change.began)]:
            raise Violation(f"{self.name}: {stayed} stay in partitions that are too old")

    def orphans(self) -> None:
        """Remove what failed writes left, if it is old enough."""
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
            self.model.tag_made[name] = self.began, self.model.tick()

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
            self.change = Change(f"rollback to {name}", no_change, certain=False, goes_back=True)
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
        self.change = Change(f"restore to tag {name}", no_change, certain=False, goes_back=True)
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
