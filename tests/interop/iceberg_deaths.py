"""Steps of an Iceberg table's life at which lakebed is killed. Every engine then reads the old rows or the new ones,
one of them goes on, and lakebed does it again where nothing had landed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakebed.errors import UnsupportedError
from tests.interop.iceberg_changes import Changes
from tests.interop.iceberg_dying import Moment, deed, die

GO_ON = ("append", "upsert", "delete", "overwrite", "replace_part", "rewrite", "alter", "add_files", "table_stats")
"""What another engine's rows in between leave as it was wanted."""


class Deaths(Changes):
    """A table whose writers and jobs are killed."""

    dying = False
    """Whether the next thing is done by a process that is killed."""
    moment: Moment | None = None
    """When it is killed; by chance where it is None."""
    deaths = 0

    def check(self) -> None:
        """Every reader gets the model's rows."""
        raise NotImplementedError

    def _die(self) -> None:
        acts = [
            self._append, self._upsert, self._delete, self._replace, self._rewrite, self._rewrite, self._alter,
            self._add_files, self._expire, self._statistics, self._sweep, self._publish, self._branch, self._rollback,
        ]  # fmt: skip
        self.die_in(self.chance.choice(acts))

    def die_in(self, act: Callable[[], Any], moment: Moment | None = None) -> None:
        """A step, the first thing of which is done by a process that is killed."""
        self.dying, self.moment = True, moment
        try:
            act()
        finally:
            self.dying = False

    def by(self, what: str, do: Callable[[Any], None]) -> str:
        """The engine that did it in the end, where the process of lakebed that began it was killed."""
        if not self.dying:
            return super().by(what, do)
        self.dying, self.who = False, "lakebed"
        done, before = deed(self.place, do), self.place.head()[1]
        moment = self.moment or Moment.drawn(self.chance, done.verb, self.shape.catalog == "path")
        try:
            killed = die(done, moment)
        except UnsupportedError as error:
            self.refused[f"lakebed {what.split()[0]}: {error}"] += 1
            return super().by(what, do)
        except Exception as error:
            error.add_note(f"step {self.number}: lakebed dies {moment} of {what}")
            raise
        landed = self.place.head()[1] != before
        self.note(f"{self.number} lakebed {what} {f'dies {moment}' if killed else 'ends'}{', landed' * landed}")
        self.deaths += killed
        if not killed or (landed and done.verb != "expire"):
            return "lakebed"
        if not landed:
            self.check()
            if done.verb in GO_ON and self.chance.random() < 0.7:
                self.who = self.chance.choice(("spark4.0", "spark4.1", "pyiceberg"))
                self._append()
                self.who = "lakebed"
        return super().by(what, do)
