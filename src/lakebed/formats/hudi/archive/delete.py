"""Delete archived instants from the active timeline, and what they left in the auxiliary folders.

Requested and inflight files go first, all together; then the completed files of commits, oldest first and one by one.
In another order a reader could see a pending instant come back to life, or a gap between completed ones: it takes what
is older than the oldest commit for committed and archived, and a commit in a gap for one that never was. A request that
deletes many files has no order, so each completed commit costs a request of its own, after the one before. The instant
that was archived last is deleted last: the next run looks for it to see whether this run died. Each step can be
repeated after a crash.

Rules: Hudi's `HoodieTimelineArchiver.deleteArchivedInstants`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.formats.hudi.layout import HOODIE, parse_state_name
from lakebed.kernel.files import Store

MARKERS = f"{HOODIE}/.temp"
"""Marker folders, one per instant: they name the files that a writer began."""
AUXILIARY = f"{HOODIE}/.aux"
"""Copies of compaction plans that older releases kept."""
_CHECKED_EVERY = 256
"""After how many deletions the lock is checked again."""


def delete_instants(store: Store, instants: Iterable[ActiveInstant], held: StillHeld) -> None:
    """Remove the state files of archived instants."""
    ordered = sorted(instants, key=lambda instant: (instant.time, instant.action))
    if not ordered:
        return
    held()
    store.delete_many([file.path for instant in ordered for file in instant.files if file.state != "completed"])
    done = [instant for instant in ordered if instant.done]
    services = [instant for instant in done if not instant.writes]
    if services[:-1]:
        held()
        store.delete_many([instant.last.path for instant in services[:-1]])
    last = services[-1:] + [instant for instant in done if instant.writes]
    for at in range(0, len(last), _CHECKED_EVERY):
        held()
        store.delete_in_order(instant.last.path for instant in last[at : at + _CHECKED_EVERY])


def delete_leftovers(store: Store, stay: Sequence[ActiveInstant]) -> None:
    """Remove marker folders of completed instants and of instants older than the timeline, and auxiliary compaction
    plans of instants that are gone. Whatever belongs to a pending instant stays.

    `stay` are the instants that the active timeline keeps.
    """
    pending = {instant.time for instant in stay if not instant.done}
    done = {instant.time for instant in stay if instant.done}
    start = min((instant.time for instant in stay if instant.writes), default="")
    markers, auxiliary = store.list_many([MARKERS, AUXILIARY])
    for time in markers.folders:
        if time not in pending and (time in done or time < start):
            store.delete_folder(f"{MARKERS}/{time}")
    old = []
    for info in auxiliary.files:
        named = parse_state_name(info.name)
        if named is not None and named.time < start and named.time not in pending:
            old.append(info.path)
    store.delete_many(old)


def delete_markers(store: Store, instant: str) -> None:
    """Remove the marker folder of one instant."""
    store.delete_folder(f"{MARKERS}/{instant}")
