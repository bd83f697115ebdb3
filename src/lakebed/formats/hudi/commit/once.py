"""Whether a commit user has committed an identifier before.

Both stand in the extra metadata of its commits. A user's identifiers rise, so the active timeline answers where it has
the identifier, or a smaller one that is not there for a savepoint's sake alone. Only where it does not answer is the
archived timeline read, from its newest commit back to one of this user, and not more than `ARCHIVED_COMMITS` of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakebed.formats.hudi.codec.metadata import CommitMetadata
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.layout import WRITES
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline
from lakebed.kernel.options import is_number

COMMIT_USER, IDENTIFIER = "lakebed.commit.user", "lakebed.commit.identifier"
"""Extra metadata of a commit: whose it is, so that a user's identifier is committed once."""
ARCHIVED_COMMITS = 1000
"""How many archived commits are looked at, newest first."""
_TOGETHER = 100


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
        found = archived.commits(low, part[-1])
        yield from reversed(_identifiers((each.commit for each in found), user))


def _identifiers(commits: Iterable[CommitMetadata], user: str) -> list[int]:
    texts = (commit.extra.get(IDENTIFIER) or "" for commit in commits if commit.extra.get(COMMIT_USER) == user)
    return [int(text) for text in texts if is_number(text.removeprefix("-"))]
