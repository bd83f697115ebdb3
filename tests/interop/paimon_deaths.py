"""Steps of a Paimon table's life at which lakebed dies: at a random call of its store, like a killed process. Done
again, each ends as if nothing had been. What is left over goes with the orphan files, whoever removes them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from lakebed.errors import LakebedError
from lakebed.kernel.files import open_store
from lakebed.testing.faults import CRASHES, Crash, Fault, FaultyStore
from tests.interop.paimon_actors import Lakebed
from tests.interop.paimon_steps import Steps

USER = "dying"


class Deaths(Steps):
    """A table whose writers and jobs die."""

    def _die(self) -> None:
        self.chance.choice([self._die_writing, self._die_writing, self._die_compacting, self._die_in_upkeep])()

    def _die_writing(self) -> None:
        rows, kinds = self.upserts() if self.shape.keys else self.inserts()

        def commit(actor: Lakebed) -> None:
            actor.commit(rows, kinds, self.state.schema, USER, self.number)

        self._killed("write", commit)
        landed = self._landed()
        if not landed and self.chance.random() < 0.4:
            return  # nobody starts it again
        commit(self.lakebed)
        assert self._landed() == 1, "done again, a commit landed twice or not at all"
        self.wrote(rows, kinds)
        if landed and (self.shape.waits or self.shape.told_by_compaction):
            self._compact()  # its own compaction may have died

    def _landed(self) -> int:
        mine = [
            instant for instant in self.lakebed.table.history()
            if (instant.summary["commit_user"], instant.summary["commit_identifier"]) == (USER, str(self.number))
        ]  # fmt: skip
        return sum(instant.action != "compact" for instant in mine)

    def _die_compacting(self) -> None:
        self._killed("compact", lambda actor: actor.compact())
        self.lakebed.compact()
        self.whole()

    def _die_in_upkeep(self) -> None:
        if not self.states:
            return self._die_writing()
        what = self.chance.choice(("expire", "tag", "alter", "rollback"))
        if what == "expire":
            keep = self.chance.randrange(1, 6)
            self._killed(what, lambda actor: actor.expire(keep, None))
            self.lakebed.expire(keep, None)
            return self.expired(keep)
        if what == "tag":
            name, number = f"t{self.number}", self.chance.choice(sorted(self.states))
            self._killed(what, lambda actor: actor.tag(name, number))
            with suppress(LakebedError):  # it is there
                self.lakebed.tag(name, number)
            self.tags[name], self.tagged[name] = self.states[number], number
            return None
        if what == "rollback":
            number = self.chance.choice(sorted(self.states)[-4:])
            self._killed(what, lambda actor: actor.rollback(number))
            self.lakebed.rollback(number)
            return self.rolled_back(number)
        change, name, more, columns = self.alteration()
        self._killed(what, lambda actor: actor.alter(change, name, more))
        if self.lakebed.table.schema.names == self.state.schema.names:  # else it is done
            self.lakebed.alter(change, name, more)
        self.alter_to(columns)
        return None

    def _killed(self, what: str, act: Callable[[Lakebed], None]) -> None:
        """Let lakebed do it until it dies."""
        kind, at = self.chance.choice(CRASHES), self.chance.randrange(1, 33)
        store = FaultyStore(open_store(self.path), Fault(at, kind))
        end = "did it"
        try:
            act(self.lakebed.on(store))
        except (Crash, ValueError) as death:  # ValueError: this call cannot fail in that way
            end = f"died: {death}"
        except LakebedError as error:
            if not store.crashed:
                raise
            end = f"died, and said {error}"
        self.note(f"{self.number} lakebed at {what} {end}")

    def _sweep(self) -> None:
        """Files that nothing names go; each engine finds that all of them are gone."""
        long_ago = time.time() - 2 * 86_400
        for path in self.path.rglob("*"):
            if path.is_file():
                os.utime(path, (long_ago, long_ago))
        if self.by("remove orphans", lambda actor: actor.remove_orphans()):
            for actor in (self.lakebed, self.jvm):
                assert not actor.orphans(), f"{actor.name} finds orphans: {actor.orphans()[:5]}"
