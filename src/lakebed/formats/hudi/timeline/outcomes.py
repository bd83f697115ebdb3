"""What became of an instant whose writer was completing it when its lock was taken over.

A put may land long after it was sent. Whoever takes the lock of such a writer away first decides, once and for all,
whether the instant stands, by a file that is put if absent: `.<instant>.outcome`, beside the state files, so that each
listing of the timeline shows it. An instant that was withdrawn counts as pending whatever lands later, and the rollback
of its write takes that away. Hudi's own engines do not know these files; they ignore names that begin with a dot.
"""

from __future__ import annotations

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.layout import HOODIE, WITHDRAWN, WRITES, outcome_file, parse_state_name
from lakebed.kernel.commit.claim import claim
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.options import is_number

_STANDS = b"stands"
_FOLDERS = (HOODIE, f"{HOODIE}/timeline")
"""The folders that a timeline may be in."""


def decide(store: Store, folder: str, instant: str) -> bool:
    """Decide what becomes of an instant that may be completed any moment, unless that was decided before; whether it is
    withdrawn. Call it while nobody else may change the timeline. CommitConflictError where the store does not answer.
    """
    stands = any(
        state.time == instant and state.state == "completed" and state.action in WRITES
        for info in store.list(folder).files
        if info.size and (state := parse_state_name(info.name)) is not None
    )
    wanted = _STANDS if stands else WITHDRAWN
    path = outcome_file(folder, instant)
    outcome = claim(store, path, wanted)
    if outcome is PutOutcome.UNKNOWN:
        raise CommitConflictError(
            "the store did not say what became of another writer's commit",
            table=store.location,
            instant=instant,
            file=path,
            todo="Nothing of this is visible: write again",
        )
    return (wanted if outcome is PutOutcome.CREATED else store.read(path)) == WITHDRAWN


def decide_place(store: Store, place: str) -> None:
    """As `decide`, for the folder and the instant that a writer's lock names. A text that is no such place is of no
    account."""
    folder, _, instant = place.rpartition("/")
    if folder in _FOLDERS and is_number(instant):
        decide(store, folder, instant)


def forget_outcome(store: Store, folder: str, instant: str) -> None:
    """Let another run complete an instant that was withdrawn. Call it while nobody else may change the timeline, after
    the completed file of the late run is gone."""
    store.delete(outcome_file(folder, instant))
