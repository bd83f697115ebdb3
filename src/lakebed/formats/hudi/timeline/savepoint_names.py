"""The savepoints of a timeline by their names, which are the comments of their files (`savepoints.py` writes them)."""

from __future__ import annotations

from lakebed.errors import NotInHistoryError
from lakebed.formats.hudi.codec.plans import SavepointMetadata, decode
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store
from lakebed.model.refs import Ref


def savepoint_names(store: Store, timeline: Timeline) -> dict[str, str]:
    """The instant of each completed savepoint by its name: the comment, or the instant where that is empty."""
    entries = [entry for entry in timeline.entries if entry.action == "savepoint" and entry.done]
    names: dict[str, str] = {}
    for entry, data in zip(entries, store.read_many([entry.file for entry in entries]), strict=True):
        todo = "Name the savepoint by its instant, or delete it"
        with decoding("a savepoint cannot be read", table=store.location, file=entry.file, todo=todo):
            names[decode(SavepointMetadata, data).comments or entry.time] = entry.time
    return names


def savepoint_refs(store: Store, timeline: Timeline) -> list[Ref]:
    """The completed savepoints as tags, by name."""
    return [Ref(name, "tag", time) for name, time in sorted(savepoint_names(store, timeline).items())]


def find_savepoint(store: Store, timeline: Timeline, name: str) -> str:
    """The instant of a savepoint, by its name or by the instant itself. NotInHistoryError where there is none."""
    if name in timeline.savepointed:
        return name
    names = savepoint_names(store, timeline)
    if name in names:
        return names[name]
    raise NotInHistoryError(
        f"no savepoint {name!r}",
        table=store.location,
        todo=f"Savepoints: {', '.join(sorted(names)) or 'none'}",
    )
