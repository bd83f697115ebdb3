"""Takes archived instants out of the active timeline, and what they left in the auxiliary folders.

Rules: Hudi's `HoodieTimelineArchiver.deleteArchivedInstants`. Requested and inflight files go first, together; then the
completed ones of commits, oldest first and one by one. In another order a reader could see a pending instant come back
to life or a gap between completed ones. The instant that was written last is deleted last, which is where the next run
looks whether this one died. Each step may be done again after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakebed.formats.hudi.archive.lock import StillHeld
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.layout import HOODIE, parse_state_name
from lakebed.kernel.files import Store

MARKERS = f"{HOODIE}/.temp"
"""Marker folders, one an instant: which files a writer had begun."""
AUXILIARY = f"{HOODIE}/.aux"
"""Copies of compaction plans that older releases kept."""
HEARTBEATS = f"{HOODIE}/.heartbeat"
"""One file for each writer that says that it is alive."""
_LOOK = 256


def delete_instants(store: Store, instants: Iterable[ActiveInstant], held: StillHeld) -> None:
    """Removes the state files of archived instants."""
    ordered = sorted(instants, key=lambda instant: (instant.time, instant.action))
    held()
    store.delete_many(file.path for instant in ordered for file in instant.files if file.state != "completed")
    done = [instant for instant in ordered if instant.done]
    services = [instant for instant in done if not instant.writes]
    held()
    store.delete_many(instant.last.path for instant in services[:-1])
    last = services[-1:] + [instant for instant in done if instant.writes]
    for at in range(0, len(last), _LOOK):
        held()
        store.delete_in_order(instant.last.path for instant in last[at : at + _LOOK])


def delete_leftovers(store: Store, stay: Sequence[ActiveInstant]) -> None:
    """Removes marker folders of completed instants and of those older than the timeline, and auxiliary compaction
    plans of instants that are gone. What belongs to a pending instant stays.

    `stay` are the instants that the active timeline keeps.
    """
    pending = {instant.time for instant in stay if not instant.done}
    done = {instant.time for instant in stay if instant.done}
    start = min((instant.time for instant in stay if instant.writes), default="")
    for time in store.list(MARKERS).folders:
        if time not in pending and (time in done or time < start):
            store.delete_folder(f"{MARKERS}/{time}")
    old = []
    for info in store.list(AUXILIARY).files:
        named = parse_state_name(info.name)
        if named is not None and named.time < start and named.time not in pending:
            old.append(info.path)
    store.delete_many(old)


def delete_markers(store: Store, instant: str) -> None:
    """Removes the marker folder of one instant."""
    store.delete_folder(f"{MARKERS}/{instant}")
