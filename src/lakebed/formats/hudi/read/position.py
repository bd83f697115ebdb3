"""The position of a Hudi stream: how far it has read, and which commits it has seen.

It holds the order up to which the stream has read, the writers that were under way then, and the commits that were
seen before it. So the stream notices a commit that completes late, and one that was seen and is gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lakebed.errors import NotInHistoryError, UsageError
from lakebed.formats.hudi.read.commit_range import just_before
from lakebed.formats.hudi.read.state import TableState

_VERSION = 1
_SEEN = 100


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a stream has read: everything up to the order `until` ("": nothing yet), except two kinds of instants.

    The stream has not read the instants in `pending`, nor those after `floor` that are not in `seen`. `seen` holds the
    newest completed instants up to `until`, so that one which appears among them later is noticed.
    """

    until: str
    pending: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    floor: str = ""

    @classmethod
    def of(cls, state: TableState, until: str, left: Iterable[str] = ()) -> StreamPosition:
        """The position up to an order as the timeline is now. `left` are completed instants that were not read."""
        if not until:
            return cls("")
        left = set(left)
        timeline = state.timeline
        under_way = {entry.time for entry in timeline.pending if entry.time <= until}
        done = sorted(e.time for e in timeline.commits if timeline.order(e) <= until and e.time not in left)
        floor = done[-_SEEN - 1] if len(done) > _SEEN else ""
        if not floor and timeline.start and not state.archived.is_empty:
            floor = just_before(timeline.start)
        late = {time for time in left if time <= until}
        return cls(until, tuple(sorted(under_way | late)), tuple(done[-_SEEN:]), floor)

    def has(self, time: str, order: str) -> bool:
        """Whether a completed instant was read."""
        if order > self.until or time in self.pending:
            return False
        return not self.seen or time <= self.floor or time in self.seen

    def read_ahead(self, state: TableState) -> None:
        """Read together what the next position needs: the commits that were not read, and whether there is an
        archive."""
        timeline = state.timeline
        unread = [entry for entry in timeline.commits if not self.has(entry.time, timeline.order(entry))]
        acts: list[Callable[[], object]] = [lambda: state.files.commits(unread)]
        if unread and len(timeline.commits) <= _SEEN:
            acts.append(lambda: state.archived.is_empty)
        state.store.together(lambda act: act(), acts)

    @property
    def oldest_unread(self) -> str:
        """An instant time before which everything was read."""
        return min([self.until, *map(just_before, self.pending), *([self.floor] if self.seen else [])])

    def vanished(self, state: TableState) -> tuple[str, ...]:
        """Commits that were seen and that a rollback or a restore took out of the table's history, oldest first.

        Commits older than the timeline's start were archived, unless a restore came after them. The archive is read
        only where that is in doubt: an archival under way removes some instants before others.
        """
        timeline = state.timeline
        done = {entry.time for entry in timeline.commits}
        restored = max((e.time for e in timeline.entries if e.action == "restore" and e.done), default="")
        doubtful = [t for t in self.seen if t not in done and (t >= timeline.start or t < restored)]
        if not doubtful:
            return ()
        try:
            archived = {commit.time for commit in state.archived.commits(just_before(doubtful[0]), "")}
        except NotInHistoryError:  # the archive's history was dropped: it held what is older than the start
            archived = {time for time in doubtful if time < timeline.start}
        return tuple(time for time in doubtful if time not in archived)

    def text(self) -> str:
        """The position as JSON text, for the stream's owner to store."""
        fields = {"version": _VERSION, "until": self.until, "pending": list(self.pending)}
        return json.dumps({**fields, "seen": list(self.seen), "floor": self.floor})

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """The position from its text. Raises UsageError for any other text."""
        try:
            fields = json.loads(text)
            if fields["version"] != _VERSION:
                raise ValueError(f"its version is {fields['version']}")
            pending, seen = (tuple(map(str, fields.get(name, ()))) for name in ("pending", "seen"))
            return cls(str(fields["until"]), pending, seen, str(fields.get("floor", "")))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{text!r} is not a position of a Hudi stream",
                why=str(error),
                todo="Start the stream with a new checkpoint",
            ) from error
