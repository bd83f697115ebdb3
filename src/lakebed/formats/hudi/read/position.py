"""The position of a Hudi stream: how far it has read, and which commits it has seen.

It holds how far was read, in what ranges count in, which writers were under way then, and which commits before it were
seen. So a commit that completes late is known when it shows up, and one that was seen is missed when it is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from lakebed.errors import NotInHistoryError, UsageError
from lakebed.formats.hudi.read.commit_range import just_before
from lakebed.formats.hudi.read.state import TableState

_VERSION = 1
_SEEN = 100


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a stream has read: everything up to `until` (in what ranges count in, "" for nothing yet) but the
    instants in `pending`, and those after `floor` that are not in `seen`.

    `seen` holds the newest completed instants up to `until`, so that one that shows up later among them is known.
    """

    until: str
    pending: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    floor: str = ""

    @classmethod
    def of(cls, state: TableState, until: str, left: Iterable[str] = ()) -> StreamPosition:
        """The position up to a time as the timeline is now; `left` are completed instants that were not read."""
        if not until:
            return cls("")
        left = set(left)
        timeline = state.timeline
        under_way = {entry.time for entry in timeline.pending if entry.time <= until}
        done = sorted(e.time for e in timeline.commits if timeline.order(e) <= until and e.time not in left)
        dropped = done[-_SEEN - 1] if len(done) > _SEEN else ""
        if not dropped and timeline.start and not state.archived.is_empty:
            dropped = just_before(timeline.start)
        late = {time for time in left if time <= until}
        return cls(until, tuple(sorted(under_way | late)), tuple(done[-_SEEN:]), dropped)

    def has(self, time: str, order: str) -> bool:
        """Whether a completed instant was read."""
        if order > self.until or time in self.pending:
            return False
        return not self.seen or time <= self.floor or time in self.seen

    @property
    def oldest_unread(self) -> str:
        """A time, in instants, before which all was read."""
        return min([self.until, *map(just_before, self.pending), *([self.floor] if self.seen else [])])

    def vanished(self, state: TableState) -> tuple[str, ...]:
        """Commits that were seen and that the table's history does not hold any more, oldest first: a rollback or a
        restore took them back.

        What is older than the timeline's start was archived, unless a restore came after it. The archive is asked only
        where that is in doubt; an archival under way has removed some instants before others.
        """
        timeline = state.timeline
        done = {entry.time for entry in timeline.commits}
        restored = max((e.time for e in timeline.entries if e.action == "restore" and e.done), default="")
        doubtful = [t for t in self.seen if t not in done and (t >= timeline.start or t < restored)]
        if not doubtful:
            return ()
        try:
            archived = {commit.time for commit in state.archived.commits(just_before(doubtful[0]), "")}
        except NotInHistoryError:  # the archive's own history was dropped: it did hold what is older than the start
            archived = {time for time in doubtful if time < timeline.start}
        return tuple(time for time in doubtful if time not in archived)

    def text(self) -> str:
        """As a stream's owner stores it."""
        found = {"version": _VERSION, "until": self.until, "pending": list(self.pending)}
        return json.dumps({**found, "seen": list(self.seen), "floor": self.floor})

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """From such a text; UsageError for any other."""
        try:
            found = json.loads(text)
            if found["version"] != _VERSION:
                raise ValueError(f"its version is {found['version']}")
            pending, seen = (tuple(map(str, found.get(name, ()))) for name in ("pending", "seen"))
            return cls(str(found["until"]), pending, seen, str(found.get("floor", "")))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{text!r} is no position of a Hudi stream",
                why=str(error),
                todo="Start the stream with a new checkpoint",
            ) from error
