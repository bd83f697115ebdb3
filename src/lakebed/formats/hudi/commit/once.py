"""Whether a commit user has committed an identifier before.

Both stand in the extra metadata of its commits. A user's identifiers rise, so the active timeline answers where it has
the identifier, or a smaller one that is not there for a savepoint's sake alone. Only where it does not answer is the
archived timeline read, from its newest commit back to one of this user, and not more than `ARCHIVED_COMMITS` of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakebed.errors import LakebedError
from lakebed.formats.hudi.codec.metadata import CommitMetadata
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.layout import WRITES
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.replay import check_origin
from lakebed.kernel.options import is_number
from lakebed.model.commit import BATCH_IDENTIFIER

COMMIT_USER, IDENTIFIER = "lakebed.commit.user", "lakebed.commit.identifier"
"""Extra metadata of a commit: whose it is, so that a user's identifier is committed once."""
ORIGIN = "lakebed.commit.origin"
"""Extra metadata of a commit: where its rows come from (`lakebed.kernel.commit.replay`)."""
ARCHIVED_COMMITS = 1000
"""How many archived commits are looked at, newest first."""
_TOGETHER = 100
_CHECKPOINT = "_hudi_streaming_sink_checkpoint"
"""Extra metadata of the commits of Hudi's own streaming sink: the newest batch of a stream, by the stream's name, as
JSON. Rule: `HoodieStreamingSink`, `CommitUtils.getCheckpointValueAsString`."""


class ReplayedError(LakebedError):
    """Another process of the same commit user has committed this identifier meanwhile."""


@dataclass(frozen=True, slots=True)
class Once:
    """The commits of one user, each identifier once. A batch write has no identifier to repeat.

    `named` says whether the user has a name that others may have used before. `checkpoint` is the name that a stream
    has for Hudi's own sink too, "" for none. `origin` says where the rows come from, "" where that is unknown.
    """

    context: WriteContext
    archived: ArchivedTimeline
    user: str
    named: bool
    checkpoint: str
    origin: str = ""

    def extra(self, identifier: int) -> dict[str, str]:
        """The extra metadata by which a commit is recognized."""
        extra = {COMMIT_USER: self.user, IDENTIFIER: str(identifier)}
        if self.origin:
            extra[ORIGIN] = self.origin
        if self._counts(identifier):
            extra[_CHECKPOINT] = json.dumps({self.checkpoint: str(identifier)}, separators=(",", ":"))
        return extra

    @looks_again
    def was_committed(self, identifier: int, recent: bool = False) -> bool:
        """Whether the history has a commit of this user and identifier. With `recent`, only the active timeline is
        asked. CommitConflictError where it has such a commit with rows of another origin."""
        if identifier == BATCH_IDENTIFIER:
            return False
        archived = self.archived if self.named and not recent else None
        if was_committed(self.context, archived, self.user, identifier):
            self._check_origin(identifier)
            return True
        if not self._counts(identifier):
            return False
        commits = self.context.files.commits(self.context.timeline().commits)
        batches = (json.loads(commit.extra.get(_CHECKPOINT) or "{}") for commit in commits.values())
        return any(int(each.get(self.checkpoint, -1)) >= identifier for each in batches)

    def refuse_replay(self, identifier: int) -> None:
        """Look once more, while no other commit can complete. Raises ReplayedError."""
        if self.was_committed(identifier, recent=True):
            raise ReplayedError("another process of this commit user has committed this identifier")

    def _check_origin(self, identifier: int) -> None:
        commits = self.context.files.commits(self.context.timeline().commits) if self.origin else {}
        for instant, commit in commits.items():
            if (commit.extra.get(COMMIT_USER), commit.extra.get(IDENTIFIER)) == (self.user, str(identifier)):
                place = self.context.store.location
                check_origin(identifier, self.origin, commit.extra.get(ORIGIN), place, instant)

    def _counts(self, identifier: int) -> bool:
        """Whether this is a batch of a stream that has a name for Hudi's own sink too."""
        return bool(self.checkpoint) and identifier != BATCH_IDENTIFIER


def was_committed(context: WriteContext, archived: ArchivedTimeline | None, user: str, identifier: int) -> bool:
    """Whether a completed commit has this user and identifier. `archived` is None where nobody else can have used the
    user's name."""
    timeline = context.timeline()
    commits = context.files.commits(timeline.commits)
    if identifier in _identifiers(commits.values(), user):
        return True
    newer = _identifiers((commits[time] for time in commits if time >= timeline.start), user)
    if archived is None or any(known < identifier for known in newer):
        return False
    for known in _archived_identifiers(archived, user):
        if known <= identifier:
            return known == identifier
    return False


def _archived_identifiers(archived: ArchivedTimeline, user: str) -> Iterator[int]:
    """The identifiers of a user's archived commits, newest first."""
    instants = (instant for instant in archived.instants() if instant.action in WRITES)
    positions = sorted(instant.completed or instant.time for instant in instants)
    newest = positions[-ARCHIVED_COMMITS:]
    for end in range(len(newest), 0, -_TOGETHER):
        part = newest[max(0, end - _TOGETHER) : end]
        before = positions[: len(positions) - len(newest) + max(0, end - _TOGETHER)]
        low = before[-1] if before else ""
        commits = archived.commits(low, part[-1])
        yield from reversed(_identifiers((each.commit for each in commits), user))


def _identifiers(commits: Iterable[CommitMetadata], user: str) -> list[int]:
    texts = (commit.extra.get(IDENTIFIER) or "" for commit in commits if commit.extra.get(COMMIT_USER) == user)
    return [int(text) for text in texts if is_number(text.removeprefix("-"))]
