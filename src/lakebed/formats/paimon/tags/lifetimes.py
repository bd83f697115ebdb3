"""Tags whose time to live is over go.

Rules: Paimon's TagTimeExpire. The time at which a tag was made is the wall clock of the process that made it, so the
wall clock of this process tells its age; where the store's clock is behind ours, that one does.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakebed.formats.paimon.layout import OWN_FOLDER, tag_path
from lakebed.formats.paimon.tags.names import Tags
from lakebed.formats.paimon.tags.removal import files_of_tag
from lakebed.kernel import clock
from lakebed.kernel.files.age import certain_now
from lakebed.model.upkeep import ExpireResult, Skipped


@dataclass(frozen=True, slots=True)
class TagLifetimes:
    """Ends the tags of a branch. It can run many times, and reads a tag that has not ended once."""

    tags: Tags
    _ends: dict[str, datetime.datetime | None] = field(default_factory=dict)

    def expire(self, dry_run: bool = False) -> ExpireResult:
        """Remove the tags whose time to live is over, and the files that only they need. `kept` are the others."""
        history = self.tags.history
        names = history.tags()
        self._look(names, [name for name in names if name not in self._ends])
        due = self._due(names, clock.moment())
        if due:
            self._look(names, due)  # one of that name may have been made anew
            now = clock.now() if dry_run else certain_now(history.store, OWN_FOLDER)
            due = self._due(names, datetime.datetime.fromtimestamp(now))
        kept = [Skipped(f"tag {name!r}", self._reason(name)) for name in sorted(names) if name not in due]
        paths: list[str] = []
        for name in due:
            if dry_run:
                paths += files_of_tag(history, self.tags.schema, self.tags.options, name)
            else:
                paths += self.tags.delete(name)
                del self._ends[name]
        paths += [tag_path(history.branch, name) for name in due]
        return ExpireResult(tuple(due), tuple(dict.fromkeys(paths)), tuple(kept), dry_run)

    def _look(self, names: Sequence[str], unknown: Sequence[str]) -> None:
        """Read when some tags end; those that cannot be read are not known."""
        for name in {*self._ends} - {*names} | {*unknown}:
            self._ends.pop(name, None)
        self._ends.update({name: tag.ends for name, tag in self.tags.read_many(unknown).items()})

    def _due(self, names: Sequence[str], now: datetime.datetime) -> list[str]:
        """The tags that have ended, in the order in which they did."""
        ended = [(end, name) for name in names if (end := self._ends.get(name)) is not None and now > end]
        return [name for _, name in sorted(ended)]

    def _reason(self, name: str) -> str:
        """Why a tag stays."""
        if name not in self._ends:
            return "it cannot be read"
        end = self._ends[name]
        return "it has no time to live" if end is None else f"it lives until {end.isoformat(' ', 'seconds')}"
